"""What plugins register, and that no plan shares it with another."""

from typing import Any, cast

import pytest
from msgspec import structs

from agent_resolver.runtime import (
    PHASES,
    AgentSpec,
    ContextPolicy,
    EnvBuild,
    ExecutionEnv,
    Registrar,
    RegistrySet,
    resolve_local,
)
from agent_resolver.schema import Descriptor, Labels
from tests.runtime.sample import MemoryPlugin, MemoryTool, handler, registries

EVERYTHING = {
    "hooks": PHASES,
    "actions": ["act"],
    "effects": ["effect"],
    "keys": ["key"],
    "profile_keys": ["liked"],
    "transforms": 2,
    "tools": ["tool"],
}


class Registering:
    """A plugin that does as told."""

    id = "p"

    def __init__(self, register: Any) -> None:
        self._register = register

    def register(self, registrar: Registrar) -> None:
        self._register(registrar)


def env_of(register: Any) -> ExecutionEnv:
    registrar = Registrar()
    registrar.take("p", Registering(register), counts=True)
    return registrar.env()


def test_everything_is_registered_with_the_name_of_its_plugin() -> None:
    registrar = Registrar()
    registrar.take("p", MemoryPlugin("p", **EVERYTHING), counts=True)
    env = registrar.env()

    assert list(env.phase_hooks) == list(PHASES)
    assert {hook.plugin for hooks in env.phase_hooks.values() for hook in hooks} == {"p"}
    assert {name: each.plugin for name, each in env.scheduled_action_handlers.items()} == {"act": "p"}
    assert {name: each.plugin for name, each in env.effect_handlers.items()} == {"effect": "p"}
    assert [each.plugin for each in env.request_transforms] == ["p", "p"]
    assert [(each.key, each.plugin, each.scope) for each in env.key_registrations] == [
        ("key", "p", "run"),
        ("liked", "p", "profile"),
    ]
    assert [(tool_id, each.plugin) for tool_id, each in env.tools.items()] == [("tool", "p")]
    assert [plugin.id for plugin in env.plugins] == ["p"]


def test_of_a_plugin_that_does_not_count_only_what_others_rely_on_does() -> None:
    registrar = Registrar()
    registrar.take("p", MemoryPlugin("p", **EVERYTHING), counts=False)
    env = registrar.env()

    assert (dict(env.phase_hooks), env.request_transforms, dict(env.tools)) == ({}, (), {})
    assert (list(env.scheduled_action_handlers), list(env.effect_handlers), len(env.key_registrations)) == (
        ["act"],
        ["effect"],
        2,
    )
    assert [plugin.id for plugin in env.plugins] == ["p"]


@pytest.mark.parametrize(
    ("register", "expected"),
    [
        (
            lambda registrar: registrar.phase_hook("after_lunch", handler),
            f"plugin p: there is no phase 'after_lunch'; there are {', '.join(PHASES)}",
        ),
        (lambda each: each.phase_hook("run_start", None), "plugin p: phase hook 'run_start' cannot be called"),
        (lambda registrar: registrar.scheduled_action("", handler), "plugin p: action handler '' has no name"),
        (lambda registrar: registrar.scheduled_action("x", 1), "plugin p: action handler 'x' cannot be called"),
        (lambda registrar: registrar.effect(None, handler), "plugin p: effect handler None has no name"),
        (lambda registrar: registrar.request_transform("x"), "plugin p: request transform cannot be called"),
        (lambda registrar: registrar.tool("x"), "plugin p: tool 'str' cannot be used: it has no descriptor"),
        (lambda each: (each.key("x"), each.key("x")), "state key 'x' of plugin p already registered by plugin p"),
        (lambda _: 1 / 0, "plugin p: ZeroDivisionError: division by zero"),
        (lambda _: (_ for _ in ()).throw(SystemExit(3)), "plugin p: SystemExit: 3"),
    ],
)
def test_what_cannot_be_registered_is_told_with_the_plugin(register: Any, expected: str) -> None:
    with pytest.raises(EnvBuild) as caught:
        env_of(register)

    assert str(caught.value) == f"env build error: {expected}"


def test_a_plugin_that_keeps_the_registrar_changes_nothing_later() -> None:
    kept: list[Registrar] = []
    env = env_of(kept.append)

    late: list[tuple[Any, ...]] = [
        ("phase_hook", "run_start", handler),
        ("scheduled_action", "late", handler),
        ("effect", "late", handler),
        ("request_transform", handler),
        ("key", "late"),
        ("tool", MemoryTool("late")),
    ]
    for method, *arguments in late:
        with pytest.raises(EnvBuild, match="plugin p: it registers after `register` has returned"):
            getattr(kept[0], method)(*arguments)
    assert (dict(env.scheduled_action_handlers), dict(env.tools), env.key_registrations) == ({}, {}, ())


def test_nothing_of_an_env_can_be_changed() -> None:
    env = env_of(lambda registrar: registrar.scheduled_action("act", handler))

    for known in (env.phase_hooks, env.scheduled_action_handlers, env.effect_handlers):
        with pytest.raises(TypeError):
            cast("Any", known)["x"] = 1
    with pytest.raises(AttributeError):
        env.tools = {}  # type: ignore[misc]


