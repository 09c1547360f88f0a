"""Calls over MCP: what they carry, and what comes back."""

import json
from types import SimpleNamespace
from typing import Any

import jsonschema_rs
import mcp_types as types
import pytest
from mcp import Client

from agent_resolver.core import AdmissionCode, Refused
from agent_resolver.registry import CallContext, Ports, ToolFailure
from agent_resolver.schema import ANONYMOUS, Caller, FailureCode, Labels, Pending, Rules
from agent_resolver.server import CALLER_KEY, caller_of_request, inbox_tools
from agent_resolver.storage import MemoryStore
from tests.registry.sample import MemoryTool
from tests.registry.stage import code_of, in_memory
from tests.server.conftest import ERAS, Serve
from tests.server.watched import PARENT, SPAN, TRACE, Watched, below, failure, meta, refusal
from tests.telemetry.sample import Watched as WatchedCalls

CLOSED: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "count": {"type": "integer", "minimum": 1}},
    "required": ["name"],
    "additionalProperties": False,
}


# What comes back ------------------------------------------------------------------------------------------------------

OUTPUTS: dict[str, dict[str, Any]] = {
    "inline": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
    "definitions": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"name": {"$ref": "#/$defs/Name"}},
        "required": ["name"],
        "$defs": {"Name": {"type": "string"}},
    },
    "places": {
        "type": "object",
        "properties": {"title": {"type": "string"}, "name": {"$ref": "#/properties/title"}},
        "required": ["name"],
    },
    "itself": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "more": {"type": "array", "items": {"$ref": "#"}}},
        "required": ["name"],
    },
}


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("kind", OUTPUTS)
@pytest.mark.anyio
async def test_what_is_told_follows_the_schema_that_is_listed_be_it_a_result_or_not(
    serve: Serve, mode: str, kind: str
) -> None:
    """The standard exempts no failure, and not every client does."""
    tool = MemoryTool(output_schema=OUTPUTS[kind])
    async with Client(serve(tools=[tool]).server, mode=mode) as client:
        [listed] = (await client.list_tools()).tools
        good = await client.call_tool("memory.echo", {"name": "x"})
        bad = failure(await client.call_tool("memory.echo", {"name": 5}))

    shape = jsonschema_rs.validator_for(listed.output_schema or {})
    assert (listed.output_schema or {})["type"] == "object"
    assert shape.is_valid(good.structured_content)
    assert bad["code"] == "OUTPUT_VALIDATION_FAILED"
    assert shape.is_valid(bad)
    assert not shape.is_valid({"name": 5})
    if kind == "itself":
        assert shape.is_valid({"name": "x", "more": [{"name": "y"}]})
        assert not shape.is_valid({"name": "x", "more": [{"name": 5}]})


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.anyio
async def test_a_schema_with_a_name_of_its_own_cannot_be_moved_and_is_not_listed(serve: Serve, mode: str) -> None:
    tool = MemoryTool(output_schema={"$id": "urn:example:name", **OUTPUTS["inline"]})
    async with Client(serve(tools=[tool]).server, mode=mode) as client:
        [listed] = (await client.list_tools()).tools
        bad = failure(await client.call_tool("memory.echo", {}))

    assert listed.output_schema is None
    assert bad["code"] == "OUTPUT_VALIDATION_FAILED"


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize(("result", "text"), [("words", "words"), ([1, 2], "[1,2]"), (None, "null")])
@pytest.mark.anyio
async def test_a_result_that_is_no_object_is_told_as_text(serve: Serve, mode: str, result: object, text: str) -> None:
    async def give(_: dict[str, Any]) -> object:
        return result

    async with Client(serve(tools=[MemoryTool(work=give)]).server, mode=mode) as client:
        told = await client.call_tool("memory.echo", {})

    [content] = told.content
    assert isinstance(content, types.TextContent)
    assert (content.text, told.structured_content, told.is_error) == (text, None, False)


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.anyio
async def test_an_unknown_tool_is_an_error_of_the_protocol_and_still_has_a_trace(serve: Serve, mode: str) -> None:
    async with Client(serve(tools=[]).server, mode=mode) as client:
        error = await refusal(client.call_tool("memory.nothing", {}, meta=meta(trace_id=TRACE)))

    assert (error.code, error.message) == (types.INVALID_PARAMS, "Unknown tool: memory.nothing")
    assert error.data == meta(trace_id=TRACE)


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.anyio
async def test_a_tool_that_may_not_be_called_says_why_to_the_model(serve: Serve, mode: str) -> None:
    served = serve(tools=[])
    served.registry.refuse("memory.no", "memory", Refused(AdmissionCode.FORBIDDEN_ACTION, "Forbidden", "ask"))
    async with Client(served.server, mode=mode) as client:
        told = failure(await client.call_tool("memory.no", {}))

    assert (told["code"], told["message"], told["remedy"]) == ("FORBIDDEN_ACTION", "Forbidden", "ask")


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.anyio
async def test_bad_arguments_are_told_whole_each_with_its_path_and_never_its_value(serve: Serve, mode: str) -> None:
    tool = MemoryTool(input_schema=CLOSED)
    async with Client(serve(tools=[tool]).server, mode=mode) as client:
        told = failure(await client.call_tool("memory.echo", {"name": ["canary"], "count": 0, "more": 1}))

    assert told["code"] == "INPUT_VALIDATION_FAILED"
    assert [detail.partition(":")[0] for detail in told["details"]] == ["(arguments)", "count", "name"]
    assert "canary" not in json.dumps(told)
    assert told["remedy"] == "`inputSchema` in tools/list says what it takes"
    assert tool.calls == 0


