"""The one way to call a tool: what may run, and what its call comes to."""

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from agent_resolver.core import AdmissionCode, Refused
from agent_resolver.registry import (
    FixedClock,
    NeedsAction,
    OpenSeal,
    PendingActions,
    ToolFailure,
)
from agent_resolver.schema import Done, Failed, FailureCode, Labels, Pending, Rules, local_caller
from agent_resolver.storage import MemoryStore
from tests.registry.sample import CONTEXT, TRACE, MemoryTool, Work, call, holding, kinds_of, raising
from tests.registry.stage import code_of, in_memory, in_state_file

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


class Panic(BaseException):
    """What a library raises that is written in another language."""


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


def test_a_refusal_is_stronger_than_an_offer_of_the_same_source() -> None:
    tool = MemoryTool("notes.delete", source="memory")
    registry = holding(tool)
    registry.refuse("notes.delete", "memory", Refused(AdmissionCode.FORBIDDEN_ACTION, "It may not", "ask"))

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


@pytest.mark.parametrize("store", [MemoryStore(), None])
@pytest.mark.parametrize("rules", [Rules(), Rules(needs_approval=True)])
@pytest.mark.parametrize("key", [None, "key-1"])
@pytest.mark.parametrize(
    "value",
    [object(), {5: "a number as a key"}, "half a character: \ud800", nested(100_000)],
    ids=["object", "key", "surrogate", "deep"],
)
def test_arguments_that_are_no_json_are_refused_before_anything_runs(
    value: object, key: str | None, rules: Rules, store: MemoryStore | None
) -> None:
    # A schema that goes as deep as the value: the check of such a value would end the process.
    tool = MemoryTool(input_schema={"properties": {"a": {"$ref": "#"}}}, rules=rules)
    context = structs.replace(CONTEXT, key=key)

    outcome = asyncio.run(holding(tool, store=store).call("memory.echo", {"a": value}, context))

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
    store = MemoryStore()

    outcome = call(holding(store=store), "x" * 1_000_000)

    assert failed(outcome)[:2] == (FailureCode.UNKNOWN_TOOL, f"Unknown tool: {'x' * 200}")
    assert store.trail[0].body["tool"] == "x" * 200


class EditedTool(MemoryTool):
    """A tool of which a file changed."""

    def changed_file(self) -> str | None:
        return "tickets.py"


def test_a_tool_that_runs_apart_is_not_called_once_its_code_changed() -> None:
    tool = EditedTool(rules=Rules(is_isolated=True, needs_approval=True))
    outcome = call(holding(tool))

    assert isinstance(outcome, Failed)
    assert outcome.code is FailureCode.CODE_CHANGED
    assert outcome.message == "The code of memory.echo changed on disk since it was loaded: tickets.py"
    assert tool.calls == 0


def test_a_tool_that_runs_here_runs_the_code_that_was_loaded() -> None:
    assert isinstance(call(holding(EditedTool())), Done)


def test_a_tool_that_keeps_its_arguments_does_not_change_those_of_the_caller() -> None:
    async def take(arguments: dict[str, Any]) -> Any:
        return arguments.pop("name")

    arguments = {"name": "welcome"}

    asyncio.run(holding(MemoryTool(work=take)).call("memory.echo", arguments, CONTEXT))

    assert arguments == {"name": "welcome"}


def test_a_source_is_called_as_often_as_its_limit_allows_and_again_a_minute_later() -> None:
    clock = Clock()
    tools = [MemoryTool("a.one", rate_limit_per_minute=2), MemoryTool("a.two", rate_limit_per_minute=2)]
    registry = holding(*tools, seconds=clock)

    assert isinstance(call(registry, "a.one"), Done)
    clock.now += 20.5
    assert isinstance(call(registry, "a.two"), Done)
    assert failed(call(registry, "a.two")) == (
        FailureCode.RATE_LIMITED,
        "The rate limit of memory is 2 a minute",
        "try again in 40 s",
    )
    assert tools[1].calls == 1
    clock.now += 39.5
    assert isinstance(call(registry, "a.two"), Done)


