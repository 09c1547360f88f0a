"""For any script of a model, its tools, plugins and budgets, a run ends in a defined state within its limits."""

import asyncio
from collections.abc import Sequence
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from agent_resolver.runtime import (
    PHASES,
    Effect,
    End,
    FailureKind,
    MediaBlock,
    Message,
    Patience,
    RunBudget,
    RunResult,
    RunState,
    ScheduledAction,
)
from agent_resolver.schema import Rules
from tests.runtime.run_part import AnswerCase, CallCase, HookCase, PluginCase, ToolCase
from tests.runtime.run_scenario import Scenario, Stage, Step

REASONS = {"natural_end", "behavior_requested", "stopped", "cancelled", "blocked", "suspended", "error"}
TOOLS = ["search", "pay", "files.write", "fails", "raises", "asks", "huge"]
KEYS: dict[str, dict[str, Any]] = {
    "exclusive": {"merge": "exclusive"},
    "append": {"merge": "append", "default": []},
    "add": {"merge": "add", "default": 0},
    "merge": {"merge": "merge", "default": {}},
}
ODD_TEXTS = st.sampled_from(["", "again", "x" * 70, "\x00", "\ud800", "näïve", "a\nb", "../..", "__", "files/write"])
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | ODD_TEXTS.filter(lambda text: text != "\ud800"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)
ARGUMENTS = st.sampled_from(
    ["{}", "", " ", "{", "[]", "null", "5", '{"q": 1}', '{"q": "x"}', '{"q": [1, {"a": null}]}', "\ud800", "{}" * 2]
)
NAMES = (
    st.sampled_from([*TOOLS, "files__write", "note", "nobody", "agent_run_agent", "agent_run_other", ""]) | ODD_TEXTS
)
IDS = st.none() | st.sampled_from(["c1", "", "\n"]) | ODD_TEXTS


@st.composite
def answers(draw: st.DrawFn) -> AnswerCase:
    return AnswerCase(
        text=draw(ODD_TEXTS),
        calls=draw(st.lists(st.builds(CallCase, NAMES, ARGUMENTS, IDS), max_size=3)),
        media=draw(st.lists(st.just(MediaBlock(modality="image", media_type="image/png", data="")), max_size=1)),
        usage=draw(st.sampled_from([(1, 1), (0, 0), (), (-5, 1), (1000, 1000)])),
        finish=draw(st.sampled_from(["stop", "stop", "tool_calls", "length"])),
        fails=draw(st.none() | st.none() | st.sampled_from(get_args(FailureKind))),
        raises=draw(st.sampled_from([False] * 9 + [True])),
        gives=draw(st.sampled_from([None] * 9 + ["not an answer"])),
        restarts=draw(st.booleans()),
    )


ACTIONS = st.builds(
    ScheduledAction,
    st.sampled_from(["act", "again", "broken", "add_context_message", "exclude_tool", "include_only_tools", "nobody"]),
    st.sampled_from([None, 1, 20, {"content": "hi"}, {"tool": "search"}, {"tools": ["pay"]}, {"odd": 1}]),
)
EFFECTS = st.builds(Effect, st.sampled_from(["mail", "broken", "nobody"]), JSON_VALUES)
ENDS = st.builds(
    End, reason=st.sampled_from(["behavior_requested", "stopped", "odd", 5]), code=st.sampled_from(["", "x", None])
)


@st.composite
def hooks(draw: st.DrawFn) -> HookCase:
    return HookCase(
        updates=draw(st.dictionaries(st.sampled_from([*KEYS, "unknown"]), JSON_VALUES, max_size=2)),
        actions=draw(st.lists(ACTIONS, max_size=2)),
        effects=draw(st.lists(EFFECTS, max_size=1)),
        block=draw(st.none() | st.none() | st.just("no")),
        suspend=draw(st.none() | st.none() | st.just("ask")),
        set=draw(st.none() | st.none() | JSON_VALUES),
        end=draw(st.none() | st.none() | st.none() | ENDS),
        round=draw(st.integers(0, 3)),
        is_async=draw(st.booleans()),
        raises=draw(st.sampled_from([""] * 9 + ["broken"])),
        exits=draw(st.sampled_from([False] * 9 + [True])),
        returns=draw(st.sampled_from([None] * 9 + [5, "text", {}])),
    )


LIFECYCLES = st.builds(
    HookCase,
    updates=st.dictionaries(st.sampled_from([*KEYS, "unknown"]), JSON_VALUES, max_size=1),
    raises=st.sampled_from([""] * 5 + ["broken"]),
)


@st.composite
def plugins(draw: st.DrawFn) -> list[PluginCase]:
    handlers = {"act": HookCase(updates={"add": 1}), "again": HookCase(again=1), "broken": HookCase(raises="no")}
    phases = st.dictionaries(st.sampled_from(PHASES), hooks(), max_size=2)
    first = PluginCase(
        id="first",
        keys=KEYS,
        hooks=draw(phases),
        actions=handlers,
        effects={"mail": HookCase(logs="mail"), "broken": HookCase(raises="no")},
        transforms=draw(st.lists(st.sampled_from(["shout", "widen", "narrow"]), max_size=1)),
        tools=[ToolCase(id="note")],
        logs_lifecycle=True,
        starts=draw(LIFECYCLES),
        ends=draw(LIFECYCLES),
    )
    return [first, PluginCase(id="second", hooks=draw(phases), logs_lifecycle=True, ends=draw(LIFECYCLES))]


