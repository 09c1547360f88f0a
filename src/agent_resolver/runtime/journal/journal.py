"""The journal of runs on the store: runs begin in it, are taken up again from it, and end in it."""

import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from msgspec import UNSET, Struct, structs

from agent_resolver.registry.port import Clock, Seal
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
)
from agent_resolver.runtime.journal.fold import DamagedJournal, Folded, fold_run
from agent_resolver.runtime.journal.question_digest import without_known
from agent_resolver.runtime.journal.record import ended_record, started_record
from agent_resolver.runtime.run import RunResult, RunState, Termination, spent
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
from agent_resolver.storage.lease import claim_in, release_in
from agent_resolver.storage.port import Lease, Snapshot, Store, Transaction

LEASE_SECONDS: Final = 60.0
"""How long a run stays with a process that no longer says that it is there. One that has ended loses it at once."""


class RunStart(Struct, frozen=True, kw_only=True):
    """A run that is about to begin."""

    state: RunState
    beginning: Beginning
    before: int = 0
    """How many of its messages come from the runs before it in its conversation."""
    thread: str = ""
    parent: str = ""
    kind: RunKind = "agent"
    plan: bytes = b""
    """What its plan was made of; a workflow has none."""
    facts: Mapping[str, str]
    """What the trail keeps of its start."""


