"""The span that the current task works below, for the services that it calls."""

from opentelemetry.trace import get_current_span

from agent_resolver.telemetry.trace_context import format_parent


def current_traceparent() -> str | None:
    """W3C's `traceparent` of the call that the current task is part of; None without a trace it."""
    span = get_current_span().get_span_context()
    return (
        format_parent(span.trace_id, span.span_id, span.trace_flags)
        if span.is_valid
        else None
    )
