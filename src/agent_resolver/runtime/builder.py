"""Puts a runtime together, and keeps its snapshots."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock as ThreadLock
from typing import TYPE_CHECKING, Any, Self, TypeVar

from msgspec import Struct, structs

from agent_resolver.registry.errors import UnusableTool
from agent_resolver.registry.tool import Tool
from agent_resolver.runtime.breaker import Breakers
from agent_resolver.runtime.errors import (
    AgentNotFound,
    BuildError,
    ConfigValidation,
    InvalidPlugin,
    InvalidSpec,
    RegistryConflict,
    ResolveError,
    SnapshotNotHeld,
    ValidationFailed,
)
from agent_resolver.runtime.executor import LlmExecutor, close_executor
from agent_resolver.runtime.known_model import known_models
from agent_resolver.runtime.model import ModelPool, ModelSpec
from agent_resolver.runtime.part_check import require_methods, require_name, require_type
from agent_resolver.runtime.plan import ResolvedRunPlan
from agent_resolver.runtime.planning import resolve
from agent_resolver.runtime.plugin_contract import check_plugin
from agent_resolver.runtime.registry_set import (
    AgentSpecs,
    BackendFactory,
    CompositeAgents,
    HeldLock,
    LayeredAgents,
    LayeredMapping,
    Lock,
    MapAgents,
    MissingLock,
    ModelFacts,
    Provider,
    RegistrySet,
    StaleLock,
)
from agent_resolver.runtime.spec import AgentSpec
from agent_resolver.runtime.spec_reader import check_spec, check_value
from agent_resolver.runtime.tool_contract import OfferedTool, check_tool
from agent_resolver.schema.foreign_error import describe_exception
from agent_resolver.schema.issue import Issue, IssueCode

if TYPE_CHECKING:
    from agent_resolver.runtime.plugin import Plugin

Value = TypeVar("Value")
Checked = TypeVar("Checked", ModelSpec, ModelPool)


class AgentRuntime:
    """Agents, as they are now: every change is another snapshot, and a plan keeps the one that it was made of.

    It may be used from several threads: changes happen one after the other.
    """

    def __init__(self, registries: RegistrySet, local: MapAgents, others: "_OtherAgents") -> None:
        self._registries = registries
        self._local = local
        self._others = others
        self._changing = ThreadLock()
        """Held from the look at what there is until the snapshot is replaced: two changes must not start from one."""

    @property
    def snapshot(self) -> RegistrySet:
        """What there is now."""
        return self._registries

    def resolve(self, agent_id: str, *, version: int | None = None, is_dry_run: bool = False) -> ResolvedRunPlan:
        """The plan of an agent in the snapshot of now; `version` refuses any other.

        A run that has its own snapshot resolves its delegates against that, with `resolve_delegate`. A dry run checks
        all of it and builds no backend of a remote agent.

        Raises:
            SnapshotNotHeld: The snapshot of now is another one.
            ResolveError: The agent has no plan.
        """
        registries = self._registries
        if version is not None and version != registries.version:
            raise SnapshotNotHeld(version, registries.version)
        return resolve(registries, agent_id, is_dry_run=is_dry_run)

    def add(self, spec: AgentSpec) -> int:
        """Add an agent; the version of the new snapshot.

        Raises:
            RegistryConflict: There is one with its id.
            InvalidSpec: It cannot be one.
        """
        checked = _checked_spec(spec)
        with self._changing:
            if self._local.get(checked.id):
                raise RegistryConflict("agent", checked.id)
            return self._change(checked.id, checked)

    def replace(self, spec: AgentSpec) -> int:
        """Replace an agent; the version of the new snapshot.

        Raises:
            AgentNotFound: There is none with its id.
            InvalidSpec: It cannot be one.
        """
        checked = _checked_spec(spec)
        with self._changing:
            return self._change(self._known(checked.id), checked)

    def remove(self, agent_id: str) -> int:
        """Remove an agent; the version of the new snapshot.

        Raises:
            AgentNotFound: There is none.
        """
        with self._changing:
            return self._change(self._known(agent_id), None)

    async def close(self) -> None:
        """Close what answers for models; nothing may be asked after that."""
        for provider in self._registries.providers.values():
            await close_executor(provider.executor)

    def _known(self, agent_id: str) -> str:
        if self._local.get(agent_id) is None:
            raise AgentNotFound(agent_id)
        return agent_id

    def _change(self, agent_id: str, spec: AgentSpec | None) -> int:
        self._local = self._local.changed(agent_id, spec)
        agents = self._others.after(self._local)
        self._registries = structs.replace(self._registries, version=self._registries.version + 1, agents=agents)
        return self._registries.version


def _checked_spec(spec: object) -> AgentSpec:
    if not isinstance(spec, AgentSpec):
        message = f"It is a `{type(spec).__name__}`, and not an AgentSpec"
        raise InvalidSpec([Issue(at=(), code=IssueCode.INVALID_TYPE, message=message)])
    return check_spec(spec)


class _OtherAgents(Struct, frozen=True):
    """Agents that are looked for after those that were added one by one."""

    layers: tuple[AgentSpecs, ...] = ()
    remotes: tuple[tuple[str, AgentSpecs], ...] = ()

    def after(self, local: MapAgents) -> AgentSpecs:
        """All agents, the local ones first."""
        here = LayeredAgents((local, *self.layers)) if self.layers else local
        return CompositeAgents(here, self.remotes) if self.remotes else here


class AgentRuntimeBuilder:
    """Takes parts in any order. Whatever is wrong with a part is kept, and the first fault is raised by `build`."""

    def __init__(self) -> None:
        self._errors: list[BuildError] = []
        self._agents: dict[str, AgentSpec] = {}
        self._models: dict[str, ModelSpec] = {}
        self._pools: dict[str, ModelPool] = {}
        self._providers: dict[str, Provider] = {}
        self._plugins: dict[str, Plugin] = {}
        self._tools: dict[str, OfferedTool] = {}
        self._backends: dict[str, BackendFactory] = {}
        self._locks: dict[str, Lock] = {}
        self._layers: list[AgentSpecs] = []
        self._lazy_plugins: list[Mapping[str, Plugin]] = []
        self._lazy_locks: list[Mapping[str, Lock]] = []
        self._remotes: list[tuple[str, AgentSpecs]] = []
        self._estimates: dict[str, ModelFacts] = {}
        self._known_models: dict[str, ModelSpec] = {}
        self._has_a2a = True
        self._breakers = Breakers()

    def with_agent_spec(self, spec: AgentSpec) -> Self:
        """Add an agent."""
        with self._collecting("agent"):
            require_type(spec, AgentSpec)
            try:
                self._add(self._agents, "agent", spec.id, check_spec(spec))
            except InvalidSpec as error:
                raise ConfigValidation(f"invalid agent '{spec.id}': {error}") from error
        return self

    def with_agent_specs(self, specs: Iterable[AgentSpec]) -> Self:
        """Add agents."""
        with self._collecting("agents"):
            for spec in specs:
                self.with_agent_spec(spec)
        return self

    def with_agents(self, agents: AgentSpecs) -> Self:
        """Add agents that are read when they are asked for, after those that were added one by one."""
        with self._collecting("agents"):
            self._layers.append(require_methods(agents, "get", "ids"))
        return self

    def with_tool(self, tool_id: str, tool: Tool | Callable[..., Any]) -> Self:
        """Add a tool that every agent may have: a `Tool`, or a plain typed function.

        A function becomes a tool as `tool_of` in the capabilities says: its parameters are the arguments, and its
        docstring says what it does.
        """
        with self._collecting("tool"):
            try:
                self._add(self._tools, "tool", tool_id, check_tool(tool, tool_id))
            except UnusableTool as error:
                raise ConfigValidation(f"invalid tool '{error.name}': {error.fault}") from error
        return self

    def with_model(self, model: ModelSpec) -> Self:
        """Add a model."""
        with self._collecting("model"):
            self._add_valid(self._models, "model", require_type(model, ModelSpec))
        return self

    def with_model_pool(self, pool: ModelPool) -> Self:
        """Add a pool of models."""
        with self._collecting("model pool"):
            self._add_valid(self._pools, "model pool", require_type(pool, ModelPool))
        return self

    def with_provider(self, provider_id: str, provider: LlmExecutor | Provider) -> Self:
        """Add what answers for the models of a provider: an executor, alone or with facts about its models."""
        with self._collecting("provider"):
            made = provider if isinstance(provider, Provider) else Provider(executor=provider)
            require_methods(made.executor, "complete", "stream")
            facts = _checked_facts(made.facts)
            self._add(self._providers, "provider", provider_id, structs.replace(made, facts=facts))
        return self

    def with_plugin(self, plugin: object) -> Self:
        """Add a plugin, if it keeps the contract."""
        with self._collecting("plugin"):
            try:
                checked = check_plugin(plugin)
                self._add(self._plugins, "plugin", checked.id, checked)
            except InvalidPlugin as error:
                raise ConfigValidation(str(error)) from error
        return self

    def with_plugins(self, plugins: "Mapping[str, Plugin]") -> Self:
        """Add plugins that are loaded when they are asked for, after those that were added one by one."""
        with self._collecting("plugins"):
            self._lazy_plugins.append(require_type(plugins, Mapping))
        return self

    def with_backend(self, kind: str, factory: BackendFactory) -> Self:
        """Add a way to reach remote agents of a kind."""
        with self._collecting("backend"):
            self._add(self._backends, "backend", kind, require_methods(factory, "validate", "build"))
        return self

    def with_lock(self, agent_id: str, lock: Lock) -> Self:
        """Add what is known of an agent's lock."""
        with self._collecting("lock"):
            self._add(self._locks, "lock", agent_id, require_type(lock, HeldLock, MissingLock, StaleLock))
        return self

    def with_locks(self, locks: Mapping[str, Lock]) -> Self:
        """Add locks that are verified when they are asked for, after those that were added one by one."""
        with self._collecting("locks"):
            self._lazy_locks.append(require_type(locks, Mapping))
        return self

    def with_remote_agents(self, source: str, agents: AgentSpecs) -> Self:
        """Add agents of another registry, after those that were added before."""
        with self._collecting("remote source"):
            require_name(source)
            if any(name == source for name, _ in self._remotes):
                raise RegistryConflict("remote source", source)
            self._remotes.append((source, require_methods(agents, "get", "ids")))
        return self

    def with_model_estimates(self, estimates: Mapping[str, ModelFacts]) -> Self:
        """Add what models usually can do."""
        with self._collecting("model estimates"):
            self._estimates |= _checked_facts(estimates)
        return self

    def with_known_models(self) -> Self:
        """Let agents use the models that need no entry: the table that comes with the package."""
        with self._collecting("known models"):
            table = known_models()
            specs = table.specs()
            families = {family: specs[newest] for family, newest in table.families.items()}
            self._known_models |= {**specs, **families}
            self._estimates = {**table.facts(), **self._estimates}
        return self

    def with_known_model(self, name: str, model: ModelSpec) -> Self:
        """Add a model that needs no entry: it is meant by a name that means nothing else."""
        with self._collecting("known model"):
            self._known_models[require_name(name)] = check_value(require_type(model, ModelSpec))
        return self

    def with_breakers(self, breakers: Breakers) -> Self:
        """Let pools go by these breakers, which other runtimes may share; without them the runtime has its own."""
        with self._collecting("breakers"):
            self._breakers = require_type(breakers, Breakers)
        return self

    def without_a2a(self) -> Self:
        """Let no agent delegate."""
        self._has_a2a = False
        return self

    def build(self) -> AgentRuntime:
        """The runtime, once every agent of it has a plan. The plans are a dry run: no backend is built.

        Raises:
            BuildError: The first thing that was wrong with a part.
            ValidationFailed: Agents have no plan; with the error of each.
        """
        runtime = self.build_unchecked()
        errors: dict[str, ResolveError] = {}
        for agent_id in sorted(self._agents):
            try:
                runtime.resolve(agent_id, is_dry_run=True)
            except ResolveError as error:
                errors[agent_id] = error
        if errors:
            raise ValidationFailed(errors)
        return runtime

    def build_unchecked(self) -> AgentRuntime:
        """The runtime, whatever its agents are like: for those that are added or mended later.

        Raises:
            BuildError: The first thing that was wrong with a part.
        """
        models, errors = self._with_aliases()
        if found := [*self._errors, *errors]:
            raise found[0]
        local, others = MapAgents(self._agents.values()), _OtherAgents(tuple(self._layers), tuple(self._remotes))
        registries = RegistrySet(
            agents=others.after(local),
            models=models,
            known_models=_in_order(self._known_models),
            pools=_in_order(self._pools),
            providers=_in_order(self._providers),
            plugins=_layered_mapping(self._plugins, self._lazy_plugins),
            tools=_in_order(self._tools),
            backends=_in_order(self._backends),
            locks=_layered_mapping(self._locks, self._lazy_locks),
            estimates=_in_order(self._estimates),
            has_a2a=self._has_a2a,
            breakers=self._breakers,
        )
        return AgentRuntime(registries, local, others)

    @contextmanager
    def _collecting(self, kind: str) -> Iterator[None]:
        """Keep whatever is wrong with a part: it is raised when the runtime is built."""
        try:
            yield
        except BuildError as error:
            self._errors.append(error)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a part may be anything, and do anything
            self._errors.append(ConfigValidation(f"invalid {kind}: {describe_exception(error)}"))

    def _add(self, known: dict[str, Any], kind: str, name: str, value: object) -> None:
        require_name(name)
        if name in known:
            raise RegistryConflict(kind, name)
        known[name] = value

    def _add_valid(self, known: dict[str, Checked], kind: str, value: Checked) -> None:
        try:
            checked = check_value(value)
            faults = list(checked.faults())
        except InvalidSpec as error:
            checked, faults = value, list(map(str, error.issues))
        if faults:
            raise ConfigValidation(f"invalid {kind} '{value.id}': {'; '.join(faults)}")
        if checked.id in known:
            raise ConfigValidation(f"duplicate {kind} id '{checked.id}'")
        known[checked.id] = checked

    def _with_aliases(self) -> tuple[dict[str, ModelSpec], list[BuildError]]:
        """Every model by its id and by its aliases, and the aliases that two have."""
        models = dict(self._models)
        in_order = sorted(self._models.values(), key=lambda model: model.id)
        named = [(alias, model) for model in in_order for alias in model.aliases]
        clashes = [alias for alias, model in named if models.setdefault(alias, model) is not model]
        return _in_order(models), [ConfigValidation(f"duplicate model alias '{alias}'") for alias in clashes]


def _in_order(known: Mapping[str, Value]) -> dict[str, Value]:
    return dict(sorted(known.items()))


def _layered_mapping(known: Mapping[str, Value], lazy: Iterable[Mapping[str, Value]]) -> Mapping[str, Value]:
    """What was added one by one, then what is looked up when it is asked for."""
    layers = list(lazy)
    return LayeredMapping([_in_order(known), *layers]) if layers else _in_order(known)


def _checked_facts(facts: Mapping[str, ModelFacts]) -> dict[str, ModelFacts]:
    """Facts about models by name, once each has the types that it should have."""
    require_type(facts, Mapping)
    return {require_name(name): check_value(require_type(each, ModelFacts)) for name, each in facts.items()}
