"""Telemetry through a real collector, `rotel`, which passes it on to a sink of ours; and without one that answers."""

import asyncio
import json
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from agent_resolver.registry import CallContext, Ports, ToolFailure, ToolRegistry
from agent_resolver.schema import Caller, Descriptor, Done, FailureCode, Labels, Rules
from agent_resolver.telemetry import open_telemetry
from tests.integration.collector import Sink, values
from tests.integration.conftest import Project, raw
from tests.loopback import free_port
from tests.process import eventually

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
CALLER = Caller(id="user:1", is_verified=True, cost_center="cc-7", app_id="console", clearance="RESTRICTED")
MANDATORY = ("app_id", "component_type", "data_classification", "cost_center", "initiator_id", "is_compensation")


class Erase:
    """A tool that does its work, or fails in its own words."""

    descriptor = Descriptor(
        id="notes.erase",
        description="Erase a note.",
        input_schema={"type": "object"},
        source="tests",
        rules=Rules(classification="CONFIDENTIAL"),
        labels=Labels(kind="CAPABILITY"),
    )

    async def invoke(self, arguments: dict[str, Any], _context: CallContext) -> Any:
        if arguments["note"] == "canary-2":
            raise ToolFailure(FailureCode.TOOL_ERROR, "canary", "canary")
        return {"erased": arguments["note"]}


def calls(environment: dict[str, str], count: int, warn: Callable[[str], None]) -> list[object]:
    """The outcomes of real calls that are watched as the environment asks."""

    async def made() -> list[object]:
        registry = ToolRegistry(Ports(telemetry=telemetry))
        registry.add(Erase())
        context = CallContext(run="run", trace_id=TRACE, caller=CALLER, parent=f"00-{TRACE}-{PARENT}-01")
        return [await registry.call("notes.erase", {"note": f"canary-{n}"}, context) for n in range(count)]

    telemetry = open_telemetry(environment, app_id="tests", warn=warn)
    assert telemetry is not None
    try:
        return asyncio.run(made())
    finally:
        telemetry.close()


def test_spans_metrics_and_logs_of_calls_arrive_with_all_that_is_mandatory(collector: str, sink: Sink) -> None:
    told: list[str] = []
    environment = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector,
        "OTEL_SERVICE_NAME": "notes",
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment=test",
    }

    calls(environment, 3, told.append)

    assert eventually(lambda: len(sink.spans()) == len(sink.logs()) == 3 and len(sink.metrics()) == 2)
    for resource, span in sink.spans():
        attributes = values(span.attributes)
        assert (resource["service.name"], resource["deployment.environment"]) == ("notes", "test")
        assert (span.name, span.kind) == ("execute_tool notes.erase", Span.SPAN_KIND_INTERNAL)
        assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, PARENT)
        assert all(f"golden.{name}" in attributes for name in MANDATORY)
        assert attributes["golden.data_classification"] == "CONFIDENTIAL"
        assert attributes["golden.initiator_id"] == "user:1"
        assert attributes["golden.is_compensation"] is False
        assert attributes["gen_ai.operation.name"] == "execute_tool"
        assert attributes["gen_ai.tool.type"] == "function"
    errors = [values(s.attributes)["error.type"] for _, s in sink.spans() if s.status.code == Status.STATUS_CODE_ERROR]
    assert errors == ["TOOL_ERROR"]
    counted = {
        values(point.attributes)["golden.outcome"]: point.as_int
        for point in sink.metrics()["golden_executable_calls"].sum.data_points
    }
    assert counted == {"DONE": 2, "TOOL_ERROR": 1}
    assert sum(p.count for p in sink.metrics()["golden_executable_duration"].histogram.data_points) == 3
    assert {record.span_id for record in sink.logs()} == {span.span_id for _, span in sink.spans()}
    assert {record.trace_id.hex() for record in sink.logs()} == {TRACE}
    assert {values(record.attributes)["golden.app_id"] for record in sink.logs()} == {"console"}
    assert not [path for path, body in sink.bodies if b"canary" in body]
    assert told == []


