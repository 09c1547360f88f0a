"""Parts that are not what they should be, or stop being it: every fault is a typed error, and none comes early."""

import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from msgspec import structs

from agent_resolver.runtime import (
    AgentRuntime,
    AgentRuntimeBuilder,
    AgentSpec,
    BackendSpec,
    ConfigSchema,
    ConfigValidation,
    EnvBuild,
    InvalidPlugin,
    InvalidRemoteEndpointConfig,
    InvalidSpec,
    LockMissing,
    ModelFacts,
    ModelPool,
    PoolMember,
    Provider,
    Registrar,
    RegistrySet,
    RemoteEndpoint,
    ResolvedAgent,
    ResolvedBackendAgent,
    ResolveError,
    UnusableTool,
)
from agent_resolver.schema import Descriptor
from tests.runtime.sample import AGENT, MODEL, Echo, MemoryPlugin, MemoryTool, builder

REMOTE = AgentSpec(id="remote", endpoint=RemoteEndpoint(base_url="https://partner.example", backend="own"))


class Hostile:
    """Raises whatever is asked of it, also for its name."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("hands off")

    def __repr__(self) -> str:
        raise RuntimeError("hands off")


class RaisingTool(MemoryTool):
    """A tool that raises when it is asked what it is."""

    def __init__(self) -> None:
        pass

    @property
    def descriptor(self) -> Descriptor:  # type: ignore[override]
        raise RuntimeError("hands off")


def raising() -> Iterator[AgentSpec]:
    yield AGENT
    raise RuntimeError("no more")


# The builder ----------------------------------------------------------------------------------------------------------

JUNK: list[Any] = [None, 5, "text", [], {}, object(), Hostile()]
ONE_ARGUMENT = (
    "with_agent_spec",
    "with_agent_specs",
    "with_agents",
    "with_model",
    "with_model_pool",
    "with_plugin",
    "with_plugins",
    "with_locks",
    "with_model_estimates",
)
TWO_ARGUMENTS = ("with_tool", "with_provider", "with_backend", "with_lock", "with_remote_agents")
NOTHING: dict[str, list[Any]] = {
    "with_agent_specs": [[], {}],
    "with_plugins": [{}],
    "with_locks": [{}],
    "with_model_estimates": [{}],
}
"""What is not junk: no agents are none."""


@pytest.mark.parametrize("method", ONE_ARGUMENT)
def test_no_method_of_the_builder_raises_whatever_it_is_given(method: str) -> None:
    for junk in JUNK:
        if type(junk) in map(type, NOTHING.get(method, [])):
            continue
        made = AgentRuntimeBuilder()

        assert getattr(made, method)(junk) is made
        with pytest.raises(ConfigValidation):
            made.build_unchecked()


@pytest.mark.parametrize("method", TWO_ARGUMENTS)
def test_no_method_with_a_name_raises_whatever_it_is_given(method: str) -> None:
    for junk in JUNK:
        for arguments in ((junk, junk), ("name", junk), (junk, MemoryTool("x"))):
            made = AgentRuntimeBuilder()

            assert getattr(made, method)(*arguments) is made
            if method != "with_tool" or arguments[0] != "text":
                with pytest.raises(ConfigValidation):
                    made.build_unchecked()


@pytest.mark.parametrize(
    ("add", "message"),
    [
        (lambda made: made.with_agent_specs(raising()), "invalid agents: RuntimeError: no more"),
        (lambda made: made.with_agent_spec(5), "a `int` was given where `AgentSpec` belongs"),
        (lambda made: made.with_tool("x", RaisingTool()), "invalid tool 'RaisingTool': RuntimeError: hands off"),
        (lambda made: made.with_provider("q", 5), "a `int` was given, which has no method `complete`"),
        (
            lambda made: made.with_provider("q", Provider(executor=JUNK[1])),
            "a `int` was given, which has no method `complete`",
        ),
        (lambda made: made.with_backend("own", 5), "a `int` was given, which has no method `validate`"),
        (lambda made: made.with_backend("", Factory()), "'' was given where a name belongs"),
        (lambda made: made.with_model_estimates({"m": ModelFacts(context_window=JUNK[2])}), "invalid model estimates"),
        (
            lambda made: made.with_provider("q", Provider(executor=Echo(), facts={"m": JUNK[1]})),
            "a `int` was given where `ModelFacts` belongs",
        ),
        (lambda made: made.with_tool("", MemoryTool("x")), "the id of a tool has 1 to 256 characters, not 0"),
        (lambda made: made.with_tool("x" * 257, MemoryTool("x")), "the id of a tool has 1 to 256 characters, not 257"),
        (lambda made: made.with_tool("a\nb", MemoryTool("x")), "characters that can be printed"),
        (lambda made: made.with_tool("x", MemoryTool("a\x1b[31m")), "characters that can be printed"),
    ],
)
def test_a_fault_is_kept_until_the_runtime_is_built(
    add: Callable[[AgentRuntimeBuilder], AgentRuntimeBuilder], message: str
) -> None:
    with pytest.raises(ConfigValidation) as caught:
        add(builder()).build()

    assert message in str(caught.value)


# What raises or changes later -----------------------------------------------------------------------------------------


class Factory:
    """A backend whose methods do what they were told to do."""

    def __init__(
        self, validate: Callable[[], Any] = lambda: None, build: Callable[[], Any] = lambda: "backend"
    ) -> None:
        self._validate, self._build = validate, build
        self.built = 0

    def validate(self, endpoint: RemoteEndpoint) -> Any:  # noqa: ARG002 - the port
        return self._validate()

    def build(self, endpoint: RemoteEndpoint) -> Any:  # noqa: ARG002 - the port
        self.built += 1
        return self._build()


def fail() -> Any:
    raise RuntimeError("out of order")


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        (Factory(validate=fail), "RuntimeError: out of order"),
        (Factory(validate=lambda: 5), "its factory gave a `int` and no message"),
        (Factory(build=fail), "RuntimeError: out of order"),
        (Factory(validate=lambda: (_ for _ in ()).throw(SystemExit(3))), "SystemExit: 3"),
    ],
)
def test_a_factory_that_raises_or_gives_junk_ends_as_a_typed_error(factory: Factory, message: str) -> None:
    runtime = builder(REMOTE).with_backend("own", factory).build_unchecked()

    with pytest.raises(InvalidRemoteEndpointConfig) as caught:
        runtime.resolve("remote")
    assert str(caught.value) == (f"invalid remote endpoint config for delegate `remote` backend `own` — {message}")


def test_a_dry_run_checks_a_remote_agent_and_builds_nothing() -> None:
    factory = Factory()
    runtime = builder(REMOTE).with_backend("own", factory).build()
    dry = runtime.resolve("remote", is_dry_run=True).execution

    assert isinstance(dry, ResolvedBackendAgent)
    assert (factory.built, dry.backend) == (0, None)
    planned = runtime.resolve("remote").execution
    assert isinstance(planned, ResolvedBackendAgent)
    assert (factory.built, planned.backend) == (1, "backend")


class Turncoat(MemoryPlugin):
    """A plugin that kept its contract when it was registered."""

    def __init__(self) -> None:
        super().__init__("p", sections={"p": {"type": "object"}})
        self.later: dict[str, Any] = {}

    def __getattribute__(self, name: str) -> Any:
        later = super().__getattribute__("__dict__").get("later", {})
        return later[name] if name in later else super().__getattribute__(name)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("config_schemas", lambda: [5], "`config_schemas` must return ConfigSchema values"),
        ("config_schemas", lambda: 5, "TypeError: 'int' object is not iterable"),
        ("config_schemas", lambda: [ConfigSchema(5, {})], "`config_schemas` must return ConfigSchema values"),  # type: ignore[arg-type]
        ("config_schemas", lambda: [ConfigSchema("p", {"type": 5})], 'the schema of section "p" is not a schema'),
        ("config_schemas", 5, "TypeError: 'int' object is not callable"),
        ("register", fail, "fail() takes 0 positional arguments"),
        ("register", 5, "TypeError: 'int' object is not callable"),
        ("register", lambda registrar: registrar.tool(RaisingTool()), "RuntimeError: hands off"),
        ("register", lambda registrar: registrar.tool(MemoryTool("x" * 257)), "1 to 256 characters, not 257"),
        ("register", lambda registrar: registrar.tool(MemoryTool("a\u202eb")), "characters that can be printed"),
    ],
)
def test_junk_that_a_plugin_gives_later_ends_as_a_typed_error(name: str, value: Any, message: str) -> None:
    plugin = Turncoat()
    spec = structs.replace(AGENT, plugin_ids=("p",), sections={"p": {}})
    runtime = builder(spec).with_plugin(plugin).build()
    plugin.later = {name: value}

    with pytest.raises(EnvBuild) as caught:
        runtime.resolve("agent")
    assert message in str(caught.value)


def test_a_plugin_that_registers_asynchronously_after_all_is_refused() -> None:
    async def register(registrar: Registrar) -> None:
        """Never awaited."""

    plugin = Turncoat()
    runtime = builder(structs.replace(AGENT, plugin_ids=("p",))).with_plugin(plugin).build()
    plugin.later = {"register": register}

    with pytest.raises(EnvBuild, match="`register` must not be asynchronous"):
        runtime.resolve("agent")


def test_a_plugin_that_takes_another_id_later_is_known_by_its_first() -> None:
    plugin = Turncoat()
    runtime = builder(structs.replace(AGENT, plugin_ids=("p",))).with_plugin(plugin).build()
    plugin.later = {"id": 5}
    found = runtime.resolve("agent").execution

    assert isinstance(found, ResolvedAgent)
    assert [active.id for active in found.env.plugins] == ["p", "loop_action_handlers", "max_rounds"]


def test_a_tool_that_says_something_else_later_is_planned_as_it_was() -> None:
    tool = MemoryTool("search")
    runtime = builder(AGENT).with_tool("search", tool).build()
    tool.descriptor = 5  # type: ignore[assignment]
    found = runtime.resolve("agent").execution

    assert isinstance(found, ResolvedAgent)
    assert found.tools["search"].descriptor is not None
    assert found.tools["search"].descriptor.description == "For a test."


class Lazy(Mapping[str, Any]):
    """Raises for every key."""

    def __getitem__(self, key: str) -> Any:
        raise RuntimeError("out of order")

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("out of order")

    def __len__(self) -> int:
        raise RuntimeError("out of order")


class Agents:
    """Gives what it was told to give."""

    def __init__(self, give: Callable[[], Any]) -> None:
        self._give = give

    def get(self, agent_id: str) -> Any:  # noqa: ARG002 - the port
        return self._give()

    def ids(self) -> list[str]:
        return []


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (builder().with_agents(Agents(fail)), InvalidSpec),
        (builder().with_agents(Agents(lambda: 5)), InvalidSpec),
        (builder(structs.replace(AGENT, plugin_ids=("x",))).with_plugins(Lazy()), InvalidPlugin),
        (builder(structs.replace(AGENT, plugin_ids=("x",))).with_plugins({"x": 5}), InvalidPlugin),  # type: ignore[dict-item]
        (builder(structs.replace(AGENT, plugin_ids=("x",))).with_plugins({"x": Hostile()}), InvalidPlugin),
        (builder(structs.replace(AGENT, requires_lock=True)).with_locks({"agent": 5}), LockMissing),  # type: ignore[dict-item]
        (builder(AgentSpec(id="x" * 250, model_id="m"), structs.replace(AGENT, delegates=("x" * 250,))), UnusableTool),
    ],
)
def test_junk_that_is_looked_up_later_ends_as_a_typed_error(
    made: AgentRuntimeBuilder, expected: type[ResolveError]
) -> None:
    with pytest.raises(expected):
        made.build_unchecked().resolve("agent")


@pytest.mark.parametrize("method", ["add", "replace"])
def test_what_is_no_spec_is_not_added_to_a_runtime(method: str) -> None:
    with pytest.raises(InvalidSpec, match="It is a `int`, and not an AgentSpec"):
        getattr(builder(AGENT).build(), method)(5)


# Threads --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def _hasty_threads() -> Iterator[None]:
    """Threads that take turns after nearly every step, so that a change that is not protected gets lost."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.usefixtures("_hasty_threads")
