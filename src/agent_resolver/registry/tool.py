"""What the registry knows of a tool, whatever kind it is."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, Protocol

from msgspec import UNSET, Struct, UnsetType

from agent_resolver.registry.errors import NeedsAction
from agent_resolver.registry.secret import Secret
from agent_resolver.schema.caller import Caller
from agent_resolver.schema.classification import Classification
from agent_resolver.schema.pending import Priority

Progress = Callable[[float, float | None, str | None], Awaitable[None]]
"""Tells whoever waits how much is done, of how much in all, and what is being done."""


class Rules(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What the pipeline asks of every call to a tool."""

    required_scopes: tuple[str, ...] = ()
    """What the caller must hold."""
    classification: Classification = "INTERNAL"
    """What the caller must be cleared for."""
    needs_approval: bool = False
    """Whether somebody must approve each call."""
    approver_role: str = "approver"
    priority: Priority = "P4"
    """How soon a question for approval expires."""
    is_idempotent: bool = False
    """Whether doing it twice under one key is doing it once."""
    secrets: tuple[str, ...] = ()
    """The secrets that it is given, by name."""
    is_isolated: bool = False
    """Whether each call runs in a process of its own."""

    @property
    def takes_approval(self) -> bool:
        """Whether each call waits for somebody to approve it: always where the data is RESTRICTED."""
        return self.needs_approval or self.classification == "RESTRICTED"


class Labels(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What people find a tool by."""

    kind: Literal["CAPABILITY", "BLUEPRINT", "TOOL"] = "TOOL"
    domain: str = ""
    subdomain: str = ""
    tags: tuple[str, ...] = ()
    """The domain first."""
    maintainer: str = ""
    allow_outbound: bool = False
    """Whether it may reach other machines."""
    cost_factor: float | None = None
    examples: tuple[Any, ...] = ()
    """Arguments that a caller could give."""


class Descriptor(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a tool is called, what it takes and where it comes from."""

    id: str
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None = None
    source: str
    """Where the tool comes from, such as `server acme-reporting@3.0.0` or `module tickets`."""
    scopes: tuple[str, ...] = ()
    """The locked scopes that open it."""
    rate_limit_per_minute: float | None = None
    """How often it may be called; a server's tools all together."""
    timeout_seconds: float = 60.0
    hints: dict[str, bool] | UnsetType = UNSET
    """What it promises about its effects, in the words of MCP's tool annotations; absent where nothing is promised."""
    rules: Rules = Rules()
    labels: Labels = Labels()


async def _no_progress(done: float, total: float | None = None, message: str | None = None) -> None:
    """Nobody waits for it."""


class CallContext(Struct, frozen=True, kw_only=True):
    """Who calls, in which run, under which trace; and what the tool is given besides its arguments."""

    run: str
    trace_id: str
    """32 hexadecimal digits: a trace of W3C's trace context."""
    caller: Caller
    key: str | None = None
    """What makes a call the same call: under one key it is done once, and its result is told again."""
    parent: str | None = None
    """The `traceparent` of whoever calls."""
    is_compensation: bool = False
    """Whether the call takes back what an earlier one did."""
    progress: Progress = _no_progress
    secrets: Mapping[str, Secret] = {}
    """The secrets that the tool declared, and no others."""
    answers: Mapping[str, str] = {}
    """What people answered to the tool's questions."""

    def ask(self, question: str) -> str:
        """What a person answers to a question, which must be the same in every attempt at the call.

        Raises:
            NeedsAction: Nobody has answered yet: the call waits, and starts from its beginning once somebody has.
        """
        if question not in self.answers:
            raise NeedsAction("CLARIFICATION", "", question)
        return self.answers[question]


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
