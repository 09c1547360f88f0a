"""Time `ToolRegistry.call()` while it is watched: `traced.py ROUNDS`, with the extras `tools` and `telemetry`.

Every span is kept and handed to the SDK's batch processor. What would send it to a collector throws it away, and
metrics are read between the rounds: that work is done by other threads, once in a while.

Every round times each of the ways one after the other, so that a slow moment slows them all.
"""

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor, LogRecordExporter, LogRecordExportResult
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from agent_resolver.registry import CallContext, Ports, ToolRegistry
from agent_resolver.schema import Descriptor, local_caller
from agent_resolver.telemetry import CallMetrics, CallTelemetry, OtlpLog, Signals, hush_sdk, sampler_of

CALLS = 1_000
ARGUMENTS = {"name": "welcome", "page": 3, "tags": ["a", "b"]}
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "page": {"type": "integer", "minimum": 0},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["name"],
    "additionalProperties": False,
}
CONTEXT = CallContext(run="run", trace_id="0af7651916cd43dd8448eb211c80319c", caller=local_caller("bench"))
RESOURCE = Resource.create({"service.name": "bench"})


class Echo:
    """A tool that costs nothing."""

    descriptor = Descriptor(id="memory.echo", description="The arguments.", input_schema=SCHEMA, source="memory")

    async def invoke(self, arguments: dict[str, Any], _context: CallContext) -> dict[str, Any]:
        """Give back the arguments."""
        return arguments


class Spans(SpanExporter):
    """Throws spans away."""

    def export(self, _spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Take a batch."""
        return SpanExportResult.SUCCESS


class Logs(LogRecordExporter):
    """Throws log records away."""

    def export(self, _batch: Sequence[ReadableLogRecord]) -> LogRecordExportResult:
        """Take a batch."""
        return LogRecordExportResult.SUCCESS

    def shutdown(self) -> None:
        """Nothing is kept."""

    def force_flush(self, timeout_millis: int = 0) -> bool:  # noqa: ARG002 - the SDK's port
        """Nothing is kept."""
        return True


def _registries(reader: InMemoryMetricReader) -> dict[str, ToolRegistry]:
    hush_sdk()
    spans, sampler = BatchSpanProcessor(Spans()), sampler_of("parentbased_always_on", 1.0)
    meters = MeterProvider([reader], RESOURCE, shutdown_on_exit=False)
    log = OtlpLog(BatchLogRecordProcessor(Logs()), RESOURCE)
    watched = {
        "spans": Signals(sampler=sampler, processors=(spans,)),
        "spans, metrics": Signals(sampler=sampler, processors=(spans,), metrics=CallMetrics(meters)),
        "spans, metrics, logs": Signals(sampler=sampler, processors=(spans,), metrics=CallMetrics(meters), logs=(log,)),
    }
    registries = {"untraced": ToolRegistry()}
    for name, signals in watched.items():
        registries[name] = ToolRegistry(Ports(telemetry=CallTelemetry("bench", RESOURCE, signals)))
    for registry in registries.values():
        registry.add(Echo())
    return registries


async def _seconds(registry: ToolRegistry) -> float:
    start = time.perf_counter()
    for _ in range(CALLS):
        await registry.call("memory.echo", ARGUMENTS, CONTEXT)
    return (time.perf_counter() - start) / CALLS


async def measure(rounds: int) -> dict[str, float]:
    """The median seconds of a call, by what is watched of it."""
    reader = InMemoryMetricReader()
    registries = _registries(reader)
    taken: dict[str, list[float]] = {name: [] for name in registries}
    for number in range(rounds + 1):
        for name, registry in registries.items():
            seconds = await _seconds(registry)
            reader.collect()
            if number:  # The first round warms up.
                taken[name].append(seconds)
    return {name: statistics.median(samples) for name, samples in taken.items()}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(int(sys.argv[1])))))
