import asyncio
from typing import Any

import pytest
from msgspec import structs
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import (
    INVALID_SPAN,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    StatusCode,
    TraceState,
    get_current_span,
    use_span,
)

from agent_resolver.core import AdmissionCode
from agent_resolver.registry import CallContext, Ports, ToolFailure, ToolRegistry
from agent_resolver.schema import Descriptor, FailureCode, Labels, Outcome, Rules, local_caller
from agent_resolver.telemetry import current_traceparent
from tests.telemetry.sample import (
    CALLER,
    DONE,
    ECHO,
    FAILED,
    OTHER_TRACE,
    PENDING,
    RESOURCE,
    SPAN,
    TRACE,
    Watched,
    context,
    ids,
)


def test_a_call_is_one_span_with_all_that_is_mandatory() -> None:
    watched = Watched()

    watched.call()

    assert watched.span.name == "execute_tool memory.echo"
    assert watched.span.kind is SpanKind.INTERNAL
    assert watched.span.status.status_code is StatusCode.UNSET
    assert watched.span.resource is RESOURCE
    assert watched.span.instrumentation_scope is not None
    assert watched.span.instrumentation_scope.name == "agent_resolver"
    assert dict(watched.span.attributes or {}) == {
        "golden.app_id": "console",
        "golden.component_type": "EXECUTABLE",
        "golden.data_classification": "INTERNAL",
        "golden.cost_center": "cc-7",
        "golden.initiator_id": "user:1",
        "golden.is_compensation": False,
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "memory.echo",
        "gen_ai.tool.type": "extension",
    }


def test_a_span_has_the_time_that_the_call_took() -> None:
    watched = Watched()

    watched.call()
    (duration,) = watched.points()["golden_executable_duration"]

    assert watched.span.start_time is not None
    assert watched.span.end_time is not None
    assert (watched.span.end_time - watched.span.start_time) / 1e9 == pytest.approx(duration.sum)


def test_what_a_caller_does_not_have_is_empty_and_the_program_is_ours() -> None:
    watched = Watched()

    watched.call(caller=local_caller("you"), is_compensation=True)

    attributes = dict(watched.span.attributes or {})
    assert attributes["golden.cost_center"] == ""
    assert attributes["golden.app_id"] == "tests"
    assert attributes["golden.initiator_id"] == "local:you"
    assert attributes["golden.is_compensation"] is True


def test_a_span_names_the_worker_that_acts_for_the_caller() -> None:
    watched = Watched()

    watched.call(caller=structs.replace(CALLER, via="worker"))

    attributes = dict(watched.span.attributes or {})
    assert (attributes["golden.initiator_id"], attributes["golden.via_id"]) == ("user:1", "worker")


@pytest.mark.parametrize(
    ("kind", "expected"), [("CAPABILITY", "function"), ("BLUEPRINT", "function"), ("TOOL", "extension")]
)
def test_who_runs_a_tool_is_its_type(kind: Any, expected: str) -> None:
    watched = Watched()

    watched.call(tool=structs.replace(ECHO, labels=Labels(kind=kind), rules=Rules(classification="RESTRICTED")))

    assert (watched.span.attributes or {})["gen_ai.tool.type"] == expected
    assert (watched.span.attributes or {})["golden.data_classification"] == "RESTRICTED"


@pytest.mark.parametrize(
    ("outcome", "status", "error"),
    [
        (DONE, StatusCode.UNSET, None),
        (FAILED, StatusCode.ERROR, "TIMEOUT"),
        (PENDING, StatusCode.UNSET, "APPROVAL_REQUIRED"),
        (None, StatusCode.ERROR, "_OTHER"),
    ],
)
def test_how_a_call_ended_is_told_by_its_code_alone(
    outcome: Outcome | None, status: StatusCode, error: str | None
) -> None:
    watched = Watched()

    watched.call(outcome)

    assert watched.span.status.status_code is status
    assert watched.span.status.description is None
    assert (watched.span.attributes or {}).get("error.type") == error
    assert "canary" not in watched.everything()


def test_tools_that_there_are_not_share_one_name() -> None:
    watched = Watched()
    unknown = structs.replace(FAILED, code=FailureCode.UNKNOWN_TOOL)

    for _ in range(3):
        watched.call(unknown, tool=None)

    assert {span.name for span in watched.spans} == {"execute_tool _unknown"}
    assert "gen_ai.tool.type" not in (watched.spans[0].attributes or {})
    assert [point.value for point in watched.points()["golden_executable_calls"]] == [3]
    assert "made.up" not in watched.everything()


