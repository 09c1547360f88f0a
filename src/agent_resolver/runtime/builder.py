"""Puts a runtime together, and keeps its snapshots."""

from collections import ChainMap
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self, TypeVar

from msgspec import Struct, structs

from agent_resolver.registry.tool import Tool
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
from agent_resolver.runtime.model import ModelPool, ModelSpec
from agent_resolver.runtime.plan import ResolvedRunPlan
from agent_resolver.runtime.planning import resolve
from agent_resolver.runtime.plugin_contract import check_plugin
from agent_resolver.runtime.registry_set import (
    AgentSpecs,
    BackendFactory,
    CompositeAgents,
    LayeredAgents,
    Lock,
    MapAgents,
    ModelFacts,
    Provider,
    RegistrySet,
)
from agent_resolver.runtime.spec import AgentSpec
from agent_resolver.runtime.spec_reader import check_spec, check_value
from agent_resolver.runtime.tool_contract import descriptor_of

if TYPE_CHECKING:
    from agent_resolver.runtime.plugin import Plugin

Value = TypeVar("Value")
Checked = TypeVar("Checked", ModelSpec, ModelPool)


class AgentRuntime:
    """Agents, as they are now: every change is another snapshot, and a plan keeps the one that it was made of."""

    def __init__(self, registries: RegistrySet, local: MapAgents, others: "_OtherAgents") -> None:
        self._registries = registries
        self._local = local
        self._others = others

    @property
    def snapshot(self) -> RegistrySet:
        """What there is now."""
        return self._registries

    def resolve(self, agent_id: str, *, version: int | None = None) -> ResolvedRunPlan:
        """The plan of an agent in the snapshot of now; `version` refuses any other.

        A run that has its own snapshot resolves its delegates against that, with `resolve_delegate`.

        Raises:
            SnapshotNotHeld: The snapshot of now is another one.
            ResolveError: The agent has no plan.
        """
        if version is not None and version != self._registries.version:
            raise SnapshotNotHeld(version, self._registries.version)
        return resolve(self._registries, agent_id)

    def add(self, spec: AgentSpec) -> int:
        """Add an agent; the version of the new snapshot.

        Raises:
            RegistryConflict: There is one with its id.
            InvalidSpec: It cannot be one.
        """
        if self._local.get(spec.id):
            raise RegistryConflict("agent", spec.id)
        return self._change(spec.id, check_spec(spec))

    def replace(self, spec: AgentSpec) -> int:
        """Replace an agent; the version of the new snapshot.

        Raises:
            AgentNotFound: There is none with its id.
            InvalidSpec: It cannot be one.
        """
        return self._change(self._known(spec.id), check_spec(spec))

    def remove(self, agent_id: str) -> int:
        """Remove an agent; the version of the new snapshot.

        Raises:
            AgentNotFound: There is none.
        """
        return self._change(self._known(agent_id), None)

    def _known(self, agent_id: str) -> str:
        if self._local.get(agent_id) is None:
            raise AgentNotFound(agent_id)
        return agent_id

    def _change(self, agent_id: str, spec: AgentSpec | None) -> int:
        self._local = self._local.changed(agent_id, spec)
        agents = self._others.after(self._local)
        self._registries = structs.replace(self._registries, version=self._registries.version + 1, agents=agents)
        return self._registries.version


class _OtherAgents(Struct, frozen=True):
    """Agents that are looked for after those that were added one by one."""

    layers: tuple[AgentSpecs, ...] = ()
    remotes: tuple[tuple[str, AgentSpecs], ...] = ()

    def after(self, local: MapAgents) -> AgentSpecs:
        """All agents, the local ones first."""
        here = LayeredAgents((local, *self.layers)) if self.layers else local
        return CompositeAgents(here, self.remotes) if self.remotes else here


