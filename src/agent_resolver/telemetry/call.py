"""Spans, metrics and logs of calls, runs and stages: the registry's port `Telemetry` on OpenTelemetry's SDK."""

from time import perf_counter_ns, time_ns
from typing import TYPE_CHECKING, Final

from msgspec import Struct, structs
from opentelemetry.context import Context, attach, detach
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    set_span_in_context,
)

from agent_resolver._version import __version__
from agent_resolver.core.admission import AdmissionCode
from agent_resolver.schema.caller import Caller
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.outcome import Outcome
from agent_resolver.telemetry.attribute import (
    AGENT_NAME,
    APP_ID,
    CALL_TRACE_ID,
    CHAT,
    CLASSIFICATION,
    COMPONENT_TYPE,
    CONVERSATION_ID,
    COST_CENTER,
    DONE,
    ERROR_TYPE,
    EXECUTABLE,
    EXECUTE_TOOL,
    FUNCTION,
    INITIATOR_ID,
    INVOKE_AGENT,
    INVOKE_STAGE,
    INVOKE_WORKFLOW,
    IS_COMPENSATION,
    MAX_CHARACTERS,
    OPERATION,
    ORCHESTRATOR,
    PROVIDER_NAME,
    REASONER,
    REQUEST_MODEL,
    SCOPE,
    STAGE,
    TOOL_NAME,
    TOOL_TYPE,
    TOOL_TYPES,
    UNKNOWN_TOOL,
    VIA_ID,
    WAITS,
    WORKFLOW_NAME,
)
from agent_resolver.telemetry.ending import (
    AttributeValue,
    Ending,
    ReasoningEnd,
    ending_of,
)
from agent_resolver.telemetry.log import Entry, Level, Log
from agent_resolver.telemetry.metric import CallMetrics, Kind
from agent_resolver.telemetry.reasoning import RunSpan, StageSpan
from agent_resolver.telemetry.sampler import Sampler
from agent_resolver.telemetry.shutdown import Closing, close_all
from agent_resolver.telemetry.span_context import Origin, new_span_context
from agent_resolver.telemetry.trace_context import (
    SAMPLED,
    format_parent,
    parse_trace_id,
)

if TYPE_CHECKING:
    from contextvars import Token

_UNSET: Final = Status()
_ERROR: Final = Status(StatusCode.ERROR)
_SCOPE: Final = InstrumentationScope(SCOPE, __version__)
_LEVELS: Final[dict[str, Level]] = {"done": "INFO", "waits": "WARN", "failed": "ERROR"}
_CLOSE_SECONDS: Final = 2.0
_NO_COST_CENTER: Final = (
    f"{COST_CENTER} is mandatory, and the caller's token names none; this is said once"
)
_REFUSED: Final = frozenset(map(str, AdmissionCode))
"""What is answered for a tool that is there and may not be called."""


class CallSpan:
    """A call that began and did not end yet; until it does, it is the current span of its task."""

    __slots__ = (
        "before",
        "context",
        "origin",
        "parent",
        "start",
        "token",
        "tool",
        "tool_id",
    )

    def __init__(
        self,
        tool_id: str,
        tool: Descriptor | None,
        origin: Origin,
        parent: SpanContext | None,
        own: SpanContext,
    ) -> None:
        self.tool_id = tool_id
        self.tool = tool
        self.origin = origin
        self.parent = parent
        self.context = own
        self.token: Token[Context] = attach(set_span_in_context(NonRecordingSpan(own)))
        # The wall clock may be set while the call runs, so the duration comes from a
        # clock that only goes forward.
        self.start = time_ns()
        self.before = perf_counter_ns()

    @property
    def classification(self) -> str:
        """The sensitivity of the tool's data."""
        return self.tool.rules.classification if self.tool else "INTERNAL"

    def name(self, ending: Ending) -> str:
        """The tool, if there is one; whoever calls can make up any number of others."""
        is_known = self.tool is not None or ending.code in _REFUSED
        return self.tool_id[:MAX_CHARACTERS] if is_known else UNKNOWN_TOOL


