"""Spans, metrics and logs of calls: the registry's port `Telemetry` on OpenTelemetry's SDK."""

import random
from time import perf_counter_ns, time_ns
from typing import TYPE_CHECKING, Final, Protocol

from msgspec import Struct, structs
from opentelemetry.context import Context, attach, detach
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import (
    INVALID_SPAN,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    TraceState,
    get_current_span,
    set_span_in_context,
)

from agent_resolver._version import __version__
from agent_resolver.core.admission import AdmissionCode
from agent_resolver.schema.caller import Caller
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.outcome import Outcome
from agent_resolver.telemetry.attribute import (
    APP_ID,
    CALL_TRACE_ID,
    CLASSIFICATION,
    COMPONENT_TYPE,
    COST_CENTER,
    ERROR_TYPE,
    EXECUTABLE,
    EXECUTE_TOOL,
    FUNCTION,
    INITIATOR_ID,
    IS_COMPENSATION,
    MAX_CHARACTERS,
    OPERATION,
    SCOPE,
    TOOL_NAME,
    TOOL_TYPE,
    TOOL_TYPES,
    UNKNOWN_TOOL,
)
from agent_resolver.telemetry.ending import Ending, ending_of
from agent_resolver.telemetry.log import Entry, Level, Log
from agent_resolver.telemetry.metric import CallMetrics, Kind
from agent_resolver.telemetry.sampler import Sampler
from agent_resolver.telemetry.shutdown import Closing, close_all
from agent_resolver.telemetry.trace_context import (
    RANDOM,
    SAMPLED,
    format_parent,
    parse_parent,
    parse_state,
    parse_trace_id,
)

if TYPE_CHECKING:
    from contextvars import Token

_FLAGS: Final = tuple(map(TraceFlags, range((SAMPLED | RANDOM) + 1)))
_UNSET: Final = Status()
_ERROR: Final = Status(StatusCode.ERROR)
_SCOPE: Final = InstrumentationScope(SCOPE, __version__)
_LEVELS: Final[dict[str, Level]] = {"done": "INFO", "waits": "WARN", "failed": "ERROR"}
_CLOSE_SECONDS: Final = 2.0
_NO_COST_CENTER: Final = f"{COST_CENTER} is mandatory, and the caller's token names none; this is said once"
_REFUSED: Final = frozenset(map(str, AdmissionCode))
"""What is answered for a tool that is there and may not be called."""


class Origin(Protocol):
    """The caller and the trace of a call: the part of a call's context that telemetry may look at.

    The context belongs to the registry, which is above this room.
    """

    @property
    def trace_id(self) -> str: ...

    @property
    def caller(self) -> Caller: ...

    @property
    def parent(self) -> str | None: ...

    @property
    def is_compensation(self) -> bool: ...


class CallSpan:
    """A call that began and did not end yet; until it does, it is the current span of its task."""

    __slots__ = ("before", "context", "origin", "parent", "start", "token", "tool", "tool_id")

    def __init__(
        self, tool_id: str, tool: Descriptor | None, origin: Origin, parent: SpanContext | None, own: SpanContext
    ) -> None:
        self.tool_id = tool_id
        self.tool = tool
        self.origin = origin
        self.parent = parent
        self.context = own
        self.token: Token[Context] = attach(set_span_in_context(NonRecordingSpan(own)))
        self.start = time_ns()
        self.before = perf_counter_ns()

    @property
    def classification(self) -> str:
        """How sensitive the tool's data is."""
        return self.tool.rules.classification if self.tool else "INTERNAL"

    def name(self, ending: Ending) -> str:
        """The tool, if there is one; whoever calls can make up any number of others."""
        is_known = self.tool is not None or ending.code in _REFUSED
        return self.tool_id[:MAX_CHARACTERS] if is_known else UNKNOWN_TOOL


class Signals(Struct, frozen=True, kw_only=True):
    """Where spans, measurements and log entries go; nowhere, unless it is said."""

    sampler: Sampler
    processors: tuple[SpanProcessor, ...] = ()
    metrics: CallMetrics | None = None
    logs: tuple[Log, ...] = ()
    closing: tuple[Closing, ...] = ()
    """What sends the rest of it at the end."""


