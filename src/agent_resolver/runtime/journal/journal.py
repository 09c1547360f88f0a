"""The journal of runs on the store: runs begin in it, are taken up again from it, and end in it."""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from msgspec import UNSET, Struct, structs

from agent_resolver.core.moment import milliseconds_of
from agent_resolver.registry.pending_actions import TooManyQuestions
from agent_resolver.registry.port import Clock, Seal
from agent_resolver.runtime.budget import RunBudget
from agent_resolver.runtime.errors import RunRefused
from agent_resolver.runtime.journal.change import StateWatch
from agent_resolver.runtime.journal.entry import (
    Beginning,
    Entry,
    EntryKind,
    Question,
    Reply,
    encode_entry,
    entry_purpose,
    pack,
    plan_purpose,
)
from agent_resolver.runtime.journal.fold import (
    DamagedJournal,
    Folded,
    UnknownRun,
    fold_row,
    fold_run,
    require_no_blueprint,
)
from agent_resolver.runtime.journal.open_call import notes_on_open_calls
from agent_resolver.runtime.journal.question_digest import without_known
from agent_resolver.runtime.journal.record import ended_record, started_record
from agent_resolver.runtime.run import (
    RunResult,
    RunState,
    Termination,
    close_calls,
    is_resumable,
    spent,
)
from agent_resolver.schema.caller import Caller
from agent_resolver.schema.state import (
    FINISHED,
    JOURNAL,
    PLANS,
    RUNS,
    THREADS,
    JournalRow,
    PlanRow,
    Run,
    RunKind,
    RunStatus,
    ThreadRow,
)
from agent_resolver.storage.errors import LeaseLost
from agent_resolver.storage.joint_writer import JointWriter, WriteStopped
from agent_resolver.storage.lease import LEASE_SECONDS, claim_in, lease_name, release_in
from agent_resolver.storage.port import Lease, Snapshot, Store, Transaction

_NO_LEASE: Final = Lease("", 0)


class RunStart(Struct, frozen=True, kw_only=True):
    """A run that is about to begin."""

    state: RunState
    beginning: Beginning
    before: int = 0
    """The number of its messages that come from the runs before it in its conversation."""
    kind: RunKind = "agent"
    plan: bytes = b""
    """The parts that its plan was made of; a workflow has none."""
    facts: Mapping[str, str]
    """The facts in the audit record of its start."""
    puts_off: bool = False
    """True if what need not be on the disk before the next effect may wait for it."""