class Signals(Struct, frozen=True, kw_only=True):
    """The receivers of spans, measurements and log entries; none unless they are given."""

    sampler: Sampler
    processors: tuple[SpanProcessor, ...] = ()
    metrics: CallMetrics | None = None
    logs: tuple[Log, ...] = ()
    closing: tuple[Closing, ...] = ()
    """What sends the rest of it at the end."""


class CallTelemetry:
    """Watches calls. No fault of its own reaches a call, and no value of a call reaches it.

    A span is made when its call ends, of what is known then: the SDK's own span, which can be added to while the call
    runs, takes five times as long, and a tool could add its arguments to it. While the call runs, the current span of
    its task is one that only stands for it, so that spans of the tool's own and requests that it makes belong below it.
    """

    def __init__(self, app_id: str, resource: Resource, signals: Signals) -> None:
        self._app_id = app_id
        self._resource = resource
        self._signals = signals
        self._is_closed = False
        self._has_told_of_cost = False

    def begin(
        self, tool_id: str, descriptor: Descriptor | None, context: Origin
    ) -> CallSpan:
        """A call begins."""
        parent, own = new_span_context(context, self._signals.sampler)
        return CallSpan(tool_id, descriptor, context, parent, own)

    def end(self, span: CallSpan, outcome: Outcome | None) -> None:
        """The call ends; its outcome is None where something around the tool broke and there is none."""
        # The time is taken first, so that what follows is not counted as the tool's.
        took, signals = perf_counter_ns() - span.before, self._signals
        ending = ending_of(outcome)
        tool = span.name(ending)
        # A log takes the trace from the current span, so it is written before this one
        # stops being that.
        if signals.logs:
            self._log(span, tool, ending, span.start + took)
        detach(span.token)
        if signals.processors and span.context.trace_flags & SAMPLED:
            self._export(span, tool, ending, span.start + took)
        # Every call is measured, whether its span is kept or not.
        if signals.metrics:
            signals.metrics.record(
                Kind(tool, ending.code, span.classification), took / 1e9
            )

    def traceparent(self, span: CallSpan | RunSpan) -> str:
        """The parent for the spans of a server that the tool calls, so that they belong below this one."""
        return format_parent(
            span.context.trace_id, span.context.span_id, span.context.trace_flags
        )

    # Runs and their questions to models -----------------------------------------------

    def begin_run(self, agent: str, classification: str, context: Origin) -> RunSpan:
        """A run of an agent begins."""
        attributes: dict[str, AttributeValue] = {
            AGENT_NAME: agent[:MAX_CHARACTERS],
            CONVERSATION_ID: context.run,
        }
        return self._begin_reasoning(
            INVOKE_AGENT, agent, classification, context, attributes
        )

    def begin_chat(
        self, model: str, provider: str, classification: str, context: Origin
    ) -> RunSpan:
        """A model is asked."""
        attributes: dict[str, AttributeValue] = {
            REQUEST_MODEL: model[:MAX_CHARACTERS],
            PROVIDER_NAME: provider[:MAX_CHARACTERS],
        }
        return self._begin_reasoning(CHAT, model, classification, context, attributes)

    def begin_segment(
        self, blueprint: str, classification: str, context: Origin
    ) -> RunSpan:
        """A worker takes up a run of a blueprint. All segments of a run are in its one trace, below its starter."""
        attributes: dict[str, AttributeValue] = {
            WORKFLOW_NAME: blueprint[:MAX_CHARACTERS],
            CONVERSATION_ID: context.run,
            COMPONENT_TYPE: ORCHESTRATOR,
        }
        return self._begin_reasoning(
            INVOKE_WORKFLOW, blueprint, classification, context, attributes
        )

    def end_segment(self, span: RunSpan, ending: ReasoningEnd) -> None:
        """The run waits, was handed on, or has ended."""
        self.end_reasoning(span, ending)

    def begin_stage(
        self, stage: str, classification: str, context: Origin
    ) -> StageSpan:
        """A stage of a task begins; `context.run` is the id of the task, and all its stages are in its one trace."""
        stage = stage[:MAX_CHARACTERS]
        attributes: dict[str, AttributeValue] = {
            STAGE: stage,
            CONVERSATION_ID: context.run[:MAX_CHARACTERS],
        }
        parent, own = new_span_context(context, self._signals.sampler)
        golden = self._reasoning_attributes(INVOKE_STAGE, classification, context)
        # The context of a task has the project as its application, whichever program
        # the person used to ask.
        golden[APP_ID] = self._app_id[:MAX_CHARACTERS]
        name = f"{INVOKE_STAGE} {stage}"
        return StageSpan(
            name,
            {**golden, **attributes},
            parent,
            own,
            stage,
            classification,
            context.caller,
        )

    def end_stage(self, span: StageSpan, ending: ReasoningEnd) -> None:
        """The stage ends: it is done, waits for a person, or failed."""
        took, signals = perf_counter_ns() - span.before, self._signals
        ended = ending.stage_ending
        if signals.logs:
            # As for a call: the log is written while the span of the stage is the
            # current one.
            self._log_stage(span, ended, span.start + took)
        # A stage that reports no outcome is done, and its span says so in the same word
        # as metrics and logs.
        self._end_span(span, structs.replace(ending, outcome=ended.code), took)
        if signals.metrics:
            signals.metrics.record_stage(span.stage, ended.code, took / 1e9)

    def _begin_reasoning(
        self,
        operation: str,
        subject: str,
        classification: str,
        context: Origin,
        attributes: dict[str, AttributeValue],
    ) -> RunSpan:
        parent, own = new_span_context(context, self._signals.sampler)
        golden = self._reasoning_attributes(operation, classification, context)
        return RunSpan(
            f"{operation} {subject[:MAX_CHARACTERS]}",
            {**golden, **attributes},
            parent,
            own,
        )

    def _reasoning_attributes(
        self, operation: str, classification: str, context: Origin
    ) -> dict[str, AttributeValue]:
        caller = context.caller
        return {
            APP_ID: self._app(caller),
            COMPONENT_TYPE: REASONER,
            CLASSIFICATION: classification,
            COST_CENTER: caller.cost_center[:MAX_CHARACTERS],
            INITIATOR_ID: caller.id[:MAX_CHARACTERS],
            IS_COMPENSATION: context.is_compensation,
            OPERATION: operation,
            **_acting_worker(caller),
        }

    def end_reasoning(self, span: RunSpan, ending: ReasoningEnd) -> None:
        """A run or a question to a model ends."""
        self._end_span(span, ending, perf_counter_ns() - span.before)

    def _end_span(self, span: RunSpan, ending: ReasoningEnd, took: int) -> None:
        # The span stops being the current one in any case, also where it is not kept.
        detach(span.token)
        if not (self._signals.processors and span.context.trace_flags & SAMPLED):
            return
        made = ReadableSpan(
            span.name,
            span.context,
            span.parent,
            self._resource,
            {**span.attributes, **ending.attributes()},
            kind=SpanKind.INTERNAL,
            status=_ERROR if ending.error else _UNSET,
            start_time=span.start,
            end_time=span.start + took,
            instrumentation_scope=_SCOPE,
        )
        # Processors see only the end: a span that is made when it ends was never
        # started for them.
        for processor in self._signals.processors:
            processor.on_end(made)

    def close(self, seconds: float = _CLOSE_SECONDS) -> None:
        """Send what is left, and wait for that no longer than this."""
        if not self._is_closed:
            # Set before the wait, so that a second call does not send or wait again.
            self._is_closed = True
            close_all(self._signals.closing, seconds)

    def _export(self, span: CallSpan, tool: str, ending: Ending, end: int) -> None:
        made = ReadableSpan(
            f"{EXECUTE_TOOL} {tool}",
            span.context,
            span.parent,
            self._resource,
            self._attributes(span, tool, ending),
            kind=SpanKind.INTERNAL,
            status=_ERROR if ending.state == "failed" else _UNSET,
            start_time=span.start,
            end_time=end,
            instrumentation_scope=_SCOPE,
        )
        for processor in self._signals.processors:
            processor.on_end(made)

    def _attributes(
        self, span: CallSpan, tool: str, ending: Ending
    ) -> dict[str, str | bool]:
        origin = span.origin
        caller = origin.caller
        attributes: dict[str, str | bool] = {
            APP_ID: self._app(caller),
            COMPONENT_TYPE: EXECUTABLE,
            CLASSIFICATION: span.classification,
            COST_CENTER: caller.cost_center[:MAX_CHARACTERS],
            INITIATOR_ID: caller.id[:MAX_CHARACTERS],
            IS_COMPENSATION: origin.is_compensation,
            OPERATION: EXECUTE_TOOL,
            TOOL_NAME: tool,
        }
        attributes.update(_acting_worker(caller))
        if span.tool:
            attributes[TOOL_TYPE] = TOOL_TYPES.get(span.tool.labels.kind, FUNCTION)
        # A call that waits names its code here as well, though its status is not an
        # error.
        if ending.state != "done":
            attributes[ERROR_TYPE] = ending.code
        # The span went to the trace of its parent, so it names the trace of the audit
        # records besides.
        if span.parent and parse_trace_id(origin.trace_id) not in {
            0,
            span.parent.trace_id,
        }:
            attributes[CALL_TRACE_ID] = origin.trace_id
        return attributes

    def _log(self, span: CallSpan, tool: str, ending: Ending, at: int) -> None:
        caller = span.origin.caller
        entry = Entry(
            nanoseconds=at,
            level=_LEVELS[ending.state],
            message=f"{tool} done"
            if ending.state == "done"
            else f"{tool} {ending.state}: {ending.code}",
            trace_id=span.context.trace_id,
            span_id=span.context.span_id,
            app_id=self._app(caller),
            tool=tool,
            outcome=ending.code,
            classification=span.classification,
        )
        self._write_entry(entry, caller)

    def _log_stage(self, span: StageSpan, ended: Ending, at: int) -> None:
        stage = span.stage
        entry = Entry(
            nanoseconds=at,
            level=_LEVELS[ended.state],
            message=_stage_message(stage, ended),
            trace_id=span.context.trace_id,
            span_id=span.context.span_id,
            app_id=self._app_id[:MAX_CHARACTERS],
            stage=stage,
            outcome=ended.code,
            classification=span.classification,
        )
        self._write_entry(entry, span.caller)

    def _write_entry(self, entry: Entry, caller: Caller) -> None:
        """Write an entry, and the first time that a token names no cost center a warning of that."""
        entries = [entry]
        # GOS-001 makes the cost center mandatory; without a token there is nothing that
        # could name one.
        if caller.is_verified and not caller.cost_center and not self._has_told_of_cost:
            self._has_told_of_cost = True
            entries.append(
                structs.replace(entry, level="WARN", message=_NO_COST_CENTER)
            )
        for log in self._signals.logs:
            for each in entries:
                log.write(each)

    def _app(self, caller: Caller) -> str:
        return (caller.app_id or self._app_id)[:MAX_CHARACTERS]


def _stage_message(stage: str, ended: Ending) -> str:
    is_code_telling = ended.code not in {DONE, WAITS}
    return (
        f"{stage} {ended.state}: {ended.code}"
        if is_code_telling
        else f"{stage} {ended.state}"
    )


def _acting_worker(caller: Caller) -> dict[str, str]:
    """The attribute that names the worker which acts for the caller; none while the caller acts in person."""
    return {VIA_ID: caller.via[:MAX_CHARACTERS]} if caller.via else {}
