"""What the registry, the runtime and telemetry know of a tool: its schemas, its rules and its labels."""

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from agent_resolver.schema.classification import Classification
from agent_resolver.schema.pending import Priority


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