def test_sources_do_not_share_a_limit() -> None:
    tools = (MemoryTool(f"{name}.tool", source=name, rate_limit_per_minute=1) for name in "ab")
    registry = holding(*tools, seconds=Clock())

    assert isinstance(call(registry, "a.tool"), Done)
    assert isinstance(call(registry, "b.tool"), Done)
    assert failed(call(registry, "a.tool"))[0] is FailureCode.RATE_LIMITED


def test_a_call_that_does_not_run_is_not_counted() -> None:
    registry = holding(MemoryTool(input_schema=NOTE, rate_limit_per_minute=1), seconds=Clock())

    assert failed(call(registry))[0] is FailureCode.INPUT_VALIDATION_FAILED
    assert isinstance(call(registry, name="a"), Done)


def test_a_clock_that_was_once_ahead_does_not_lock_a_limited_tool(tmp_path: Path) -> None:
    ten_years = 10 * 365 * 24 * 60
    with in_state_file(tmp_path / "state.db") as stage:
        stage.add(MemoryTool(rate_limit_per_minute=1))
        stage.clock.forward(ten_years)
        stage.call("memory.echo", local_caller("ada"))
        stage.clock.forward(-ten_years)

        limited = stage.call("memory.echo", local_caller("ada"))
        stage.clock.forward(1)

        assert failed(limited) == (
            FailureCode.RATE_LIMITED,
            "The rate limit of memory is 1 a minute",
            "try again in 60 s",
        )
        assert isinstance(stage.call("memory.echo", local_caller("ada")), Done)


def test_a_limit_below_one_allows_nothing() -> None:
    outcome = call(holding(MemoryTool(rate_limit_per_minute=0), seconds=Clock()))

    assert failed(outcome) == (FailureCode.RATE_LIMITED, "The rate limit of memory is 0 a minute", "try again in 60 s")


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
        Panic("canary"),
        KeyboardInterrupt("by itself"),
        GeneratorExit("by itself"),
        BaseExceptionGroup("two at once", [ValueError("a"), Panic("b")]),
    ],
)
def test_a_bug_of_a_tool_is_a_failure_of_its_call_and_of_nothing_else(error: BaseException) -> None:
    store = MemoryStore()

    outcome = call(holding(MemoryTool(work=raising(error)), store=store))

    code, message, _ = failed(outcome)
    assert code is FailureCode.RUNNER_ERROR
    assert re.fullmatch(rf"memory.echo failed: {type(error).__name__} at sample.py:\d+ in fail", message)
    assert kinds_of(store) == ["call.started", "call.failed"]


@pytest.mark.parametrize(("is_idempotent", "again"), [(True, "RUNNER_ERROR"), (False, "OUTCOME_UNKNOWN")])
def test_after_a_bug_its_key_is_not_stuck(is_idempotent: bool, again: str) -> None:  # noqa: FBT001
    tool = MemoryTool(work=raising(Panic()), rules=Rules(is_idempotent=is_idempotent))
    stage = in_memory().add(tool)

    codes = [code_of(stage.call("memory.echo", CONTEXT.caller, key="k")) for _ in range(2)]

    assert codes == ["RUNNER_ERROR", again]


class BrokenSeal(OpenSeal):
    """A place for the key that cannot be written."""

    def close(self, content: bytes, purpose: str) -> bytes:  # noqa: ARG002 - the port
        raise OSError("no space left")


def test_what_breaks_after_the_tool_ran_leaves_no_call_without_an_end() -> None:
    stage = in_memory(seal=BrokenSeal()).add(MemoryTool())

    outcome = stage.call("memory.echo", CONTEXT.caller, key="k")

    assert failed(outcome)[0] is FailureCode.STATE_UNAVAILABLE
    assert "look before" in failed(outcome)[2]
    assert stage.kinds() == ["call.started", "call.failed"]
    assert code_of(stage.call("memory.echo", CONTEXT.caller, key="k")) == "OUTCOME_UNKNOWN"


