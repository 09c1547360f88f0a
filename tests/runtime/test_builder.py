"""The builder and the runtime: nothing is raised before the end, and every change is another snapshot."""

from typing import Any

import pytest
from msgspec import structs

from agent_resolver.runtime import (
    AgentNotFound,
    AgentRuntime,
    AgentRuntimeBuilder,
    AgentSpec,
    BuildError,
    ConfigValidation,
    InvalidSpec,
    MapAgents,
    ModelFacts,
    ModelNotFound,
    ModelPool,
    ModelSpec,
    PluginNotFound,
    PoolMember,
    RegistryConflict,
    RemoteEndpoint,
    SnapshotNotHeld,
    ValidationFailed,
    resolve,
    resolve_local,
)
from tests.runtime.sample import AGENT, MODEL, Echo, MemoryPlugin, MemoryTool, builder


def first_error(made: AgentRuntimeBuilder) -> BuildError:
    with pytest.raises(BuildError) as caught:
        made.build_unchecked()
    return caught.value


# The builder ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        lambda made: made.with_tool("x", object()),
        lambda made: made.with_plugin(object()),
        lambda made: made.with_plugin(MemoryPlugin),
        lambda made: made.with_model(ModelSpec(id="", provider_id="", upstream_model="")),
        lambda made: made.with_model(structs.replace(MODEL, id="n", context_window="large", modalities=5)),
        lambda made: made.with_model(structs.replace(MODEL, id="n", input_price=float("nan"))),
        lambda made: made.with_model_pool(ModelPool(id="x")),
        lambda made: made.with_model_pool(ModelPool(id="x", members=(PoolMember(model_id="m", weight=0),))),
        lambda made: made.with_agent_spec(AgentSpec(id="x", max_rounds="many")),  # type: ignore[arg-type]
        lambda made: made.with_agent_spec(AgentSpec(id="x", sections={"x": object()})),
    ],
)
def test_no_part_is_refused_before_the_end(wrong: Any) -> None:
    made = builder(AGENT)

    assert wrong(made) is made
    assert isinstance(first_error(made), ConfigValidation)
    with pytest.raises(ConfigValidation):
        made.build()


def test_the_first_error_stays_the_first_however_often_one_asks() -> None:
    made = builder(AGENT, AGENT).with_model(MODEL)

    errors = [str(first_error(made)) for _ in range(3)]

    assert errors == ["agent 'agent' already registered"] * 3


def test_an_alias_that_two_models_have_is_told_after_everything_else() -> None:
    made = builder().with_model(structs.replace(MODEL, id="n", aliases=("m",)))

    assert str(first_error(made)) == str(first_error(made)) == "duplicate model alias 'm'"
    made.with_tool("x", MemoryTool("x")).with_tool("x", MemoryTool("x"))
    assert str(first_error(made)) == "tool 'x' already registered"


def test_an_alias_of_its_own_is_no_clash() -> None:
    model = structs.replace(MODEL, aliases=("m", "sonnet", "sonnet"))

    assert list(AgentRuntimeBuilder().with_model(model).build().snapshot.models) == ["m", "sonnet"]


def test_every_agent_without_a_plan_is_told_with_its_error() -> None:
    made = builder(
        AgentSpec(id="b", model_id="x"),
        AgentSpec(id="a", model_id="m", plugin_ids=("x",)),
        AgentSpec(id="c", model_id="m"),
    )

    with pytest.raises(ValidationFailed) as caught:
        made.build()

    errors = caught.value.errors
    assert {agent_id: type(error) for agent_id, error in errors.items()} == {"a": PluginNotFound, "b": ModelNotFound}
    assert list(errors) == ["a", "b"]
    assert str(caught.value) == "a: plugin not found: x; b: model not found: x"
    assert made.build_unchecked().snapshot.agents.ids() == ["a", "b", "c"]


def test_agents_of_others_are_not_tried_but_found() -> None:
    remote = MapAgents([AgentSpec(id="helper", model_id="x"), AgentSpec(id="agent", model_id="x")])
    runtime = builder(AGENT).with_remote_agents("partner", remote).build()

    assert runtime.resolve("agent").execution.spec.model_id == "m"
    with pytest.raises(ModelNotFound):
        runtime.resolve("partner/agent")
    with pytest.raises(ModelNotFound):
        runtime.resolve("helper")


def test_everything_of_a_snapshot_is_in_order_whatever_the_order_was() -> None:
    parts: list[tuple[Any, ...]] = [
        *(("with_tool", name, MemoryTool(name)) for name in "cab"),
        *(("with_plugin", MemoryPlugin(name)) for name in "cab"),
        *(("with_model", structs.replace(MODEL, id=name)) for name in "cab"),
    ]
    made = AgentRuntimeBuilder()
    for method, *arguments in parts:
        getattr(made, method)(*arguments)
    snapshot = made.build().snapshot

    assert (list(snapshot.tools), list(snapshot.plugins), list(snapshot.models)) == (["a", "b", "c"],) * 3


