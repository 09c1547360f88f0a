"""Sends telemetry to a collector, by OTLP over HTTP, and notices when it does not get there."""

from collections.abc import Callable, Sequence

from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk._logs.export import LogRecordExportResult
from opentelemetry.sdk.metrics.export import MetricExportResult, MetricsData
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult

from agent_resolver.telemetry.setting import Signal

OnLoss = Callable[[], None]
"""Called each time that something could not be sent."""


class SpanSender(OTLPSpanExporter):
    """Sends spans."""

    def __init__(self, signal: Signal, on_loss: OnLoss) -> None:
        super().__init__(endpoint=signal.endpoint, headers=signal.headers)
        self._on_loss = on_loss

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send a batch."""
        # The exporter has tried again before it returns, so what it could not send is
        # lost.
        result = super().export(spans)
        if result is not SpanExportResult.SUCCESS:
            self._on_loss()
        return result


class MetricSender(OTLPMetricExporter):
    """Sends metrics."""

    def __init__(self, signal: Signal, on_loss: OnLoss) -> None:
        super().__init__(endpoint=signal.endpoint, headers=signal.headers)
        self._on_loss = on_loss

    def export(
        self,
        metrics_data: MetricsData,
        timeout_millis: float | None = 10_000,
        **kwargs: object,
    ) -> MetricExportResult:
        """Send what was counted."""
        result = super().export(metrics_data, timeout_millis, **kwargs)
        if result is not MetricExportResult.SUCCESS:
            self._on_loss()
        return result


class LogSender(OTLPLogExporter):
    """Sends log records."""

    def __init__(self, signal: Signal, on_loss: OnLoss) -> None:
        super().__init__(endpoint=signal.endpoint, headers=signal.headers)
        self._on_loss = on_loss

    def export(self, batch: Sequence[ReadableLogRecord]) -> LogRecordExportResult:
        """Send a batch."""
        result = super().export(batch)
        if result is not LogRecordExportResult.SUCCESS:
            self._on_loss()
        return result
