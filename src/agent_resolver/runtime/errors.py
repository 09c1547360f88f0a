"""Errors on the way from an agent id to a plan.

ResolverError
├── ResolveError                         an agent has no plan
│   ├── InvalidSpec                      its spec does not follow its schema; holds every issue
│   ├── AgentNotFound, ModelNotFound, ProviderNotFound, PluginNotFound
│   ├── AmbiguousModelReference          a model and a pool have one id
│   ├── InvalidPluginConfig              a section does not follow the schema of its plugin
│   ├── UnsupportedRemoteBackend         nothing here can reach a remote agent of that kind
│   ├── InvalidRemoteEndpointConfig      where a remote agent is said to be, it cannot be
│   ├── RemoteAgentNotDirectlyRunnable   only a backend can run it
│   ├── ToolIdConflict                   two sources have a tool of one id
│   ├── UnusableTool                     a tool has an id that cannot be one
│   ├── EnvBuild                         what plugins register does not fit together
│   ├── LockMissing, LockStale           nothing with `requires` runs without a lock that holds
│   ├── ConstraintBroken                 a model, remote or delegate would see data that it may not
│   ├── InvalidPlugin                    a plugin does not keep the contract; told when it is registered
│   └── SnapshotNotHeld                  what a run was planned with is no longer what there is
├── BuildError                           a runtime cannot be built
│   ├── RegistryConflict                 two of a kind have one id
│   ├── ConfigValidation                 an agent, a model, a pool or a plugin is not valid
│   └── ValidationFailed                 agents have no plan; holds every error
└── RunRefused                           a run cannot start
    ├── BackendUnavailable               what should run a remote agent cannot run anything
    └── CapabilityMismatch               it cannot do all that the run asks for; holds every mismatch

StateFailure is raised inside a run, which ends with its code: a plugin updates the state in a way that does not fit.
"""

from collections.abc import Mapping, Sequence

from agent_resolver.core.lock_difference import Difference
from agent_resolver.registry import errors as registry
from agent_resolver.schema.errors import ResolverError
from agent_resolver.schema.explanation import Reason
from agent_resolver.schema.issue import Issue


class ResolveError(ResolverError):
    """An agent has no plan."""


class InvalidSpec(ResolveError):
    """A spec does not follow its schema; holds every issue, not the first."""

    def __init__(self, issues: Sequence[Issue], source: str = "") -> None:
        super().__init__("; ".join(map(str, issues)))
        self.issues = tuple(issues)
        self.source = source


class _NotFound(ResolveError):
    kind = ""

    def __init__(self, name: str, hint: str = "") -> None:
        super().__init__(f"{self.kind} not found: {name}")
        self.name = name
        self.hint = hint


class AgentNotFound(_NotFound):
    """No agent has that id; also for a delegate."""

    kind = "agent"


class ModelNotFound(_NotFound):
    """No model, alias or pool has that id."""

    kind = "model"


class ProviderNotFound(_NotFound):
    """No provider has the model."""

    kind = "provider"


class PluginNotFound(_NotFound):
    """No plugin has that id."""

    kind = "plugin"


class AmbiguousModelReference(ResolveError):
    """A model and a pool have one id."""

    def __init__(self, model_id: str) -> None:
        super().__init__(
            f"model id resolves to both a model and a model pool: {model_id}"
        )
        self.model_id = model_id


class InvalidPluginConfig(ResolveError):
    """A section does not follow the schema of its plugin."""

    def __init__(self, plugin: str, key: str, message: str) -> None:
        super().__init__(
            f'invalid config for plugin {plugin}: section "{key}" — {message}'
        )
        self.plugin = plugin
        self.key = key
        self.message = message


class UnsupportedRemoteBackend(ResolveError):
    """Nothing here can reach a remote agent of that kind."""

    def __init__(self, agent_id: str, backend: str) -> None:
        super().__init__(
            f"unsupported remote backend `{backend}` for delegate `{agent_id}`"
        )
        self.agent_id = agent_id
        self.backend = backend


class InvalidRemoteEndpointConfig(ResolveError):
    """Where a remote agent is said to be, it cannot be."""

    def __init__(self, agent_id: str, backend: str, message: str) -> None:
        super().__init__(
            f"invalid remote endpoint config for delegate `{agent_id}` backend `{backend}` — {message}"
        )
        self.agent_id = agent_id
        self.backend = backend
        self.message = message