def test_a_builder_that_goes_on_does_not_change_what_was_built() -> None:
    made = builder(AGENT)
    runtime = made.build()
    made.with_tool("late", MemoryTool("late")).with_agent_spec(AgentSpec(id="late", model_id="m"))

    assert list(runtime.snapshot.tools) == []
    assert runtime.snapshot.agents.ids() == ["agent"]
    assert made.build().snapshot.agents.ids() == ["agent", "late"]


# The runtime ----------------------------------------------------------------------------------------------------------


def runtime_of(*agents: AgentSpec) -> AgentRuntime:
    return builder(*agents).with_tool("read", MemoryTool("read")).build()


def test_agents_are_added_replaced_and_removed_each_as_a_new_snapshot() -> None:
    runtime = runtime_of(AGENT)

    assert runtime.snapshot.version == 1
    assert runtime.add(AgentSpec(id="new", model_id="m")) == 2
    assert runtime.replace(AgentSpec(id="new", model_id="m", max_rounds=2)) == 3
    assert runtime.resolve("new").execution.spec.max_rounds == 2
    assert runtime.remove("new") == 4
    with pytest.raises(AgentNotFound):
        runtime.resolve("new")
    assert runtime.resolve("agent").version == runtime.snapshot.version == 4


def test_a_plan_keeps_the_snapshot_that_it_was_made_of() -> None:
    runtime = runtime_of(structs.replace(AGENT, delegates=("helper",)), AgentSpec(id="helper", model_id="m"))
    plan = runtime.resolve("agent")
    before = plan.snapshot

    runtime.replace(AgentSpec(id="helper", model_id="m", max_rounds=1))
    runtime.replace(structs.replace(AGENT, allowed_tools=()))
    runtime.remove("helper")

    assert (plan.version, plan.snapshot) == (1, before)
    assert plan.execution.spec.delegates == ("helper",)
    assert resolve(plan.snapshot, "helper").execution.spec.max_rounds == 16
    assert list(resolve_local(plan.snapshot, "agent").tools) == ["agent_run_helper", "read"]
    assert list(resolve_local(runtime.snapshot, "agent").tools) == []
    assert resolve(before, "agent").version == 1


def test_whoever_is_pinned_to_a_snapshot_that_is_gone_is_refused() -> None:
    runtime = runtime_of(AGENT)
    plan = runtime.resolve("agent", version=1)
    runtime.replace(AGENT)

    with pytest.raises(SnapshotNotHeld, match="snapshot 1 is not held: the runtime is at snapshot 2"):
        runtime.resolve("agent", version=1)
    assert runtime.resolve("agent", version=2).version == 2
    assert resolve(plan.snapshot, "agent").version == 1


def test_a_change_that_cannot_be_leaves_everything_as_it_was() -> None:
    runtime = runtime_of(AGENT)

    with pytest.raises(RegistryConflict, match="agent 'agent' already registered"):
        runtime.add(AGENT)
    with pytest.raises(AgentNotFound, match="agent not found: x"):
        runtime.replace(AgentSpec(id="x"))
    with pytest.raises(AgentNotFound, match="agent not found: x"):
        runtime.remove("x")
    with pytest.raises(InvalidSpec, match="max_rounds: Must be 0 or more"):
        runtime.add(AgentSpec(id="x", max_rounds=-1))
    with pytest.raises(InvalidSpec, match="not a pattern"):
        runtime.replace(structs.replace(AGENT, allowed_tool_patterns=("",)))
    assert (runtime.snapshot.version, runtime.snapshot.agents.ids()) == (1, ["agent"])


def test_changes_leave_the_agents_of_others_where_they_are() -> None:
    remote = MapAgents([AgentSpec(id="agent", model_id="m", max_rounds=7)])
    runtime = builder(AGENT).with_remote_agents("partner", remote).build()

    with pytest.raises(AgentNotFound):
        runtime.remove("partner/agent")
    runtime.remove("agent")

    assert runtime.resolve("agent").execution.spec.max_rounds == 7
    assert runtime.add(AGENT) == 3
    assert runtime.resolve("agent").execution.spec.max_rounds == 16
    assert runtime.resolve("partner/agent").execution.spec.max_rounds == 7


def test_what_is_usual_of_a_model_may_come_in_parts() -> None:
    made = builder(AGENT).with_model_estimates({"u": ModelFacts(context_window=5)}).with_model_estimates({})

    assert resolve_local(made.build().snapshot, "agent").model.context_window == 5


def test_an_agent_elsewhere_is_never_run_here() -> None:
    spec = AgentSpec(id="x", endpoint=RemoteEndpoint(base_url="https://agents.example"))

    with pytest.raises(ValidationFailed, match="x: unsupported remote backend `a2a` for delegate `x`"):
        builder(spec).build()


def test_the_executor_of_a_plan_is_that_of_its_provider() -> None:
    (seat,) = resolve_local(runtime_of(AGENT).snapshot, "agent").seats

    assert isinstance(seat.executor, Echo)