BUDGETS = st.builds(
    RunBudget,
    max_rounds=st.none() | st.integers(1, 4),
    max_tokens=st.none() | st.integers(1, 3000),
    max_calls=st.dictionaries(st.sampled_from([*TOOLS, "*"]), st.integers(0, 2), max_size=2),
)
STOPS = st.lists(
    st.sampled_from(
        [
            {"type": "consecutive_errors", "value": 2},
            {"type": "loop_detection", "value": 2},
            {"type": "stop_on_tool", "tool": "files.write"},
            {"type": "content_match", "pattern": "agai?n"},
            {"type": "token_budget", "value": 1500},
        ]
    ),
    max_size=2,
)
WITH_Q = {"type": "object", "properties": {"q": {"type": "integer"}}}


def tools() -> list[ToolCase]:
    return [
        ToolCase(id="search", schema=WITH_Q),
        ToolCase(id="pay", rules=Rules(needs_approval=True)),
        ToolCase(id="files.write", outcomes=[{"progress": 0.5}]),
        ToolCase(id="fails", outcomes=[{"fails": "no"}]),
        ToolCase(id="raises", outcomes=[{"raises": "no"}]),
        ToolCase(id="asks", outcomes=[{"asks": "Which?"}]),
        ToolCase(id="huge", outcomes=[{"repeats": 500_000}]),
    ]


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    script=st.lists(answers(), max_size=6),
    plugged=plugins(),
    budget=BUDGETS,
    stops=STOPS,
    max_rounds=st.integers(1, 5),
    streams=st.booleans(),
    is_recorded=st.booleans(),
    sink=st.sampled_from(["", "", "", "raises 4", "returns 7"]),
)
def test_every_run_ends_in_a_defined_state_within_its_limits(  # noqa: PLR0913, PLR0917 - the parts of a run
    script: list[AnswerCase],
    plugged: list[PluginCase],
    budget: RunBudget,
    stops: list[dict[str, Any]],
    max_rounds: int,
    streams: bool,  # noqa: FBT001 - drawn
    is_recorded: bool,  # noqa: FBT001 - drawn
    sink: str,
) -> None:
    scenario = Scenario(
        about="any",
        agent={"max_rounds": max_rounds, "stop_conditions": stops, "delegates": ["agent"]},
        tools=tools(),
        plugins=plugged,
        script=script,
        is_recorded=is_recorded,
        patience=Patience(hook_seconds=5),
    )
    stage = Stage(scenario)
    asyncio.run(play_twice(stage, Step(budget=budget, streams=streams, sink=sink, expect={}), max_rounds))


async def play_twice(stage: Stage, step: Step, max_rounds: int) -> None:
    """A run, and how it goes on if it can."""
    outcome = await stage.play(step)
    require_sound(stage, outcome, max_rounds)
    assert stage.result is not None
    if stage.result.is_resumable:
        before = len(stage.events)
        outcome = await stage.play(Step(expect={}))
        del stage.events[:before]
        require_sound(stage, outcome, max_rounds)


def require_sound(stage: Stage, outcome: dict[str, Any], max_rounds: int) -> None:
    result = stage.result
    assert result is not None
    assert outcome["reason"] in REASONS
    assert outcome["code"] != "internal", outcome["message"]
    assert result.rounds <= max_rounds
    lines = stage.log.lines
    for plugin in ("first", "second"):
        assert lines.count(f"{plugin} starts agent") == lines.count(f"{plugin} ends")
    require_sound_numbers(outcome)
    require_every_call_answered(result)
    kept = msgspec.json.decode(msgspec.json.encode(result.state), type=RunState)
    assert msgspec.json.encode(kept) == msgspec.json.encode(result.state)


def require_sound_numbers(outcome: dict[str, Any]) -> None:
    events = outcome["events"]
    assert outcome["numbers"] == list(range(1, len(events) + 1))
    if events and outcome["code"] not in {"sink_failed", "sink_blocked"}:
        assert (events[0], events.count("run.started")) == ("run.started", 1)
        assert events.count("run.ended") <= 1


def require_every_call_answered(result: RunResult) -> None:
    """Each call has one message with its result, unless it is open in a run that can go on."""
    messages = result.state.messages
    open_ids = [call.id for call in result.state.open_calls]
    if open_ids:
        assert result.is_resumable
    for place, message in enumerate(messages):
        if message.calls:
            answered = [each.call_id for each in tool_messages_after(messages, place)]
            is_last = not any(each.role == "assistant" for each in messages[place + 1 :])
            assert [call.id for call in message.calls] == answered + (open_ids if is_last else [])


def tool_messages_after(messages: Sequence[Message], place: int) -> list[Message]:
    found = []
    for message in messages[place + 1 :]:
        if message.role != "tool":
            break
        found.append(message)
    return found