class Journal:
    """Keeps runs in the store of a project: one journal for each run, one writer at a time."""

    def __init__(self, store: Store, seal: Seal, clock: Clock, seconds: Callable[[], float] = time.time) -> None:
        self.store = store
        self.seal = seal
        self.clock = clock
        self.seconds = seconds

    async def begin(self, start: RunStart) -> "RunJournal":
        """Write down that a run begins, before anything of it happens.

        Raises:
            RunRefused: There is a run of this id, or one of its conversation has not ended.
        """
        state, beginning = start.state, start.beginning
        now = self.clock.now()
        row = Run(
            id=state.run,
            kind=start.kind,
            status="running",
            trace_id=state.trace_id,
            started_at=now,
            changed_at=now,
            agent=state.agent_id,
            plan=state.plan,
            caller=beginning.caller.id,
            parent=start.parent,
            thread=start.thread,
            continues=beginning.continues,
            cost=0.0,
        )
        writer = RunJournal(self, row, state, message_count=start.before)
        entry = structs.replace(writer.next_entry(state.values), beginning=beginning)
        kept = writer.seal_entry("run.started", entry)
        plan = self.sealed_plan(state.plan, start.plan)
        record = started_record(state.run, beginning.caller, start.facts)
        _ = self.store.owner  # Making its name reads the file, which a piece of work must not do.
        seconds = self.seconds()

        def write(transaction: Transaction) -> Lease:
            _require_free(transaction, row)
            lease = claim_in(transaction, self.store, lease_name(row.id), seconds, LEASE_SECONDS)
            if lease is None:
                raise RunRefused(f"run {row.id} is running already", "wait for it, or cancel it")
            if plan is not None:
                transaction.put(PLANS, plan, only_new=True)
            transaction.put(RUNS, structs.replace(row, lease=lease.number))
            transaction.put(JOURNAL, kept)
            if row.thread:
                thread = ThreadRow(caller=row.caller, name=row.thread, agent=row.agent, run=row.id)
                transaction.put(THREADS, thread)
            transaction.append(record)
            return lease

        writer.lease = await self.store.write(write)
        return writer

    def sealed_plan(self, digest: str, plan: bytes) -> PlanRow | None:
        """The row that keeps what a plan was made of; None for a run without one."""
        if not plan:
            return None
        return PlanRow(digest=digest, body=self.seal.close(pack(plan), plan_purpose(digest)))

    async def look_up(self, run: str) -> Folded | None:
        """A run as its journal tells it, without taking it up; None if there is no such run."""
        return await self.store.read(lambda snapshot: fold_run(snapshot, run, self.seal))

    async def conversation(self, caller: str, thread: str, agent: str) -> Folded | None:
        """The newest run of a thread; None where the thread begins.

        Raises:
            RunRefused: The thread is one of another agent, or that run has not ended.
        """

        def read(snapshot: Snapshot) -> Folded | None:
            known = snapshot.get(THREADS, caller, thread)
            newest = None if known is None else snapshot.get(RUNS, known.run)
            if known is None or newest is None:
                return None
            if known.agent != agent:
                # What one agent was told under its data limits is not for another to read.
                raise RunRefused(f"thread {thread} is a conversation with {known.agent}", "give another name")
            if newest.status not in FINISHED:
                raise _not_ended(newest)
            return fold_run(snapshot, newest.id, self.seal)

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
                raise RunRefused(f"there is no run {run}", "`agent runs list` shows those there are")
            lease = claim_in(transaction, self.store, lease_name(run), seconds, LEASE_SECONDS)
            if lease is None:
                raise RunRefused(f"run {run} is running in another process", "wait for it, or cancel it")
            folded = fold_run(transaction, run, self.seal)
            if folded is None:
                raise DamagedJournal(run, "it is gone")
            thread = transaction.get(THREADS, row.caller, row.thread) if row.thread else None
            if thread is not None and thread.run != run:
                raise RunRefused(f"thread {row.thread} went on in run {thread.run}", "resume that one")
            return folded, lease

        return await self.store.write(write)

    async def release(self, lease: Lease) -> None:
        """Let other processes take a run up again."""
        await self.store.release(lease)

    def resumed(self, folded: Folded, lease: Lease, state: RunState) -> "RunJournal":
        """The journal of a run that was taken up, to go on with; `state` is the folded one, or a changed copy of it."""
        row = structs.replace(folded.row, status="running", waits_for=None, reason="", code="", lease=lease.number)
        writer = RunJournal(self, row, folded.state, message_count=folded.message_count)
        writer.watch_instead(state)
        writer.lease = lease
        writer.number = folded.number
        return writer

    async def cancel(self, run: str) -> RunStatus:
        """End a run that waits or was interrupted; ask the process that has it to end it, where one has.

        Returns:
            `cancelled`, or `cancelling` where another process has to do it.

        Raises:
            RunRefused: There is no such run, or it has ended.
        """
        seconds, now = self.seconds(), self.clock.now()
        _ = self.store.owner

        def write(transaction: Transaction) -> RunStatus:
            row = transaction.get(RUNS, run)
            if row is None:
                raise RunRefused(f"there is no run {run}", "`agent runs list` shows those there are")
            if row.status in FINISHED:
                raise RunRefused(f"run {run} has ended: {row.status}")
            return self._cancel_in(transaction, row, seconds, now)

        return await self.store.write(write)

    def _cancel_in(self, transaction: Transaction, row: Run, seconds: float, now: str) -> RunStatus:
        """End a run, and those that it delegates to. This ends: a run is there before the runs that it delegates to."""
        run = row.id
        lease = claim_in(transaction, self.store, lease_name(run), seconds, LEASE_SECONDS)
        if lease is None:
            transaction.put(RUNS, structs.replace(row, status="cancelling", changed_at=now))
            # The process that has it ends its delegates with it.
            return "cancelling"
        folded = fold_run(transaction, run, self.seal)
        if folded is None:
            raise DamagedJournal(run, "it is gone")
        end = Termination(reason="cancelled", message="The run was cancelled")
        writer = self.resumed(folded, lease, folded.state)
        entry = structs.replace(writer.next_entry(folded.state.values), termination=end)
        ended = structs.replace(writer.row, status="cancelled", reason="cancelled", changed_at=now)
        transaction.put(JOURNAL, writer.seal_entry("run.ended", entry))
        transaction.put(RUNS, ended)
        used = spent(folded.state)
        transaction.append(ended_record(folded.state, folded.caller, end, None, used.usage, used.cost))
        release_in(transaction, lease)
        for part in transaction.find(RUNS, {"parent": run}):
            if part.status not in FINISHED:
                self._cancel_in(transaction, part, seconds, now)
        return "cancelled"


