"""The activities: what the workflow of a run asks of the process that has the run."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from functools import wraps
from typing import Any, Final

from temporalio import activity
from temporalio.exceptions import ApplicationError

from agent_resolver.core.blueprint.wave import Ended, Wave
from agent_resolver.engine import temporal_message as message
from agent_resolver.engine.errors import CannotAct
from agent_resolver.engine.fold import is_cancelled_before, run_facts
from agent_resolver.engine.outcome import Recorded
from agent_resolver.engine.port import StepBody
from agent_resolver.engine.segment import OpenSegment, Segments
from agent_resolver.engine.set_aside import CANNOT_ACT
from agent_resolver.engine.taking import Taken
from agent_resolver.engine.temporal_place import TemporalPlace
from agent_resolver.registry.call import place_of
from agent_resolver.schema.errors import ResolverError
from agent_resolver.schema.state import FAR, FINISHED, RUNS, WAITS
from agent_resolver.storage.errors import FileError, LeaseLost
from agent_resolver.storage.lease import lease_name
from agent_resolver.storage.port import Snapshot
from agent_resolver.telemetry.ending import ReasoningEnd

IDLE_SECONDS: Final = 30.0
"""How long a segment may be asked for nothing before its run is given back: its workflow may be gone."""
_SWEEP_SECONDS: Final = 5.0
"""Seconds between two looks for such segments."""
_BEAT_SECONDS: Final = 2.0
_FULL_SECONDS: Final = 0.5
_BUSY_SECONDS: Final = 1.0
_LEAST_SECONDS: Final = 0.2
"""How long a run rests at least that was not taken up, so that nothing turns in a circle."""


class _Held:
    """A segment that is open in this process."""

    def __init__(self, opened: OpenSegment) -> None:
        self.opened = opened
        self.run = opened.taken.run
        self.wave = ""
        self.wish = opened.new_wish()
        self.running = 0
        """The number of activities that are under way."""
        self.used_at = 0.0
        """When the last one ended, in the time of the loop."""
        self.is_lost = False
        """True once another process has the run: nothing of this segment is written any more."""


def _as_activity(
    body: Callable[[Any, bytes], Awaitable[Any]],
) -> Callable[[Any, bytes], Awaitable[bytes]]:
    """An activity that takes and gives JSON, and whose failures name their kind alone.

    The workflow only needs the kind. The words of an exception may quote arguments, and stay in this process.
    """

    @wraps(body)
    async def run_activity(self: "SegmentHost", order: bytes) -> bytes:
        try:
            async with _beating():
                return message.encode(await body(self, order))
        except ApplicationError:
            raise
        except Exception as error:  # noqa: BLE001 - each has to be told to the workflow by its kind
            kind = type(error).__name__
            words = (
                str(error)
                if isinstance(error, ResolverError | OSError)
                else f"{kind}{place_of(error)}"
            )
            # The loss of a run is reported once, where it is found out.
            if not isinstance(error, LeaseLost):
                self.report(words)
            # A state that cannot be used now may be usable soon. A lease that is lost
            # does not come back.
            is_passing = isinstance(error, FileError | OSError)
            raise ApplicationError(
                kind, type=kind, non_retryable=not is_passing
            ) from None

    return run_activity


class SegmentHost:
    """The segments that this process has taken up for workflows."""

    def __init__(
        self,
        segments: Segments,
        place: TemporalPlace,
        capacity: int,
    ) -> None:
        """Nothing is open yet.

        Args:
            segments: Takes runs up.
            place: The names of this project on the server.
            capacity: The most runs that it has at once.
        """
        self._segments = segments
        self._journal = segments.journal
        self._place = place
        self.queue = f"{place.queue}/{self._journal.store.owner}"
        """The queue that only this process listens to."""
        self._capacity = capacity
        self._held: dict[str, _Held] = {}
        """By the names of their segments: of one run, there is one at a time."""
        self._taking: set[str] = set()
        """The runs that are being taken up: they need room as well."""
        self._changed = asyncio.Event()
        self._has_lost = asyncio.Event()
        """Set once a segment is to be given back without waiting for the next look."""
        self._is_closed = False
        segments.on_loss = self._note_loss

    @property
    def shared_activities(self) -> list[Callable[..., Any]]:
        """The activities that any process can be asked for."""
        return [self.take]

    @property
    def own_activities(self) -> list[Callable[..., Any]]:
        """The activities that only the process which has the run can be asked for."""
        return [
            self.call,
            self.see_cancel,
            self.wait,
            self.end,
            self.put_aside,
            self.leave,
        ]

    @property
    def runs(self) -> frozenset[str]:
        """The runs whose segments are open here, or about to be."""
        return frozenset(self._taking).union(held.run for held in self._held.values())

    async def changed(self, seconds: float) -> None:
        """Return once a segment has ended here or was not opened, or when the time is over."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), seconds)

    def report(self, problem: str) -> None:
        """Let the operator know why an activity of a run fails that is under way here."""
        workflow = activity.info().workflow_id or ""
        self._segments.owner.report(
            workflow.removeprefix(f"{self._place.queue}/"), problem
        )

    # Activities -----------------------------------------------------------------------

    @activity.defn(name=message.TAKE)
    @_as_activity
    async def take(self, order: bytes) -> message.TakeAnswer:
        """Take a run up, and say all that it takes to interpret it; or why there is nothing to do."""
        carried: message.Carried = message.decode(order, message.Carried)
        if carried.state != self._place.state:
            raise _elsewhere("another state")
        run = carried.run
        if self._is_at_work_on(run):
            raise _elsewhere("still at work on it")
        if not self._has_room_for(run):
            raise _elsewhere("no room")
        # Noted before anything is awaited: others may ask at the same time.
        self._taking.add(run)
        try:
            return await self._take(run)
        finally:
            self._taking.remove(run)
            self._note_change()

    def _is_at_work_on(self, run: str) -> bool:
        """True if a call of the run is under way here, which may be one that was lost to another process."""
        at_work = any(held.running for held in self._held.values() if held.run == run)
        return at_work or run in self._taking

    def _has_room_for(self, run: str) -> bool:
        """True if this process may take the run up."""
        owner = self._segments.owner
        in_use = len(self.runs - {run}) + owner.count_others()
        return owner.may_take and not self._is_closed and in_use < self._capacity

    async def _take(self, run: str) -> message.TakeAnswer:
        await self._drop_own(run)
        taken = await self._segments.take(run)
        if taken is None:
            return await self.rest_of(run, _LEAST_SECONDS)
        try:
            opened = await self._segments.begin(taken.id, _make_directly)
        except BaseException:
            await self._segments.give_back(taken)
            raise
        held = self._held[taken.id] = _Held(opened)
        held.used_at = asyncio.get_running_loop().time()
        return self._begun(taken)

    @activity.defn(name=message.CALL)
    @_as_activity
    async def call(self, order: bytes) -> message.CallAnswer:
        """Call the tool of a step, under the key of the step: the ledger sees to it that it is done once."""
        asked: message.CallOrder = message.decode(order, message.CallOrder)
        async with self._using(asked.segment) as held:
            opened = held.opened
            # The first call of a wave looks for the wish to cancel, and the others
            # share what it finds.
            if held.wave != asked.wave:
                held.wave, held.wish = asked.wave, opened.new_wish()
            try:
                context = await opened.context_of_wave(asked.count)
                recorded = await opened.make_call(asked.call, context, held.wish)
            except CannotAct as error:
                return message.CallAnswer(
                    segment=asked.segment,
                    path=asked.call.path,
                    problem=str(error),
                    hint=error.hint,
                )
            found = await opened.outcomes_of({asked.call.path: recorded})
            # `wait` is given paths alone, and finds their outcomes here.
            opened.taken.known.update(found)
            # The workflow cannot read the ledger, so that it gets the result itself.
            if recorded.ref:
                recorded = Recorded(outcome=found[asked.call.path])
            return message.CallAnswer(
                segment=asked.segment,
                path=asked.call.path,
                recorded=recorded,
                is_stopping=opened.is_stopping(),
            )

    @activity.defn(name=message.SEE_CANCEL)
    @_as_activity
    async def see_cancel(self, order: bytes) -> bool:
        """Write down that the wish to cancel was seen."""
        asked: message.CancelOrder = message.decode(order, message.CancelOrder)
        async with self._using(asked.segment) as held:
            await held.opened.see_cancel(asked.waits)
        return True

    @activity.defn(name=message.WAIT)
    @_as_activity
    async def wait(self, order: bytes) -> message.RestAnswer:
        """Write down what the run waits for."""
        asked: message.WaitOrder = message.decode(order, message.WaitOrder)
        async with self._using(asked.segment) as held:
            opened = held.opened
            outcomes = {path: opened.taken.known[path] for path in asked.ended}
            await opened.wait(Wave(waits=asked.waits), outcomes, asked.things)
            await self._close(
                held,
                ReasoningEnd(
                    outcome="WAITS" if asked.waits or asked.things else "HANDED_ON"
                ),
            )
        return await self.rest_of(opened.taken.run)

    @activity.defn(name=message.END)
    @_as_activity
    async def end(self, order: bytes) -> bool:
        """Write down how the run ended."""
        asked: message.EndOrder = message.decode(order, message.EndOrder)
        async with self._using(asked.segment) as held:
            has_ended = await held.opened.end(asked.ended)
            if has_ended:
                await self._close(
                    held,
                    ReasoningEnd(
                        outcome=asked.ended.status.upper(), error=asked.ended.code
                    ),
                )
        return has_ended

    @activity.defn(name=message.PUT_ASIDE)
    @_as_activity
    async def put_aside(self, order: bytes) -> message.RestAnswer:
        """Let the run wait for a person: no identity can act for its starter."""
        asked: message.AsideOrder = message.decode(order, message.AsideOrder)
        async with self._using(asked.segment) as held:
            await self._segments.put_aside(
                held.opened, CannotAct(asked.problem, asked.hint)
            )
            await self._close(held, ReasoningEnd(error=CANNOT_ACT))
        return await self.rest_of(held.opened.taken.run)

    @activity.defn(name=message.LEAVE)
    @_as_activity
    async def leave(self, order: bytes) -> bool:
        """Give a run back whose segment did not come to its end."""
        held = self._held.get(message.decode(order, str))
        if held is not None:
            await self._drop(held)
        return True

    # Segments -------------------------------------------------------------------------

    async def rest_of(self, run: str, least: float = 0.0) -> message.RestAnswer:
        """The time for which a run rests that this process does not have, so many seconds at least."""
        journal = self._journal
        now = journal.now()

        def read(snapshot: Snapshot) -> message.RestAnswer:
            row = snapshot.get(RUNS, run)
            if row is None or row.status in FINISHED:
                return message.Gone()
            due = min(
                (each.due for each in snapshot.find(WAITS, {"run": run})), default=0
            )
            # Where it does not wait, another process has it, or had it and is gone.
            seconds = max(
                (due - now) / 1000, least if row.status == "waiting" else _BUSY_SECONDS
            )
            return message.Rest(seconds=None if due == FAR else seconds)

        return await journal.store.read(read)

    async def sweep(self) -> None:
        """Give back unused and lost segments, until this is cancelled."""
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._has_lost.wait(), _SWEEP_SECONDS)
            self._has_lost.clear()
            await self._give_back_unused()

    async def _give_back_unused(self) -> None:
        """Give back the runs that were lost, and those whose workflow asks for nothing any more."""
        for held in list(self._held.values()):
            # Looked at only now: while another segment was given back, an activity may
            # have come to use this one.
            if self._is_unused(held):
                await self._drop(held)

    def _is_unused(self, held: _Held) -> bool:
        idle = asyncio.get_running_loop().time() - held.used_at
        return not held.running and (held.is_lost or idle > IDLE_SECONDS)

    def _note_loss(self, segment: str) -> None:
        """Give a segment back as soon as no activity uses it: another process has its run."""
        held = self._held.get(segment)
        if held is not None:
            held.is_lost = True
            self._has_lost.set()

    async def close(self) -> None:
        """Give everything back."""
        self._is_closed = True
        for held in list(self._held.values()):
            await self._drop(held)

    @asynccontextmanager
    async def _using(self, segment: str) -> AsyncIterator[_Held]:
        held = self._held.get(segment)
        if held is None:
            # The run was given back here, and another process may have taken it up
            # since.
            raise LeaseLost(lease_name(segment.rpartition(":")[0]))
        held.running += 1
        try:
            yield held
        except LeaseLost:
            self._segments.note_lost(held.run)
            raise
        finally:
            held.running -= 1
            held.used_at = asyncio.get_running_loop().time()
            if held.is_lost:
                self._has_lost.set()

    async def _drop_own(self, run: str) -> None:
        """Give back a segment of the run that is open here: the workflow has left it, or is another one."""
        for held in [each for each in self._held.values() if each.run == run]:
            await self._drop(held)

    async def _drop(self, held: _Held) -> None:
        await self._close(held, ReasoningEnd(error="INTERRUPTED"))

    async def _close(self, held: _Held, ending: ReasoningEnd) -> None:
        taken = held.opened.taken
        # Two activities may come here for one segment, and it ends once.
        if self._held.pop(taken.id, None) is None:
            return
        try:
            await self._segments.finish(held.opened, ending)
        finally:
            await self._segments.give_back(taken)
            self._note_change()

    def _note_change(self) -> None:
        # The old event wakes all that wait now; later ones wait for the next change.
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _begun(self, taken: Taken) -> message.Begun:
        history = taken.history
        move = taken.move
        return message.Begun(
            segment=taken.id,
            executor=self._journal.store.owner,
            queue=self.queue,
            blueprint=history.blueprint,
            input=history.started.input,
            facts=run_facts(history),
            known=taken.known,
            is_cancelled=is_cancelled_before(history, taken.segment),
            first="" if isinstance(move, Ended) else move.paths[0],
            outcomes=tuple(sorted(taken.outcomes)),
            again=tuple(sorted(taken.again)),
            still=taken.still,
        )


@asynccontextmanager
async def _beating() -> AsyncIterator[None]:
    """Tell Temporal every few seconds that the process is there."""

    async def beat() -> None:
        while True:
            await asyncio.sleep(_BEAT_SECONDS)
            activity.heartbeat()

    beating = asyncio.create_task(beat())
    try:
        yield
    finally:
        beating.cancel()


def _elsewhere(why: str) -> ApplicationError:
    """Ask Temporal for a further attempt, which may reach another process."""
    return ApplicationError(
        why, type="ELSEWHERE", next_retry_delay=timedelta(seconds=_FULL_SECONDS)
    )


async def _make_directly(name: str, body: StepBody) -> Any:  # noqa: ANN401, ARG001 - the port
    return await body()
