"""A real collector, `rotel`, and a sink of ours that it passes everything on to."""

import gzip
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.process import eventually

ROOT = Path(__file__).parent.parent.parent
ROTEL = ROOT / "build/integration/idp/lib/python3.11/site-packages/rotel/rotel-agent"


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
        return [(values(r.resource.attributes), span) for r in found for scope in r.scope_spans for span in scope.spans]

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


def values(attributes: Any) -> dict[str, Any]:
    """Attributes by name."""
    return {item.key: getattr(item.value, item.value.WhichOneof("value")) for item in attributes}


@contextmanager
def collecting(sink: Sink, folder: Path) -> Iterator[str]:
    """The address of a collector that passes everything on to the sink."""
    assert ROTEL.is_file(), "run `make integration`, which installs it"
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