class AgentRuntimeBuilder:
    """Takes parts in any order. Nothing that is wrong with them is raised before the runtime is built."""

    def __init__(self) -> None:
        self._errors: list[BuildError] = []
        self._agents: dict[str, AgentSpec] = {}
        self._models: dict[str, ModelSpec] = {}
        self._pools: dict[str, ModelPool] = {}
        self._providers: dict[str, Provider] = {}
        self._plugins: dict[str, Plugin] = {}
        self._tools: dict[str, Tool] = {}
        self._backends: dict[str, BackendFactory] = {}
        self._locks: dict[str, Lock] = {}
        self._layers: list[AgentSpecs] = []
        self._lazy_plugins: list[Mapping[str, Plugin]] = []
        self._lazy_locks: list[Mapping[str, Lock]] = []
        self._remotes: list[tuple[str, AgentSpecs]] = []
        self._estimates: dict[str, ModelFacts] = {}
        self._has_a2a = True

    def with_agent_spec(self, spec: AgentSpec) -> Self:
        """Add an agent."""
        try:
            return self._add(self._agents, "agent", spec.id, check_spec(spec))
        except InvalidSpec as error:
            self._errors.append(ConfigValidation(f"invalid agent '{spec.id}': {error}"))
            return self

    def with_agent_specs(self, specs: Iterable[AgentSpec]) -> Self:
        """Add agents."""
        for spec in specs:
            self.with_agent_spec(spec)
        return self

    def with_agents(self, agents: AgentSpecs) -> Self:
        """Add agents that are read when they are asked for, after those that were added one by one."""
        self._layers.append(agents)
        return self

    def with_tool(self, tool: Tool) -> Self:
        """Add a tool that every agent may have."""
        descriptor = descriptor_of(tool)
        if descriptor is None:
            self._errors.append(ConfigValidation(f"invalid tool {tool!r}: it has no descriptor"))
            return self
        return self._add(self._tools, "tool", descriptor.id, tool)

    def with_model(self, model: ModelSpec) -> Self:
        """Add a model."""
        return self._add_valid(self._models, "model", model)

    def with_model_pool(self, pool: ModelPool) -> Self:
        """Add a pool of models."""
        return self._add_valid(self._pools, "model pool", pool)

    def with_provider(self, provider_id: str, provider: Provider) -> Self:
        """Add somebody who answers for models."""
        return self._add(self._providers, "provider", provider_id, provider)

    def with_plugin(self, plugin: object) -> Self:
        """Add a plugin, if it keeps the contract."""
        try:
            checked = check_plugin(plugin)
        except InvalidPlugin as error:
            self._errors.append(ConfigValidation(str(error)))
            return self
        return self._add(self._plugins, "plugin", checked.id, checked)

    def with_plugins(self, plugins: "Mapping[str, Plugin]") -> Self:
        """Add plugins that are loaded when they are asked for, after those that were added one by one."""
        self._lazy_plugins.append(plugins)
        return self

    def with_backend(self, kind: str, factory: BackendFactory) -> Self:
        """Add a way to reach remote agents of a kind."""
        return self._add(self._backends, "backend", kind, factory)

    def with_lock(self, agent_id: str, lock: Lock) -> Self:
        """Add what is known of an agent's lock."""
        return self._add(self._locks, "lock", agent_id, lock)

    def with_locks(self, locks: Mapping[str, Lock]) -> Self:
        """Add locks that are verified when they are asked for, after those that were added one by one."""
        self._lazy_locks.append(locks)
        return self

    def with_remote_agents(self, source: str, agents: AgentSpecs) -> Self:
        """Add agents of somebody else, after those that were added before."""
        if any(name == source for name, _ in self._remotes):
            self._errors.append(RegistryConflict("remote source", source))
        else:
            self._remotes.append((source, agents))
        return self

    def with_model_estimates(self, estimates: Mapping[str, ModelFacts]) -> Self:
        """Add what models usually can do."""
        self._estimates |= estimates
        return self

    def without_a2a(self) -> Self:
        """Let nobody delegate."""
        self._has_a2a = False
        return self

    def build(self) -> AgentRuntime:
        """The runtime, once every agent of it has a plan.

        Raises:
            BuildError: The first thing that was wrong with a part.
            ValidationFailed: Agents have no plan; with the error of each.
        """
        runtime = self.build_unchecked()
        errors: dict[str, ResolveError] = {}
        for agent_id in sorted(self._agents):
            try:
                runtime.resolve(agent_id)
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
            pools=_in_order(self._pools),
            providers=_in_order(self._providers),
            plugins=_layered_mapping(self._plugins, self._lazy_plugins),
            tools=_in_order(self._tools),
            backends=_in_order(self._backends),
            locks=_layered_mapping(self._locks, self._lazy_locks),
            estimates=_in_order(self._estimates),
            has_a2a=self._has_a2a,
        )
        return AgentRuntime(registries, local, others)

    def _add(self, known: dict[str, Any], kind: str, name: str, value: object) -> Self:
        if name in known:
            self._errors.append(RegistryConflict(kind, name))
        else:
            known[name] = value
        return self

    def _add_valid(self, known: dict[str, Checked], kind: str, value: Checked) -> Self:
        try:
            checked = check_value(value)
            faults = list(checked.faults())
        except InvalidSpec as error:
            checked, faults = value, list(map(str, error.issues))
        if faults:
            self._errors.append(ConfigValidation(f"invalid {kind} '{value.id}': {'; '.join(faults)}"))
        elif checked.id in known:
            self._errors.append(ConfigValidation(f"duplicate {kind} id '{checked.id}'"))
        else:
            known[checked.id] = checked
        return self

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
    if not layers:
        return _in_order(known)
    # The type stubs know only mappings that can be changed; nothing changes these.
    return ChainMap(_in_order(known), *layers)  # type: ignore[arg-type]