class Journal:
    """Keeps runs in the store of a project: one journal for each run, one writer at a time."""

    def __init__(
        self,
        store: Store,
        seal: Seal,
        clock: Clock,
        seconds: Callable[[], float] = time.time,
    ) -> None:
        self.store = store
        self.seal = seal
        self.clock = clock
        self.seconds = seconds

    async def begin(self, start: RunStart) -> "RunJournal":
        """Write down that a run begins, before anything of it happens.

        Raises:
            RunRefused: There is a run of this id, or one of its conversation has not ended.
        """
        state = start.state
        beginning = start.beginning
        row = _first_row(start, self.clock.now())
        writer = RunJournal(
            self, row, state, message_count=start.before, puts_off=start.puts_off
        )
        entry = structs.replace(writer.next_entry(state.values), beginning=beginning)
        kept = writer.seal_entry("run.started", entry)
        plan = self.sealed_plan(state.plan, start.plan)
        record = started_record(state.run, beginning.caller, start.facts)
        _ = (
            self.store.owner
        )  # Making its name reads the file, which a piece of work must not do.
        seconds = self.seconds()

        def write(transaction: Transaction) -> Lease:
            # In the transaction that writes the run: another process may begin one of
            # the same thread at this moment.
            _require_free(transaction, row)
            lease = claim_in(
                transaction, self.store, lease_name(row.id), seconds, LEASE_SECONDS
            )
            if lease is None:
                raise RunRefused(
                    f"run {row.id} is running already", "wait for it, or cancel it"
                )
            # A plan is kept once under its digest, for all runs that ran by it.
            if plan is not None:
                transaction.put(PLANS, plan, only_new=True)
            transaction.put(RUNS, structs.replace(row, lease=lease.number))
            transaction.put(JOURNAL, kept)
            # The thread leads to its newest run; the runs before it can then no longer
            # be resumed.
            if row.thread:
                thread = ThreadRow(
                    caller=row.caller, name=row.thread, agent=row.agent, run=row.id
                )
                transaction.put(THREADS, thread)
            transaction.append(record)
            return lease

        writer.lease = await self.store.write(write)
        return writer

    def sealed_plan(self, digest: str, plan: bytes) -> PlanRow | None:
        """The row that keeps what a plan was made of; None for a run without one."""
        if not plan:
            return None
        return PlanRow(
            digest=digest, body=self.seal.close(pack(plan), plan_purpose(digest))
        )

    async def look_up(self, run: str) -> Folded | None:
        """A run as its journal tells it, without taking it up; None if there is no such run."""
        return await self.store.read(
            lambda snapshot: fold_run(snapshot, run, self.seal)
        )

    async def conversation(
        self, caller: Caller, thread: str, agent: str
    ) -> Folded | None:
        """The newest run of a thread; None where the thread begins.

        Raises:
            RunRefused: The thread is one of another agent or caller, or that run has not ended.
        """

        def read(snapshot: Snapshot) -> Folded | None:
            known = snapshot.get(THREADS, caller.id, thread)
            newest = None if known is None else snapshot.get(RUNS, known.run)
            if known is None or newest is None:
                return None
            if known.agent != agent:
                # An agent must not read what another one was sent under other data
                # limits.
                raise RunRefused(
                    f"thread {thread} is a conversation with {known.agent}",
                    "give another name",
                )
            if newest.status not in FINISHED:
                raise _not_ended(newest)
            folded = fold_run(snapshot, newest.id, self.seal)
            # The row of a thread is not sealed: what it leads to must be the caller's
            # own conversation.
            if folded is None or not _is_of_thread(folded, caller.id, thread, agent):
                raise DamagedJournal(newest.id, f"it is not a run of thread {thread}")
            if folded.beginning.caller.issuer != caller.issuer:
                # Another person, whom another issuer calls by the same name.
                raise RunRefused(
                    f"thread {thread} is a conversation of another {caller.id}",
                    "give another name",
                )
            return folded

        return await self.store.read(read)

    async def claim(self, run: str) -> "tuple[Folded, Lease]":
        """Take a run up, alone: no other process can until it is released.

        Raises:
            RunRefused: There is no such run, another process has it, or it has ended for good.
        """
        _ = self.store.owner
        seconds = self.seconds()

        def write(transaction: Transaction) -> tuple[Folded, Lease]:
            row = transaction.get(RUNS, run)
            if row is None:
                raise UnknownRun(run)
            require_no_blueprint(row, "status")
            lease = claim_in(
                transaction, self.store, lease_name(run), seconds, LEASE_SECONDS
            )
            if lease is None:
                raise RunRefused(
                    f"run {run} is running in another process",
                    "wait for it, or cancel it",
                )
            folded = fold_row(transaction, row, self.seal)
            name = folded.beginning.thread
            thread = (
                transaction.get(THREADS, folded.beginning.caller.id, name)
                if name
                else None
            )
            # Only the newest run of a thread may go on: the later ones hold its
            # messages as they were.
            if thread is not None and thread.run != run:
                raise RunRefused(
                    f"thread {name} went on in run {thread.run}", "resume that one"
                )
            return folded, lease

        # Until the first step of the run is written under it, the lease only has to
        # keep other processes away.
        return await self.store.write_leases(write)

    async def notes_on_open_calls(self, folded: Folded) -> list[str]:
        """A note for the model on each call that a run leaves open, as far as the ledger knows of it."""
        return await self.store.read(
            lambda snapshot: notes_on_open_calls(snapshot, folded, self.seal)
        )

    async def release(self, lease: Lease) -> None:
        """Let other processes take a run up again."""
        await self.store.release(lease)

    def resumed(
        self, folded: Folded, lease: Lease, state: RunState, *, puts_off: bool = False
    ) -> "RunJournal":
        """The journal of a run that was taken up, to go on with.

        Args:
            folded: The run.
            lease: What it is held under.
            state: Its folded state, or a changed copy of that.
            puts_off: True if what need not be on the disk before the next effect may wait for it.
        """
        row = structs.replace(
            folded.row,
            status="running",
            waits_for=None,
            reason="",
            code="",
            lease=lease.number,
        )
        # The last question counts as uncertain from here on, and no entry says so yet.
        known = structs.replace(
            folded.state, uncertain=folded.state.uncertain - folded.is_unanswered
        )
        writer = RunJournal(
            self, row, known, message_count=folded.message_count, puts_off=puts_off
        )
        # The first entry then holds what changed since the fold, such as new messages
        # in place of open calls.
        writer.watch_instead(state)
        # The process that was asked to end the run may have died before it did.
        writer.is_cancelling = folded.row.status == "cancelling"
        writer.lease = lease
        writer.number = folded.number
        return writer

    async def cancel(self, run: str) -> RunStatus:
        """End a run that waits or was interrupted; ask the process that has it to end it, where one has.

        The runs that it delegates to end with it.

        Returns:
            `cancelled`, or `cancelling` where another process has to do it.

        Raises:
            RunRefused: There is no such run, or it has ended.
        """
        seconds = self.seconds()
        _ = self.store.owner

        def write(transaction: Transaction) -> RunStatus:
            row = transaction.get(RUNS, run)
            if row is None:
                raise UnknownRun(run)
            require_no_blueprint(row, "cancel")
            if row.status in FINISHED:
                raise RunRefused(f"run {run} has ended: {row.status}")
            status = self._cancel_in(transaction, row, seconds)
            # Where another process has the run, it ends the delegates itself, together
            # with the run.
            if status == "cancelled":
                self.cancel_delegates_in(transaction, run, seconds)
            return status

        return await self.store.write(write)

    def cancel_delegates_in(
        self, transaction: Transaction, run: str, seconds: float
    ) -> None:
        """End the runs that a run which has ended delegated to: no run is left that could take them up."""
        ended = [run]
        # Rows can be edited, so that runs may name each other as their parents.
        seen = {run}
        while ended:
            for row in transaction.find(RUNS, {"parent": ended.pop()}):
                # A blueprint that an agent calls is no part of its run, and takes back
                # what it did if it is cancelled.
                if row.id in seen or row.status in FINISHED or row.kind == "blueprint":
                    continue
                seen.add(row.id)
                if self._cancel_in(transaction, row, seconds) == "cancelled":
                    ended.append(row.id)

    def _cancel_in(
        self, transaction: Transaction, row: Run, seconds: float
    ) -> RunStatus:
        """End a run, or ask the process that has it to end it."""
        now = self.clock.now()
        # Claiming tells whether a process has the run: only without one may its journal
        # be written here.
        lease = claim_in(
            transaction, self.store, lease_name(row.id), seconds, LEASE_SECONDS
        )
        if lease is None:
            # The process that has the run looks at this status, and ends the run
            # itself.
            transaction.put(
                RUNS, structs.replace(row, status="cancelling", changed_at=now)
            )
            return "cancelling"
        folded = fold_row(transaction, row, self.seal)
        end = Termination(reason="cancelled", message="The run was cancelled")
        # A copy: the journal finds what changed by comparing it with the folded state.
        state = structs.replace(folded.state, messages=[*folded.state.messages])
        writer = self.resumed(folded, lease, state)
        # Its conversation may go on in another run, which needs a result for every
        # call.
        close_calls(state)
        entry = structs.replace(writer.next_entry(state.values), termination=end)
        transaction.put(JOURNAL, writer.seal_entry("run.ended", entry))
        used = spent(state)
        ended = structs.replace(
            writer.row,
            status="cancelled",
            reason="cancelled",
            changed_at=now,
            uncertain=used.uncertain,
            entries=writer.number,
        )
        transaction.put(RUNS, ended)
        transaction.append(
            ended_record(state, folded.caller, end, None, used.usage, used.cost)
        )
        release_in(transaction, lease)
        transaction.wake("run", row.id)
        return "cancelled"


