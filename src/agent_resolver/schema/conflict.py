"""Merge conflict markers, as version control leaves them in a file that two branches changed."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from agent_resolver.schema.issue import Issue, IssueCode

_OURS, _BASE, _THEIRS, _END = b"<<<<<<<", b"|||||||", b"=======", b">>>>>>>"
_MARKER = re.compile(rb"(?:<{7}|\|{7}|={7}|>{7})(?= |\r?\n|\r|\Z)")
_OUTSIDE: Final = b""
"""The part of a file that is in no conflict; any other part is named for the marker that opens it."""
_NEXT_MARKERS: Final[Mapping[bytes, Sequence[bytes]]] = {
    _OUTSIDE: (_OURS,),
    _OURS: (_BASE, _THEIRS),
    _BASE: (_THEIRS,),
    _THEIRS: (_END,),
}
"""The markers that may end each part."""


class Conflict(Struct, frozen=True):
    """The first conflict of a file, and the two files it would be without the conflicts."""

    line: int
    ours: str
    """What the markers call the side that was there."""
    theirs: str
    """What the markers call the side that came in."""
    sides: tuple[bytes, bytes]


class _Line(Struct, frozen=True):
    number: int
    text: bytes
    part: bytes
    marker: bytes = b""
    """The marker that the line is; empty for any other line."""


def find_conflict(raw: bytes) -> Conflict | None:
    """The conflict that version control left in a file, if it left one.

    1. A line `<<<<<<<` opens our side, `=======` theirs, and `>>>>>>>` closes it.
    2. Between `|||||||` and `=======` stands the common ancestor, which belongs to neither.
    3. Markers in any other order are text like any other.
    """
    if _OURS not in raw:
        return None
    lines = list(_read_lines(raw))
    opening = [line for line in lines if line.marker == _OURS]
    closing = [line for line in lines if line.marker == _END]
    is_closed = lines[-1].part == _OUTSIDE
    if not opening or not is_closed:
        return None
    # Only the first conflict is reported: its place, and what its two sides are called.
    return Conflict(
        line=opening[0].number,
        ours=_decode_label(opening[0].text),
        theirs=_decode_label(closing[0].text),
        sides=(_text_of_side(lines, _OURS), _text_of_side(lines, _THEIRS)),
    )


def _read_lines(raw: bytes) -> Iterator[_Line]:
    """The lines of a file, each with the part that it belongs to."""
    part = _OUTSIDE
    for number, text in enumerate(raw.splitlines(keepends=True), 1):
        found = _MARKER.match(text)
        marker = found.group() if found else b""
        if marker in _NEXT_MARKERS[part]:
            part = _OUTSIDE if marker == _END else marker
            yield _Line(number, text, part, marker)
        else:
            yield _Line(number, text, part)


def _text_of_side(lines: Sequence[_Line], side: bytes) -> bytes:
    """The file that one side has: its part of every conflict, and all that is outside of them."""
    return b"".join(
        line.text for line in lines if not line.marker and line.part in {_OUTSIDE, side}
    )


def _decode_label(text: bytes) -> str:
    return text[len(_OURS) :].strip().decode(errors="replace")


def conflict_issue(raw: bytes) -> Issue | None:
    """The issue of a file that cannot be read because of a conflict in it."""
    conflict = find_conflict(raw)
    if conflict is None:
        return None
    return Issue(
        at=(),
        code=IssueCode.MERGE_CONFLICT,
        message=f"A merge conflict between `{conflict.ours}` and `{conflict.theirs}` opens here",
        hint="settle it: keep what is right of both sides, and remove the markers",
        line=conflict.line,
    )
