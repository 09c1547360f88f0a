"""The port through which a run calls tools."""

from collections.abc import Awaitable, Mapping
from typing import Any, Protocol

from agent_resolver.core.masking import SecretFields
from agent_resolver.registry.port import Telemetry
from agent_resolver.registry.tool import CallContext
from agent_resolver.schema.outcome import Failed, Outcome, Pending


class CallPort(Protocol):
    """Calls tools: a `ToolRegistry`, or a record of what one did."""

    @property
    def is_recorded(self) -> bool:
        """True if calls are recorded, so that a call under a key is known again after a crash."""
        ...

    @property
    def telemetry(self) -> Telemetry | None:
        """The spans, metrics and logs of calls, if there are any."""
        ...

    def secret_arguments_of(self, tool_id: str) -> SecretFields:
        """The fields of a tool's arguments that nothing may show."""
        ...

    def now(self) -> str:
        """The time by which the tokens of callers expire."""
        ...

    def start_call(
        self, tool_id: str, arguments: Mapping[str, Any], context: CallContext
    ) -> Awaitable[Outcome]:
        """Start a call, and return what waits for its outcome."""
        ...

    async def call(
        self, tool_id: str, arguments: Mapping[str, Any], context: CallContext
    ) -> Outcome:
        """Call a tool."""
        ...

    async def is_under_way(self, tool_id: str, context: CallContext) -> bool:
        """True if a call with this key has started in any process that is there, and has not ended."""
        ...

    async def clarify(
        self,
        tool_id: str,
        arguments: Mapping[str, Any],
        question: str,
        context: CallContext,
    ) -> str | Pending | Failed:
        """Ask a person about a call that cannot be made as it is."""
        ...

    async def deny(self, tool_id: str, reason: str, context: CallContext) -> Failed:
        """Record that a call is not made, and why."""
        ...

    def end_run(self) -> None:
        """Offer nothing any longer."""
        ...
