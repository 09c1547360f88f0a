"""The ports of the registry: what it asks of the world around it."""

from typing import Any, Protocol

from agent_resolver.registry.tool import CallContext
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.outcome import Outcome


class Seal(Protocol):
    """Closes what only the holder of the key may read in the state."""

    @property
    def cipher(self) -> str:
        """The name that every value begins with, followed by a colon: of the cipher, and of the key."""
        ...

    def close(self, content: bytes, purpose: str) -> bytes:
        """The content, readable only with the key and for this purpose."""
        ...

    def open(self, sealed: bytes, purpose: str) -> bytes:
        """The content again.

        Raises:
            ValueError: It was changed, or closed with another key or for another purpose.
        """
        ...


class Secrets(Protocol):
    """Knows where secrets are."""

    async def get(self, name: str) -> str | None:
        """The value of a secret, or None while it is not there.

        Raises:
            ToolFailure: Where it should be cannot be asked.
        """
        ...

    def place(self, name: str) -> str:
        """The place where a secret is looked for, in words for a person."""
        ...


class Telemetry(Protocol):
    """Lets others watch calls. It never sees arguments or results."""

    def begin(
        self,
        tool_id: str,
        descriptor: Descriptor | None,
        context: CallContext,
    ) -> Any:  # noqa: ANN401
        """A call begins; what it returns is given back when the call ends."""
        ...

    def end(self, span: Any, outcome: Outcome | None) -> None:  # noqa: ANN401
        """The call ends; without an outcome where it could not be recorded."""
        ...

    def traceparent(self, span: Any) -> str:  # noqa: ANN401
        """The call's own place in its trace, in W3C's words."""
        ...


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> str:
        """The time as ISO 8601 in UTC with milliseconds."""
        ...
