"""Takes runs up: under a lease, alone, and each time from what the state knows."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

from msgspec import Struct, structs

from agent_resolver.core.blueprint.move import Course
from agent_resolver.core.blueprint.path import COMPENSATION_PREFIX
from agent_resolver.core.blueprint.wave import Ended, Move, StepOutcome, Wave
from agent_resolver.core.retry_answer import asks_for_retry
from agent_resolver.engine.acting import names_of
from agent_resolver.engine.entry import (
    CancelSeen,
    Entry,
    RunWaiting,
    SegmentStarted,
    StepRefused,
    WaitEnded,
)
from agent_resolver.engine.errors import DamagedRun
from agent_resolver.engine.fold import Folded, first_path, fold, outcome_reader
from agent_resolver.engine.journal import BlueprintJournal, History
from agent_resolver.engine.outcome import step_failed
from agent_resolver.engine.port import AwaitedThing
from agent_resolver.engine.record import Who, resumed_record
from agent_resolver.engine.runs import cancel_in
from agent_resolver.engine.set_aside import (
    CRASHED,
    Problem,
    put_aside,
    put_aside_damaged,
)
from agent_resolver.engine.waiting import replace_waits, resolve
from agent_resolver.schema.caller import Caller
from agent_resolver.schema.canonical_digest import digest
from agent_resolver.schema.state import (
    FINISHED,
    PENDING,
    RUNS,
    WAITS,
    RunStatus,
    WaitRow,
)
from agent_resolver.storage.lease import LEASE_SECONDS, claim_in, lease_name, release_in
from agent_resolver.storage.port import Lease, Transaction
from agent_resolver.storage.wait_queue import drop_waits

MAX_ATTEMPTS: Final = 5
"""The most attempts at a segment that bring a run no further; then a person has to look at it."""
SUSPICIOUS_ATTEMPTS: Final = 2
"""After so many attempts that brought a run no further, it may be the one that ends its workers."""
_BUSY_MILLISECONDS: Final = 1000


class Taken(Struct, kw_only=True):
    """A run that this process has, at the beginning of a segment."""

    history: History
    lease: Lease
    segment: int
    attempt: int
    course: Course
    move: Move
    """What the segment begins with."""
    known: dict[str, StepOutcome]
    """All outcomes that are known."""
    outcomes: dict[str, StepOutcome]
    """Those of the first wave among them."""
    again: frozenset[str]
    """The calls of the first wave that are made."""
    still: tuple[AwaitedThing, ...]
    """What calls and waits of the first wave wait for, as before."""
    beginning: str
    """Stands for how the run began: no other run has it, also none of the same id."""
    executor_before: str = ""
    """The process that was lost in the middle of this segment."""
    is_suspect: bool = False
    """True if the run may be the one that ended the processes which had it."""

    @property
    def run(self) -> str:
        """The id of the run."""
        return self.history.row.id

    @property
    def id(self) -> str:
        """The name of the segment, for an engine: `<run>:<number>.<beginning>`.

        The file of an engine may be older or newer than the state, and a run of the same id may have begun again. What
        the file has of another beginning must not be taken for results of this run.
        """
        return f"{self.run}:{self.segment}.{self.beginning}"


class _Beginning(Struct, kw_only=True):
    """The first wave of a new segment, and the entries that have to be written before it."""

    folded: Folded
    entries: list[Entry]
    again: frozenset[str]
    still: tuple[AwaitedThing, ...]

    @property
    def is_waiting(self) -> bool:
        """True if there is nothing to do yet."""
        has_ended_all = isinstance(self.folded.move, Ended)
        return not has_ended_all and not self.again and bool(self.still)


def take_run(
    transaction: Transaction,
    journal: BlueprintJournal,
    run: str,
    worker: Caller | None,
    *,
    takes_suspects: bool = True,
) -> Taken | None:
    """Take a run up; None where it is another process's, has ended, waits as before, or was set aside.

    Args:
        transaction: The piece of work.
        journal: Where runs are kept.
        run: The id of the run.
        worker: The identity of this process, for the audit record.
        takes_suspects: False if a run is left alone that may be the one that ended its workers.
    """
    row = transaction.get(RUNS, run)
    if row is None or row.kind != "blueprint":
        # A row of the queue without a run would be found as due again and again.
        drop_waits(transaction, run)
        return None
    lease = claim_in(
        transaction, journal.store, lease_name(run), journal.seconds(), LEASE_SECONDS
    )
    if lease is None:
        _look_later(transaction, run, journal.now())
        return None
    try:
        history = journal.read(transaction, run)
        assert history is not None  # noqa: S101 - its row was there a moment ago
        who = names_of(history.started.starter, worker)
        taking = _Taking(transaction, journal, history, lease, who)
        # A suspect is left alone while another one is watched here: if this process
        # ends, it is clear which run did it.
        taken = taking.take() if takes_suspects or not taking.is_suspect else None
    except DamagedRun:
        put_aside_damaged(transaction, journal, row)
        taken = None
    if taken is None:
        # Nothing of the run is driven here, so that it needs no lease.
        release_in(transaction, lease)
    return taken


def _look_later(transaction: Transaction, run: str, now: int) -> None:
    """Leave a run that another process has: it is looked at again, and not all the time."""
    # A row that stayed due would be found again at once, for as long as the other
    # process has the run.
    if any(row.due <= now for row in transaction.find(WAITS, {"run": run})):
        drop_waits(transaction, run)
        transaction.put(WAITS, WaitRow(due=now + _BUSY_MILLISECONDS, run=run))


class _Taking:
    """Takes one run up, inside of one piece of work."""

    def __init__(
        self,
        transaction: Transaction,
        journal: BlueprintJournal,
        history: History,
        lease: Lease,
        who: Who,
    ) -> None:
        self._transaction = transaction
        self._journal = journal
        self._history = history
        self._lease = lease
        self._who = who
        self._look_up = outcome_reader(history, transaction, journal.seal)

    @property
    def is_suspect(self) -> bool:
        """True if the run may be the one that ended the processes which had it."""
        # A run that waits came to the end of its segment, so that no attempt counts
        # against it.
        return (
            self._history.is_in_segment
            and self._count_attempts() >= SUSPICIOUS_ATTEMPTS
        )

    def take(self) -> Taken | None:
        """The run at the beginning of a segment; None where it waits on, or is set aside."""
        if self._history.ended is not None:
            drop_waits(self._transaction, self._history.row.id)
            return None
        if self._history.is_in_segment:
            return self._repeat()
        beginning = self._find_beginning()
        if beginning.is_waiting:
            self._wait_on(beginning)
            return None
        return self._start(beginning)

    # A segment in the middle of which a process was lost ------------------------------

    def _repeat(self) -> Taken | None:
        """Begin the segment again, unless that was tried often enough."""
        history = self._history
        newest = history.segments[-1]
        tried = self._count_attempts()
        # It begins where it began before, so that an engine finds the steps that it has
        # recorded.
        folded = fold(history, self._look_up, first=newest.first, again=newest.again)
        # The newest entry of this kind says what the run waited for when the segment
        # began.
        waiting = next(
            (
                each
                for each in reversed(history.entries)
                if isinstance(each, RunWaiting)
            ),
            None,
        )
        still = _still_waiting(waiting, folded, newest.again)
        if tried >= MAX_ATTEMPTS:
            message = f"{history.blueprint.id} ended its worker {tried} times at the same place"
            problem = Problem(code=CRASHED, message=message, waits=still)
            put_aside(self._transaction, self._journal, history, problem, self._who)
            return None
        started = structs.replace(
            newest,
            attempt=newest.attempt + 1,
            known=self._known,
            executor=self._journal.store.owner,
        )
        self._put_started([started])
        taken = self._taken(started, folded, still, newest.executor)
        taken.is_suspect = tried >= SUSPICIOUS_ATTEMPTS
        return taken

    @cached_property
    def _known(self) -> int:
        """The number of waves of which the state has any trace."""
        return fold(self._history, self._look_up).known

    def _count_attempts(self) -> int:
        """The number of attempts at the newest segment since it was brought any further."""
        segments = self._history.segments
        place = (segments[-1].segment, self._known)
        return sum((each.segment, each.known) == place for each in segments)

    # A new segment --------------------------------------------------------------------

    def _find_beginning(self) -> _Beginning:
        """Find out what a run that waited, or is new, goes on with."""
        history = self._history
        folded = fold(history, self._look_up)
        entries: list[Entry] = []
        if history.is_cancel_unseen and not _is_taking_back(folded.move):
            newest = history.segment.segment if history.segment else 0
            seen = see_cancel(self._transaction, self._journal, history, newest)
            entries.append(seen)
            # The fold below has to know of the wish, which is written only later, with
            # the new segment.
            history.apply(seen)
            # The wave that waited is left, and with it everything that it waited for.
            history.waiting = None
            folded = fold(history, self._look_up)
        # Nothing is left to do but to write the end, which takes a segment as well.
        if isinstance(folded.move, Ended):
            return _Beginning(
                folded=folded, entries=entries, again=frozenset(), still=()
            )
        wave = folded.move
        things = history.waiting.waits if history.waiting is not None else ()
        waits = {wait.path: wait for wait in wave.waits}
        resolved = resolve(
            history, waits, things, self._transaction, self._journal.now()
        )
        entries += resolved.ended
        # Any answer but the one that asks for another attempt gives the run up.
        if resolved.answer is not None and not asks_for_retry(resolved.answer):
            entries += _given_up(wave, folded.outcomes, history.waiting)
        _add_outcomes(folded.outcomes, entries)
        # What a person gave up waits for nothing any more.
        still = tuple(
            thing for thing in resolved.still if thing.path not in folded.outcomes
        )
        again = _calls_to_make(wave, folded.outcomes, still)
        return _Beginning(folded=folded, entries=entries, again=again, still=still)

    def _start(self, beginning: _Beginning) -> Taken:
        newest = self._history.segment
        number = newest.segment + 1 if newest else 1
        move = beginning.folded.move
        first = "" if isinstance(move, Ended) else first_path(move)
        started = SegmentStarted(
            segment=number,
            attempt=1,
            first=first,
            again=tuple(sorted(beginning.again)),
            known=beginning.folded.known,
            executor=self._journal.store.owner,
        )
        self._put_started([*beginning.entries, started])
        return self._taken(started, beginning.folded, beginning.still, "")

    def _wait_on(self, beginning: _Beginning) -> None:
        """Leave a run waiting; what ended meanwhile is written down."""
        history = self._history
        transaction = self._transaction
        row = history.row
        # A run that waits on as before gets no entry: else its journal would grow with
        # every look.
        if beginning.entries:
            segment = history.segment.segment if history.segment else 0
            code = history.waiting.code if history.waiting is not None else ""
            waiting = RunWaiting(segment=segment, waits=beginning.still, code=code)
            row = self._journal.append(transaction, row, *beginning.entries, waiting)
        transaction.put(RUNS, structs.replace(row, status="waiting"))
        replace_waits(transaction, row.id, beginning.still)

    # Both -----------------------------------------------------------------------------

    def _put_started(self, entries: list[Entry]) -> None:
        history = self._history
        transaction = self._transaction
        row = self._journal.append(transaction, history.row, *entries)
        # A run that is to end keeps the status that says so while it is driven.
        status: RunStatus = "running" if history.cancel is None else "cancelling"
        changed = structs.replace(
            row, status=status, lease=self._lease.number, waits_for=None, code=""
        )
        transaction.put(RUNS, changed)
        drop_waits(transaction, row.id)
        # The history that the segment goes on with has to say what was just written.
        for entry in entries:
            history.apply(entry)
        history.row = changed
        started = history.segments[-1]
        # The record of its start says so much of the first one.
        if (started.segment, started.attempt) != (1, 1):
            trace = history.started.trace_id
            transaction.append(
                resumed_record(
                    row.id, self._who, trace, started.segment, started.attempt
                )
            )

    def _taken(
        self,
        started: SegmentStarted,
        folded: Folded,
        still: tuple[AwaitedThing, ...],
        executor_before: str,
    ) -> Taken:
        paths = () if isinstance(folded.move, Ended) else folded.move.paths
        outcomes = {
            path: folded.outcomes[path] for path in paths if path in folded.outcomes
        }
        return Taken(
            history=self._history,
            lease=self._lease,
            segment=started.segment,
            attempt=started.attempt,
            course=folded.course,
            move=folded.move,
            known=folded.outcomes,
            outcomes=outcomes,
            again=frozenset(started.again),
            still=still,
            beginning=digest(self._history.started)[-8:],
            executor_before=executor_before,
        )


def _still_waiting(
    waiting: RunWaiting | None,
    folded: Folded,
    again: tuple[str, ...],
) -> tuple[AwaitedThing, ...]:
    """The things that the first wave of a segment waited for when the segment began, and still does."""
    if waiting is None or isinstance(folded.move, Ended):
        return ()
    # A run that was cancelled has left the wave that waited.
    paths = set(folded.move.paths) - folded.outcomes.keys() - set(again)
    return tuple(each for each in waiting.waits if each.path in paths)


def _is_taking_back(move: Move) -> bool:
    """True if a run takes back what it did: a failure came first, and a wish to cancel changes nothing any more."""
    return isinstance(move, Wave) and first_path(move).startswith(COMPENSATION_PREFIX)


def _given_up(
    wave: Wave,
    outcomes: Mapping[str, StepOutcome],
    waiting: RunWaiting | None,
) -> list[Entry]:
    """The failures that let a run end which a person gave up: everything that it was about to do has failed."""
    code = waiting.code if waiting is not None else CRASHED
    failed = step_failed(code, "A person gave the run up", is_final=True)
    calls = [
        StepRefused(path=call.path, failed=failed)
        for call in wave.calls
        if call.path not in outcomes
    ]
    waits = [
        WaitEnded(path=wait.path, outcome=failed)
        for wait in wave.waits
        if wait.path not in outcomes
    ]
    return [*calls, *waits]


def _add_outcomes(outcomes: dict[str, StepOutcome], entries: list[Entry]) -> None:
    for entry in entries:
        if isinstance(entry, WaitEnded):
            outcomes[entry.path] = entry.outcome
        elif isinstance(entry, StepRefused):
            outcomes[entry.path] = entry.failed


def _calls_to_make(
    wave: Wave,
    outcomes: Mapping[str, StepOutcome],
    still: Sequence[AwaitedThing],
) -> frozenset[str]:
    # While a person looks at a run that was set aside, nothing of it is called.
    if any(not thing.path for thing in still):
        return frozenset()
    waiting = {thing.path for thing in still}
    return frozenset(
        call.path
        for call in wave.calls
        if call.path not in outcomes and call.path not in waiting
    )


def see_cancel(
    transaction: Transaction,
    journal: BlueprintJournal,
    history: History,
    segment: int,
) -> CancelSeen:
    """The entry that a wish to cancel was seen; questions of the run are withdrawn, and its parts end as well."""
    now = journal.clock.now()
    things = history.waiting.waits if history.waiting is not None else ()
    for thing in things:
        if thing.kind in {"action", "person"}:
            _withdraw(transaction, thing.id, history.started.trace_id, now)
    for inner in _unfinished_parts(transaction, journal, history.row.id):
        if inner.cancel is None and history.cancel is not None:
            cancel_in(transaction, journal, inner, history.cancel.by)
    return CancelSeen(segment=segment)


def _withdraw(transaction: Transaction, question: str, trace: str, now: str) -> None:
    """Let an open question of a run expire now."""
    action = transaction.get(PENDING, question)
    if action is None or not action.is_open:
        return
    # An action without a call, such as a missing secret, may be that of other runs as
    # well.
    if action.trace_id == trace and not action.needs:
        transaction.put(PENDING, structs.replace(action, expires_at=now, content=None))


def _unfinished_parts(
    transaction: Transaction,
    journal: BlueprintJournal,
    run: str,
) -> Iterator[History]:
    """The runs that are steps of a run, and have not ended."""
    for row in transaction.find(RUNS, {"parent": run}):
        if row.kind != "blueprint" or row.status in FINISHED:
            continue
        try:
            part = journal.read(transaction, row.id)
        except DamagedRun:
            # It is set aside when it is taken up; that is not the fault of the run
            # around it.
            continue
        # The row is not sealed: only the journal can make a run a part of another.
        if part is not None and part.started.part_of == run:
            yield part
