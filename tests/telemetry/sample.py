"""Telemetry that tests can look into, and calls to give to it."""

import io
import json
from collections.abc import Sequence
from typing import Any

from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk._logs.export import LogRecordExporter, LogRecordExportResult, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from agent_resolver.registry import CallContext
from agent_resolver.schema import Caller, Descriptor, Done, Failed, FailureCode, Outcome, Pending
from agent_resolver.telemetry import CallMetrics, CallTelemetry, JsonLines, OtlpLog, Signals, sampler_of

TRACE = "0af7651916cd43dd8448eb211c80319c"
OTHER_TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "b7ad6b7169203331"
RESOURCE = Resource({"service.name": "tests"})
ECHO = Descriptor(id="memory.echo", description="The arguments.", input_schema={"type": "object"}, source="memory")
CALLER = Caller(id="user:1", is_verified=True, cost_center="cc-7", app_id="console", clearance="RESTRICTED")

DONE = Done(trace_id=TRACE, result={"text": "canary"})
FAILED = Failed(trace_id=TRACE, code=FailureCode.TIMEOUT, message="canary", remedy="canary", details=("canary",))
PENDING = Pending(
    trace_id=TRACE, id="canary", type="APPROVAL", code="APPROVAL_REQUIRED", message="canary", remedy="canary"
)


def context(parent: str | None = None, **more: Any) -> CallContext:
    return CallContext(**{"run": "run", "trace_id": TRACE, "caller": CALLER, "parent": parent, **more})


class _Kept(LogRecordExporter):
    """Keeps log records in a list; the SDK's own has no types."""

    def __init__(self, records: list[ReadableLogRecord]) -> None:
        self._records = records

    def export(self, batch: Sequence[ReadableLogRecord]) -> LogRecordExportResult:
        self._records.extend(batch)
        return LogRecordExportResult.SUCCESS

    def shutdown(self) -> None: ...

    def force_flush(self, timeout_millis: int = 0) -> bool:  # noqa: ARG002 - the SDK's port
        return True


class Watched:
    """Telemetry whose spans, metrics and logs stay in memory."""

    def __init__(self, sampler: str = "parentbased_always_on", ratio: float = 1.0) -> None:
        self.exporter = InMemorySpanExporter()
        self.reader = InMemoryMetricReader()
        self.records: list[ReadableLogRecord] = []
        self.stream = io.StringIO()
        meters = MeterProvider([self.reader], RESOURCE, shutdown_on_exit=False)
        signals = Signals(
            sampler=sampler_of(sampler, ratio),
            processors=(SimpleSpanProcessor(self.exporter),),
            metrics=CallMetrics(meters),
            logs=(JsonLines(self.stream), OtlpLog(SimpleLogRecordProcessor(_Kept(self.records)), RESOURCE)),
        )
        self.telemetry = CallTelemetry("tests", RESOURCE, signals)

    def call(self, outcome: Outcome | None = DONE, tool: Descriptor | None = ECHO, **more: Any) -> None:
        """A call from its beginning to its end."""
        self.telemetry.end(self.telemetry.begin("made.up" if tool is None else tool.id, tool, context(**more)), outcome)

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self.exporter.get_finished_spans()

    @property
    def span(self) -> ReadableSpan:
        (found,) = self.spans
        return found

    @property
    def lines(self) -> list[dict[str, str]]:
        """The log, as JSON."""
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]

    def points(self) -> dict[str, list[Any]]:
        """What was measured, by the name of the metric."""
        data = self.reader.get_metrics_data()
        metrics = [m for r in (data.resource_metrics if data else ()) for s in r.scope_metrics for m in s.metrics]
        return {metric.name: list(metric.data.data_points) for metric in metrics}

    def everything(self) -> str:
        """All that left, as text."""
        spans = "".join(span.to_json() for span in self.spans)
        records = "".join(record.to_json() for record in self.records)
        data = self.reader.get_metrics_data()
        return spans + records + self.stream.getvalue() + (data.to_json() if data else "")


def ids(span: ReadableSpan) -> tuple[str, str, str | None]:
    """The trace, the span and its parent, as W3C writes them."""
    own = span.get_span_context()
    assert own is not None
    return f"{own.trace_id:032x}", f"{own.span_id:016x}", f"{span.parent.span_id:016x}" if span.parent else None
