"""Spans of runs, of their questions to models, and of stages. None holds a prompt, an answer or an argument."""

from collections.abc import Mapping
from time import perf_counter_ns, time_ns
from typing import TYPE_CHECKING

from opentelemetry.context import Context, attach
from opentelemetry.trace import NonRecordingSpan, SpanContext, set_span_in_context

from agent_resolver.schema.caller import Caller
from agent_resolver.telemetry.ending import AttributeValue

if TYPE_CHECKING:
    from contextvars import Token


class RunSpan:
    """A run, or a question to a model, that began and did not end yet: meanwhile it is the current span of its task."""

    __slots__ = ("attributes", "before", "context", "name", "parent", "start", "token")

    def __init__(
        self,
        name: str,
        attributes: Mapping[str, AttributeValue],
        parent: SpanContext | None,
        own: SpanContext,
    ) -> None:
        self.name = name
        self.attributes = attributes
        self.parent = parent
        self.context = own
        self.token: Token[Context] = attach(set_span_in_context(NonRecordingSpan(own)))
        self.start = time_ns()
        self.before = perf_counter_ns()


class StageSpan(RunSpan):
    """A stage of a task that began and did not end yet."""

    __slots__ = ("caller", "classification", "stage")

    def __init__(  # noqa: PLR0913, PLR0917 - those of a run, and what metrics and logs say of a stage
        self,
        name: str,
        attributes: Mapping[str, AttributeValue],
        parent: SpanContext | None,
        own: SpanContext,
        stage: str,
        classification: str,
        caller: Caller,
    ) -> None:
        super().__init__(name, attributes, parent, own)
        self.stage = stage
        self.classification = classification
        self.caller = caller