@pytest.mark.parametrize(
    ("details", "remedy"),
    [(("count: too small",), "`inputSchema` in tools/list says what it takes"), ((), "give less")],
)
@pytest.mark.anyio
async def test_refused_arguments_are_explained_by_the_schema_where_it_names_faults(
    serve: Serve, details: tuple[str, ...], remedy: str
) -> None:
    async def refuse(_: dict[str, Any]) -> object:
        raise ToolFailure(FailureCode.INPUT_VALIDATION_FAILED, "No", "give less", details=details)

    async with Client(serve(tools=[MemoryTool(work=refuse)]).server) as client:
        told = failure(await client.call_tool("memory.echo", {}))

    assert (told["details"], told["remedy"]) == (list(details), remedy)


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.anyio
async def test_a_call_that_waits_for_a_person_says_so_as_a_failure_does(serve: Serve, mode: str) -> None:
    tool = MemoryTool(rules=Rules(classification="RESTRICTED", needs_approval=True))
    async with Client(serve(tools=[tool]).server, mode=mode) as client:
        told = failure(await client.call_tool("memory.echo", {}, meta=meta(trace_id=TRACE)))

    assert (told["status"], told["code"], told["type"]) == ("pending", "APPROVAL_REQUIRED", "APPROVAL")
    assert (told["traceId"], told["message"]) == (TRACE, "local:tests asks to call memory.echo (RESTRICTED)")
    assert f"agent inbox approve {told['id']}" in told["remedy"]
    assert tool.calls == 0


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("error", [OSError("canary"), ToolFailure(FailureCode.TOOL_ERROR, "It is closed", "open it")])
@pytest.mark.anyio
async def test_a_tool_that_fails_says_so_as_a_result_and_nothing_that_it_did_not_mean_to(
    serve: Serve, mode: str, error: Exception
) -> None:
    async def fail(_: dict[str, Any]) -> object:
        raise error

    async with Client(serve(tools=[MemoryTool(work=fail)]).server, mode=mode) as client:
        told = failure(await client.call_tool("memory.echo", {}))

    expected = ("TOOL_ERROR", "open it") if isinstance(error, ToolFailure) else ("RUNNER_ERROR", told["remedy"])
    assert (told["code"], told["remedy"]) == expected
    assert "canary" not in json.dumps(told)