def test_plans_without_plugins_share_an_env_unless_something_in_it_differs() -> None:
    plain = AgentSpec(id="agent", model_id="m")
    short = AgentSpec(id="short", model_id="m", max_rounds=3)
    gated = AgentSpec(id="gated", model_id="m", sections={"permission": {"default_behavior": "deny"}})
    snapshot = registries(plain, short, gated)

    envs = [resolve_local(snapshot, spec.id).env for spec in (plain, plain, short, gated)]

    assert envs[0] is envs[1]
    assert len({id(env) for env in envs}) == 3


def test_every_plan_with_a_plugin_has_an_env_of_its_own() -> None:
    spec = AgentSpec(id="agent", model_id="m", plugin_ids=("p",), delegates=("agent",), context_policy=ContextPolicy())
    snapshot = registries(spec, tools=["read"], plugins=[MemoryPlugin("p", **EVERYTHING)])

    one, other, third = (resolve_local(snapshot, "agent") for _ in range(3))

    assert one.env is not other.env
    assert one.tools is not other.tools
    for name in ExecutionEnv.__struct_fields__:
        assert getattr(one.env, name) is not getattr(other.env, name)
    # What is the same for both is the plugin and the tool that were registered.
    ours, theirs = ([active.plugin for active in plan.env.plugins] for plan in (one, other))
    assert ours[0] is theirs[0]
    schemas = [plan.tools["agent_run_agent"].descriptor for plan in (one, other)]
    assert schemas[0] == schemas[1]
    assert schemas[0] is not None
    schemas[0].input_schema["properties"]["prompt"]["type"] = "integer"
    assert schemas[0] != schemas[1]
    assert (
        schemas[1]
        == third.tools["agent_run_agent"].descriptor
        == resolve_local(snapshot, "agent").tools["agent_run_agent"].descriptor
    )


SPEC = AgentSpec(id="agent", model_id="m", plugin_ids=("p",))


class ToolPlugin(MemoryPlugin):
    """A plugin that offers the same tool for every plan, whose schema a test may change."""

    def __init__(self, schema: Any, examples: tuple[Any, ...] = ()) -> None:
        super().__init__("p")
        self.tool = MemoryTool("tool")
        labels = Labels(examples=examples)
        self.tool.descriptor = structs.replace(self.tool.descriptor, input_schema=schema, labels=labels)

    def register(self, registrar: Registrar) -> None:
        registrar.tool(self.tool)


def planned_descriptor(snapshot: RegistrySet) -> Descriptor:
    descriptor = resolve_local(snapshot, "agent").tools["tool"].descriptor
    assert descriptor is not None
    return descriptor


def test_a_tool_that_says_the_same_in_the_next_plan_is_not_copied_again() -> None:
    snapshot = registries(SPEC, plugins=[ToolPlugin({"properties": {"limit": {"minimum": 1}}})])

    assert planned_descriptor(snapshot) is planned_descriptor(snapshot)


@pytest.mark.parametrize("changed", [2, True, 1.0, 10**30])
def test_a_schema_that_a_plugin_changes_in_place_is_seen_by_the_next_plan(changed: object) -> None:
    limit: dict[str, object] = {"minimum": 1}
    snapshot = registries(SPEC, plugins=[ToolPlugin({"properties": {"limit": limit}})])
    first = planned_descriptor(snapshot)

    limit["minimum"] = changed

    second = planned_descriptor(snapshot)
    assert repr(second.input_schema) == repr({"properties": {"limit": {"minimum": changed}}})
    assert repr(first.input_schema) == repr({"properties": {"limit": {"minimum": 1}}})
    limit["minimum"] = 1
    assert planned_descriptor(snapshot) == first


def test_a_tool_that_goes_bad_between_two_plans_is_refused() -> None:
    schema: dict[Any, object] = {}
    plugin = ToolPlugin(schema)
    snapshot = registries(SPEC, plugins=[plugin])
    planned_descriptor(snapshot)

    schema["default"] = object()
    with pytest.raises(EnvBuild, match="plugin p: tool 'tool' cannot be used: its descriptor is not one"):
        planned_descriptor(snapshot)

    del schema["default"]
    schema[1] = "no name"
    with pytest.raises(EnvBuild, match="its descriptor is not one"):
        planned_descriptor(snapshot)

    del schema[1]
    plugin.tool.invoke = None  # type: ignore[assignment,method-assign]
    with pytest.raises(EnvBuild, match="it has no method `invoke`"):
        planned_descriptor(snapshot)


def test_what_plans_share_of_a_tool_cannot_be_changed() -> None:
    snapshot = registries(SPEC, plugins=[ToolPlugin({"properties": {}}, examples=({"limit": 1},))])
    descriptor = planned_descriptor(snapshot)

    with pytest.raises(TypeError):
        descriptor.input_schema["properties"]["limit"] = {}
    with pytest.raises(TypeError):
        descriptor.labels.examples[0]["limit"] = 2