def test_what_is_idempotent_and_breaks_after_the_tool_ran_may_be_tried_again() -> None:
    tool = MemoryTool(rules=Rules(is_idempotent=True))
    stage = in_memory(seal=BrokenSeal()).add(tool)

    for _ in range(2):
        assert code_of(stage.call("memory.echo", CONTEXT.caller, key="k")) == "STATE_UNAVAILABLE"

    assert stage.kinds() == ["call.started", "call.failed"] * 2
    assert tool.calls == 2


def test_a_call_whose_loop_ends_is_left_to_the_next_process() -> None:
    store, reached = MemoryStore(), []

    async def never(_: dict[str, Any]) -> Any:
        reached.append(True)
        await asyncio.Event().wait()

    async def story() -> None:
        waiting = asyncio.create_task(holding(MemoryTool(work=never), store=store).call("memory.echo", {}, CONTEXT))
        while not reached:  # noqa: ASYNC110 - it says so
            await asyncio.sleep(0)
        assert not waiting.done()

    asyncio.run(story())

    assert kinds_of(store) == ["call.started"]


# What a tool may say --------------------------------------------------------------------------------------------------

ANY: Any = None
NONSENSE: dict[str, Callable[[], BaseException]] = {
    "a code that is none": lambda: ToolFailure("MY_CODE", "no", "r"),  # type: ignore[arg-type]
    "no code": lambda: ToolFailure(ANY, "no", "r"),
    "no message": lambda: ToolFailure(FailureCode.TOOL_ERROR, ANY),
    "no remedy": lambda: ToolFailure(FailureCode.TOOL_ERROR, "no", ANY),
    "bytes": lambda: ToolFailure(FailureCode.TOOL_ERROR, b"no"),  # type: ignore[arg-type]
    "a kind that is none": lambda: NeedsAction("FOO", "acme", "Do it"),  # type: ignore[arg-type]
    "an approval": lambda: NeedsAction("APPROVAL", "acme", "Do it"),  # type: ignore[arg-type]
    "no subject": lambda: NeedsAction("OAUTH", ANY, "Do it"),
    "no words": lambda: NeedsAction("OAUTH", "acme", ANY),
    "half a character": lambda: NeedsAction("OAUTH", "acme", "half a character: \ud800"),
    "a secret that is no text": lambda: NeedsAction("OAUTH", "acme", "Do it", needs=ANY),
    "a secret that is no name": lambda: NeedsAction("OAUTH", "acme", "Do it", needs="s3cr3t/with-odd chars"),
    "a failure that is half made": lambda: HalfMade("canary"),
}


class HalfMade(ToolFailure):
    """Forgets what it is made of."""

    def __init__(self, words: str) -> None:
        Exception.__init__(self, words)


def saying(make: Callable[[], BaseException]) -> Work:
    async def fail(_: dict[str, Any]) -> Any:
        raise make()

    return fail


@pytest.mark.parametrize("kind", NONSENSE)
def test_nonsense_is_a_bug_of_the_tool_and_is_recorded(kind: str) -> None:
    stage = in_memory().add(MemoryTool(work=saying(NONSENSE[kind])))

    outcome = stage.call("memory.echo", CONTEXT.caller, key="k")

    assert code_of(outcome) == "RUNNER_ERROR"
    assert stage.kinds() == ["call.started", "call.failed"]
    assert stage.actions() == []
    assert "canary" not in str(outcome)


def test_a_code_may_be_given_by_its_name() -> None:
    outcome = call(holding(MemoryTool(work=saying(lambda: ToolFailure("TOOL_ERROR", "no", "r")))))  # type: ignore[arg-type]

    assert failed(outcome) == (FailureCode.TOOL_ERROR, "no", "r")


def test_a_failure_without_a_remedy_names_whoever_can_help() -> None:
    outcome = call(holding(MemoryTool(work=raising(ToolFailure(FailureCode.TOOL_ERROR, "It is closed")))))

    assert failed(outcome) == (FailureCode.TOOL_ERROR, "It is closed", "ask the author of the tool")