class RunJournal:
    """Writes the journal of one run, while this process holds its lease."""

    __slots__ = (
        "_journal",
        "_question",
        "_watch",
        "has_delegates",
        "is_cancelling",
        "is_held",
        "number",
        "row",
        "writes",
    )

    def __init__(
        self,
        journal: Journal,
        row: Run,
        state: RunState,
        *,
        message_count: int,
        puts_off: bool = False,
    ) -> None:
        self._journal = journal
        self.row = row
        self.writes = JointWriter(journal.store, puts_off=puts_off)
        """Writes the entries, together with what the registry keeps of the run's calls."""
        self.number = 0
        """The number of the newest entry."""
        self.is_cancelling = False
        """True once another process asked for the run to end."""
        self._question = Question()
        """The newest question that this process has written."""
        self.is_held = True
        """True until the lease is given back."""
        self.has_delegates = False
        """True if the agent delegates to others, whose runs may be left when this one ends."""
        self._watch = StateWatch(state, message_count=message_count)

    @property
    def lease(self) -> Lease:
        """The lease under which this process holds the run."""
        return self.writes.lease or _NO_LEASE

    @lease.setter
    def lease(self, lease: Lease) -> None:
        self.writes.lease = lease

    def watch_instead(self, state: RunState) -> None:
        """Write the changes of another state from here on, the first time against the one before."""
        self._watch.watch(state)

    def note_result(self, place: int, tool_id: str) -> None:
        """Remember that the ledger has the text of the message at this place, as the result of this tool."""
        self._watch.results[place] = tool_id

    def next_entry(self, values: Mapping[str, Any]) -> Entry:
        """An entry with what changed since the last one."""
        return Entry(change=self._watch.take(values))

    def seal_entry(self, kind: EntryKind, entry: Entry) -> JournalRow:
        """The next row of the journal."""
        self.number += 1
        at = milliseconds_of(self._journal.clock.now())
        purpose = entry_purpose(self.row.id, self.number, kind, at)
        body = self._journal.seal.close(encode_entry(entry), purpose)
        return JournalRow(
            run=self.row.id, number=self.number, kind=kind, at=at, body=body
        )

    async def resume(
        self,
        values: Mapping[str, Any],
        caller: Caller,
        facts: Mapping[str, str],
        plan: bytes,
        budget: RunBudget | None = None,
    ) -> None:
        """Write down that the run goes on, on whose behalf, and with which budget where that is another one."""
        changed = UNSET if budget is None else structs.asdict(budget)
        entry = structs.replace(self.next_entry(values), caller=caller, budget=changed)
        digest = self._watch.state.plan
        kept = self._journal.sealed_plan(digest, plan)
        record = started_record(self.row.id, caller, {**facts, "resumed": "true"})

        def also(transaction: Transaction) -> None:
            if kept is not None:
                transaction.put(PLANS, kept, only_new=True)
            transaction.append(record)

        work = self._work_on(
            "run.resumed", entry, structs.replace(self.row, plan=digest), also
        )
        # The entry may wait for the next write; if the run was asked to end, the entry
        # is kept and that write is not done.
        await self.writes.put_off(work, may_stop=True)

    async def ask(self, values: Mapping[str, Any], question: Question) -> None:
        """Write down that a model is about to be asked."""
        # Model, prompt and tools rarely change from one question to the next, so only
        # what differs is kept.
        entry = structs.replace(
            self.next_entry(values), question=without_known(question, self._question)
        )
        self._question = question
        await self._write("model.asked", entry, None)

    async def answer(self, values: Mapping[str, Any], reply: Reply, row: Run) -> None:
        """Write down what it answered, before any event tells of it or a call follows from it."""
        entry = structs.replace(self.next_entry(values), reply=reply)
        work = self._work_on("model.answered", entry, row)
        self.is_cancelling = bool(await self.writes.put_off(work, may_stop=True))

    async def fail(self, values: Mapping[str, Any], failure: str) -> None:
        """Write down that it did not answer."""
        await self._write(
            "model.failed",
            structs.replace(self.next_entry(values), failure=failure),
            None,
        )

    async def end_step(self, values: Mapping[str, Any], row: Run) -> None:
        """Write down that a step of a workflow came to its end, before the next one begins."""
        await self._write("step.ended", self.next_entry(values), row)

    async def end(
        self, values: Mapping[str, Any], result: RunResult, caller: Caller
    ) -> None:
        """Write down how the run ended, or what it waits for; another process can then take it up.

        Raises:
            TooManyQuestions: The run was to wait for a question that was put off, which cannot be asked. Neither is
                kept, and the run can go on.
            WriteStopped: The same, because another process asked for the end of the run.
        """
        end = result.termination
        is_waiting = end.reason == "suspended"
        # A question that was put off is kept with the entry that the run waits for it,
        # or neither is.
        is_asking = is_waiting and self.writes.has_dependent
        # Kept for the case that neither the entry nor the question before it is
        # written.
        number = self.number
        row_before = self.row
        mark = self._watch.mark()
        entry = structs.replace(
            self.next_entry(values), termination=end, pending=result.pending or UNSET
        )
        status: RunStatus = "waiting" if is_waiting else _STATUS.get(end.reason, "done")
        row = structs.replace(
            self.row,
            status=status,
            waits_for=result.pending.id if result.pending else None,
            reason=end.reason,
            code=end.code,
            rounds=result.rounds,
            tokens=result.usage.total_tokens,
            cost=result.cost,
            uncertain=spent(result.state).uncertain,
        )
        record = ended_record(
            result.state, caller, end, result.pending, result.usage, result.cost
        )

        seconds = self._journal.seconds()

        # One transaction: no process may find a run that has ended and is still held,
        # or the other way round.
        def also(transaction: Transaction) -> None:
            transaction.append(record)
            release_in(transaction, self.lease)
            transaction.wake("run", self.row.id)
            if self.has_delegates and not is_resumable(end):
                self._journal.cancel_delegates_in(transaction, self.row.id, seconds)

        kind: EntryKind = "run.waiting" if is_waiting else "run.ended"
        try:
            await self._write(kind, entry, row, also, may_go_alone=not is_asking)
        except (TooManyQuestions, WriteStopped):
            self.number = number
            self.row = row_before
            self._watch.go_back(mark)
            raise
        # `also` has released the lease in the same transaction as the end.
        self.is_held = False

    async def release(self) -> None:
        """Let another process take the run up, from its newest entry on."""
        # A call of the run may still be under way, and there is no later write that its
        # end could go with.
        self.writes.stop_putting_off()
        with suppress(LeaseLost, DamagedJournal, TooManyQuestions, WriteStopped):
            # Where another process took the run, nothing of it is written here any
            # longer.
            await self.writes.flush()
        if self.is_held:
            await self._journal.release(self.lease)
            self.is_held = False

    async def _write(
        self,
        kind: EntryKind,
        entry: Entry,
        row: Run | None,
        also: Callable[[Transaction], None] | None = None,
        *,
        may_go_alone: bool = True,
    ) -> None:
        """Add an entry, under the lease.

        Args:
            kind: The step.
            entry: What is kept of it.
            row: The row of the run from here on; None where it stays as it is.
            also: What is written with it.
            may_go_alone: False for an entry that is only true together with what was put off.

        Raises:
            LeaseLost: Another process has the run.
            FileError: The state cannot be written.
            TooManyQuestions: The entry may not go alone, and the question before it cannot be asked.
            WriteStopped: It may not go alone, and the run was asked to end.
        """
        work = self._work_on(kind, entry, row, also)
        try:
            self.is_cancelling = await self.writes.write(work)
        except (TooManyQuestions, WriteStopped):
            if not may_go_alone:
                raise
            # The run was asked to end, which keeps it from its next effect. An entry is
            # not one.
            self.is_cancelling = await self.writes.write(work)

    def _work_on(
        self,
        kind: EntryKind,
        entry: Entry,
        row: Run | None,
        also: Callable[[Transaction], None] | None = None,
    ) -> Callable[[Transaction], bool]:
        """The work that adds an entry, under the lease; it returns True if the run was asked to end."""
        kept = self.seal_entry(kind, entry)
        now = self._journal.clock.now()
        changed = structs.replace(row or self.row, changed_at=now, entries=kept.number)

        def write(transaction: Transaction) -> bool:
            # A process that lost its lease must not add an entry, however late its
            # write comes.
            transaction.require(self.lease)
            before = transaction.get(RUNS, kept.run)
            if before is None or before.entries != kept.number - 1:
                # An entry before this one was not kept, and without it no later one can
                # be read.
                raise DamagedJournal(
                    kept.run, f"entry {kept.number} does not follow the one before"
                )
            transaction.put(JOURNAL, kept)
            is_cancelling = before.status == "cancelling"
            # The process that asked for the end of the run was not heard yet: only an
            # end may take that back.
            stays = is_cancelling and changed.status == "running"
            transaction.put(
                RUNS,
                structs.replace(changed, status="cancelling") if stays else changed,
            )
            if also is not None:
                also(transaction)
            return is_cancelling

        # At once and not after the write: entries that are put off follow each other.
        self.row = changed
        return write


