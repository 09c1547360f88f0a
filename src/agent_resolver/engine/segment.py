"""Runs one segment of a run: from where it was taken up to its next wait, or to its end."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

from msgspec import UNSET, Struct, structs

from agent_resolver.core.blueprint.move import Course
from agent_resolver.core.blueprint.wave import (
    Ended,
    StepCall,
    StepFailed,
    StepOutcome,
    Wave,
)
from agent_resolver.engine.acting import Acting, booked_on, named_caller, names_of
from agent_resolver.engine.calling import CancelWish, StepCalls
from agent_resolver.engine.entry import RunEnded, RunWaiting
from agent_resolver.engine.errors import CannotAct, DamagedRun
from agent_resolver.engine.fold import call_key, course_of, kept_outcome
from agent_resolver.engine.journal import BlueprintJournal, History
from agent_resolver.engine.outcome import Recorded, from_json
from agent_resolver.engine.port import AwaitedThing, CallTool, RunResult, StepRunner
from agent_resolver.engine.record import Who, ended_record, waiting_record
from agent_resolver.engine.segment_telemetry import SegmentTelemetry
from agent_resolver.engine.set_aside import CANNOT_ACT, Problem, asked_record, put_aside
from agent_resolver.engine.taking import Taken, see_cancel, take_run
from agent_resolver.engine.waiting import (
    awaited_thing,
    question_of,
    replace_waits,
    resolve,
)
from agent_resolver.engine.wave_loop import SegmentStart, follow_course
from agent_resolver.registry.tool import CallContext
from agent_resolver.schema.pending import PendingAction
from agent_resolver.schema.state import PENDING, RUNS, Run
from agent_resolver.storage.errors import FileError, LeaseLost
from agent_resolver.storage.joint_writer import JointWriter
from agent_resolver.storage.lease import lease_name, release_in
from agent_resolver.storage.lease_keeper import LeaseKeeper
from agent_resolver.storage.port import Snapshot, Transaction
from agent_resolver.storage.wait_queue import drop_waits, end_waits, make_due
from agent_resolver.telemetry.ending import ReasoningEnd

_PATIENCE_SECONDS: Final = 0.05
"""How long the end of a call may wait for the next one, which may need a token or a secret first."""
_SUSPECT_SECONDS: Final = 5.0
"""How long a run that may have ended its workers is watched before another such run is taken up."""


class SegmentParts(Struct, frozen=True, kw_only=True):
    """The parts that segments need besides the journal."""

    call: CallTool
    acting: Acting
    telemetry: SegmentTelemetry | None = None


class SegmentOwner(Protocol):
    """What segments ask of the worker that drives them, and what they let it know."""

    @property
    def is_stopping(self) -> bool:
        """True once the process is to end: runs are handed on between two waves."""
        ...

    @property
    def may_take(self) -> bool:
        """False as long as no run is taken up here yet, and once the process is to end."""
        ...

    def count_others(self) -> int:
        """The number of runs of other kinds for which this process needs room."""
        ...

    def report(self, run: str, problem: str) -> None:
        """Something kept a run from going on for now."""
        ...

    def report_lost(self, run: str) -> None:
        """Another process took a run from this one."""
        ...

    def note_taken(self, row: Run, is_adopted: bool, /) -> None:  # noqa: FBT001 - a hook
        """A run is taken up; `is_adopted` if another process was lost that had begun the same segment."""
        ...

    def note_ended(self, row: Run, /) -> None:
        """A run was brought to its end or to its next wait, or is left to other workers: its row says which."""
        ...


class Segments:
    """The segments that this process has taken up."""

    def __init__(self, journal: BlueprintJournal, parts: SegmentParts) -> None:
        self.journal = self._journal = journal
        self._parts = parts
        self._calls = StepCalls(journal, parts.call, parts.acting)
        self._taken: dict[str, Taken] = {}
        """By the names of their segments: of one run, there is one at a time."""
        self._lost: set[str] = set()
        """The segments among them that another process has taken since."""
        self._suspected: dict[str, float] = {}
        """The runs here that may have ended the workers which had them, with the time when each was taken up."""
        self._keeper = LeaseKeeper(journal.store, journal.seconds)
        self.owner: SegmentOwner
        """The worker that drives them, which sets it."""
        self.on_loss: Callable[[str], None] = _note_nothing
        """Called with the name of a segment here once its lease turns out to be held by another process."""

    async def take(self, run: str) -> Taken | None:
        """Take a run up; None where there is nothing to do, or another process does it."""
        journal = self._journal
        _ = (
            journal.store.owner
        )  # Making its name reads the file, which a piece of work must not do.
        worker = await self._parts.acting.worker()
        # One of them at a time: if it ends this process, the others must not be held to
        # blame for it.
        now = time.monotonic()
        is_watching = any(
            now - since < _SUSPECT_SECONDS for since in self._suspected.values()
        )
        taken = await journal.store.write(
            lambda transaction: take_run(
                transaction, journal, run, worker, takes_suspects=not is_watching
            )
        )
        if taken is not None:
            if taken.is_suspect:
                self._suspected[run] = now
            self._taken[taken.id] = taken
            # Each commit of the segment requires the lease, and fails without it. So
            # most drivers need no notice of a loss.
            self._keeper.hold(
                run, taken.lease, _do_nothing, lambda: self.note_lost(run)
            )
            is_adopted = taken.executor_before not in {"", journal.store.owner}
            self.owner.note_taken(taken.history.row, is_adopted)
        return taken

    async def run(self, segment: str, run_step: StepRunner) -> None:
        """Run a segment that this process has taken up, to its next wait or to the end of the run.

        Raises:
            LeaseLost: This process has not taken it up, or another one has since.
        """
        opened = await self.begin(segment, run_step)
        # Stays if the segment breaks off: every span that begins has to end.
        ending = ReasoningEnd(error="INTERRUPTED")
        try:
            ending = await opened.run()
        except CannotAct as error:
            await self.put_aside(opened, error)
            ending = ReasoningEnd(error=CANNOT_ACT)
        finally:
            await self.finish(opened, ending)

    async def begin(self, segment: str, run_step: StepRunner) -> "OpenSegment":
        """Open a segment that this process has taken up. Its effects can be had one by one.

        Raises:
            LeaseLost: This process has not taken it up, or another one has since.
        """
        taken = self._taken.get(segment)
        if taken is None:
            raise LeaseLost(lease_name(segment.rpartition(":")[0]))
        span, context = await self._begin_span(taken)
        store = self._journal.store
        writer = JointWriter(
            store, lease=taken.lease, puts_off=True, patience_seconds=_PATIENCE_SECONDS
        )
        return OpenSegment(
            self, self._journal, self._calls, taken, context, run_step, writer, span
        )

    async def finish(self, opened: "OpenSegment", ending: ReasoningEnd) -> None:
        """Close a segment, however it ended."""
        try:
            # Where the segment broke off, the end of its last call still waits. What
            # cannot be written is counted as interrupted, and what belongs to a run
            # that another process has now is not written here.
            with suppress(FileError, LeaseLost, OSError, RuntimeError):
                await opened.writer.flush()
        finally:
            telemetry = self._parts.telemetry
            if telemetry is not None:
                telemetry.end_segment(opened.span, ending)

    async def give_back(self, taken: Taken) -> None:
        """Let another process have a run whose segment did not come to its end here."""
        self._keeper.drop(taken.run)
        self._suspected.pop(taken.run, None)
        # A segment that has ended gave its lease back itself.
        if self._taken.pop(taken.id, None) is None:
            return
        if taken.id in self._lost:
            self._lost.remove(taken.id)
            return
        is_released = True
        # A lease that cannot be given back now runs out by itself.
        with suppress(FileError, OSError, RuntimeError):
            is_released = await self._journal.store.release(taken.lease)
        if is_released:
            self.owner.note_ended(taken.history.row)
        else:
            self.owner.report_lost(taken.run)

    def note_lost(self, run: str) -> None:
        """Report, once, that another process has taken a run from this one."""
        for taken in self._taken.values():
            if taken.run == run and taken.id not in self._lost:
                self._lost.add(taken.id)
                self.owner.report_lost(run)
                self.on_loss(taken.id)

    def note_given_back(self, taken: Taken, row: Run) -> None:
        """Note that the end of a segment was written, which left this row, and gave the lease back."""
        self._taken.pop(taken.id, None)
        self._lost.discard(taken.id)
        self.owner.note_ended(row)

    async def who(self, taken: Taken) -> Who:
        """The names of starter and worker, for audit records."""
        starter = taken.history.started.starter
        return names_of(starter, await self._parts.acting.worker(starter))

    async def _begin_span(self, taken: Taken) -> tuple[Any, CallContext]:
        started = taken.history.started
        blueprint = taken.history.blueprint
        caller = named_caller(
            started.starter, await self._parts.acting.worker(started.starter)
        )
        context = CallContext(
            run=taken.run,
            trace_id=started.trace_id,
            caller=booked_on(caller, blueprint.blueprint_metadata.cost_center),
            connection=started.connection,
            agent=started.agent,
            lock=started.lock,
            parent=started.parent,
            lease=taken.lease,
        )
        telemetry = self._parts.telemetry
        if telemetry is None:
            return None, context
        span = telemetry.begin_segment(blueprint.id, started.classification, context)
        return span, structs.replace(context, parent=telemetry.traceparent(span))

    async def put_aside(self, opened: "OpenSegment", error: CannotAct) -> None:
        """End a segment whose run no identity can act for: a person has to look at it."""
        taken = opened.taken
        message = f"{error}. {error.hint}" if error.hint else str(error)
        who = await self.who(taken)

        def write(transaction: Transaction) -> Run:
            # Nothing is written about a run that another process has taken since.
            transaction.require(taken.lease)
            # Signals and wishes to cancel may have come since the run was taken up, and
            # the row counts them.
            history = self._journal.read(transaction, taken.run)
            assert history is not None  # noqa: S101 - it is held
            # What the run waited for before stays as it was, with its deadlines.
            waits = tuple(each for each in taken.still if each.path not in taken.known)
            problem = Problem(code=CANNOT_ACT, message=message, waits=waits)
            row = put_aside(transaction, self._journal, history, problem, who)
            release_in(transaction, taken.lease)
            return row

        row = await opened.writer.write(write)
        self.note_given_back(taken, row)


class OpenSegment:
    """One segment while it runs: everything that it does to the state and to the world."""

    def __init__(  # noqa: PLR0913, PLR0917 - the parts of one segment
        self,
        segments: Segments,
        journal: BlueprintJournal,
        calls: StepCalls,
        taken: Taken,
        context: CallContext,
        run_step: StepRunner,
        writer: JointWriter,
        span: Any,  # noqa: ANN401 - that of the telemetry
    ) -> None:
        self._segments = segments
        self._journal = journal
        self._calls = calls
        self.taken = taken
        self._context = context
        self._run_step = run_step
        self.writer = writer
        """Puts off the end of a call until the next one starts, or until the segment ends."""
        self.span = span
        self._is_cancelled = taken.history.cancel_seen is not None

    async def run(self) -> ReasoningEnd:
        """Make wave after wave, until the run waits, is handed on, or ends."""
        taken = self.taken
        start = SegmentStart(
            course=taken.course,
            move=taken.move,
            known=taken.known,
            outcomes=taken.outcomes,
            again=taken.again,
            still=taken.still,
        )
        ending = await follow_course(start, self)
        if isinstance(ending, Ended):
            return ReasoningEnd(outcome=ending.status.upper(), error=ending.code)
        return ReasoningEnd(outcome=ending)

    def is_stopping(self) -> bool:
        """True once the process is to end."""
        return self._segments.owner.is_stopping

    def cancelled_course(self) -> Course:
        """The course of the run from the moment on that the wish to cancel was seen."""
        return course_of(self.taken.history, self.taken.known, is_cancelled=True)

    async def make_calls(self, calls: Sequence[StepCall]) -> dict[str, Recorded]:
        """Make the calls of a wave, all together and in the order of their paths."""
        wish = self.new_wish()
        context = await self.context_of_wave(len(calls))
        steps = [self._take_step(call, context, wish) for call in calls]
        if len(steps) == 1:
            values = [await steps[0]]
        else:
            # Every call of a wave comes to its end before anything else happens, also
            # if one of them breaks.
            ended = await asyncio.gather(*steps, return_exceptions=True)
            # Of several failures the first in the order of paths counts, and not the
            # one that came first in time.
            for each in ended:
                if isinstance(each, BaseException):
                    raise each
            values = [each for each in ended if not isinstance(each, BaseException)]
        return {call.path: value for call, value in zip(calls, values, strict=True)}

    def new_wish(self) -> CancelWish:
        """The wish to cancel, for the calls of one wave."""
        return CancelWish(self._journal, self.taken.run)

    async def context_of_wave(self, count: int) -> CallContext:
        """The context for the calls of a wave of so many."""
        if count == 1:
            # The next wave follows at once: the end of this call and the start of the
            # next share a commit.
            return structs.replace(self._context, writer=self.writer)
        # In a wave of several, the end of a quick call would wait for the slowest.
        await self.writer.flush()
        return self._context

    async def make_call(
        self,
        call: StepCall,
        context: CallContext,
        wish: CancelWish,
    ) -> Recorded:
        """Make one call, with nothing of an engine around it."""
        return from_json(await self._calls.make(self.taken, call, context, wish))

    async def _take_step(
        self,
        call: StepCall,
        context: CallContext,
        wish: CancelWish,
    ) -> Recorded:
        """Let the engine take a step, and return what it recorded: now, or before its process was lost."""
        has_run = False

        async def body() -> Any:  # noqa: ANN401 - JSON
            nonlocal has_run
            has_run = True
            return await self._calls.make(self.taken, call, context, wish)

        recorded = from_json(await self._run_step(call.path, body))
        if has_run or await self._is_kept(call, recorded):
            return recorded
        # The engine was ahead of the state when its process was lost. The state is the
        # truth, and says that the call started and did not end: the ledger decides
        # whether it is made again.
        return from_json(await body())

    async def _is_kept(self, call: StepCall, recorded: Recorded) -> bool:
        """False if the engine has a result that the ledger does not have."""
        if (
            recorded.waits is not UNSET
            or recorded.is_cancelled
            or isinstance(recorded.outcome, StepFailed)
        ):
            # None of these is recorded before the state has it.
            return True
        run = self.taken.run
        key = call_key(self.taken.history.started.starter.id, call.tool, run, call.path)
        kept = await self._journal.store.read(
            lambda snapshot: kept_outcome(snapshot, run, key, self._journal.seal)
        )
        return kept is not None

    async def outcomes_of(
        self, recorded: Mapping[str, Recorded]
    ) -> dict[str, StepOutcome]:
        """The outcomes of the calls that have ended; the ledger has those that are too large to be recorded twice."""
        found = {
            path: each.outcome
            for path, each in recorded.items()
            if each.outcome is not UNSET
        }
        refs = {path: each.ref for path, each in recorded.items() if each.ref}
        if not refs:
            return found
        # The end of one of these calls may still be put off, and the ledger is about to
        # be read.
        await self.writer.flush()

        def read(snapshot: Snapshot) -> dict[str, StepOutcome]:
            kept = {
                path: kept_outcome(snapshot, self.taken.run, key, self._journal.seal)
                for path, key in refs.items()
            }
            if None in kept.values():
                raise DamagedRun(
                    self.taken.run, "the result of one of its calls is gone"
                )
            return {
                path: outcome for path, outcome in kept.items() if outcome is not None
            }

        return found | await self._journal.store.read(read)

    # Commits --------------------------------------------------------------------------

    async def see_cancel(self, waits: tuple[AwaitedThing, ...]) -> None:
        """Write down that the wish to cancel was seen."""
        taken = self.taken
        if self._is_cancelled:
            return
        self._is_cancelled = True

        def write(transaction: Transaction) -> None:
            transaction.require(taken.lease)
            history = self._journal.read(transaction, taken.run)
            assert history is not None  # noqa: S101 - it is held
            # An attempt before this one has written it.
            if history.cancel_seen is not None:
                return
            # `see_cancel` withdraws the questions that it finds here, which are those
            # of the present wave.
            history.waiting = RunWaiting(segment=taken.segment, waits=waits)
            seen = see_cancel(transaction, self._journal, history, taken.segment)
            transaction.put(RUNS, self._journal.append(transaction, history.row, seen))

        await self.writer.write(write)

    async def wait(
        self,
        wave: Wave,
        outcomes: Mapping[str, StepOutcome],
        things: Sequence[AwaitedThing],
    ) -> None:
        """End the segment: write down what the run waits for; nothing of it stays in memory.

        Without anything to wait for, the run is handed on.
        """
        taken = self.taken
        journal = self._journal
        who = await self._segments.who(taken)
        known = {thing.path for thing in things} | outcomes.keys()
        # Waits of the blueprint that are neither over nor known begin with this entry.
        new_waits = [wait for wait in wave.waits if wait.path not in known]

        def write(transaction: Transaction) -> Run:
            transaction.require(taken.lease)
            history = journal.read(transaction, taken.run)
            assert history is not None  # noqa: S101 - it is held
            now = journal.now()
            waits = list(things)
            for wait in new_waits:
                thing = awaited_thing(wait, taken.run, now)
                waits.append(thing)
                if thing.kind == "person":
                    question = question_of(history, wait, thing, journal.clock.now())
                    _ask_person(transaction, history, question, who)
            changed = journal.append(
                transaction,
                history.row,
                RunWaiting(segment=taken.segment, waits=tuple(waits)),
            )
            row = _waiting_row(changed, waits)
            transaction.put(RUNS, row)
            replace_waits(transaction, row.id, waits)
            resolved = resolve(
                history,
                {wait.path: wait for wait in wave.waits},
                waits,
                transaction,
                now,
            )
            # An answer or a signal that came meanwhile found no row of the queue to
            # make due.
            has_changed = history.is_cancel_unseen or len(resolved.still) < len(waits)
            if has_changed or not waits:
                make_due(transaction, row.id)
            release_in(transaction, taken.lease)
            transaction.append(
                waiting_record(row.id, who, history.started.trace_id, tuple(waits))
            )
            transaction.wake("run", row.id)
            return row

        row = await self.writer.write(write)
        self._segments.note_given_back(taken, row)

    async def end(self, ended: Ended) -> bool:
        """Write down how the run ended; False if a caller wanted it to be taken back a moment before."""
        taken = self.taken
        journal = self._journal
        who = await self._segments.who(taken)
        result = RunResult(
            run=taken.run,
            status=ended.status,
            output=ended.output,
            code=ended.code,
            message=ended.message,
            step=ended.step,
            compensated=ended.compensated,
        )

        def write(transaction: Transaction) -> Run | None:
            transaction.require(taken.lease)
            row = transaction.get(RUNS, taken.run)
            assert row is not None  # noqa: S101 - it is held
            if ended.status == "done" and row.status == "cancelling":
                history = journal.read(transaction, taken.run)
                # The row is not sealed: only the journal can ask for the end of a run.
                if history is not None and history.cancel_seen is not None:
                    # An attempt before this one has written it.
                    return None
                if history is not None and history.cancel is not None:
                    seen = see_cancel(transaction, journal, history, taken.segment)
                    transaction.put(RUNS, journal.append(transaction, row, seen))
                    return None
            changed = structs.replace(
                journal.append(transaction, row, RunEnded(result=result)),
                status=ended.status,
                reason=ended.status,
                code=ended.code,
            )
            transaction.put(RUNS, changed)
            drop_waits(transaction, row.id)
            # A run that this one is a step of may go on.
            end_waits(transaction, row.id)
            release_in(transaction, taken.lease)
            transaction.append(
                ended_record(row.id, who, taken.history.started.trace_id, result)
            )
            transaction.wake("run", row.id)
            return changed

        row = await self.writer.write(write)
        if row is None:
            return False
        self._segments.note_given_back(taken, row)
        return True


def _ask_person(
    transaction: Transaction,
    history: History,
    question: PendingAction,
    who: Who,
) -> None:
    """Ask the question of a wait, and record that it was asked."""
    # The worker that makes the calls may not answer where an approver has to.
    asked = structs.replace(question, via=who.get("via", ""))
    # The id is the same in every attempt: a question that was asked before is not asked
    # twice.
    if transaction.put(PENDING, asked, only_new=True):
        transaction.append(asked_record(history, asked.id, who))


def _waiting_row(row: Run, waits: Sequence[AwaitedThing]) -> Run:
    # The row names a question alone: it is the one thing that a person can answer.
    action = next(
        (each.id for each in waits if each.kind in {"action", "person"}), None
    )
    kind = waits[0].kind.upper() if waits else ""
    return structs.replace(row, status="waiting", waits_for=action, code=kind)


def _do_nothing() -> None:
    """Stands for the hook that cancels a run: a segment looks for that wish itself, before each call."""


def _note_nothing(name: str) -> None:
    """The default: each commit finds out for itself."""
