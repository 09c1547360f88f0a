"""Checks that every plugin should pass.

A check is given a function that makes the plugin, and raises `AssertionError` with what it missed:

    @pytest.mark.parametrize("name", PLUGIN_CHECKS)
    def test_my_plugin_keeps_the_contract(name: str) -> None:
        asyncio.run(PLUGIN_CHECKS[name](MyPlugin))

A plugin that reads a section of the spec gets it as the second argument, by the name of the section.
"""

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from agent_resolver.runtime.builder import AgentRuntimeBuilder
from agent_resolver.runtime.executor import InferenceFailure
from agent_resolver.runtime.hook import Command, Phase, PhaseContext, PlannedCall
from agent_resolver.runtime.inference import ChatAnswer, ChatRequest, ToolOffer, Usage
from agent_resolver.runtime.loop_action import LOOP_ACTIONS
from agent_resolver.runtime.message import (
    Message,
    ToolCall,
    assistant_message,
    tool_message,
    user_message,
)
from agent_resolver.runtime.model import ModelSpec
from agent_resolver.runtime.plugin import ExecutionEnv, Plugin, Registrar
from agent_resolver.runtime.plugin_contract import check_plugin
from agent_resolver.runtime.provider.scripted import ScriptedExecutor
from agent_resolver.runtime.run import RunRequest, RunResult
from agent_resolver.runtime.spec import AgentSpec
from agent_resolver.runtime.state_key import KeyValues
from agent_resolver.runtime.summary import Summary
from agent_resolver.schema.outcome import Done

MakePlugin = Callable[[], Plugin]
PluginCheck = Callable[..., Coroutine[Any, Any, None]]
"""Takes a `MakePlugin`, and the sections of the spec that the plugin shall read."""

_TRACE: Final = "0" * 32
_CALL: Final = ToolCall("call_1", "search", '{"query":"a"}')
_ANSWER: Final = ChatAnswer(
    text="Let me see.", calls=(_CALL,), usage=Usage(3, 4), finish="tool_calls"
)
_MESSAGES: Final = (
    user_message("Hello"),
    assistant_message("Let me see.", (_CALL,)),
    tool_message("call_1", "Nothing."),
)
_REQUEST: Final = ChatRequest(
    model="model",
    messages=_MESSAGES,
    tools=(ToolOffer("search", "Searches.", {"type": "object"}),),
)
_OF_CALLS: Final = {"tool_gate", "before_tool_execute", "after_tool_execute"}


class SampleFacts(Struct, frozen=True, kw_only=True):
    """The facts of a run in its second round, as a plugin sees them."""

    id: str = "run"
    spec: AgentSpec
    round: int = 2
    messages: tuple[Message, ...] = _MESSAGES
    summary: Summary | None = None
    usage: Usage = Usage(6, 8)
    seconds: float = 1.5
    recent_texts: tuple[str, ...] = ("Let me see.",)
    consecutive_errors: int = 0


# The checks ---------------------------------------------------------------------------


async def _it_keeps_the_contract(
    make: MakePlugin,
    sections: Mapping[str, Any] = {},  # noqa: ARG001 - as others
) -> None:
    check_plugin(make())


async def _it_registers_the_same_every_time(
    make: MakePlugin,
    sections: Mapping[str, Any] = {},  # noqa: ARG001 - as others
) -> None:
    plugin = make()
    first = _shape(_env_of(plugin))
    second = _shape(_env_of(plugin))
    assert first == second, (
        f"it registers {second} the second time, and {first} the first"
    )


async def _its_hooks_are_pure(
    make: MakePlugin, sections: Mapping[str, Any] = {}
) -> None:
    """The same context gives the same command: a phase may call a hook twice."""
    env = _env_of(make())
    for phase, context in _contexts(env, sections):
        for hook in env.phase_hooks[phase]:
            first, second = (
                await _result_of(hook.call(context)),
                await _result_of(hook.call(context)),
            )
            assert first == second, (
                f"a hook of {phase} says {second} the second time, and {first} the first"
            )


async def _its_hooks_give_commands_that_can_be_carried_out(
    make: MakePlugin, sections: Mapping[str, Any] = {}
) -> None:
    env = _env_of(make())
    for phase, context in _contexts(env, sections):
        for hook in env.phase_hooks[phase]:
            command = await _result_of(hook.call(context))
            if command is not None:
                _require_possible(env, phase, command)


async def _its_transforms_give_requests(
    make: MakePlugin, sections: Mapping[str, Any] = {}
) -> None:
    """A transform gives another request, or the same; it changes nothing of the one that it was given."""
    env = _env_of(make())
    context = _context_of("before_inference", env, sections)
    # As bytes: a transform could change the lists and dictionaries within the request.
    before = msgspec.json.encode(_REQUEST)
    for transform in env.request_transforms:
        changed: object = transform.call(_REQUEST, context)
        assert isinstance(changed, ChatRequest), (
            f"a request transform gives a `{type(changed).__name__}`"
        )
        assert msgspec.json.encode(_REQUEST) == before, (
            "a request transform changes the request that it was given"
        )
        names = {tool.name for tool in changed.tools} - {"search"}
        assert not names, (
            f"a request transform offers {sorted(names)}, which the run leaves out"
        )


async def _it_does_not_break_a_run(
    make: MakePlugin, sections: Mapping[str, Any] = {}
) -> None:
    result = await _run(make(), sections, ChatAnswer(text="Hello.", usage=Usage(1, 1)))
    _require_no_fault(result)


