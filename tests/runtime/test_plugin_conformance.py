"""The checks that every plugin passes: ours do, a sample does, and plugins that break a promise do not."""

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from msgspec import structs

from agent_resolver.runtime import (
    DEFAULT_COMPACTION,
    PLUGIN_CHECKS,
    AgentSpec,
    ChatRequest,
    Command,
    ContextPolicy,
    ContextTransformConfig,
    DefaultPlugin,
    Effect,
    InvalidPlugin,
    PermissionGate,
    Permissions,
    PhaseContext,
    Plugin,
    Registrar,
    ScheduledAction,
    SetResult,
    StopCondition,
    compaction,
    context_transform,
    knowledge_cutoff,
    loop_action_handlers,
    max_rounds,
    stop_conditions,
)

OF_HOOKS = [name for name in PLUGIN_CHECKS if name.startswith(("its_", "it_registers"))]
"""The checks of what a plugin registers; the others add it to a runtime, which has its own already."""
OURS: dict[str, Callable[[], Plugin]] = {
    "loop_action_handlers": loop_action_handlers,
    "max_rounds": lambda: max_rounds(3),
    "stop_conditions": lambda: stop_conditions(
        3, (StopCondition(type="timeout", value=1), StopCondition(type="content_match", pattern="("))
    ),
    "knowledge_cutoff": lambda: knowledge_cutoff("2025-01"),
    "compaction": lambda: compaction(DEFAULT_COMPACTION, ContextPolicy()),
    "context_transform": lambda: context_transform(ContextTransformConfig(), ContextPolicy()),
    "permission": lambda: DefaultPlugin(
        "permission",
        phases=(("tool_gate", PermissionGate(Permissions(default_behavior="ask", rules=()))),),
    ),
}


class Sample:
    """Counts rounds, adds what it was told to the question, and answers one call itself."""

    id = "sample"

    def register(self, registrar: Registrar) -> None:
        registrar.key("sample.rounds", merge="add", default=0)
        registrar.phase_hook("step_end", self.count_round)
        registrar.phase_hook("before_inference", self.remind)
        registrar.phase_hook("tool_gate", lambda _: Command(gate=SetResult("made up")))
        registrar.scheduled_action("sample.note", lambda *_: None)
        registrar.effect("sample.mail", lambda *_: None)
        registrar.request_transform(lambda request, _: structs.replace(request, temperature=0.0))

    async def count_round(self, _: PhaseContext) -> Command:
        return Command(updates={"sample.rounds": 1}, effects=(Effect("sample.mail"),))

    def remind(self, context: PhaseContext) -> Command:
        reminder = context.run.spec.sections["sample"]["reminder"]
        return Command(actions=(ScheduledAction("add_context_message", {"content": reminder}),))

    async def on_activate(self, spec: AgentSpec, state: Any) -> None:
        assert spec.sections["sample"]
        state.update("sample.rounds", 1)

    def on_deactivate(self, state: Any) -> None:
        state.update("sample.rounds", 1)


class Odd(Sample):
    """A plugin that differs from the sample in one thing."""

    def __init__(self, register: Callable[[Registrar], object]) -> None:
        self._register = register

    def register(self, registrar: Registrar) -> None:
        super().register(registrar)
        self._register(registrar)


SECTIONS = {"sample": {"reminder": "Be brief."}}
NUMBERS = count()


def check(name: str, make: Callable[[], Plugin]) -> None:
    asyncio.run(PLUGIN_CHECKS[name](make, SECTIONS))


@pytest.mark.parametrize("name", PLUGIN_CHECKS)
def test_a_sample_passes_every_check(name: str) -> None:
    check(name, Sample)


@pytest.mark.parametrize("plugin", OURS)
@pytest.mark.parametrize("name", OF_HOOKS)
def test_plugins_of_the_runtime_pass_the_checks_of_what_they_register(name: str, plugin: str) -> None:
    check(name, OURS[plugin])


def drifting(_: PhaseContext) -> Command:
    return Command(updates={"sample.rounds": next(NUMBERS)})


def mutating(request: ChatRequest, _: PhaseContext) -> ChatRequest:
    request.tools[0].schema["evil"] = next(NUMBERS)
    return request


def widening(request: ChatRequest, _: PhaseContext) -> ChatRequest:
    return structs.replace(request, tools=(*request.tools, structs.replace(request.tools[0], name="rm")))


@pytest.mark.parametrize(
    ("name", "register", "fault"),
    [
        ("it_registers_the_same_every_time", lambda r: r.key(f"k{next(NUMBERS)}"), "the second time"),
        ("its_hooks_are_pure", lambda r: r.phase_hook("run_start", drifting), "a hook of run_start says"),
        (
            "its_hooks_give_commands_that_can_be_carried_out",
            lambda r: r.phase_hook("run_end", lambda _: Command(gate=SetResult(1))),
            "a hook of run_end says something for the gate",
        ),
        (
            "its_hooks_give_commands_that_can_be_carried_out",
            lambda r: r.phase_hook("run_end", lambda _: Command(actions=(ScheduledAction("nobody"),))),
            "schedules \\['nobody'\\], which nothing handles",
        ),
        (
            "its_hooks_give_commands_that_can_be_carried_out",
            lambda r: r.phase_hook("run_end", lambda _: Command(effects=(Effect("nobody"),))),
            "wants \\['nobody'\\], which nothing handles",
        ),
        (
            "its_hooks_give_commands_that_can_be_carried_out",
            lambda r: r.phase_hook("run_end", lambda _: 5),
            "a hook of run_end gives a `int`",
        ),
        ("its_transforms_give_requests", lambda r: r.request_transform(lambda *_: None), "gives a `NoneType`"),
        ("its_transforms_give_requests", lambda r: r.request_transform(mutating), "changes the request"),
        ("its_transforms_give_requests", lambda r: r.request_transform(widening), "offers \\['rm'\\]"),
        ("it_does_not_break_a_run", lambda r: r.phase_hook("run_start", lambda _: 1 // 0), "hook_failed"),
        ("it_ends_after_a_failure", lambda r: r.phase_hook("run_start", lambda _: 1 // 0), "hook_failed"),
    ],
)
def test_a_plugin_that_breaks_a_promise_is_found(
    name: str, register: Callable[[Registrar], object], fault: str
) -> None:
    with pytest.raises(AssertionError, match=fault):
        check(name, lambda: Odd(register))


def test_a_plugin_that_runs_share_is_found() -> None:
    class Sharing(Sample):
        rounds = 0

        def on_deactivate(self, state: Any) -> None:
            self.rounds += 1
            state.update("sample.rounds", self.rounds)

    with pytest.raises(AssertionError, match="see values of each other"):
        check("it_starts_and_ends_as_often_as_it_is_asked", Sharing)


def test_a_plugin_without_an_id_is_found() -> None:
    class Nameless(Sample):
        id = ""

    with pytest.raises(InvalidPlugin, match="it has no `id`"):
        check("it_keeps_the_contract", Nameless)
