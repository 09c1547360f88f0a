"""What the registry knows of a tool, whatever kind it is."""

from typing import Any, Protocol

from msgspec import UNSET, Struct, UnsetType


class Descriptor(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a tool is called, what it takes and where it comes from."""

    id: str
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None = None
    source: str
    """Where the tool comes from, such as `server acme-reporting@3.0.0`."""
    scopes: tuple[str, ...] = ()
    """The locked scopes that open it."""
    rate_limit_per_minute: float | None = None
    """How often all tools of its source together may be called."""
    timeout_seconds: float = 60.0
    hints: dict[str, bool] | UnsetType = UNSET
    """What it promises about its effects, in the words of MCP's tool annotations; absent where nothing is promised."""


class CallContext(Struct, frozen=True, kw_only=True):
    """Who calls, in which run, under which trace."""

    run: str
    trace_id: str
    caller: str


class Tool(Protocol):
    """Anything that can be called: a capability, a blueprint, a tool of a locked server."""

    @property
    def descriptor(self) -> Descriptor:
        """What it is."""
        ...

    async def invoke(self, arguments: dict[str, Any], context: CallContext) -> Any:  # noqa: ANN401 - a JSON value
        """Do it. The arguments follow the schema.

        Raises:
            ToolFailure: It did not work, in a way that is foreseen.
            NeedsAction: It cannot start before a person has done something.
        """
        ...
