"""What an agent is made of now."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Literal

from msgspec import Struct

from agent_resolver.core.constraint import RunLimits
from agent_resolver.registry.tool import Tool
from agent_resolver.runtime.default_plugin import CompactionConfig
from agent_resolver.runtime.executor import LlmExecutor
from agent_resolver.runtime.model import Modalities, ModelPool, ModelSpec
from agent_resolver.runtime.permission import Permissions
from agent_resolver.runtime.plugin import ExecutionEnv
from agent_resolver.runtime.registry_set import HeldLock, RegistrySet
from agent_resolver.runtime.seat import Seat
from agent_resolver.runtime.spec import AgentSpec, ContextPolicy, RemoteEndpoint
from agent_resolver.runtime.tool_contract import OfferedTool
from agent_resolver.schema.descriptor import Descriptor

ToolSource = Literal["global", "delegate", "plugin", "server"]


class WarningCode(StrEnum):
    """The kind of a warning, stable for machines."""

    UNMATCHED_PATTERN = "UNMATCHED_PATTERN"
    PERMISSION_SHAPED_ENTRY = "PERMISSION_SHAPED_ENTRY"
    ORPHAN_PERMISSION_RULE = "ORPHAN_PERMISSION_RULE"
    UNCLAIMED_SECTION = "UNCLAIMED_SECTION"
    DELEGATES_IGNORED = "DELEGATES_IGNORED"
    LITERAL_STAR = "LITERAL_STAR"
    REMOTE_NOT_BOUND = "REMOTE_NOT_BOUND"
    UNKNOWN_TOOL = "UNKNOWN_TOOL"
    MODEL_NAME_MAPPED = "MODEL_NAME_MAPPED"
    MODEL_IGNORED = "MODEL_IGNORED"


class PlanWarning(Struct, frozen=True):
    """Something that is probably not meant like this; it never keeps an agent from its plan."""

    code: WarningCode
    subject: str
    message: str


class PlannedTool(Struct, frozen=True, gc=False):
    """A tool that the agent may call."""

    id: str
    source: ToolSource
    origin: str
    """The plugin, the server or the delegate that it comes from."""
    descriptor: Descriptor | None
    """None for a tool of a server that is not connected yet."""
    tool: Tool | None = None
    scopes: tuple[str, ...] = ()
    """The scopes that open it, for a tool of a server."""
    offered: OfferedTool | None = None
    """A global tool as the snapshot keeps it."""


class AbsentTool(Struct, frozen=True, gc=False):
    """A tool that is there and that the agent may not call, and why."""

    id: str
    source: ToolSource
    origin: str
    code: str
    reason: str


class Summarizer(Struct, frozen=True):
    """Sums up the beginning of conversations that grow too long."""

    config: CompactionConfig
    model: ModelSpec
    """The model that the section names, else that of the agent."""
    executor: LlmExecutor


class ResolvedAgent(Struct, frozen=True, kw_only=True):
    """An agent that runs here."""

    spec: AgentSpec
    limits: RunLimits
    """Its own limits and those of its callers; a run hands them on to every agent that it delegates to."""
    model: ModelSpec
    """What it may count on; of a pool, what every member can do."""
    pool: ModelPool | None
    seats: tuple[Seat, ...]
    """Its model; of a pool every member, in the order in which they are tried."""
    executor: LlmExecutor
    modality_guard: Modalities | None
    """What its requests and answers may hold, where that is known for sure."""
    context_policy: ContextPolicy | None
    """As the model allows it."""
    summarizer: Summarizer | None
    """None where the policy has no threshold, or nothing shall be summed up."""
    env: ExecutionEnv
    permissions: Permissions | None
    """What happens when a tool is about to be called; None where the spec says nothing of it."""
    tools: Mapping[str, PlannedTool]
    hidden: frozenset[str]
    """The tools that its permission rules deny whatever their arguments are: no model is shown them."""
    lock: HeldLock | None
    """The lock that governs it; None for an agent that needs none."""
    absent: tuple[AbsentTool, ...]
    unconnected: tuple[str, ...]
    """Locked servers whose tools are known once they are connected."""
    warnings: tuple[PlanWarning, ...]


class ResolvedBackendAgent(Struct, frozen=True, kw_only=True):
    """An agent that a backend runs."""

    spec: AgentSpec
    limits: RunLimits
    endpoint: RemoteEndpoint
    backend: Any
    """What its backend factory built to run it; None in a dry run."""
    warnings: tuple[PlanWarning, ...] = ()


class ResolvedRunPlan(Struct, frozen=True):
    """What a run starts from; it keeps the snapshot that it was made of, for those it delegates to."""

    agent_id: str
    snapshot: RegistrySet
    execution: ResolvedAgent | ResolvedBackendAgent
    callers: RunLimits = RunLimits()
    """The limits of the runs that delegate to it."""

    @property
    def version(self) -> int:
        """The version of the snapshot."""
        return self.snapshot.version
