"""Telemetry of calls, where the standard `OTEL_*` variables ask for it."""

from agent_resolver._export import lazy_exports

__getattr__ = lazy_exports(__name__)
