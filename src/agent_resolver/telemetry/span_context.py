"""The place of a new span in its trace: whose trace it is, what it belongs below, and whether it is kept."""

import random
from typing import Final, Protocol

from opentelemetry.trace import (
    INVALID_SPAN,
    SpanContext,
    TraceFlags,
    TraceState,
    get_current_span,
)

from agent_resolver.schema.caller import Caller
from agent_resolver.telemetry.sampler import Sampler
from agent_resolver.telemetry.trace_context import (
    RANDOM,
    SAMPLED,
    parse_parent,
    parse_state,
    parse_trace_id,
)

_FLAGS: Final = tuple(map(TraceFlags, range((SAMPLED | RANDOM) + 1)))


class Origin(Protocol):
    """The caller and the trace of a call: the part of a call's context that telemetry may look at.

    The context belongs to the registry, which is above this room.
    """

    @property
    def run(self) -> str: ...

    @property
    def trace_id(self) -> str: ...

    @property
    def caller(self) -> Caller: ...

    @property
    def parent(self) -> str | None: ...

    @property
    def is_compensation(self) -> bool: ...


def new_span_context(
    origin: Origin, sampler: Sampler
) -> tuple[SpanContext | None, SpanContext]:
    """The parent of a span that starts now, if it has one, and the span's own context."""
    # W3C takes an id of zeros for invalid, so 0 is never used.
    trace_id = parse_trace_id(origin.trace_id) or random.getrandbits(128) or 1
    parent = _parent_span(origin.parent, trace_id)
    flags = 0
    if parent:
        # Only the maker of a trace id knows that it is random, so the flag is handed on
        # and never set here.
        trace_id, flags = parent.trace_id, parent.trace_flags & RANDOM
    if sampler(trace_id, bool(parent.trace_flags & SAMPLED) if parent else None):
        flags |= SAMPLED
    # The span keeps what other systems say of its trace.
    state = parent.trace_state if parent else None
    own = SpanContext(
        trace_id,
        random.getrandbits(64) or 1,
        False,  # noqa: FBT003 - the SDK's
        _FLAGS[flags],
        state,
    )
    return parent, own


def _parent_span(named: str | None, trace_id: int) -> SpanContext | None:
    """The span that a call belongs below: the one it names, else the current one if that is of the same trace."""
    current = get_current_span()
    around = None if current is INVALID_SPAN else current.get_span_context()
    # A `traceparent` has no state, so that of the current span is taken where both are
    # of one trace.
    if named is not None and (parent := parse_parent(named)):
        state = (
            around.trace_state
            if around and around.trace_id == parent.trace_id
            else None
        )
        return SpanContext(
            parent.trace_id,
            parent.span_id,
            True,  # noqa: FBT003
            _FLAGS[parent.flags],
            state and _bound_state(state),
        )
    # A current span of another trace is not the parent: the call stays in the trace of
    # its audit records.
    return (
        around if around and around.is_valid and around.trace_id == trace_id else None
    )


def _bound_state(state: TraceState) -> TraceState:
    # The current span may have a longer state than is handed on.
    return TraceState.from_header([parse_state(state.to_header())])
