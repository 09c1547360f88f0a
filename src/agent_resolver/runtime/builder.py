"""Puts a runtime together, and keeps its snapshots."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self, TypeVar

from msgspec import structs

from agent_resolver.registry.errors import UnusableTool
from agent_resolver.registry.pipeline import Ports
from agent_resolver.registry.tool import Tool
from agent_resolver.registry.worker_identity import WorkerIdentity
from agent_resolver.runtime.agent_runtime import AgentRuntime, OtherAgents
from agent_resolver.runtime.breaker import Breakers
from agent_resolver.runtime.errors import (
    BuildError,
    ConfigValidation,
    InvalidPlugin,
    InvalidSpec,
    RegistryConflict,
    ResolveError,
    ValidationFailed,
)
from agent_resolver.runtime.executor import LlmExecutor
from agent_resolver.runtime.journal.journal import Journal
from agent_resolver.runtime.known_model import known_models
from agent_resolver.runtime.mention import Definitions
from agent_resolver.runtime.model import ModelPool, ModelSpec
from agent_resolver.runtime.part_check import (
    require_methods,
    require_name,
    require_type,
)
from agent_resolver.runtime.patience import Patience
from agent_resolver.runtime.plugin_contract import check_plugin
from agent_resolver.runtime.registry_set import (
    AgentSpecs,
    BackendFactory,
    HeldLock,
    LayeredMapping,
    Lock,
    MapAgents,
    MissingLock,
    ModelFacts,
    Provider,
    RegistrySet,
    StaleLock,
)
from agent_resolver.runtime.run_start import Runs
from agent_resolver.runtime.run_tools import RunTools, SnapshotTools
from agent_resolver.runtime.spec import DEFAULT_MODEL, AgentSpec
from agent_resolver.runtime.spec_reader import check_spec, check_value
from agent_resolver.runtime.tool_contract import OfferedTool, check_tool
from agent_resolver.schema.caller import Caller, local_caller
from agent_resolver.schema.foreign_error import describe_exception

if TYPE_CHECKING:
    from agent_resolver.runtime.plugin import Plugin

Value = TypeVar("Value")
Checked = TypeVar("Checked", ModelSpec, ModelPool)


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
        self._caller = local_caller("program")
        self._worker: WorkerIdentity | None = None
        self._ports = Ports()
        self._run_tools: RunTools | None = None
        self._open_journal: Callable[[], Journal] | None = None
        self._definitions: Definitions | None = None
        self._patience = Patience()
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
            # `with_agent_spec` keeps the faults of each spec; this block is for a value
            # that cannot be iterated.
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
                raise ConfigValidation(
                    f"invalid tool '{error.name}': {error.fault}"
                ) from error
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
            made = (
                provider
                if isinstance(provider, Provider)
                else Provider(executor=provider)
            )
            require_methods(made.executor, "complete", "stream")
            facts = _checked_facts(made.facts)
            self._add(
                self._providers,
                "provider",
                provider_id,
                structs.replace(made, facts=facts),
            )
        return self

    def with_executor(self, executor: LlmExecutor) -> Self:
        """Let this answer for the model `default`, for a program with one model: it needs no provider and no spec."""
        self.with_provider(DEFAULT_MODEL, executor)
        model = ModelSpec(
            id=DEFAULT_MODEL, provider_id=DEFAULT_MODEL, upstream_model=DEFAULT_MODEL
        )
        return self.with_model(model)

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
            self._add(
                self._backends,
                "backend",
                kind,
                require_methods(factory, "validate", "build"),
            )
        return self

    def with_lock(self, agent_id: str, lock: Lock) -> Self:
        """Add what is known of an agent's lock."""
        with self._collecting("lock"):
            self._add(
                self._locks,
                "lock",
                agent_id,
                require_type(lock, HeldLock, MissingLock, StaleLock),
            )
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
            families = {
                family: specs[newest] for family, newest in table.families.items()
            }
            self._known_models |= {**specs, **families}
            # What a program says of a model wins over the table, in whichever order
            # both come.
            self._estimates = {**table.facts(), **self._estimates}
        return self

    def with_known_model(self, name: str, model: ModelSpec) -> Self:
        """Add a model that needs no entry: it is meant by a name that means nothing else."""
        with self._collecting("known model"):
            self._known_models[require_name(name)] = check_value(
                require_type(model, ModelSpec)
            )
        return self

    def with_breakers(self, breakers: Breakers) -> Self:
        """Let pools go by these breakers, which other runtimes may share; without them the runtime has its own."""
        with self._collecting("breakers"):
            self._breakers = require_type(breakers, Breakers)
        return self

    def with_caller(self, caller: Caller) -> Self:
        """Call tools on behalf of this caller where a request to run names none; left out, of the program itself."""
        with self._collecting("caller"):
            self._caller = require_type(caller, Caller)
        return self

    def with_worker(self, worker: WorkerIdentity) -> Self:
        """Let this identity act in runs whose caller's token has expired, with the rights that both have.

        Left out, calls of such a run are refused, and it ends before its model is asked again.
        """
        with self._collecting("worker"):
            self._worker = require_methods(worker, "caller")
        return self

    def with_ports(self, ports: Ports) -> Self:
        """Let calls of tools use these ports: where they are recorded, who watches them, where secrets are."""
        with self._collecting("ports"):
            self._ports = require_type(ports, Ports)
        return self

    def with_run_tools(self, tools: RunTools) -> Self:
        """Open the tools of runs like this, in place of the tools that were added one by one."""
        with self._collecting("run tools"):
            self._run_tools = require_methods(tools, "open")
        return self

    def with_journal(self, open_journal: Callable[[], Journal]) -> Self:
        """Keep runs in a journal, so that they outlast the process; left out, they live in memory alone.

        Args:
            open_journal: Opens the journal, when the first run needs it. Its store must be the one that the calls of
                tools are recorded in.
        """
        with self._collecting("journal"):
            self._open_journal = require_methods(open_journal, "__call__")
        return self

    def with_definitions(self, definitions: Definitions) -> Self:
        """Look up there the agents that users mention as `@server:agent://name`; left out, a mention is only text."""
        with self._collecting("definitions"):
            self._definitions = require_methods(definitions, "definition")
        return self

    def with_patience(self, patience: Patience) -> Self:
        """Let runs wait so long for plugins and sinks."""
        with self._collecting("patience"):
            self._patience = check_value(require_type(patience, Patience))
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
        # In the order of ids, so that the same faults give the same error.
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
        # Aliases are looked at here and not as they come: parts may be added in any
        # order.
        models, errors = self._with_aliases()
        if found := [*self._errors, *errors]:
            raise found[0]
        local, others = (
            MapAgents(self._agents.values()),
            OtherAgents(tuple(self._layers), tuple(self._remotes)),
        )
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
        tools = self._run_tools or SnapshotTools(self._ports, registries.tools)
        runs = Runs(
            tools,
            self._caller,
            self._open_journal,
            self._patience,
            worker=self._worker,
            definitions=self._definitions,
        )
        return AgentRuntime(registries, local, others, runs)

    @contextmanager
    def _collecting(self, kind: str) -> Iterator[None]:
        """Keep whatever is wrong with a part: it is raised when the runtime is built."""
        try:
            yield
        except BuildError as error:
            self._errors.append(error)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a part may be anything, and do anything
            self._errors.append(
                ConfigValidation(f"invalid {kind}: {describe_exception(error)}")
            )

    def _add(self, known: dict[str, Any], kind: str, name: str, value: object) -> None:
        require_name(name)
        if name in known:
            raise RegistryConflict(kind, name)
        known[name] = value

    def _add_valid(self, known: dict[str, Checked], kind: str, value: Checked) -> None:
        try:
            # The types come first: `faults` compares fields that must have the right
            # ones.
            checked = check_value(value)
            faults = list(checked.faults())
        except InvalidSpec as error:
            checked = value
            faults = list(map(str, error.issues))
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
        # `setdefault` keeps the first owner in the order of ids, whatever the order in
        # which models were added.
        clashes = [
            alias
            for alias, model in named
            if models.setdefault(alias, model) is not model
        ]
        return _in_order(models), [
            ConfigValidation(f"duplicate model alias '{alias}'") for alias in clashes
        ]


def _in_order(known: Mapping[str, Value]) -> dict[str, Value]:
    return dict(sorted(known.items()))


def _layered_mapping(
    known: Mapping[str, Value], lazy: Iterable[Mapping[str, Value]]
) -> Mapping[str, Value]:
    """One mapping of the values that were added one by one and, behind them, of layers that look a value up."""
    layers = list(lazy)
    return LayeredMapping([_in_order(known), *layers]) if layers else _in_order(known)


def _checked_facts(facts: Mapping[str, ModelFacts]) -> dict[str, ModelFacts]:
    """Facts about models by name, once each has the types that it should have."""
    require_type(facts, Mapping)
    return {
        require_name(name): check_value(require_type(each, ModelFacts))
        for name, each in facts.items()
    }
