"""Runs each stage: under the eyes of telemetry, and only while the task is not cancelled."""

from collections.abc import Awaitable, Callable

from msgspec import structs

from agent_resolver.reasoner.errors import TooLarge
from agent_resolver.reasoner.stage_telemetry import StageTelemetry
from agent_resolver.reasoner.task_context import StageFailed, TaskContext
from agent_resolver.reasoner.update import Update, failed
from agent_resolver.schema.golden_path import InvalidState, TaskState, checked
from agent_resolver.telemetry.ending import ReasoningEnd

RunStage = Callable[[TaskState, TaskContext], Awaitable[Update]]


class TaskCancelled(Exception):
    """A person cancelled the task while a process worked on it: no further stage begins."""


class TaskHandedOver(Exception):
    """The process is to end: another one takes the task up, and begins with the next stage."""


class StageWatch:
    """Runs the stages of one task."""

    def __init__(
        self,
        is_cancelled: Callable[[], bool] = lambda: False,
        telemetry: StageTelemetry | None = None,
        is_stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        """A watch.

        Args:
            is_cancelled: True once no further stage shall begin.
            telemetry: Is told of each stage: names, codes and numbers, and never of a request or an answer.
            is_stopping: True once no further stage shall begin in this process.
        """
        self._is_cancelled = is_cancelled
        self._is_stopping = is_stopping
        self._telemetry = telemetry

    async def run(
        self,
        name: str,
        state: TaskState,
        context: TaskContext,
        run_stage: RunStage,
    ) -> Update:
        """Run a stage. What it cannot go on with ends the task, in a state that says why.

        Raises:
            TaskCancelled: No further stage shall begin.
            TaskHandedOver: None shall begin in this process.
        """
        # Cancellation comes first: a cancelled task is not handed on to another
        # process.
        if self._is_cancelled():
            raise TaskCancelled
        if self._is_stopping():
            raise TaskHandedOver
        if self._telemetry is None:
            return await _run(state, context, run_stage)
        origin = structs.replace(context.call_context(state), lease=None)
        span = self._telemetry.begin_stage(name, state.classification, origin)
        # Stays if the stage raises or is cancelled: every span that begins has to end.
        ending = ReasoningEnd(error="_OTHER")
        try:
            update = await _run(state, context, run_stage)
            ending = _ending_of(update)
        finally:
            self._telemetry.end_stage(span, ending)
        return update


async def _run(state: TaskState, context: TaskContext, run_stage: RunStage) -> Update:
    """Run a stage. It ends the task if it fails, or if what it makes is too large or breaks the state's schema."""
    try:
        update = await run_stage(state, context)
        # Checked here and not only when it is written: a plugin's planner can return
        # texts of any length.
        checked(update.state)
    except StageFailed as error:
        return failed(state, state.stage, error.code, str(error))
    except TooLarge as error:
        return failed(state, state.stage, "TOO_LARGE", str(error))
    except InvalidState as error:
        return failed(state, state.stage, "INVALID_STATE", str(error))
    return update


def _ending_of(update: Update) -> ReasoningEnd:
    """The end of a stage for telemetry, in codes alone."""
    state = update.state
    if state.stage == "failed":
        return ReasoningEnd(error=state.reason.partition(":")[0])
    waits = state.unresolved or state.halted or state.waits_for_run
    return ReasoningEnd(outcome="WAITS" if waits else "")
