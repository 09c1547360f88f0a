"""The one workflow: it interprets the blueprint of a run, and waits for what the run waits for.

It has no effect of its own. A process of ours takes the run up, under a lease, and listens to a queue that only this
process has: each call, and each entry of the journal, is an activity there. If the process is gone, its queue is
silent, and another process takes the run up from what the store knows. What Temporal recorded of it is not used again.
"""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from temporalio import workflow
from temporalio.common import RetryPolicy, VersioningBehavior
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from msgspec import UNSET

    from agent_resolver.core.blueprint.move import Course
    from agent_resolver.core.blueprint.prepared_blueprint import prepare
    from agent_resolver.core.blueprint.wave import (
        Ended,
        Known,
        StepCall,
        StepOutcome,
        Wave,
    )
    from agent_resolver.engine import temporal_message as message
    from agent_resolver.engine.errors import EditedRecord
    from agent_resolver.engine.outcome import Recorded
    from agent_resolver.engine.port import AwaitedThing
    from agent_resolver.engine.wave_loop import SegmentStart, follow_course

_TAKE_SECONDS: Final = 60
_START_SECONDS: Final = 10
"""How long an activity may wait in the queue of a process: that process is there, or is gone."""
_BEAT_SECONDS: Final = 5
_CALL_BEAT_SECONDS: Final = 10
"""After so much silence a process is taken for gone. The code of a tool may hold it up for some seconds."""
_CALL_HOURS: Final = 24
"""A bound for calls whose process lives. Their own time limits are far below."""
_PAUSE_SECONDS: Final = 1.0
"""How long a run rests after something went wrong that may pass."""
_TROUBLE_SECONDS: Final = 30.0
"""How long it rests where no process could even look at it."""
_MOST_BYTES: Final = 8_000_000
_FEW_TIMES: Final = RetryPolicy(
    initial_interval=timedelta(seconds=0.2),
    maximum_interval=timedelta(seconds=5),
    maximum_attempts=3,
)
_ONCE: Final = RetryPolicy(maximum_attempts=1)
"""A call is repeated by the rules of its step, and by the ledger: never by Temporal."""
_PATIENTLY: Final = RetryPolicy(
    initial_interval=timedelta(seconds=0.2),
    maximum_interval=timedelta(seconds=10),
    maximum_attempts=1_000,
)
"""Taking a run up is harmless. A process without room asks for a further attempt, which may reach another one."""


