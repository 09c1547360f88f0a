"""The plugins that every agent has: what they register is data, which the loop knows how to do."""

from typing import Any

import pytest

from agent_resolver.runtime import (
    ACTIONS,
    DEFAULT_COMPACTION,
    DEFAULT_PLUGINS,
    ContextPolicy,
    ContextTransformConfig,
    DefaultPlugin,
    Registrar,
    Setting,
    StopCondition,
    check_plugin,
    compaction,
    context_transform,
    knowledge_cutoff,
    loop_action_handlers,
    max_rounds,
    stop_conditions,
)

EACH = [
    loop_action_handlers(),
    max_rounds(3),
    stop_conditions(3, (StopCondition(type="timeout", value=1),)),
    knowledge_cutoff("2024-01"),
    compaction(DEFAULT_COMPACTION, ContextPolicy()),
    context_transform(ContextTransformConfig(), ContextPolicy()),
]


class Loop:
    """Remembers what it was asked to do."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any]] = []

    def handle(self, name: str, value: Any) -> str:
        self.asked.append((name, value))
        return "done"


def test_their_ids_are_the_ones_that_no_other_plugin_may_have() -> None:
    assert {plugin.id for plugin in EACH} == DEFAULT_PLUGINS


@pytest.mark.parametrize("plugin", EACH, ids=lambda plugin: plugin.id)
def test_each_keeps_the_contract_but_for_its_id(plugin: DefaultPlugin) -> None:
    assert check_plugin(DefaultPlugin("other", plugin.actions, plugin.phases, plugin.transforms)).id == "other"


def test_the_loop_is_asked_to_do_what_they_stand_for() -> None:
    registrar, loop = Registrar(), Loop()
    for plugin in EACH:
        registrar.take(plugin.id, plugin, counts=True)
    env = registrar.env()

    assert list(env.scheduled_actions) == list(ACTIONS)
    (hook, *_) = env.phase_hooks["after_inference"]
    assert hook.handler(loop) == "done"
    assert loop.asked == [("max_rounds", 3)]
    assert {phase: [hook.plugin for hook in hooks] for phase, hooks in env.phase_hooks.items()} == {
        "step_start": ["context_compaction"],
        "before_inference": ["knowledge_cutoff_context"],
        "after_inference": ["max_rounds", "stop_conditions"],
    }
    assert all(isinstance(each.handler, Setting) for each in (*env.scheduled_actions.values(), *env.request_transforms))


def test_what_sums_up_by_default_saves_a_third() -> None:
    assert (DEFAULT_COMPACTION.min_savings_ratio, DEFAULT_COMPACTION.mode) == (0.3, "background")
    assert DEFAULT_COMPACTION.raw_retention == "preserve_durable"
    assert "{messages}" in DEFAULT_COMPACTION.summarizer_user_prompt