class Panic(BaseException):
    """What a library raises that is written in another language."""


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Panic("canary"), "RUNNER_ERROR"),
        (KeyboardInterrupt("canary"), "RUNNER_ERROR"),
        (ToolFailure(FailureCode.KEY_REUSED, "It says so", "do this"), "TOOL_ERROR"),
    ],
)
@pytest.mark.anyio
async def test_whatever_a_tool_raises_the_server_goes_on(
    serve: Serve, mode: str, error: BaseException, code: str, capfd: pytest.CaptureFixture[str]
) -> None:
    async def fail(_: dict[str, Any]) -> object:
        raise error

    tool = MemoryTool(work=fail, rules=Rules(is_idempotent=True))
    async with Client(serve(tools=[tool, MemoryTool("memory.other")]).server, mode=mode) as client:
        told = [failure(await client.call_tool("memory.echo", {}, meta=meta(key="k"))) for _ in range(2)]
        other = await client.call_tool("memory.other", {"a": 1})

    assert [each["code"] for each in told] == [code, code]
    assert other.structured_content == {"a": 1}
    assert "canary" not in f"{told}{capfd.readouterr()}"


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.anyio
async def test_a_capability_that_says_it_is_unknown_is_no_error_of_the_protocol(serve: Serve, mode: str) -> None:
    async def fail(_: dict[str, Any]) -> object:
        raise ToolFailure(FailureCode.UNKNOWN_TOOL, "No such ticket", "list them")

    tool = MemoryTool(work=fail, labels=Labels(kind="CAPABILITY"))
    async with Client(serve(tools=[tool]).server, mode=mode) as client:
        told = failure(await client.call_tool("memory.echo", {}))

    assert (told["code"], told["message"]) == ("TOOL_ERROR", "No such ticket")


class Endless(MemoryTool):
    """A tool that does not know how far it is."""

    async def invoke(self, arguments: dict[str, Any], context: CallContext) -> Any:
        await context.progress(float("nan"), 1, "lost")
        await context.progress(float("inf"), 1, "lost")
        await context.progress(1, float("inf"), "endless")
        return await super().invoke(arguments, context)


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.anyio
async def test_what_is_no_number_is_no_progress(serve: Serve, mode: str) -> None:
    heard: list[tuple[float, float | None, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))

    async with Client(serve(tools=[Endless()]).server, mode=mode) as client:
        told = await client.call_tool("memory.echo", {"a": 1}, progress_callback=hear)

    assert told.structured_content == {"a": 1}
    assert heard == [(1, None, "endless")]


# Traces ---------------------------------------------------------------------------------------------------------------

PARENTS: dict[str, tuple[Any, str | None]] = {
    "valid": (PARENT, PARENT),
    "not sampled": (f"00-{TRACE}-{SPAN}-00", f"00-{TRACE}-{SPAN}-00"),
    "flags to come": (f"00-{TRACE}-{SPAN}-ff", f"00-{TRACE}-{SPAN}-03"),
    "version to come": (f"cc-{TRACE}-{SPAN}-01", PARENT),
    "version to come that says more": (f"cc-{TRACE}-{SPAN}-01-what-will-be", PARENT),
    "more than its version has": (f"{PARENT}-what-will-be", None),
    "no version": (f"ff-{TRACE}-{SPAN}-01", None),
    "no trace": (f"00-{'0' * 32}-{SPAN}-01", None),
    "no span": (f"00-{TRACE}-{'0' * 16}-01", None),
    "capitals": (PARENT.upper(), None),
    "too short": (PARENT[:-1], None),
    "too long": (f"cc-{TRACE}-{SPAN}-01-{'x' * 5000}", None),
    "empty": ("", None),
    "number": (5, None),
    "list": ([PARENT], None),
}


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("kind", PARENTS)
@pytest.mark.anyio
async def test_a_call_belongs_to_the_trace_that_its_parent_names_if_it_names_one(
    serve: Serve, mode: str, kind: str
) -> None:
    given, kept = PARENTS[kind]
    tool = Watched()
    async with Client(serve(tools=[tool]).server, mode=mode) as client:
        told = (await client.call_tool("memory.echo", {}, meta=below(given))).meta

    [context] = tool.contexts
    assert told is not None
    assert told["agent-resolver/trace_id"] == context.trace_id
    assert (context.parent, told.get("traceparent")) == (kept, kept)
    assert (context.trace_id == TRACE) is (kept is not None)
    assert len(context.trace_id) == 32
    assert int(context.trace_id, 16)


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.anyio
async def test_a_trace_may_be_named_alone_and_then_stands_above_another_parent(serve: Serve, mode: str) -> None:
    tool = Watched()
    other = f"00-{'a' * 32}-{SPAN}-01"
    asked: list[Any] = [
        meta(trace_id=TRACE),
        {**meta(trace_id=TRACE), "traceparent": PARENT},
        {**meta(trace_id=TRACE), "traceparent": other},
    ]
    async with Client(serve(tools=[tool]).server, mode=mode) as client:
        told = [(await client.call_tool("memory.echo", {}, meta=each)).meta for each in asked]

    assert [(context.trace_id, context.parent) for context in tool.contexts] == [
        (TRACE, None),
        (TRACE, PARENT),
        (TRACE, None),
    ]
    assert [each["agent-resolver/trace_id"] for each in told if each] == [TRACE] * 3


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.anyio
async def test_without_a_trace_every_call_has_one_of_its_own(serve: Serve, mode: str) -> None:
    tool = Watched()
    async with Client(serve(tools=[tool]).server, mode=mode) as client:
        told = [await client.call_tool("memory.echo", {}) for _ in range(3)]

    assert len({context.trace_id for context in tool.contexts}) == 3
    assert all(each.meta and set(each.meta) >= {"agent-resolver/trace_id"} for each in told)
    assert all("traceparent" not in (each.meta or {}) for each in told)