class RunJournal:
    """Writes the journal of one run, while this process holds its lease."""

    __slots__ = ("_journal", "_question", "_watch", "is_cancelling", "lease", "number", "row")

    def __init__(self, journal: Journal, row: Run, state: RunState, *, message_count: int) -> None:
        self._journal = journal
        self.row = row
        self.lease = Lease("", 0)
        self.number = 0
        """The number of the newest entry."""
        self.is_cancelling = False
        """True once another process asked for the run to end."""
        self._question = Question()
        """The newest question that this process has written."""
        self._watch = StateWatch(state, message_count=message_count)

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
        purpose = entry_purpose(self.row.id, self.number)
        body = self._journal.seal.close(encode_entry(entry), purpose)
        at = milliseconds(self._journal.clock.now())
        return JournalRow(run=self.row.id, number=self.number, kind=kind, at=at, body=body)

    async def resume(self, values: Mapping[str, Any], caller: Caller, facts: Mapping[str, str], plan: bytes) -> None:
        """Write down that the run goes on, and on whose behalf."""
        entry = structs.replace(self.next_entry(values), caller=caller)
        digest = self._watch.state.plan
        kept = self._journal.sealed_plan(digest, plan)
        record = started_record(self.row.id, caller, {**facts, "resumed": "true"})

        def also(transaction: Transaction) -> None:
            if kept is not None:
                transaction.put(PLANS, kept, only_new=True)
            transaction.append(record)

        await self._write("run.resumed", entry, structs.replace(self.row, plan=digest), also)

    async def ask(self, values: Mapping[str, Any], question: Question) -> None:
        """Write down that a model is about to be asked."""
        entry = structs.replace(self.next_entry(values), question=without_known(question, self._question))
        self._question = question
        await self._write("model.asked", entry, None)

    async def answer(self, values: Mapping[str, Any], reply: Reply, row: Run) -> None:
        """Write down what it answered, before any event tells of it."""
        await self._write("model.answered", structs.replace(self.next_entry(values), reply=reply), row)

    async def fail(self, values: Mapping[str, Any], failure: str) -> None:
        """Write down that it did not answer."""
        await self._write("model.failed", structs.replace(self.next_entry(values), failure=failure), None)

    async def end_step(self, values: Mapping[str, Any], row: Run) -> None:
        """Write down that a step of a workflow came to its end, before the next one begins."""
        await self._write("step.ended", self.next_entry(values), row)

    async def end(self, values: Mapping[str, Any], result: RunResult, caller: Caller) -> None:
        """Write down how the run ended, or what it waits for; another process can then take it up."""
        end = result.termination
        is_waiting = end.reason == "suspended"
        entry = structs.replace(self.next_entry(values), termination=end, pending=result.pending or UNSET)
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
            uncertain=result.state.uncertain,
        )
        record = ended_record(result.state, caller, end, result.pending, result.usage, result.cost)

        def also(transaction: Transaction) -> None:
            transaction.append(record)
            release_in(transaction, self.lease)
            transaction.wake("run", self.row.id)

        await self._write("run.waiting" if is_waiting else "run.ended", entry, row, also)

    async def release(self) -> None:
        """Let another process take the run up, from its newest entry on."""
        await self._journal.release(self.lease)

    async def _write(
        self, kind: EntryKind, entry: Entry, row: Run | None, also: Callable[[Transaction], None] | None = None
    ) -> None:
        """Add an entry, under the lease.

        Raises:
            LeaseLost: Another process has the run.
            FileError: The state cannot be written.
        """
        kept = self.seal_entry(kind, entry)
        now = self._journal.clock.now()
        changed = None if row is None else structs.replace(row, changed_at=now)

        def write(transaction: Transaction) -> bool:
            transaction.require(self.lease)
            if not transaction.put(JOURNAL, kept, only_new=True):
                raise LeaseLost(self.lease.name)
            before = transaction.get(RUNS, kept.run)
            is_cancelling = before is not None and before.status == "cancelling"
            if changed is not None:
                # Whoever asked for the end of the run has not been heard yet: only an end may take that back.
                stays = is_cancelling and changed.status == "running"
                transaction.put(RUNS, structs.replace(changed, status="cancelling") if stays else changed)
            if also is not None:
                also(transaction)
            return is_cancelling

        self.is_cancelling = await self._journal.store.write(write)
        if changed is not None:
            self.row = changed


_STATUS: Final[dict[str, RunStatus]] = {"error": "failed", "blocked": "failed", "cancelled": "cancelled"}


def _require_free(transaction: Transaction, row: Run) -> None:
    """Refuse a run whose id is taken, or whose conversation goes on in another run.

    Raises:
        RunRefused: It is.
    """
    if transaction.get(RUNS, row.id) is not None:
        raise RunRefused(f"there is a run {row.id} already", "leave the id out, or resume that run")
    if not row.thread:
        return
    thread = transaction.get(THREADS, row.caller, row.thread)
    newest = None if thread is None else transaction.get(RUNS, thread.run)
    if newest is not None and newest.id != row.continues:
        raise RunRefused(f"thread {row.thread} went on in run {newest.id}", "start the run again")
    if newest is not None and newest.status not in FINISHED:
        raise _not_ended(newest)


def _not_ended(run: Run) -> RunRefused:
    hint = f"`agent runs resume {run.id}`, or `agent runs cancel {run.id}`"
    return RunRefused(f"run {run.id} of thread {run.thread} has not ended", hint)


def milliseconds(moment: str) -> int:
    """A moment as the number of milliseconds since 1970: a third of the bytes."""
    return round(datetime.fromisoformat(moment).timestamp() * 1000)


def lease_name(run: str) -> str:
    """The lease that a process must hold to work on a run."""
    return f"run/{run}"


def plan_purpose(digest: str) -> str:
    """What a plan is sealed for."""
    return f"plan/{digest}"