class CallTelemetry:
    """Watches calls. Nothing that goes wrong with it is told to them, and nothing that they hold to it.

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

    def begin(self, tool_id: str, descriptor: Descriptor | None, context: Origin) -> CallSpan:
        """A call begins."""
        trace_id = parse_trace_id(context.trace_id) or random.getrandbits(128) or 1
        parent = _parent_span(context.parent, trace_id)
        flags = 0
        if parent:
            trace_id, flags = parent.trace_id, parent.trace_flags & RANDOM
        if self._signals.sampler(trace_id, bool(parent.trace_flags & SAMPLED) if parent else None):
            flags |= SAMPLED
        state = parent.trace_state if parent else None
        own = SpanContext(trace_id, random.getrandbits(64) or 1, False, _FLAGS[flags], state)  # noqa: FBT003 - the SDK's
        return CallSpan(tool_id, descriptor, context, parent, own)

    def end(self, span: CallSpan, outcome: Outcome | None) -> None:
        """The call ends; its outcome is None where something around the tool broke and there is none."""
        took, signals = perf_counter_ns() - span.before, self._signals
        ending = ending_of(outcome)
        tool = span.name(ending)
        if signals.logs:
            self._log(span, tool, ending, span.start + took)
        detach(span.token)
        if signals.processors and span.context.trace_flags & SAMPLED:
            self._export(span, tool, ending, span.start + took)
        if signals.metrics:
            signals.metrics.record(Kind(tool, ending.code, span.classification), took / 1e9)

    def traceparent(self, span: CallSpan) -> str:
        """What whoever the tool calls is told, so that their spans belong below this one."""
        return format_parent(span.context.trace_id, span.context.span_id, span.context.trace_flags)

    def close(self, seconds: float = _CLOSE_SECONDS) -> None:
        """Send what is left, and wait for that no longer than this."""
        if not self._is_closed:
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

    def _attributes(self, span: CallSpan, tool: str, ending: Ending) -> dict[str, str | bool]:
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
        if span.tool:
            attributes[TOOL_TYPE] = TOOL_TYPES.get(span.tool.labels.kind, FUNCTION)
        if ending.state != "done":
            attributes[ERROR_TYPE] = ending.code
        if span.parent and parse_trace_id(origin.trace_id) not in {0, span.parent.trace_id}:
            attributes[CALL_TRACE_ID] = origin.trace_id
        return attributes

    def _log(self, span: CallSpan, tool: str, ending: Ending, at: int) -> None:
        caller = span.origin.caller
        entry = Entry(
            nanoseconds=at,
            level=_LEVELS[ending.state],
            message=f"{tool} done" if ending.state == "done" else f"{tool} {ending.state}: {ending.code}",
            trace_id=span.context.trace_id,
            span_id=span.context.span_id,
            app_id=self._app(caller),
            tool=tool,
            outcome=ending.code,
            classification=span.classification,
        )
        entries = [entry]
        if caller.is_verified and not caller.cost_center and not self._has_told_of_cost:
            self._has_told_of_cost = True
            entries.append(structs.replace(entry, level="WARN", message=_NO_COST_CENTER))
        for log in self._signals.logs:
            for each in entries:
                log.write(each)

    def _app(self, caller: Caller) -> str:
        return (caller.app_id or self._app_id)[:MAX_CHARACTERS]


def _parent_span(named: str | None, trace_id: int) -> SpanContext | None:
    """The span that a call belongs below: the one it names, else the current one if that is of the same trace."""
    current = get_current_span()
    around = None if current is INVALID_SPAN else current.get_span_context()
    if named is not None and (parent := parse_parent(named)):
        state = around.trace_state if around and around.trace_id == parent.trace_id else None
        return SpanContext(parent.trace_id, parent.span_id, True, _FLAGS[parent.flags], state and _bound_state(state))  # noqa: FBT003
    return around if around and around.is_valid and around.trace_id == trace_id else None


def _bound_state(state: TraceState) -> TraceState:
    return TraceState.from_header([parse_state(state.to_header())])