class Watching:
    """Watches calls, as telemetry does where it is on."""

    def begin(self, tool_id: str, descriptor: object, context: CallContext) -> str:  # noqa: ARG002 - the port
        return f"00-{context.trace_id}-{'1' * 16}-01"

    def end(self, span: object, outcome: object) -> None:
        """It is over."""

    def traceparent(self, span: object) -> str:
        return str(span)


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.anyio
async def test_where_somebody_watches_the_client_is_told_the_place_of_the_call_itself(serve: Serve, mode: str) -> None:
    served = serve(tools=[MemoryTool()], ports=Ports(telemetry=Watching()))
    async with Client(served.server, mode=mode) as client:
        told = (await client.call_tool("memory.echo", {}, meta=below(PARENT))).meta

    assert told is not None
    assert told["traceparent"] == f"00-{TRACE}-{'1' * 16}-01"


def said_of(parent: object, state: object) -> Any:
    """What a call carries that belongs below a span of others."""
    return {**below(parent), "tracestate": state}


STATES: dict[str, tuple[Any, str | None]] = {
    "valid": ("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"),
    "blanks": (" a=b , ,\tc@d=e f ", "a=b,c@d=e f"),
    "malformed": ("a=b,C=d", None),
    "twice": ("a=b,a=c", None),
    "empty": ("", None),
    "number": (5, None),
}


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("kind", STATES)
@pytest.mark.anyio
async def test_what_others_say_of_a_trace_is_handed_on(serve: Serve, mode: str, kind: str) -> None:
    given, kept = STATES[kind]
    async with Client(serve(tools=[MemoryTool()]).server, mode=mode) as client:
        told = (await client.call_tool("memory.echo", {}, meta=said_of(PARENT, given))).meta
        alone = (await client.call_tool("memory.echo", {}, meta=said_of(None, given))).meta

    assert (told or {}).get("tracestate") == kept
    assert "tracestate" not in (alone or {})


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.anyio
async def test_what_others_say_of_a_trace_is_in_the_span_of_the_call(serve: Serve, mode: str) -> None:
    watched = WatchedCalls()
    long = ",".join(f"k{number}={'v' * 100}" for number in range(10))
    served = serve(tools=[MemoryTool()], ports=Ports(telemetry=watched.telemetry))
    async with Client(served.server, mode=mode) as client:
        for state in ("rojo=1,congo=2", long, "a=b,C=d"):
            await client.call_tool("memory.echo", {}, meta=said_of(PARENT, state))

    states = [span.context.trace_state.to_header() for span in watched.spans if span.context]
    assert states == ["rojo=1,congo=2", ",".join(long.split(",")[:4]), ""]


