from agent_resolver._extra import MissingExtra as MissingExtra
from agent_resolver._version import __version__ as __version__
from agent_resolver.capability.errors import UnsafeCapability as UnsafeCapability
from agent_resolver.capability.function import (
    Capability as Capability,
    capability as capability,
)
from agent_resolver.capability.plain_function import tool_of as tool_of
from agent_resolver.catalog.catalog import Catalog as Catalog
from agent_resolver.catalog.entry import Definition as Definition
from agent_resolver.catalog.errors import UnknownAgent as UnknownAgent
from agent_resolver.catalog.listing import Listed as Listed
from agent_resolver.catalog.query import Query as Query
from agent_resolver.core.explanation_writer import explanation_json as explanation_json
from agent_resolver.core.resolution import (
    EPOCH as EPOCH,
    Resolution as Resolution,
    explain as explain,
    resolve as resolve,
)
from agent_resolver.core.server import servers_of as servers_of
from agent_resolver.project.errors import (
    LockRefused as LockRefused,
    UntrustedFolder as UntrustedFolder,
)
from agent_resolver.project.project import (
    Project as Project,
    ProjectInbox as ProjectInbox,
    ProjectTools as ProjectTools,
)
from agent_resolver.registry.errors import (
    NeedsAction as NeedsAction,
    ToolFailure as ToolFailure,
)
from agent_resolver.registry.manifest import manifest_of as manifest_of
from agent_resolver.registry.registry import (
    RefusedTool as RefusedTool,
    ToolRegistry as ToolRegistry,
)
from agent_resolver.registry.tool import CallContext as CallContext
from agent_resolver.runtime.agent_runtime import AgentRuntime as AgentRuntime
from agent_resolver.runtime.budget import RunBudget as RunBudget
from agent_resolver.runtime.builder import AgentRuntimeBuilder as AgentRuntimeBuilder
from agent_resolver.runtime.errors import RunRefused as RunRefused
from agent_resolver.runtime.event import RunEvent as RunEvent, Sink as Sink
from agent_resolver.runtime.executor import (
    InferenceFailure as InferenceFailure,
    LlmExecutor as LlmExecutor,
)
from agent_resolver.runtime.inference import (
    ChatAnswer as ChatAnswer,
    ChatRequest as ChatRequest,
)
from agent_resolver.runtime.message import (
    ToolCall as ToolCall,
    user_message as user_message,
)
from agent_resolver.runtime.model import ModelSpec as ModelSpec
from agent_resolver.runtime.plan import (
    ResolvedAgent as ResolvedAgent,
    ResolvedBackendAgent as ResolvedBackendAgent,
    ResolvedRunPlan as ResolvedRunPlan,
)
from agent_resolver.runtime.planning import resolve_local as resolve_local
from agent_resolver.runtime.provider.local import LocalExecutor as LocalExecutor
from agent_resolver.runtime.provider.scripted import (
    ScriptedExecutor as ScriptedExecutor,
)
from agent_resolver.runtime.registry_set import Provider as Provider
from agent_resolver.runtime.run import (
    RunRequest as RunRequest,
    RunResult as RunResult,
    RunState as RunState,
    Termination as Termination,
)
from agent_resolver.runtime.spec import AgentSpec as AgentSpec
from agent_resolver.schema.agent_file import (
    AgentFile as AgentFile,
    parse_agent_file as parse_agent_file,
)
from agent_resolver.schema.caller import Caller as Caller, local_caller as local_caller
from agent_resolver.schema.descriptor import Descriptor as Descriptor
from agent_resolver.schema.errors import (
    InvalidAgentFile as InvalidAgentFile,
    InvalidIndex as InvalidIndex,
    InvalidInput as InvalidInput,
    InvalidLockfile as InvalidLockfile,
    ResolverError as ResolverError,
)
from agent_resolver.schema.explanation import (
    Explanation as Explanation,
    Rejection as Rejection,
    RejectionCode as RejectionCode,
)
from agent_resolver.schema.index import Index as Index, Server as Server
from agent_resolver.schema.index_reader import parse_index as parse_index
from agent_resolver.schema.issue import Issue as Issue
from agent_resolver.schema.lockfile import (
    LockedServer as LockedServer,
    Lockfile as Lockfile,
    parse_lockfile as parse_lockfile,
    to_json as to_json,
)
from agent_resolver.schema.manifest import Manifest as Manifest
from agent_resolver.schema.outcome import (
    Done as Done,
    Failed as Failed,
    FailureCode as FailureCode,
    Outcome as Outcome,
    Pending as Pending,
)
from agent_resolver.schema.pending import PendingAction as PendingAction
from agent_resolver.server.serving import Ready as Ready, serve as serve
