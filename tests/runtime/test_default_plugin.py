"""The plugins that every agent has: what they register is data that can be called."""

import pytest

from agent_resolver.runtime import (
    DEFAULT_COMPACTION,
    DEFAULT_PLUGINS,
    LOOP_ACTIONS,
    ContextPolicy,
    ContextTransformConfig,
    DefaultPlugin,
    Permissions,
    Registrar,
    StopCondition,
    StopRules,
    check_plugin,
    compaction,
    context_transform,
    knowledge_cutoff,
    loop_action_handlers,
    max_rounds,
    permission_gate,
    stop_conditions,
)

EACH = [
    loop_action_handlers(),
    max_rounds(3),
    stop_conditions(3, (StopCondition(type="timeout", value=1),)),
    knowledge_cutoff("2024-01"),
    compaction(DEFAULT_COMPACTION, ContextPolicy()),
    context_transform(ContextTransformConfig(), ContextPolicy()),
    permission_gate(Permissions(default_behavior="ask", rules=())),
]


def test_their_ids_are_the_ones_that_no_other_plugin_may_have() -> None:
    assert {plugin.id for plugin in EACH} == DEFAULT_PLUGINS


@pytest.mark.parametrize("plugin", EACH, ids=lambda plugin: plugin.id)
def test_each_keeps_the_contract_but_for_its_id(plugin: DefaultPlugin) -> None:
    other = DefaultPlugin("other", plugin.phases, plugin.transforms, plugin.shared)

    assert check_plugin(other).id == "other"


def test_they_register_hooks_in_the_phases_of_the_original() -> None:
    registrar = Registrar()
    for plugin in EACH:
        registrar.take(plugin.id, plugin, counts=True)
    env = registrar.env()

    assert list(env.scheduled_action_handlers) == [action.name for action in LOOP_ACTIONS]
    assert [each.key for each in env.key_registrations] == [action.key for action in LOOP_ACTIONS]
    assert {phase: [hook.plugin for hook in hooks] for phase, hooks in env.phase_hooks.items()} == {
        "step_start": ["context_compaction"],
        "before_inference": ["knowledge_cutoff_context"],
        "after_inference": ["max_rounds", "stop_conditions"],
        "tool_gate": ["permission"],
    }


def test_the_limit_of_rounds_of_the_spec_comes_before_all_other_rules() -> None:
    ((_, rules),) = stop_conditions(3, (StopCondition(type="timeout", value=1),)).phases

    assert isinstance(rules, StopRules)
    assert [condition.type for condition in rules.conditions] == ["max_rounds", "timeout"]


def test_what_sums_up_by_default_saves_a_third() -> None:
    assert (DEFAULT_COMPACTION.min_savings_ratio, DEFAULT_COMPACTION.mode) == (0.3, "background")
    assert DEFAULT_COMPACTION.raw_retention == "preserve_durable"
    assert "{messages}" in DEFAULT_COMPACTION.summarizer_user_prompt