@pytest.mark.parametrize("code", AdmissionCode)
def test_a_tool_that_is_there_and_refused_keeps_its_name(code: AdmissionCode) -> None:
    watched = Watched()

    watched.call(structs.replace(FAILED, code=FailureCode(code.value)), tool=None)

    assert watched.span.name == "execute_tool made.up"
    assert (watched.span.attributes or {})["golden.data_classification"] == "INTERNAL"


def test_no_name_is_longer_than_the_most() -> None:
    watched = Watched()
    caller = structs.replace(CALLER, id="i" * 999, cost_center="c" * 999, app_id="a" * 999)

    watched.call(tool=structs.replace(ECHO, id="t" * 999), caller=caller)

    assert max(len(value) for value in (watched.span.attributes or {}).values() if isinstance(value, str)) == 256
    assert len(watched.span.name) < 300


# Trace ids and parents


def test_without_a_parent_the_span_is_the_root_of_the_trace_of_the_call() -> None:
    watched = Watched()

    watched.call()

    assert ids(watched.span)[::2] == (TRACE, None)


def test_with_a_parent_the_span_is_below_it() -> None:
    watched = Watched()

    watched.call(parent=f"00-{TRACE}-{SPAN}-01")

    assert ids(watched.span)[::2] == (TRACE, SPAN)
    assert watched.span.parent is not None
    assert watched.span.parent.is_remote
    assert "golden.trace_id" not in (watched.span.attributes or {})


def test_a_parent_of_another_trace_wins_and_the_trace_of_the_call_is_told() -> None:
    watched = Watched()

    watched.call(parent=f"00-{OTHER_TRACE}-{SPAN}-01")

    assert ids(watched.span)[::2] == (OTHER_TRACE, SPAN)
    assert (watched.span.attributes or {})["golden.trace_id"] == TRACE
    assert watched.lines[0]["trace_id"] == OTHER_TRACE


@pytest.mark.parametrize(("around", "state"), [(TRACE, "a=b,c=d"), (OTHER_TRACE, "")])
def test_what_others_say_of_the_trace_is_handed_on(around: str, state: str) -> None:
    watched = Watched()
    said = SpanContext(int(around, 16), 1, is_remote=True, trace_state=TraceState([("a", "b"), ("c", "d")]))

    with use_span(NonRecordingSpan(said)):
        outer = watched.telemetry.begin("memory.echo", ECHO, context(f"00-{TRACE}-{SPAN}-01"))
        watched.call(parent=f"00-{TRACE}-{SPAN}-01")
        watched.telemetry.end(outer, DONE)

    for span in watched.spans:
        assert ids(span)[::2] == (TRACE, SPAN)
        assert span.parent is not None
        assert span.context is not None
        assert span.parent.trace_state.to_header() == span.context.trace_state.to_header() == state


@pytest.mark.parametrize("parent", ["", "canary", f"00-{TRACE}-{SPAN}", f"00-{'0' * 32}-{SPAN}-01"])
def test_a_parent_that_is_none_is_ignored(parent: str) -> None:
    watched = Watched()

    watched.call(parent=parent)

    assert ids(watched.span)[::2] == (TRACE, None)
    assert "canary" not in watched.everything()


def test_a_trace_id_that_is_none_is_replaced() -> None:
    watched = Watched()

    watched.call(trace_id="canary")
    watched.call(trace_id="canary", parent=f"00-{TRACE}-{SPAN}-01")

    assert int(ids(watched.spans[0])[0], 16)
    assert ids(watched.spans[1])[0] == TRACE
    assert "canary" not in watched.everything()


def test_every_span_has_an_id_of_its_own() -> None:
    watched = Watched()

    for _ in range(100):
        watched.call()

    assert len({ids(span)[1] for span in watched.spans}) == 100


@pytest.mark.parametrize(
    ("sampler", "parent", "flags"),
    [
        ("parentbased_always_on", None, "01"),
        ("parentbased_always_on", "00", "00"),
        ("parentbased_always_on", "02", "02"),
        ("parentbased_always_off", None, "00"),
        ("parentbased_always_off", "03", "03"),
        ("always_on", "00", "01"),
        ("always_off", "01", "00"),
    ],
)
def test_a_sampler_decides_which_spans_leave_and_what_others_are_told(
    sampler: str, parent: str | None, flags: str
) -> None:
    watched = Watched(sampler)
    span = watched.telemetry.begin("memory.echo", ECHO, context(parent and f"00-{TRACE}-{SPAN}-{parent}"))
    told = watched.telemetry.traceparent(span)

    watched.telemetry.end(span, DONE)

    assert told.endswith(f"-{flags}")
    assert len(watched.spans) == int(flags, 16) & 1
    assert len(watched.lines) == 1
    assert [point.value for point in watched.points()["golden_executable_calls"]] == [1]