_STATUS: Final[dict[str, RunStatus]] = {
    "error": "failed",
    "blocked": "failed",
    "cancelled": "cancelled",
}


def _first_row(start: RunStart, now: str) -> Run:
    """The row of a run that begins; it counts the first entry, which is written with it."""
    state = start.state
    beginning = start.beginning
    return Run(
        id=state.run,
        kind=start.kind,
        status="running",
        trace_id=state.trace_id,
        started_at=now,
        changed_at=now,
        agent=state.agent_id,
        plan=state.plan,
        caller=beginning.caller.id,
        issuer=beginning.caller.issuer,
        parent=beginning.parent,
        thread=beginning.thread,
        continues=beginning.continues,
        cost=0.0,
        entries=1,
    )


def _require_free(transaction: Transaction, row: Run) -> None:
    """Refuse a run whose id is taken, or whose conversation goes on in another run.

    Raises:
        RunRefused: It is.
    """
    if transaction.get(RUNS, row.id) is not None:
        raise RunRefused(
            f"there is a run {row.id} already", "leave the id out, or resume that run"
        )
    if not row.thread:
        return
    # The run before was looked up in an earlier transaction, and may have been removed
    # since.
    if row.continues and transaction.get(RUNS, row.continues) is None:
        raise RunRefused(
            f"the last run of thread {row.thread} was removed meanwhile",
            "start the run again",
        )
    thread = transaction.get(THREADS, row.caller, row.thread)
    newest = None if thread is None else transaction.get(RUNS, thread.run)
    # Two processes may have continued the thread at once: the first one that writes has
    # it.
    if newest is not None and newest.id != row.continues:
        raise RunRefused(
            f"thread {row.thread} went on in run {newest.id}", "start the run again"
        )
    if newest is not None and newest.status not in FINISHED:
        raise _not_ended(newest)


def _is_of_thread(folded: Folded, caller: str, thread: str, agent: str) -> bool:
    beginning = folded.beginning
    return (beginning.caller.id, beginning.thread, folded.state.agent_id) == (
        caller,
        thread,
        agent,
    )


def _not_ended(run: Run) -> RunRefused:
    hint = f"`agent runs resume {run.id}`, or `agent runs cancel {run.id}`"
    return RunRefused(f"run {run.id} of thread {run.thread} has not ended", hint)
