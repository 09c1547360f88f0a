"""OpenTelemetry's parts, put together as the settings ask."""

import logging
import os
import sys
from collections.abc import Callable
from functools import partial
from threading import Lock
from urllib.parse import urlsplit

from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    ConsoleMetricExporter,
    MetricExporter,
    MetricsData,
    PeriodicExportingMetricReader,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    ConsoleSpanExporter,
    SimpleSpanProcessor,
)

from agent_resolver.telemetry.call import CallTelemetry, Signals
from agent_resolver.telemetry.errors import InvalidVariable
from agent_resolver.telemetry.exporter import LogSender, MetricSender, SpanSender
from agent_resolver.telemetry.log import JsonLines, Log, OtlpLog
from agent_resolver.telemetry.metric import CallMetrics
from agent_resolver.telemetry.sampler import sampler_of
from agent_resolver.telemetry.setting import Settings, Signal
from agent_resolver.telemetry.shutdown import Closing


class Loss:
    """Warns of telemetry that is lost, the first time."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._lock = Lock()
        self._is_told = False

    def tell(self, endpoint: str) -> None:
        """Something could not be sent there."""
        # Several threads may lose something at once, and only the one that finds the
        # flag unset warns.
        with self._lock:
            is_told, self._is_told = self._is_told, True
        if not is_told:
            self._warn(
                f"Telemetry cannot be sent to {_without_secrets(endpoint)}, and is lost; calls go on"
            )


def provide(
    settings: Settings, app_id: str, warn: Callable[[str], None]
) -> CallTelemetry:
    """Telemetry as the settings ask for it.

    Raises:
        InvalidVariable: OpenTelemetry refuses one of the variables that it reads itself.
    """
    hush_sdk()
    try:
        return _make_telemetry(settings, app_id, Loss(warn))
    except ValueError as error:
        # The SDK reads variables of its own here, and refuses some of their values with
        # this error.
        hint = "see the limits in OpenTelemetry's list of variables"
        raise InvalidVariable(
            "OTEL_*", f"variables are refused: {error}", hint
        ) from error


def hush_sdk() -> None:
    """Keep what the SDK logs from standard error; whoever sets up logging still sees it."""
    logger = logging.getLogger("opentelemetry")
    if not logger.handlers:  # Without any, Python would print it.
        logger.addHandler(logging.NullHandler())
    # It warns of every single span that finds the queue full, which takes three times
    # as long as making the span.
    queue = logging.getLogger("opentelemetry.sdk._shared_internal")
    # A level that an operator has set is left as it is.
    if queue.level == logging.NOTSET:
        queue.setLevel(logging.ERROR)


def _make_telemetry(settings: Settings, app_id: str, loss: Loss) -> CallTelemetry:
    resource = Resource.create(dict(settings.resource))
    processors = _span_processors(settings.traces, loss)
    logs: list[Log] = [JsonLines()] if "console" in settings.logs.exporters else []
    closing = [
        Closing(processor.shutdown, partial(loss.tell, settings.traces.endpoint))
        for processor in processors
    ]
    metrics = None
    if settings.metrics.exporters:
        meters = _meter_provider(settings.metrics, resource, loss)
        metrics = CallMetrics(meters)
        closing.append(
            Closing(
                partial(_close_metrics, metrics, meters),
                partial(loss.tell, settings.metrics.endpoint),
            )
        )
    if "otlp" in settings.logs.exporters:
        sender = LogSender(settings.logs, partial(loss.tell, settings.logs.endpoint))
        processor = BatchLogRecordProcessor(sender)
        logs.append(OtlpLog(processor, resource))
        closing.append(
            Closing(processor.shutdown, partial(loss.tell, settings.logs.endpoint))
        )
    signals = Signals(
        # A program that sends no spans does not decide whether others should.
        sampler=sampler_of(
            settings.sampler if processors else "parentbased_always_off", settings.ratio
        ),
        processors=tuple(processors),
        metrics=metrics,
        logs=tuple(logs),
        closing=tuple(closing),
    )
    return CallTelemetry(app_id, resource, signals)


def _span_processors(signal: Signal, loss: Loss) -> list[SpanProcessor]:
    # Spans for a collector are sent in batches by a thread; a line on the screen is
    # written at once.
    made: list[SpanProcessor] = []
    if "otlp" in signal.exporters:
        made.append(
            BatchSpanProcessor(SpanSender(signal, partial(loss.tell, signal.endpoint)))
        )
    if "console" in signal.exporters:
        made.append(
            SimpleSpanProcessor(
                ConsoleSpanExporter(out=sys.stderr, formatter=_span_line)
            )
        )
    return made


def _meter_provider(signal: Signal, resource: Resource, loss: Loss) -> MeterProvider:
    exporters: list[MetricExporter] = []
    if "otlp" in signal.exporters:
        exporters.append(MetricSender(signal, partial(loss.tell, signal.endpoint)))
    if "console" in signal.exporters:
        exporters.append(ConsoleMetricExporter(out=sys.stderr, formatter=_metrics_line))
    readers = [PeriodicExportingMetricReader(exporter) for exporter in exporters]
    # `close` shuts it down within its own time, which a hook of the SDK at the exit
    # would not keep.
    return MeterProvider(readers, resource, shutdown_on_exit=False)


def _close_metrics(metrics: CallMetrics, meters: MeterProvider) -> None:
    # Calls that still wait in the queue belong to the last reading.
    metrics.count()
    meters.shutdown()


def _span_line(span: ReadableSpan) -> str:
    return f"{span.to_json(indent=None)}{os.linesep}"


def _metrics_line(data: MetricsData) -> str:
    return f"{data.to_json(indent=None)}{os.linesep}"


def _without_secrets(endpoint: str) -> str:
    """An address without the user, the password and the question that it may hold."""
    # Only a collector has an address: the other exporters write to standard error.
    if not endpoint:
        return "standard error"
    parts = urlsplit(endpoint)
    return f"`{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}`"