def test_words_that_cannot_be_written_are_told_as_far_as_they_can() -> None:
    outcome = call(holding(MemoryTool(work=raising(ToolFailure(FailureCode.TOOL_ERROR, "no file caf\udce9", "look")))))

    assert failed(outcome) == (FailureCode.TOOL_ERROR, "no file caf?", "look")


OWN = {
    "INPUT_VALIDATION_FAILED",
    "NOT_CONFIGURED",
    "SERVER_UNAVAILABLE",
    "PROTOCOL_ERROR",
    "TIMEOUT",
    "TOOL_ERROR",
    "RUNNER_ERROR",
    "OUTPUT_VALIDATION_FAILED",
}


@pytest.mark.parametrize("code", FailureCode)
@pytest.mark.parametrize(
    ("kind", "more"), [("CAPABILITY", set[str]()), ("TOOL", {"TOOL_CHANGED", "UNKNOWN_TOOL", "UNAUTHORIZED"})]
)
def test_a_tool_does_not_speak_for_the_pipeline(kind: Any, more: set[str], code: FailureCode) -> None:
    store = MemoryStore()
    tool = MemoryTool(work=raising(ToolFailure(code, "It says so", "do this")), labels=Labels(kind=kind))

    outcome = call(holding(tool, store=store))

    told = code if code in OWN | more else FailureCode.TOOL_ERROR
    assert failed(outcome) == (told, "It says so", "do this")
    assert store.trail[-1].body["code"] == told


def test_what_waits_for_a_person_is_one_action_however_often_it_is_asked() -> None:
    needed = NeedsAction("SECRET", "acme", "Set the environment variable ACME_TOKEN for acme")
    store = MemoryStore()
    registry = holding(MemoryTool(work=raising(needed)), store=store, clock=FixedClock("2026-01-01T00:00:00.000Z"))

    first, second = call(registry), call(registry)

    assert isinstance(first, Pending)
    assert first == second
    assert (first.type, first.message) == ("SECRET", str(needed))
    (action,) = asyncio.run(PendingActions(store).all())
    assert (action.id, action.type, action.subject) == (first.id, "SECRET", "acme")
    assert action.asked_at == "2026-01-01T00:00:00.000Z"
    assert action.is_open


def test_different_things_to_wait_for_are_different_actions() -> None:
    store = MemoryStore()
    needs = [
        NeedsAction("SECRET", "acme", "Set A"),
        NeedsAction("SECRET", "acme", "Set B"),
        NeedsAction("SECRET", "other", "Set A"),
        NeedsAction("OAUTH", "acme", "Set A"),
        NeedsAction("CLARIFICATION", "acme", "Set A"),
    ]
    tools = [MemoryTool(f"memory.{number}", raising(needed)) for number, needed in enumerate(needs)]
    registry = holding(*tools, store=store)

    for tool in tools:
        call(registry, tool.descriptor.id)

    assert len(asyncio.run(PendingActions(store).all())) == 5


def test_a_result_that_breaks_the_promise_of_its_schema_is_a_failure() -> None:
    promise = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}
    tool = MemoryTool(output_schema=promise)

    outcome = call(holding(tool), count="many")

    assert isinstance(outcome, Failed)
    assert outcome.code is FailureCode.OUTPUT_VALIDATION_FAILED
    assert outcome.details == ('count: the value is not of type "integer"',)
    assert isinstance(call(holding(tool), count=3), Done)


def test_the_formats_of_somebody_else_s_schema_are_remarks() -> None:
    promise = {"type": "object", "properties": {"at": {"type": "string", "format": "date"}}}
    tool = MemoryTool(input_schema=promise, output_schema=promise)

    assert isinstance(call(holding(tool), at="whenever"), Done)


def test_a_result_that_is_no_json_is_a_failure_and_is_recorded() -> None:
    async def strange(_: dict[str, Any]) -> Any:
        return object()

    store = MemoryStore()

    outcome = call(holding(MemoryTool(work=strange), store=store))

    assert failed(outcome)[0] is FailureCode.OUTPUT_VALIDATION_FAILED
    assert kinds_of(store) == ["call.started", "call.failed"]
