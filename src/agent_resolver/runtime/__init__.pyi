from agent_resolver.runtime.a2a import A2aFactory as A2aFactory
from agent_resolver.runtime.builder import AgentRuntime as AgentRuntime, AgentRuntimeBuilder as AgentRuntimeBuilder
from agent_resolver.runtime.dangling_reference import (
    Dangling as Dangling,
    DanglingCode as DanglingCode,
    dangling as dangling,
)
from agent_resolver.runtime.default_plugin import (
    ACTIONS as ACTIONS,
    DEFAULT_COMPACTION as DEFAULT_COMPACTION,
    DEFAULT_PLUGINS as DEFAULT_PLUGINS,
    ContextTransformConfig as ContextTransformConfig,
    DefaultPlugin as DefaultPlugin,
    Setting as Setting,
    compaction as compaction,
    context_transform as context_transform,
    knowledge_cutoff as knowledge_cutoff,
    loop_action_handlers as loop_action_handlers,
    max_rounds as max_rounds,
    stop_conditions as stop_conditions,
)
from agent_resolver.runtime.errors import (
    AgentNotFound as AgentNotFound,
    BuildError as BuildError,
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
    SnapshotNotHeld as SnapshotNotHeld,
    UnsupportedRemoteBackend as UnsupportedRemoteBackend,
    UnusableTool as UnusableTool,
    ValidationFailed as ValidationFailed,
)
from agent_resolver.runtime.executor import (
    FailureKind as FailureKind,
    InferenceFailure as InferenceFailure,
    RetryConfig as RetryConfig,
    RetryingExecutor as RetryingExecutor,
)
from agent_resolver.runtime.file_spec import spec_of as spec_of
from agent_resolver.runtime.known_model import KnownModels as KnownModels, known_models as known_models
from agent_resolver.runtime.lookup import PooledExecutor as PooledExecutor
from agent_resolver.runtime.model import (
    DataFacts as DataFacts,
    Modalities as Modalities,
    ModelPool as ModelPool,
    ModelSpec as ModelSpec,
    PoolMember as PoolMember,
    Routing as Routing,
    fnv1a as fnv1a,
    home_of as home_of,
    in_turn as in_turn,
    pooled as pooled,
    share_of as share_of,
)
from agent_resolver.runtime.permission import ParsedRule as ParsedRule, Permissions as Permissions
from agent_resolver.runtime.plan import (
    ResolvedAgent as ResolvedAgent,
    ResolvedBackendAgent as ResolvedBackendAgent,
    ResolvedRunPlan as ResolvedRunPlan,
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
    Phase as Phase,
    Plugin as Plugin,
    Registrar as Registrar,
)
from agent_resolver.runtime.plugin_contract import check_plugin as check_plugin
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