class RemoteAgentNotDirectlyRunnable(ResolveError):
    """Only a backend can run it."""

    def __init__(self, agent_id: str) -> None:
        super().__init__(
            f"remote agent `{agent_id}` cannot be resolved locally — use it as a delegate instead"
        )
        self.agent_id = agent_id


class ToolIdConflict(ResolveError, registry.ToolIdConflict):
    """Two sources have a tool of one id."""

    def __init__(self, tool_id: str, first: str, second: str, hint: str = "") -> None:
        super().__init__(tool_id, first, second)
        self.hint = hint


class UnusableTool(ResolveError, registry.UnusableTool):
    """A tool has an id that cannot be one."""


class EnvBuild(ResolveError):
    """What plugins register does not fit together."""

    def __init__(self, cause: str) -> None:
        super().__init__(f"env build error: {cause}")
        self.cause = cause


class LockMissing(ResolveError):
    """An agent file has `requires`, and there is no lock."""

    def __init__(self, agent_id: str, path: str, hint: str = "") -> None:
        super().__init__(
            f"agent {agent_id} requires servers and has no lock: {path} is missing"
        )
        self.agent_id = agent_id
        self.hint = hint


class LockStale(ResolveError):
    """A lock does not hold; holds every difference."""

    details: tuple[Difference, ...]

    def __init__(
        self,
        agent_id: str,
        path: str,
        differences: Sequence[Difference],
        hint: str = "",
    ) -> None:
        super().__init__(f"agent {agent_id} has a lock that does not hold: {path}")
        self.agent_id = agent_id
        self.details = tuple(differences)
        self.hint = hint or "see `agent verify`"


class ConstraintBroken(ResolveError):
    """A model, remote or delegate would see data that it may not; holds every reason."""

    def __init__(self, agent_id: str, what: str, reasons: Sequence[Reason]) -> None:
        listed = "; ".join(f"{reason.code}: {reason.message}" for reason in reasons)
        super().__init__(f"agent {agent_id} cannot use {what}: {listed}")
        self.agent_id = agent_id
        self.what = what
        self.reasons = tuple(reasons)


class InvalidPlugin(ResolveError):
    """A plugin does not keep the contract; holds every reason."""

    def __init__(self, plugin_id: str, faults: Sequence[str]) -> None:
        super().__init__(f"plugin '{plugin_id}' cannot be used: {'; '.join(faults)}")
        self.plugin_id = plugin_id
        self.faults = tuple(faults)


class SnapshotNotHeld(ResolveError):
    """A run asks for the snapshot that it was planned with, and there is a newer one."""

    def __init__(self, wanted: int, held: int) -> None:
        super().__init__(
            f"snapshot {wanted} is not held: the runtime is at snapshot {held}"
        )
        self.wanted = wanted
        self.held = held


class BuildError(ResolverError):
    """A runtime cannot be built."""


class RegistryConflict(BuildError):
    """Two of a kind have one id."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"{kind} '{name}' already registered")
        self.kind = kind
        self.name = name


class ConfigValidation(BuildError):
    """An agent, a model, a pool or a plugin is not valid."""


class ValidationFailed(BuildError):
    """Agents have no plan; holds the error of each."""

    def __init__(self, errors: Mapping[str, ResolverError]) -> None:
        super().__init__(
            "; ".join(f"{agent_id}: {error}" for agent_id, error in errors.items())
        )
        self.errors = dict(errors)


class RunRefused(ResolverError):
    """A run cannot start."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class BackendUnavailable(RunRefused):
    """What should run a remote agent cannot run anything."""

    def __init__(self, agent_id: str, backend: str) -> None:
        super().__init__(
            f"agent {agent_id} runs on backend {backend}, which cannot run agents here"
        )
        self.agent_id = agent_id
        self.backend = backend


class CapabilityMismatch(RunRefused):
    """A backend cannot do all that a run asks for; holds every mismatch."""

    def __init__(self, agent_id: str, mismatches: Sequence[str]) -> None:
        super().__init__(
            f"the backend of agent {agent_id} cannot run this: {'; '.join(mismatches)}"
        )
        self.agent_id = agent_id
        self.mismatches = tuple(mismatches)


class StateFailure(Exception):
    """A plugin updates the state of a run in a way that does not fit; the run ends with this code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
