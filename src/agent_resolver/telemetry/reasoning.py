"""Spans of runs, and of the questions that they ask models. No span holds a prompt, an answer or an argument."""

from collections.abc import Mapping
from time import perf_counter_ns, time_ns
from typing import TYPE_CHECKING

from opentelemetry.context import Context, attach
from opentelemetry.trace import NonRecordingSpan, SpanContext, set_span_in_context

from agent_resolver.telemetry.ending import AttributeValue

if TYPE_CHECKING:
    from contextvars import Token


class RunSpan:
    """A run, or a question to a model, that began and did not end yet: meanwhile it is the current span of its task."""

    __slots__ = ("attributes", "before", "context", "name", "parent", "start", "token")

    def __init__(
        self, name: str, attributes: Mapping[str, AttributeValue], parent: SpanContext | None, own: SpanContext
    ) -> None:
        self.name = name
        self.attributes = attributes
        self.parent = parent
        self.context = own
        self.token: Token[Context] = attach(set_span_in_context(NonRecordingSpan(own)))
        self.start = time_ns()
        self.before = perf_counter_ns()
