"""An agent as a tool of another agent."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from msgspec import Struct

from agent_resolver.registry.errors import ToolFailure, WaitsFor
from agent_resolver.registry.tool import CallContext
from agent_resolver.runtime.loop.calling import INTERRUPTED
from agent_resolver.runtime.loop.journaling import LEASE_LOST, STATE_UNAVAILABLE
from agent_resolver.runtime.run import RunResult
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.outcome import FailureCode, Pending

_GOES_ON: Final = {INTERRUPTED, LEASE_LOST, STATE_UNAVAILABLE}
"""Codes of an end after which a run can be taken up again from its journal."""

StartDelegate = Callable[[str, CallContext], Awaitable[RunResult]]
"""Runs an agent with a prompt, under the limits and the budget of the run that calls it."""


class DelegateTool(Struct, frozen=True):
    """Runs another agent, and gives back its last text."""

    descriptor: Descriptor
    agent_id: str
    start: StartDelegate

    async def invoke(self, arguments: dict[str, Any], context: CallContext) -> Any:  # noqa: ANN401 - a JSON value
        """Run the agent with the prompt.

        Raises:
            ToolFailure: The agent did not come to its natural end.
            WaitsFor: It waits for a person, and so does this call.
        """
        result = await self.start(arguments["prompt"], context)
        end = result.termination
        if end.is_planned:
            return result.text
        # The call waits for the question of the delegate: to answer that lets both go
        # on.
        if result.pending is not None:
            raise WaitsFor(result.pending)
        if end.code in _GOES_ON:
            raise WaitsFor(_until_resumed(result))
        words = f": {end.message}" if end.message else ""
        remedy = "ask for something else, or go on without it"
        raise ToolFailure(
            FailureCode.TOOL_ERROR,
            f"agent {self.agent_id} ended as {end.reason}{words}",
            remedy,
        )


def _until_resumed(result: RunResult) -> Pending:
    """A delegate that was interrupted has not failed: its call goes on when the run that made it does."""
    return Pending(
        trace_id=result.state.trace_id,
        id=result.run,
        type="RUN",
        code="RUN_INTERRUPTED",
        message=f"The run of agent {result.agent_id} was interrupted",
        remedy="resume the run that delegates to it",
    )