async def _it_starts_and_ends_as_often_as_it_is_asked(
    make: MakePlugin, sections: Mapping[str, Any] = {}
) -> None:
    """One plugin serves all runs of a runtime, those at the same time too."""
    plugin = make()
    answer = ChatAnswer(text="Hello.", usage=Usage(1, 1))
    for _ in range(2):
        _require_no_fault(await _run(plugin, sections, answer))
    # One run by itself shows the values with which those at the same time have to end.
    alone = await _run(plugin, sections, answer)
    together = await asyncio.gather(*(_run(plugin, sections, answer) for _ in range(4)))
    for result in together:
        _require_no_fault(result)
        assert result.state.values == alone.state.values, (
            "runs at the same time see values of each other"
        )


async def _it_ends_after_a_failure(
    make: MakePlugin, sections: Mapping[str, Any] = {}
) -> None:
    plugin = make()
    result = await _run(plugin, sections, InferenceFailure("unauthorized", "no"))
    assert result.termination.code in {"unauthorized", ""}, (
        f"the run ended as {result.termination}"
    )
    _require_no_fault(
        await _run(plugin, sections, ChatAnswer(text="Hello.", usage=Usage(1, 1)))
    )


# What they share ----------------------------------------------------------------------


def _env_of(plugin: Plugin) -> ExecutionEnv:
    registrar = Registrar()
    registrar.take(plugin.id, plugin, counts=True)
    return registrar.env()


def _require_possible(env: ExecutionEnv, phase: Phase, command: object) -> None:
    """Fail unless the run could carry out what a hook of the phase gives."""
    assert isinstance(command, Command), (
        f"a hook of {phase} gives a `{type(command).__name__}`"
    )
    assert phase == "tool_gate" or command.gate is None, (
        f"a hook of {phase} says something for the gate"
    )
    of_loop = {action.name for action in LOOP_ACTIONS}
    actions = {action.name for action in command.actions}
    unknown = actions - of_loop - env.scheduled_action_handlers.keys()
    assert not unknown, (
        f"a hook of {phase} schedules {sorted(unknown)}, which nothing handles"
    )
    effects = {effect.name for effect in command.effects}
    unknown = effects - env.effect_handlers.keys()
    assert not unknown, (
        f"a hook of {phase} wants {sorted(unknown)}, which nothing handles"
    )
    # This raises where an update does not fit the rule of its key.
    KeyValues(env.key_registrations).update("it", command.updates)


def _shape(env: ExecutionEnv) -> dict[str, object]:
    """The things that a plugin registers, without the functions: those may be made each time."""
    return {
        "hooks": {phase: len(hooks) for phase, hooks in env.phase_hooks.items()},
        "actions": sorted(env.scheduled_action_handlers),
        "effects": sorted(env.effect_handlers),
        "transforms": len(env.request_transforms),
        "keys": [
            (key.key, key.merge, key.scope, key.default)
            for key in env.key_registrations
        ],
        "tools": {tool_id: tool.descriptor for tool_id, tool in env.tools.items()},
    }


def _contexts(
    env: ExecutionEnv, sections: Mapping[str, Any]
) -> Iterator[tuple[Phase, PhaseContext]]:
    return ((phase, _context_of(phase, env, sections)) for phase in env.phase_hooks)


def _context_of(
    phase: Phase, env: ExecutionEnv, sections: Mapping[str, Any]
) -> PhaseContext:
    spec = AgentSpec(id="agent", model_id="model", sections=dict(sections))
    planned = PlannedCall("call_1", "search", {"query": "a"})
    done = Done(trace_id=_TRACE, result="Nothing.")
    answer = _ANSWER if phase == "after_inference" else None
    call = planned if phase in _OF_CALLS else None
    outcome = done if phase == "after_tool_execute" else None
    return PhaseContext(
        phase=phase,
        run=SampleFacts(spec=spec),
        state=KeyValues(env.key_registrations).current,
        answer=answer,
        call=call,
        outcome=outcome,
    )


async def _result_of(returned: Any) -> Any:  # noqa: ANN401 - whatever a hook returned
    return await returned if inspect.isawaitable(returned) else returned


async def _run(
    plugin: Plugin, sections: Mapping[str, Any], said: ChatAnswer | InferenceFailure
) -> RunResult:
    spec = AgentSpec(
        id="agent", model_id="model", plugin_ids=(plugin.id,), sections=dict(sections)
    )
    builder = AgentRuntimeBuilder().with_plugin(plugin).with_agent_spec(spec)
    builder.with_model(
        ModelSpec(id="model", provider_id="script", upstream_model="model")
    )
    runtime = builder.with_provider("script", ScriptedExecutor(lambda _: said)).build()
    return await runtime.run_to_completion(
        RunRequest(agent_id="agent", messages=(user_message("Hello"),))
    )


def _require_no_fault(result: RunResult) -> None:
    end = result.termination
    assert end.reason != "error", f"the run ended with {end.code}: {end.message}"


PLUGIN_CHECKS: Final[Mapping[str, PluginCheck]] = {
    check.__name__.strip("_"): check
    for check in (
        _it_keeps_the_contract,
        _it_registers_the_same_every_time,
        _its_hooks_are_pure,
        _its_hooks_give_commands_that_can_be_carried_out,
        _its_transforms_give_requests,
        _it_does_not_break_a_run,
        _it_starts_and_ends_as_often_as_it_is_asked,
        _it_ends_after_a_failure,
    )
}
"""Every check by its name."""
