"""Telemetry through a real collector, `rotel`, which passes it on to a sink of ours; and without one that answers."""

import asyncio
import gzip
import json
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from agent_resolver.registry import CallContext, Ports, ToolFailure, ToolRegistry
from agent_resolver.schema import Caller, Descriptor, Done, FailureCode, Labels, Rules
from agent_resolver.telemetry import open_telemetry
from tests.integration.conftest import BUILD, Project, raw
from tests.process import eventually

ROTEL = BUILD / "idp" / "lib" / "python3.11" / "site-packages" / "rotel" / "rotel-agent"
TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
CALLER = Caller(id="user:1", is_verified=True, cost_center="cc-7", app_id="console", clearance="RESTRICTED")
MANDATORY = ("app_id", "component_type", "data_classification", "cost_center", "initiator_id", "is_compensation")


class Sink:
    """Takes OTLP over HTTP, and keeps it."""

    def __init__(self, status: int = 200) -> None:
        self.bodies: list[tuple[str, bytes]] = []
        self.headers: list[dict[str, str]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler(status))
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def _handler(self, status: int) -> type[BaseHTTPRequestHandler]:
        sink = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                is_packed = self.headers.get("content-encoding") == "gzip"
                sink.headers.append({key.lower(): value for key, value in self.headers.items()})
                sink.bodies.append((self.path, gzip.decompress(body) if is_packed else body))
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        return Handler

    def _bodies(self, signal: str) -> list[bytes]:
        return [body for path, body in list(self.bodies) if path == f"/v1/{signal}"]

    def spans(self) -> list[tuple[dict[str, Any], Span]]:
        """The spans, each with its resource."""
        requests = map(ExportTraceServiceRequest.FromString, self._bodies("traces"))
        found = [resource for request in requests for resource in request.resource_spans]
        return [
            (_values(r.resource.attributes), span) for r in found for scope in r.scope_spans for span in scope.spans
        ]

    def metrics(self) -> dict[str, Any]:
        """The metrics, by name."""
        requests = map(ExportMetricsServiceRequest.FromString, self._bodies("metrics"))
        found = [resource for request in requests for resource in request.resource_metrics]
        return {metric.name: metric for r in found for scope in r.scope_metrics for metric in scope.metrics}

    def logs(self) -> list[Any]:
        """The log records."""
        requests = map(ExportLogsServiceRequest.FromString, self._bodies("logs"))
        found = [resource for request in requests for resource in request.resource_logs]
        return [record for r in found for scope in r.scope_logs for record in scope.log_records]

    def stop(self) -> None:
        """Take nothing any more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _values(attributes: Any) -> dict[str, Any]:
    return {item.key: getattr(item.value, item.value.WhichOneof("value")) for item in attributes}


@pytest.fixture
def sink() -> Iterator[Sink]:
    made = Sink()
    yield made
    made.stop()


@pytest.fixture
def collector(sink: Sink, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a collector that passes everything on to the sink."""
    assert ROTEL.is_file(), "run `make integration`, which installs it"
    folder = tmp_path_factory.mktemp("rotel")  # Not the project's: what runs there must end before this does.
    grpc, http = _free_port(), _free_port()
    line = [str(ROTEL), "start", "--pid-file", str(folder / "pid"), "--log-file", str(folder / "log")]
    line += ["--otlp-grpc-endpoint", f"127.0.0.1:{grpc}", "--otlp-http-endpoint", f"127.0.0.1:{http}"]
    line += ["--exporter", "otlp", "--otlp-exporter-endpoint", sink.url, "--otlp-exporter-protocol", "http"]
    output = folder / "output"
    with output.open("wb") as written:
        process = subprocess.Popen(line, stdout=written, stderr=subprocess.STDOUT)
    try:
        assert eventually(lambda: _listens(http)), output.read_text()
        yield f"http://127.0.0.1:{http}"
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


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
        attributes = _values(span.attributes)
        assert (resource["service.name"], resource["deployment.environment"]) == ("notes", "test")
        assert (span.name, span.kind) == ("execute_tool notes.erase", Span.SPAN_KIND_INTERNAL)
        assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, PARENT)
        assert all(f"golden.{name}" in attributes for name in MANDATORY)
        assert attributes["golden.data_classification"] == "CONFIDENTIAL"
        assert attributes["golden.initiator_id"] == "user:1"
        assert attributes["golden.is_compensation"] is False
        assert attributes["gen_ai.operation.name"] == "execute_tool"
        assert attributes["gen_ai.tool.type"] == "function"
    errors = [_values(s.attributes)["error.type"] for _, s in sink.spans() if s.status.code == Status.STATUS_CODE_ERROR]
    assert errors == ["TOOL_ERROR"]
    counted = {
        _values(point.attributes)["golden.outcome"]: point.as_int
        for point in sink.metrics()["golden_executable_calls"].sum.data_points
    }
    assert counted == {"DONE": 2, "TOOL_ERROR": 1}
    assert sum(p.count for p in sink.metrics()["golden_executable_duration"].histogram.data_points) == 3
    assert {record.span_id for record in sink.logs()} == {span.span_id for _, span in sink.spans()}
    assert {record.trace_id.hex() for record in sink.logs()} == {TRACE}
    assert {_values(record.attributes)["golden.app_id"] for record in sink.logs()} == {"console"}
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
        port = self.socket.getsockname()[1] if self.socket else _free_port()
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