def test_agents_that_many_threads_add_at_once_are_all_there() -> None:
    runtime = builder(AGENT).build()
    threads, each = 8, 50
    start = threading.Barrier(threads)

    def add(thread: int) -> None:
        start.wait()
        for number in range(each):
            runtime.add(AgentSpec(id=f"agent-{thread}-{number}", model_id="m"))

    workers = [threading.Thread(target=add, args=(thread,)) for thread in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    assert len(runtime.snapshot.agents.ids()) == threads * each + 1
    assert runtime.snapshot.version == threads * each + 1


# What cannot be changed -----------------------------------------------------------------------------------------------

NESTED = AgentSpec(
    id="agent",
    model_id="m",
    sections={"permission": {"rules": [{"tool": "rm", "behavior": "deny"}]}, "own": {"list": [1]}},
    backend=BackendSpec(config={"model_id": "m"}),
)


def closed_runtime() -> AgentRuntime:
    options = {"poll_interval_ms": 5, "history_length": 1}
    remote = structs.replace(
        REMOTE, endpoint=RemoteEndpoint(base_url="https://x.example", backend="own", options=options)
    )
    pool = ModelPool(id="pool", members=(PoolMember(model_id="m"),))
    made = builder(NESTED, remote).with_backend("own", Factory()).with_model_pool(pool)
    return made.with_tool("search", MemoryTool("search")).build()


@pytest.mark.parametrize(
    "change",
    [
        lambda now: now.agents.get("agent").sections.clear(),
        lambda now: now.agents.get("agent").sections["permission"]["rules"].clear(),
        lambda now: now.agents.get("agent").sections["permission"]["rules"][0].update(behavior="allow"),
        lambda now: now.agents.get("agent").sections["own"]["list"].append(2),
        lambda now: now.agents.get("agent").backend.config.update(model_id="other"),
        lambda now: now.agents.get("remote").endpoint.options.update(poll_interval_ms=0),
        lambda now: now.tools["search"].descriptor.input_schema.update(type="array"),
        lambda now: now.models.update(m=MODEL),
        lambda now: now.models.__setitem__("m", MODEL),
        lambda now: now.pools.clear(),
        lambda now: now.tools.pop("search"),
        lambda now: now.providers["p"].facts.update(u=ModelFacts()),
        lambda now: setattr(now, "version", 9),
    ],
)
def test_nothing_of_a_snapshot_can_be_changed_from_outside(change: Callable[[RegistrySet], object]) -> None:
    runtime = closed_runtime()

    with pytest.raises((TypeError, AttributeError)):
        change(runtime.snapshot)


def test_a_snapshot_does_not_follow_what_it_was_made_of() -> None:
    sections: dict[str, Any] = {"own": {"list": [1]}}
    facts = {"u": ModelFacts(context_window=5)}
    schema: dict[str, Any] = {"type": "object"}
    tool = MemoryTool("search")
    tool.descriptor = structs.replace(tool.descriptor, input_schema=schema)
    made = builder(structs.replace(AGENT, sections=sections)).with_tool("search", tool)
    runtime = made.with_provider("q", Provider(executor=Echo(), facts=facts)).build()
    sections["own"]["list"].append(2)
    facts.clear()
    schema.clear()

    spec = runtime.snapshot.agents.get("agent")
    assert spec is not None
    assert spec.sections == {"own": {"list": [1]}}
    assert list(runtime.snapshot.providers["q"].facts) == ["u"]
    assert runtime.snapshot.tools["search"].descriptor.input_schema == {"type": "object"}


def test_the_plan_of_a_frozen_spec_reads_its_sections_as_before() -> None:
    plugin = MemoryPlugin("own", sections={"own": {"type": "object", "properties": {"list": {"type": "array"}}}})
    spec = structs.replace(NESTED, plugin_ids=("own",))
    found = builder(spec).with_plugin(plugin).build().resolve("agent").execution

    assert [warning.code for warning in found.warnings] == ["ORPHAN_PERMISSION_RULE"]


# As the seed writes it ------------------------------------------------------------------------------------------------


def search_tool(query: str, limit: int = 10) -> list[str]:
    """Search the notes."""
    return [query] * limit


def test_a_plain_function_and_an_executor_make_an_agent_as_the_seed_writes_it() -> None:
    executor = Echo()
    made = AgentRuntimeBuilder().with_model(MODEL).with_agent_spec(AGENT)
    runtime = made.with_tool("search", search_tool).with_provider("p", executor).build()
    found = runtime.resolve("agent").execution

    assert isinstance(found, ResolvedAgent)
    assert found.seats[0].executor is executor
    descriptor = found.tools["search"].descriptor
    assert descriptor is not None
    assert (descriptor.id, descriptor.description) == ("search", "Search the notes.")
    assert descriptor.input_schema["required"] == ["query"]
    assert descriptor.rules.classification == "CONFIDENTIAL"


def test_a_tool_is_offered_under_the_id_that_it_is_given() -> None:
    found = builder(AGENT).with_tool("find", MemoryTool("search")).build().resolve("agent").execution

    assert isinstance(found, ResolvedAgent)
    assert [tool.descriptor.id for tool in found.tools.values() if tool.descriptor] == ["find"]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda query: query, "query: its type is not said"),
        (print, "it has no descriptor"),
        (MemoryTool, "it has no descriptor"),
    ],
)
def test_a_function_that_cannot_be_a_tool_is_told_when_the_runtime_is_built(function: Any, message: str) -> None:
    with pytest.raises(ConfigValidation, match=message):
        builder().with_tool("search", function).build()
