"""W3C's `traceparent`: which span a call belongs below."""

import re
from typing import Final

from msgspec import Struct

SAMPLED: Final = 0x01
"""The span is kept."""
RANDOM: Final = 0x02
"""The trace id was made at random."""

_TRACE_ID: Final = re.compile(r"[0-9a-f]{32}")
_PARENT: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_MAX_CHARACTERS: Final = 512
_FLAGS: Final = ("00", "01", "02", "03")


class Parent(Struct, frozen=True):
    """The span that a call belongs below."""

    trace_id: int
    span_id: int
    flags: int


def parse_parent(text: str) -> Parent | None:
    """The parent that a `traceparent` names; None where it is not one, which W3C says to ignore."""
    found = _PARENT.fullmatch(text) if len(text) <= _MAX_CHARACTERS else None
    if not found:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    # Only versions to come may say more than we know of, and `ff` is none.
    if version == "ff" or (version == "00" and more is not None):
        return None
    parent = Parent(int(trace_id, 16), int(span_id, 16), int(flags, 16) & (SAMPLED | RANDOM))
    return parent if parent.trace_id and parent.span_id else None


def format_parent(trace_id: int, span_id: int, flags: int) -> str:
    """The `traceparent` of a span."""
    return f"00-{trace_id:032x}-{span_id:016x}-{_FLAGS[flags & (SAMPLED | RANDOM)]}"


def parse_trace_id(text: str) -> int:
    """The trace with this id, 32 hexadecimal digits; 0 where it is not one."""
    return int(text, 16) if _TRACE_ID.fullmatch(text) else 0