class _CannotAct(Exception):
    """No identity can act for the starter of the run."""

    def __init__(self, problem: str, hint: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.hint = hint


@workflow.defn(name=message.WORKFLOW, versioning_behavior=VersioningBehavior.PINNED)
class BlueprintWorkflow:
    """One run, from its start to its end."""

    @workflow.init
    def __init__(self, carried: bytes) -> None:
        """Nothing was done yet."""
        self._carried: message.Carried = message.decode(carried, message.Carried)
        self._is_woken = False
        self._driving: asyncio.Task[Any] | None = None
        """The segment that runs."""
        self._executor = ""
        """The process that has it."""
        self._is_lost = False

    @workflow.run
    async def run(self, carried: bytes) -> None:  # noqa: ARG002 - read in `__init__`, before the first signal
        """Take the run up again and again, until it has ended."""
        while True:
            # Cleared before the look: a signal during the look leads to another one.
            self._is_woken = False
            answer = await self._take()
            if isinstance(answer, message.Begun):
                answer = await self._drive(answer)
            if isinstance(answer, message.Gone):
                return
            if self._is_long():
                # Raises, so that this history ends here and the next one goes on from
                # `run`.
                self._continue()
            await self._rest(answer.seconds)

    @workflow.signal(name=message.WAKE)
    def wake(self, gone: str) -> None:
        """Look at the run again; a process of that name is gone, if one is named."""
        self._is_woken = True
        # A name other than that of the present process is old news, and must not end
        # the segment.
        if gone and gone == self._executor and self._driving is not None:
            self._is_lost = True
            self._driving.cancel()

    async def _take(self) -> message.TakeAnswer:
        try:
            content = await workflow.execute_activity(
                message.TAKE,
                message.encode(self._carried),
                result_type=bytes,
                start_to_close_timeout=timedelta(seconds=_TAKE_SECONDS),
                heartbeat_timeout=timedelta(seconds=_BEAT_SECONDS),
                retry_policy=_PATIENTLY,
            )
        except ActivityError:
            # The state cannot be read, or the program has a fault: neither may end what
            # keeps the run going.
            return message.Rest(seconds=_TROUBLE_SECONDS)
        answer: message.TakeAnswer = message.decode(content, message.TakeAnswer)
        return answer

    async def _drive(self, begun: message.Begun) -> message.RestAnswer:
        """Drive a segment to its end, as far as its process goes along; else let the run be taken up again."""
        effects = _Effects(begun, self._is_long)
        self._executor = begun.executor
        self._is_lost = False
        error = await self._attempt(effects.run())
        # A process that is gone, or is about to end, cannot be asked: then the lease
        # tells when the run is free.
        if (
            isinstance(error, ActivityError)
            and isinstance(error.cause, ApplicationError)
            and not self._is_lost
        ):
            await self._attempt(effects.ask(message.LEAVE, begun.segment, _ONCE))
        self._driving, self._executor = None, ""
        if error is None:
            return effects.rest
        # Where the process is known to be gone, the run can be taken up at once.
        return message.Rest(seconds=0.0 if self._is_lost else _PAUSE_SECONDS)

    async def _attempt(self, work: Coroutine[Any, Any, Any]) -> BaseException | None:
        """Do something in the process that has the run; why that failed, also if the process is gone."""
        self._driving = asyncio.create_task(work)
        try:
            await self._driving
        except ActivityError as error:
            return error
        except asyncio.CancelledError as error:
            # The workflow itself was cancelled, which must not be swallowed.
            if not self._is_lost:
                raise
            return error
        return None

    async def _rest(self, seconds: float | None) -> None:
        if self._is_woken:
            return
        timeout = None if seconds is None else timedelta(seconds=max(seconds, 0.0))
        try:
            await workflow.wait_condition(lambda: self._is_woken, timeout=timeout)
        except TimeoutError:
            return

    def _is_long(self) -> bool:
        """True if the history has grown so much that another one has to begin."""
        info = workflow.info()
        is_large = info.get_current_history_size() > _MOST_BYTES
        is_long = info.get_current_history_length() > self._carried.most_events
        return is_long or is_large or info.is_continue_as_new_suggested()

    def _continue(self) -> None:
        """Begin another history.

        It begins with a look at the run, which is all that a signal asks for. A signal that comes meanwhile lets
        Temporal ask again. So none is lost.
        """
        carried = self._carried
        next_one = message.Carried(
            run=carried.run,
            state=carried.state,
            most_events=carried.most_events,
            continued=carried.continued + 1,
        )
        workflow.continue_as_new(message.encode(next_one))


class _Effects:
    """Everything that a segment does: each is an activity in the process that has the run."""

    def __init__(self, begun: message.Begun, is_long: Any) -> None:  # noqa: ANN401 - a function without arguments
        self.begun = begun
        self.rest: message.RestAnswer = message.Gone()
        """How long the run waits, where the segment has ended with a wait."""
        self._prepared = prepare(begun.blueprint)
        self._known = dict(begun.known)
        self._is_process_ending = False
        self._is_long = is_long

    async def run(self) -> None:
        """Interpret the blueprint from where the segment begins.

        Raises:
            ActivityError: The process is gone, or could not do what it was asked for.
        """
        begun = self.begun
        outcomes = {path: self._known[path] for path in begun.outcomes}
        # The loop adds those of the first wave itself, also where all of it has ended.
        before = {
            path: outcome
            for path, outcome in self._known.items()
            if path not in outcomes
        }
        course = self._course(before, is_cancelled=begun.is_cancelled)
        move = course.next_move()
        first = "" if isinstance(move, Ended) else move.paths[0]
        # Both took the same course from the same outcomes: if they differ, one has a
        # fault, and nothing may follow.
        if first != begun.first:
            raise RuntimeError(
                "the workflow and the store disagree about the next wave"
            )
        start = SegmentStart(
            course=course,
            move=move,
            known=self._known,
            outcomes=outcomes,
            again=frozenset(begun.again),
            still=begun.still,
        )
        try:
            await follow_course(start, self)
        except _CannotAct as error:
            order = message.AsideOrder(
                segment=begun.segment, problem=error.problem, hint=error.hint
            )
            self.rest = message.decode(
                await self.ask(message.PUT_ASIDE, order), message.RestAnswer
            )

    async def make_calls(self, calls: Sequence[StepCall]) -> dict[str, Recorded]:
        """Make the calls of a wave, all together and in the order of their paths."""
        orders = [
            message.CallOrder(
                segment=self.begun.segment,
                call=call,
                wave=calls[0].path,
                count=len(calls),
            )
            for call in calls
        ]
        # Every call of a wave comes to its end before anything else happens, also if
        # one of them breaks.
        ended = await asyncio.gather(
            *(self._make_call(order) for order in orders), return_exceptions=True
        )
        found = {}
        for call, each in zip(calls, ended, strict=True):
            if isinstance(each, BaseException):
                raise each
            self._is_process_ending = self._is_process_ending or each.is_stopping
            if each.recorded is UNSET:
                raise _CannotAct(each.problem, each.hint)
            found[call.path] = each.recorded
        return found

    async def outcomes_of(
        self, recorded: Mapping[str, Recorded]
    ) -> dict[str, StepOutcome]:
        """The outcomes of the calls that have ended."""
        return {
            path: each.outcome
            for path, each in recorded.items()
            if each.outcome is not UNSET
        }

    async def see_cancel(self, waits: tuple[AwaitedThing, ...]) -> None:
        """Write down that the wish to cancel was seen."""
        await self.ask(
            message.SEE_CANCEL,
            message.CancelOrder(segment=self.begun.segment, waits=waits),
        )

    def cancelled_course(self) -> Course:
        """The course of the run from the moment on that the wish to cancel was seen."""
        return self._course(self._known, is_cancelled=True)

    async def wait(
        self,
        wave: Wave,
        outcomes: Mapping[str, StepOutcome],
        things: Sequence[AwaitedThing],
    ) -> None:
        """Write down what the run waits for."""
        order = message.WaitOrder(
            segment=self.begun.segment,
            waits=wave.waits,
            ended=tuple(sorted(outcomes)),
            things=tuple(things),
        )
        self.rest = message.decode(
            await self.ask(message.WAIT, order), message.RestAnswer
        )

    async def end(self, ended: Ended) -> bool:
        """Write down how the run ended."""
        order = message.EndOrder(segment=self.begun.segment, ended=ended)
        return bool(message.decode(await self.ask(message.END, order), bool))

    def is_stopping(self) -> bool:
        """True if the run is to be handed on: the process is about to end, or the history is long."""
        return self._is_process_ending or bool(self._is_long())

    async def ask(
        self,
        activity: str,
        order: object,
        retry: RetryPolicy = _FEW_TIMES,
    ) -> bytes:
        """Have the process write something down."""
        content: bytes = await workflow.execute_activity(
            activity,
            message.encode(order),
            result_type=bytes,
            task_queue=self.begun.queue,
            schedule_to_start_timeout=timedelta(seconds=_START_SECONDS),
            start_to_close_timeout=timedelta(seconds=_TAKE_SECONDS),
            heartbeat_timeout=timedelta(seconds=_BEAT_SECONDS),
            retry_policy=retry,
        )
        return content

    async def _make_call(self, order: message.CallOrder) -> message.CallAnswer:
        content = await workflow.execute_activity(
            message.CALL,
            message.encode(order),
            result_type=bytes,
            task_queue=self.begun.queue,
            schedule_to_start_timeout=timedelta(seconds=_START_SECONDS),
            start_to_close_timeout=timedelta(hours=_CALL_HOURS),
            heartbeat_timeout=timedelta(seconds=_CALL_BEAT_SECONDS),
            retry_policy=_ONCE,
        )
        answer: message.CallAnswer = message.decode(content, message.CallAnswer)
        if (answer.segment, answer.path) != (order.segment, order.call.path):
            # It was moved on the server. The workflow gets no further, and another one
            # begins from the state.
            raise EditedRecord
        return answer

    def _course(
        self, outcomes: Mapping[str, StepOutcome], *, is_cancelled: bool
    ) -> Course:
        begun = self.begun
        known = Known(
            input=begun.input,
            run=begun.facts,
            outcomes=outcomes,
            is_cancelled=is_cancelled,
        )
        return Course(self._prepared, known)
