from agent_resolver.runtime.a2a import A2aFactory as A2aFactory
from agent_resolver.runtime.agent_runtime import AgentRuntime as AgentRuntime
from agent_resolver.runtime.backend import (
    BackendCapabilities as BackendCapabilities,
    ExecutionBackend as ExecutionBackend,
)
from agent_resolver.runtime.breaker import Breaker as Breaker, Breakers as Breakers
from agent_resolver.runtime.budget import RunBudget as RunBudget
from agent_resolver.runtime.builder import AgentRuntimeBuilder as AgentRuntimeBuilder
from agent_resolver.runtime.conformance import (
    EXECUTOR_CHECKS as EXECUTOR_CHECKS,
    OpenExecutor as OpenExecutor,
    Script as Script,
)
from agent_resolver.runtime.context_window import (
    Preview as Preview,
    estimate_tokens as estimate_tokens,
    fit_request as fit_request,
)
from agent_resolver.runtime.dangling_reference import (
    Dangling as Dangling,
    DanglingCode as DanglingCode,
    dangling as dangling,
)
from agent_resolver.runtime.default_plugin import (
    DEFAULT_COMPACTION as DEFAULT_COMPACTION,
    DEFAULT_PLUGINS as DEFAULT_PLUGINS,
    ContextTransformConfig as ContextTransformConfig,
    DefaultPlugin as DefaultPlugin,
    PermissionConfig as PermissionConfig,
    PermissionRule as PermissionRule,
    compaction as compaction,
    context_transform as context_transform,
    knowledge_cutoff as knowledge_cutoff,
    loop_action_handlers as loop_action_handlers,
    max_rounds as max_rounds,
    stop_conditions as stop_conditions,
)
from agent_resolver.runtime.errors import (
    AgentNotFound as AgentNotFound,
    BackendUnavailable as BackendUnavailable,
    BuildError as BuildError,
    CapabilityMismatch as CapabilityMismatch,
    ConfigValidation as ConfigValidation,
    ConstraintBroken as ConstraintBroken,
    EnvBuild as EnvBuild,
    InvalidPlugin as InvalidPlugin,
    InvalidPluginConfig as InvalidPluginConfig,
    InvalidRemoteEndpointConfig as InvalidRemoteEndpointConfig,
    InvalidSpec as InvalidSpec,
    LockMissing as LockMissing,
    LockStale as LockStale,
    ModelNotFound as ModelNotFound,
    PluginNotFound as PluginNotFound,
    ProviderNotFound as ProviderNotFound,
    RegistryConflict as RegistryConflict,
    ResolveError as ResolveError,
    RunRefused as RunRefused,
    SnapshotNotHeld as SnapshotNotHeld,
    StateFailure as StateFailure,
    UnsupportedRemoteBackend as UnsupportedRemoteBackend,
    UnusableTool as UnusableTool,
    ValidationFailed as ValidationFailed,
)
from agent_resolver.runtime.event import (
    AnswerReceived as AnswerReceived,
    AnswerRestarted as AnswerRestarted,
    BudgetNear as BudgetNear,
    CompactionFailed as CompactionFailed,
    ContextCompacted as ContextCompacted,
    HandlerFailed as HandlerFailed,
    InferenceFailed as InferenceFailed,
    MentionUnresolved as MentionUnresolved,
    PlanWarned as PlanWarned,
    RoundRestarted as RoundRestarted,
    RoundStarted as RoundStarted,
    RunEnded as RunEnded,
    RunEvent as RunEvent,
    RunStarted as RunStarted,
    Sink as Sink,
    TextReceived as TextReceived,
    ToolEnded as ToolEnded,
    ToolProgressed as ToolProgressed,
    ToolStarted as ToolStarted,
)
from agent_resolver.runtime.executor import (
    FailureKind as FailureKind,
    InferenceFailure as InferenceFailure,
    LlmExecutor as LlmExecutor,
    close_stream as close_stream,
)
from agent_resolver.runtime.file_spec import spec_of as spec_of
from agent_resolver.runtime.hook import (
    Block as Block,
    Command as Command,
    Effect as Effect,
    End as End,
    Phase as Phase,
    PhaseContext as PhaseContext,
    PlannedCall as PlannedCall,
    RunFacts as RunFacts,
    ScheduledAction as ScheduledAction,
    SetResult as SetResult,
    Suspend as Suspend,
)
from agent_resolver.runtime.inference import (
    CallDelta as CallDelta,
    ChatAnswer as ChatAnswer,
    ChatRequest as ChatRequest,
    InferenceOverride as InferenceOverride,
    Piece as Piece,
    Restarted as Restarted,
    TextDelta as TextDelta,
    ToolOffer as ToolOffer,
    Usage as Usage,
)
from agent_resolver.runtime.journal.difference import Difference as Difference
from agent_resolver.runtime.journal.entry import (
    MAX_ENTRY_BYTES as MAX_ENTRY_BYTES,
    Beginning as Beginning,
    Entry as Entry,
    Question as Question,
    Reply as Reply,
    decode_entry as decode_entry,
)
from agent_resolver.runtime.journal.fold import (
    DamagedJournal as DamagedJournal,
    Folded as Folded,
    fold_run as fold_run,
    read_entries as read_entries,
)
from agent_resolver.runtime.journal.journal import (
    Journal as Journal,
    RunStart as RunStart,
)
from agent_resolver.runtime.journal.recording import (
    Recording as Recording,
    read_recording as read_recording,
)
from agent_resolver.runtime.journal.replay import (
    Replay as Replay,
    replay_run as replay_run,
)
from agent_resolver.runtime.known_model import (
    KnownModels as KnownModels,
    known_models as known_models,
)
from agent_resolver.runtime.loop_action import LOOP_ACTIONS as LOOP_ACTIONS
from agent_resolver.runtime.mention import (
    Definitions as Definitions,
    mentions_due as mentions_due,
)
from agent_resolver.runtime.message import (
    MediaBlock as MediaBlock,
    Message as Message,
    TextBlock as TextBlock,
    ToolCall as ToolCall,
    assistant_message as assistant_message,
    system_message as system_message,
    tool_message as tool_message,
    user_message as user_message,
)
from agent_resolver.runtime.model import (
    DataFacts as DataFacts,
    Modalities as Modalities,
    ModelPool as ModelPool,
    ModelSpec as ModelSpec,
    PoolMember as PoolMember,
    Routing as Routing,
    Switch as Switch,
    fnv1a as fnv1a,
    home_of as home_of,
    in_turn as in_turn,
    pooled as pooled,
    share_of as share_of,
)
from agent_resolver.runtime.patience import Patience as Patience
from agent_resolver.runtime.permission import (
    ParsedRule as ParsedRule,
    PermissionGate as PermissionGate,
    Permissions as Permissions,
    parse_permissions as parse_permissions,
    permission_gate as permission_gate,
)
from agent_resolver.runtime.plan import (
    ResolvedAgent as ResolvedAgent,
    ResolvedBackendAgent as ResolvedBackendAgent,
    ResolvedRunPlan as ResolvedRunPlan,
    Summarizer as Summarizer,
)
from agent_resolver.runtime.planning import (
    resolve as resolve,
    resolve_delegate as resolve_delegate,
    resolve_local as resolve_local,
)
from agent_resolver.runtime.plugin import (
    PHASES as PHASES,
    ConfigSchema as ConfigSchema,
    ExecutionEnv as ExecutionEnv,
    Plugin as Plugin,
    Registrar as Registrar,
    TaggedHook as TaggedHook,
    TaggedTransform as TaggedTransform,
)
from agent_resolver.runtime.plugin_conformance import (
    PLUGIN_CHECKS as PLUGIN_CHECKS,
    MakePlugin as MakePlugin,
)
from agent_resolver.runtime.plugin_contract import check_plugin as check_plugin
from agent_resolver.runtime.provider.langchain import (
    LangChainExecutor as LangChainExecutor,
)
from agent_resolver.runtime.provider.local import LocalExecutor as LocalExecutor
from agent_resolver.runtime.provider.openai import OpenAiExecutor as OpenAiExecutor
from agent_resolver.runtime.provider.scripted import (
    ResumingScript as ResumingScript,
    ScriptedExecutor as ScriptedExecutor,
    read_script as read_script,
)
from agent_resolver.runtime.registry_set import (
    CompositeAgents as CompositeAgents,
    HeldLock as HeldLock,
    Lock as Lock,
    MapAgents as MapAgents,
    MissingLock as MissingLock,
    ModelFacts as ModelFacts,
    Provider as Provider,
    RegistrySet as RegistrySet,
    ServerTools as ServerTools,
    StaleLock as StaleLock,
)
from agent_resolver.runtime.retry import (
    RetryConfig as RetryConfig,
    RetryingExecutor as RetryingExecutor,
)
from agent_resolver.runtime.run import (
    TOKEN_EXPIRED as TOKEN_EXPIRED,
    ResumeRequest as ResumeRequest,
    RunRequest as RunRequest,
    RunResult as RunResult,
    RunState as RunState,
    Spent as Spent,
    Termination as Termination,
    spent as spent,
)
from agent_resolver.runtime.run_export import export_run as export_run
from agent_resolver.runtime.run_history import (
    RunHistory as RunHistory,
    read_history as read_history,
)
from agent_resolver.runtime.run_tools import (
    OpenedTools as OpenedTools,
    RunTools as RunTools,
)
from agent_resolver.runtime.seat import PooledExecutor as PooledExecutor, Seat as Seat
from agent_resolver.runtime.spec import (
    DEFAULT_MODEL as DEFAULT_MODEL,
    AgentSpec as AgentSpec,
    BackendSpec as BackendSpec,
    Budget as Budget,
    ContextPolicy as ContextPolicy,
    EndpointAuth as EndpointAuth,
    RemoteEndpoint as RemoteEndpoint,
    StopCondition as StopCondition,
)
from agent_resolver.runtime.spec_reader import (
    check_spec as check_spec,
    check_value as check_value,
    parse_spec as parse_spec,
)
from agent_resolver.runtime.state_key import KeyRegistration as KeyRegistration
from agent_resolver.runtime.stop_rule import StopRules as StopRules
from agent_resolver.runtime.summary import (
    Summary as Summary,
    safe_frontier as safe_frontier,
    shown_messages as shown_messages,
    summary_message as summary_message,
    write_transcript as write_transcript,
)
