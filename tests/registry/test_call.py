"""The one way to call a tool: what may run, and what its call comes to."""

import asyncio
import re
from typing import Any

import pytest
from msgspec import structs

from agent_resolver.core.admission import AdmissionCode, Refused
from agent_resolver.registry import Done, Failed, FailureCode, NeedsAction, Pending, Rules, ToolFailure
from agent_resolver.registry.memory import FixedClock, MemoryPendingActions, MemoryRate, MemoryTrail
from tests.registry.sample import CONTEXT, TRACE, MemoryTool, call, holding, raising

NOTE = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "tags": {"type": "array", "items": {"type": "string"}},
        "place": {"type": "object", "properties": {"page": {"type": "integer"}}},
    },
    "required": ["name"],
    "additionalProperties": False,
}


class Clock:
    """A time that moves when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def failed(outcome: object) -> tuple[FailureCode, str, str]:
    assert isinstance(outcome, Failed)
    assert outcome.trace_id == CONTEXT.trace_id
    return outcome.code, outcome.message, outcome.remedy


def test_a_call_returns_what_the_tool_returns() -> None:
    assert call(holding(MemoryTool()), text="hello") == Done(trace_id=TRACE, result={"text": "hello"})


def test_a_tool_that_nobody_offers_is_unknown() -> None:
    outcome = call(holding(MemoryTool()), "memory.ecko")

    assert failed(outcome) == (
        FailureCode.UNKNOWN_TOOL,
        "Unknown tool: memory.ecko",
        "list the tools with `agent tools list`",
    )


@pytest.mark.parametrize("code", AdmissionCode)
def test_a_refused_tool_says_why_under_the_same_code(code: AdmissionCode) -> None:
    registry = holding()
    registry.refuse("notes.delete", "server notes@1", Refused(code, "It may not", "ask somebody"))

    assert failed(call(registry, "notes.delete")) == (FailureCode(code.value), "It may not", "ask somebody")


def test_a_refusal_is_stronger_than_an_offer() -> None:
    tool = MemoryTool("notes.delete")
    registry = holding(tool)
    registry.refuse("notes.delete", "elsewhere", Refused(AdmissionCode.FORBIDDEN_ACTION, "It may not", "ask"))

    assert failed(call(registry, "notes.delete"))[0] is FailureCode.FORBIDDEN_ACTION
    assert tool.calls == 0


@pytest.mark.parametrize(
    ("arguments", "details"),
    [
        ({}, ('(arguments): "name" is a required property',)),
        ({"name": 5}, ('name: the value is not of type "string"',)),
        ({"name": ""}, ("name: the value is shorter than 1 character",)),
        ({"name": "a", "tags": ["b", 7]}, ('tags.1: the value is not of type "string"',)),
        ({"name": "a", "place": {"page": "last"}}, ('place.page: the value is not of type "integer"',)),
        (
            {"nmae": "a", "tags": "b", "place": []},
            (
                '(arguments): "name" is a required property',
                "(arguments): Additional properties are not allowed ('nmae' was unexpected)",
                'place: the value is not of type "object"',
                'tags: the value is not of type "array"',
            ),
        ),
    ],
)
def test_every_fault_of_the_arguments_is_told_with_its_path(
    arguments: dict[str, Any], details: tuple[str, ...]
) -> None:
    tool = MemoryTool(input_schema=NOTE)

    outcome = call(holding(tool), **arguments)

    assert failed(outcome) == (
        FailureCode.INPUT_VALIDATION_FAILED,
        "The arguments do not follow the schema of memory.echo",
        "see `agent tools show memory.echo`",
    )
    assert isinstance(outcome, Failed)
    assert outcome.details == details
    assert tool.calls == 0


def nested(depth: int) -> object:
    value: object = "deep"
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize("trail", [MemoryTrail(), None])
@pytest.mark.parametrize("rules", [Rules(), Rules(needs_approval=True)])
@pytest.mark.parametrize("key", [None, "key-1"])
@pytest.mark.parametrize(
    "value",
    [object(), {5: "a number as a key"}, "half a character: \ud800", nested(100_000)],
    ids=["object", "key", "surrogate", "deep"],
)
def test_arguments_that_are_no_json_are_refused_before_anything_runs(
    value: object, key: str | None, rules: Rules, trail: MemoryTrail | None
) -> None:
    # A schema that goes as deep as the value: the check of such a value would end the process.
    tool = MemoryTool(input_schema={"properties": {"a": {"$ref": "#"}}}, rules=rules)
    context = structs.replace(CONTEXT, key=key)

    outcome = asyncio.run(holding(tool, trail=trail).call("memory.echo", {"a": value}, context))

    assert failed(outcome)[0] is FailureCode.INPUT_VALIDATION_FAILED
    assert tool.calls == 0


@pytest.mark.parametrize("key", ["", "k" * 201, "a\nb", "half a character: \ud800", "\x00"])
def test_a_key_that_cannot_be_one_is_refused_before_anything_runs(key: str) -> None:
    tool = MemoryTool()

    outcome = asyncio.run(holding(tool).call("memory.echo", {}, structs.replace(CONTEXT, key=key)))

    assert failed(outcome) == (
        FailureCode.INPUT_VALIDATION_FAILED,
        "The key of a call has 1 to 200 printable characters",
        "give another one, or none",
    )
    assert tool.calls == 0


def test_an_id_that_somebody_made_up_fills_neither_the_answer_nor_the_trail() -> None:
    trail = MemoryTrail()

    outcome = call(holding(trail=trail), "x" * 1_000_000)

    assert failed(outcome)[:2] == (FailureCode.UNKNOWN_TOOL, f"Unknown tool: {'x' * 200}")
    assert trail.records[0][2]["tool"] == "x" * 200


def test_a_tool_that_keeps_its_arguments_does_not_change_those_of_the_caller() -> None:
    async def take(arguments: dict[str, Any]) -> Any:
        return arguments.pop("name")

    arguments = {"name": "welcome"}

    asyncio.run(holding(MemoryTool(work=take)).call("memory.echo", arguments, CONTEXT))

    assert arguments == {"name": "welcome"}


def test_a_source_is_called_as_often_as_its_limit_allows_and_again_a_minute_later() -> None:
    clock = Clock()
    tools = [MemoryTool("a.one", rate_limit_per_minute=2), MemoryTool("a.two", rate_limit_per_minute=2)]
    registry = holding(*tools, rate=MemoryRate(clock))

    assert isinstance(call(registry, "a.one"), Done)
    clock.now += 20.5
    assert isinstance(call(registry, "a.two"), Done)
    assert failed(call(registry, "a.two")) == (
        FailureCode.RATE_LIMITED,
        "memory allows 2 calls a minute",
        "try again in 40 s",
    )
    assert tools[1].calls == 1
    clock.now += 39.5
    assert isinstance(call(registry, "a.two"), Done)


def test_sources_do_not_share_a_limit() -> None:
    tools = (MemoryTool(f"{name}.tool", source=name, rate_limit_per_minute=1) for name in "ab")
    registry = holding(*tools, rate=MemoryRate(Clock()))

    assert isinstance(call(registry, "a.tool"), Done)
    assert isinstance(call(registry, "b.tool"), Done)
    assert failed(call(registry, "a.tool"))[0] is FailureCode.RATE_LIMITED


def test_a_call_that_does_not_run_is_not_counted() -> None:
    registry = holding(MemoryTool(input_schema=NOTE, rate_limit_per_minute=1), rate=MemoryRate(Clock()))

    assert failed(call(registry))[0] is FailureCode.INPUT_VALIDATION_FAILED
    assert isinstance(call(registry, name="a"), Done)


def test_a_limit_below_one_allows_nothing() -> None:
    outcome = call(holding(MemoryTool(rate_limit_per_minute=0), rate=MemoryRate(Clock())))

    assert failed(outcome) == (FailureCode.RATE_LIMITED, "memory allows 0 calls a minute", "try again in 60 s")


def test_a_tool_that_takes_too_long_is_ended() -> None:
    ended = []

    async def never(_: dict[str, Any]) -> Any:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    outcome = call(holding(MemoryTool(work=never, timeout_seconds=0.01)))

    assert failed(outcome) == (
        FailureCode.TIMEOUT,
        "memory.echo did not answer within 0.01 s",
        "it may have done its work all the same: look before you call it again",
    )
    assert ended == [True]


def test_a_foreseen_failure_keeps_its_code_and_words() -> None:
    failure = ToolFailure(FailureCode.SERVER_UNAVAILABLE, "acme closed the connection", "look first")

    outcome = call(holding(MemoryTool(work=raising(failure))))

    assert failed(outcome) == (FailureCode.SERVER_UNAVAILABLE, "acme closed the connection", "look first")


@pytest.mark.parametrize(
    "error",
    [
        ZeroDivisionError("division by zero"),
        asyncio.CancelledError("by itself"),
        SystemExit("enough"),
        TimeoutError("of something that the tool waited for"),
        ExceptionGroup("two at once", [ValueError("a"), ValueError("b")]),
    ],
)
def test_a_bug_of_a_tool_is_a_failure_of_its_call_and_of_nothing_else(error: BaseException) -> None:
    trail = MemoryTrail()

    outcome = call(holding(MemoryTool(work=raising(error)), trail=trail))

    code, message, _ = failed(outcome)
    assert code is FailureCode.RUNNER_ERROR
    assert re.fullmatch(rf"memory.echo failed: {type(error).__name__} at sample.py:\d+ in fail", message)
    assert [kind for _, kind, _ in trail.records] == ["call.started", "call.failed"]


def test_what_waits_for_a_person_is_one_action_however_often_it_is_asked() -> None:
    needed = NeedsAction("SECRET", "acme", "Set the environment variable ACME_TOKEN for acme")
    actions = MemoryPendingActions()
    registry = holding(MemoryTool(work=raising(needed)), pending=actions, clock=FixedClock("2026-01-01T00:00:00.000Z"))

    first, second = call(registry), call(registry)

    assert isinstance(first, Pending)
    assert first == second
    assert (first.type, first.message) == ("SECRET", str(needed))
    (action,) = actions.actions.values()
    assert (action.id, action.type, action.subject) == (first.id, "SECRET", "acme")
    assert action.asked_at == "2026-01-01T00:00:00.000Z"
    assert action.is_open


def test_different_things_to_wait_for_are_different_actions() -> None:
    actions = MemoryPendingActions()
    needs = [
        NeedsAction("SECRET", "acme", "Set A"),
        NeedsAction("SECRET", "acme", "Set B"),
        NeedsAction("SECRET", "other", "Set A"),
        NeedsAction("OAUTH", "acme", "Set A"),
        NeedsAction("CLARIFICATION", "acme", "Set A"),
    ]
    tools = [MemoryTool(f"memory.{number}", raising(needed)) for number, needed in enumerate(needs)]
    registry = holding(*tools, pending=actions)

    for tool in tools:
        call(registry, tool.descriptor.id)

    assert len(actions.actions) == 5


def test_a_result_that_breaks_the_promise_of_its_schema_is_a_failure() -> None:
    promise = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}
    tool = MemoryTool(output_schema=promise)

    outcome = call(holding(tool), count="many")

    assert isinstance(outcome, Failed)
    assert outcome.code is FailureCode.OUTPUT_VALIDATION_FAILED
    assert outcome.details == ('count: the value is not of type "integer"',)
    assert isinstance(call(holding(tool), count=3), Done)


def test_a_result_that_is_no_json_is_a_failure_and_is_recorded() -> None:
    async def strange(_: dict[str, Any]) -> Any:
        return object()

    trail = MemoryTrail()

    outcome = call(holding(MemoryTool(work=strange), trail=trail))

    assert failed(outcome)[0] is FailureCode.OUTPUT_VALIDATION_FAILED
    assert [kind for _, kind, _ in trail.records] == ["call.started", "call.failed"]