# Keys -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.anyio
async def test_under_one_key_a_call_is_made_once_and_its_result_told_again(serve: Serve, mode: str) -> None:
    store, numbers = MemoryStore(), iter(range(10))

    async def count(_: dict[str, Any]) -> object:
        return {"number": next(numbers)}

    tool = MemoryTool(work=count)
    async with Client(serve(tools=[tool], ports=Ports(store=store)).server, mode=mode) as client:
        results = [
            (await client.call_tool("memory.echo", {"a": 1}, meta=meta(key=key) if key else None)).structured_content
            for key in ("one", "one", "two", "one", None, None)
        ]
        reused = failure(await client.call_tool("memory.echo", {"a": 2}, meta=meta(key="one")))

    assert [each["number"] for each in results if each] == [0, 0, 1, 0, 2, 3]
    assert tool.calls == 4
    assert reused["code"] == "KEY_REUSED"


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("key", ["", "x" * 201, "two\nlines"])
@pytest.mark.anyio
async def test_a_key_that_is_none_is_told_to_the_model(serve: Serve, mode: str, key: str) -> None:
    tool = MemoryTool()
    async with Client(serve(tools=[tool]).server, mode=mode) as client:
        told = failure(await client.call_tool("memory.echo", {}, meta=meta(key=key)))

    assert (told["code"], tool.calls) == ("INPUT_VALIDATION_FAILED", 0)
    assert told["remedy"] == "give another one, or none"


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("value", [5, 1.5, True, [], {}, ["x"]])
@pytest.mark.anyio
async def test_what_a_request_carries_must_be_text(serve: Serve, mode: str, value: object) -> None:
    tool = MemoryTool()
    async with Client(serve(tools=[tool]).server, mode=mode) as client:
        errors = {
            name: await refusal(client.call_tool("memory.echo", {}, meta=meta(**{name: value})))
            for name in ("key", "trace_id")
        }
        errors["tag"] = await refusal(client.list_tools(meta=meta(tag=value)))

    for name, error in errors.items():
        assert (error.code, error.data) == (types.INVALID_PARAMS, {"key": f"agent-resolver/{name}"})
    assert tool.calls == 0


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("trace", ["", "0" * 32, TRACE.upper(), TRACE[:-1], f"{TRACE}0", "x" * 32, PARENT])
@pytest.mark.anyio
async def test_a_trace_that_is_none_is_refused(serve: Serve, mode: str, trace: str) -> None:
    async with Client(serve(tools=[MemoryTool()]).server, mode=mode) as client:
        error = await refusal(client.call_tool("memory.echo", {}, meta=meta(trace_id=trace)))

    assert (error.code, error.data) == (types.INVALID_PARAMS, {"key": "agent-resolver/trace_id"})


# Callers --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.anyio
async def test_the_caller_is_whoever_the_request_is_from(serve: Serve, mode: str) -> None:
    caller: Caller | None = Caller(id="u-17", is_verified=True, clearance="INTERNAL")
    tool = Watched()
    async with Client(serve(tools=[tool], caller_of=lambda _: caller).server, mode=mode) as client:
        await client.call_tool("memory.echo", {})
        caller = None
        await client.call_tool("memory.echo", {})

    assert [context.caller.id for context in tool.contexts] == ["u-17", "local:tests"]


@pytest.mark.parametrize("scope", [None, {}, {CALLER_KEY: "u-17"}, {CALLER_KEY: None}])
@pytest.mark.anyio
async def test_whoever_no_issuer_vouches_for_is_nobody_in_particular(scope: object) -> None:
    request: Any = SimpleNamespace(request=None if scope is None else SimpleNamespace(scope=scope))

    assert caller_of_request(request) is None


@pytest.mark.parametrize("name", ["list", "show", "approve", "reject", "answer"])
def test_the_inbox_is_not_for_whoever_calls_from_anywhere_without_a_name(name: str) -> None:
    stage = in_memory()
    stage.add(
        MemoryTool("memory.ask", rules=Rules(classification="PUBLIC", needs_approval=True)), *inbox_tools(stage.inbox)
    )
    asked = stage.call("memory.ask", ANONYMOUS)
    assert isinstance(asked, Pending)
    arguments = {"list": {}, "answer": {"id": asked.id, "text": "x"}}.get(name, {"id": asked.id})

    refused = stage.call(f"inbox_{name}", ANONYMOUS, arguments)

    assert code_of(refused) == "CLEARANCE_TOO_LOW"
    assert [action.is_open for action in stage.actions()] == [True]
