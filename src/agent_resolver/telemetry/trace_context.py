"""W3C's trace context: which span a call belongs below, and what others say of the trace."""

import re
from typing import Final

from msgspec import Struct

SAMPLED: Final = 0x01
"""The span is kept."""
RANDOM: Final = 0x02
"""The trace id was made at random."""

_TRACE_ID: Final = re.compile(r"[0-9a-f]{32}")
_PARENT: Final = re.compile(
    r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?"
)
# A version to come may be longer than the 55 characters of version `00`.
_MAX_CHARACTERS: Final = 512
_FLAGS: Final = ("00", "01", "02", "03")
# The grammar of W3C for the keys and the members of a `tracestate`.
_KEY: Final = (
    r"[a-z][_0-9a-z*/-]{0,255}|[a-z0-9][_0-9a-z*/-]{0,240}@[a-z][_0-9a-z*/-]{0,13}"
)
_MEMBER: Final = re.compile(rf"(?:{_KEY})=[ -+\--<>-~]{{0,255}}[!-+\--<>-~]")
_MAX_MEMBERS: Final = 32
# How much is read at all, how much is handed on, and how long a member may be that is
# not dropped first.
_MAX_GIVEN: Final = 8_192
_MAX_STATE: Final = 512
_MAX_MEMBER: Final = 128


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
    # Flags that are not known here are cleared, as W3C demands of those who hand a
    # parent on.
    parent = Parent(
        int(trace_id, 16), int(span_id, 16), int(flags, 16) & (SAMPLED | RANDOM)
    )
    return parent if parent.trace_id and parent.span_id else None


def parse_state(text: str) -> str:
    """The `tracestate`, as far as it is handed on; nothing where it is not one, which W3C says to ignore.

    What is too long loses members, as W3C has it: the long ones first, then those at the end.
    """
    # The text comes from a caller, so no more of it is split than may be valid.
    members = [
        member
        for part in text[: _MAX_GIVEN + 1].split(",")
        if (member := part.strip(" \t"))
    ]
    # W3C allows each key once.
    keys = {member.partition("=")[0] for member in members}
    is_one = len(text) <= _MAX_GIVEN and len(keys) == len(members) <= _MAX_MEMBERS
    if not (is_one and all(map(_MEMBER.fullmatch, members))):
        return ""
    if len(",".join(members)) > _MAX_STATE:
        members = [member for member in members if len(member) <= _MAX_MEMBER]
    while len(",".join(members)) > _MAX_STATE:
        members.pop()
    return ",".join(members)


def format_parent(trace_id: int, span_id: int, flags: int) -> str:
    """The `traceparent` of a span."""
    return f"00-{trace_id:032x}-{span_id:016x}-{_FLAGS[flags & (SAMPLED | RANDOM)]}"


def parse_trace_id(text: str) -> int:
    """The trace with this id, 32 hexadecimal digits; 0 where it is not one."""
    return int(text, 16) if _TRACE_ID.fullmatch(text) else 0