def test_a_command_sends_what_it_has_before_it_ends(collector: str, sink: Sink, project: Project) -> None:
    project.write(raw("notes"))
    project.environment |= {"OTEL_EXPORTER_OTLP_ENDPOINT": collector, "OTEL_LOGS_EXPORTER": "console"}

    called = project.call("notes.echo", "--json", text="canary")

    outcome = json.loads(called.stdout)
    (line,) = [json.loads(line) for line in called.stderr.splitlines() if '"outcome":"DONE"' in line][:1]
    assert eventually(lambda: len(sink.spans()) == 1 and len(sink.metrics()) == 2)
    ((resource, span),) = sink.spans()
    assert resource["service.name"] == "agent-resolver"
    assert span.trace_id.hex() == outcome["traceId"] == line["trace_id"]
    assert span.span_id.hex() == line["span_id"]
    assert sink.logs() == []
    assert not [path for path, body in sink.bodies if b"canary" in body]
    assert "canary" not in called.stderr


def test_secret_headers_go_to_the_collector_and_nowhere_else(sink: Sink, capfd: pytest.CaptureFixture[str]) -> None:
    told: list[str] = []
    environment = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": sink.url,
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20hidden",
    }

    calls(environment, 1, told.append)

    assert {headers["authorization"] for headers in sink.headers} == {"Bearer hidden"}
    assert {path for path, _ in sink.bodies} == {"/v1/traces", "/v1/metrics", "/v1/logs"}
    assert not [path for path, body in sink.bodies if b"hidden" in body]
    assert (told, *capfd.readouterr()) == ([], "", "")


class Away:
    """Ways in which a collector does not answer."""

    def __init__(self, kind: str) -> None:
        self.sink = Sink(status=401) if kind == "refuses" else None
        self.socket = socket.create_server(("127.0.0.1", 0)) if kind == "hangs" else None
        port = self.socket.getsockname()[1] if self.socket else free_port()
        self.address = self.sink.url if self.sink else f"http://127.0.0.1:{port}"

    def stop(self) -> None:
        if self.sink:
            self.sink.stop()
        if self.socket:
            self.socket.close()


@pytest.fixture(params=["is not there", "hangs", "refuses"])
def away(request: pytest.FixtureRequest) -> Iterator[Away]:
    made = Away(request.param)
    yield made
    made.stop()


def test_a_collector_that_is_away_neither_fails_nor_slows_a_call(
    away: Away, stopwatch: Callable[[], float], capfd: pytest.CaptureFixture[str]
) -> None:
    told: list[str] = []
    address = away.address.replace("http://", "http://user:hidden@")
    environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": address, "OTEL_EXPORTER_OTLP_HEADERS": "authorization=hidden"}

    # More than the queues of the SDK hold.
    outcomes = calls(environment, 3_000, told.append)

    assert sum(isinstance(outcome, Done) for outcome in outcomes) == 2_999
    assert len(told) == 1
    assert told[0].startswith(f"Telemetry cannot be sent to `{away.address}/v1/")
    assert "hidden" not in told[0]
    assert capfd.readouterr() == ("", "")
    assert stopwatch() < 8


def test_a_command_ends_soon_although_the_collector_is_away(
    away: Away, project: Project, stopwatch: Callable[[], float]
) -> None:
    project.write(raw("notes"))
    project.environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = away.address
    before = stopwatch()

    called = project.call("notes.echo", text="canary")

    assert called.returncode == 0
    assert [line for line in called.stderr.splitlines() if "elemetry" in line] == [
        line for line in called.stderr.splitlines() if line.startswith("warning: Telemetry cannot be sent to ")
    ]
    assert called.stderr.count("warning: Telemetry") == 1
    assert stopwatch() - before < 10


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "`OTEL_EXPORTER_OTLP_PROTOCOL` asks for a protocol"),
        ("OTEL_TRACES_EXPORTER", "zipkin", "`OTEL_TRACES_EXPORTER` names an exporter"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "hidden", "`OTEL_EXPORTER_OTLP_HEADERS` is no list of pairs"),
    ],
)
def test_a_command_does_not_begin_when_it_cannot_be_watched_as_asked(
    project: Project, variable: str, value: str, expected: str
) -> None:
    project.write(raw("notes"))
    project.environment |= {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", variable: value}

    called = project.call("notes.echo", text="hi")

    assert called.returncode != 0
    assert f"error: {expected}" in called.stderr
    assert "hint: " in called.stderr
    assert "hidden" not in called.stderr