# The current span


def test_the_span_of_a_call_is_the_current_one_until_it_ends() -> None:
    watched = Watched()
    assert get_current_span() is INVALID_SPAN
    assert current_traceparent() is None

    span = watched.telemetry.begin("memory.echo", ECHO, context())
    told = current_traceparent()
    watched.telemetry.end(span, DONE)

    trace_id, span_id, _ = ids(watched.span)
    assert told == watched.telemetry.traceparent(span) == f"00-{trace_id}-{span_id}-01"
    assert get_current_span() is INVALID_SPAN


def test_a_span_of_the_tools_own_is_below_the_one_of_its_call() -> None:
    watched, exporter = Watched(), InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))

    span = watched.telemetry.begin("memory.echo", ECHO, context())
    with provider.get_tracer("tool").start_as_current_span("query"):
        get_current_span().set_attribute("canary", "canary")
    watched.telemetry.end(span, DONE)

    (inner,) = exporter.get_finished_spans()
    assert ids(inner)[0] == TRACE
    assert ids(inner)[2] == ids(watched.span)[1]


def test_nothing_can_be_added_to_the_span_of_a_call() -> None:
    watched = Watched()

    span = watched.telemetry.begin("memory.echo", ECHO, context())
    get_current_span().set_attribute("arguments", "canary")
    get_current_span().add_event("canary")
    get_current_span().record_exception(ValueError("canary"))
    watched.telemetry.end(span, DONE)

    assert "canary" not in watched.everything()


def test_a_call_within_a_call_is_below_it_if_it_is_of_the_same_trace() -> None:
    watched = Watched()

    outer = watched.telemetry.begin("memory.echo", ECHO, context())
    watched.call()
    watched.call(trace_id=OTHER_TRACE)
    watched.telemetry.end(outer, DONE)

    same, other, around = watched.spans
    assert ids(same)[2] == ids(around)[1]
    assert ids(other)[::2] == (OTHER_TRACE, None)


# Through the registry


class Tool:
    """A tool that does what it is told, and says who watches."""

    descriptor = Descriptor(
        id="memory.echo", description="The arguments.", input_schema={"type": "object"}, source="memory"
    )

    def __init__(self) -> None:
        self.told: list[str | None] = []

    async def invoke(self, arguments: dict[str, Any], _context: CallContext) -> Any:
        await asyncio.sleep(0)
        self.told.append(current_traceparent())
        if "fail" in arguments:
            raise ToolFailure(FailureCode.TOOL_ERROR, arguments["fail"], arguments["fail"])
        if "break" in arguments:
            raise RuntimeError(arguments["break"])
        return arguments


def trace(number: int) -> str:
    return f"{number + 1:032x}"


@pytest.mark.anyio
async def test_calls_at_the_same_time_each_have_their_own_span() -> None:
    watched, tool = Watched(), Tool()
    registry = ToolRegistry(Ports(telemetry=watched.telemetry))
    registry.add(tool)

    await asyncio.gather(*(registry.call("memory.echo", {}, context(trace_id=trace(n))) for n in range(200)))

    assert sorted(ids(span)[0] for span in watched.spans) == [trace(n) for n in range(200)]
    assert {span.parent for span in watched.spans} == {None}
    assert {f"00-{ids(span)[0]}-{ids(span)[1]}-01" for span in watched.spans} == set(tool.told)
    assert get_current_span() is INVALID_SPAN


@pytest.mark.anyio
async def test_arguments_results_and_messages_are_nowhere() -> None:
    watched = Watched()
    registry = ToolRegistry(Ports(telemetry=watched.telemetry))
    registry.add(Tool())

    for word in ("text", "fail", "break"):
        await registry.call("memory.echo", {word: "canary"}, context(key=f"canary {word}"))
    await registry.call("memory.canary", {"text": "canary"}, context())

    assert [line["outcome"] for line in watched.lines] == ["DONE", "TOOL_ERROR", "RUNNER_ERROR", "UNKNOWN_TOOL"]
    assert "canary" not in watched.everything()
