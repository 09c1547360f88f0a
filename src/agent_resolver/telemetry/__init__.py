"""Telemetry of calls, where the standard `OTEL_*` variables ask for it."""

from agent_resolver.telemetry.errors import InvalidVariable, TelemetryError, TelemetryMissing
from agent_resolver.telemetry.opened import open_telemetry

__all__ = ["InvalidVariable", "TelemetryError", "TelemetryMissing", "open_telemetry"]
