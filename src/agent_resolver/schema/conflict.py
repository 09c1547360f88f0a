"""Merge conflict markers, as version control leaves them in a file that two branches changed."""

import re
from collections.abc import Iterable

from msgspec import Struct

from agent_resolver.schema.issue import Issue, IssueCode

_OURS, _BASE, _THEIRS, _END = b"<<<<<<<", b"|||||||", b"=======", b">>>>>>>"
_MARKER = re.compile(rb"(?:<{7}|\|{7}|={7}|>{7})(?= |\r?\n|\r|\Z)")


class Conflict(Struct, frozen=True):
    """The first conflict of a file, and the two files it would be without the conflicts."""

    line: int
    ours: str
    """What the markers call the side that was there."""
    theirs: str
    """What the markers call the side that came in."""
    sides: tuple[bytes, bytes]


def find_conflict(raw: bytes) -> Conflict | None:
    """The conflict that version control left in a file, if it left one.

    1. A line `<<<<<<<` opens our side, `=======` theirs, and `>>>>>>>` closes it.
    2. Between `|||||||` and `=======` stands the common ancestor, which belongs to neither.
    3. Markers in any other order are text like any other.
    """
    if _OURS not in raw:
        return None
    first_line = 0
    labels: list[str] = []
    ours: list[bytes] = []
    theirs: list[bytes] = []
    inside = b""  # The marker whose part the line is in; empty outside of every conflict.
    for number, text in enumerate(raw.splitlines(keepends=True), 1):
        found = _MARKER.match(text)
        marker = found.group() if found else b""
        if not marker or marker not in _markers_after(inside):
            if inside in {b"", _OURS}:
                ours.append(text)
            if inside in {b"", _THEIRS}:
                theirs.append(text)
            continue
        inside = b"" if marker == _END else marker
        # Only the first conflict is reported: its place, and what its two sides are called.
        if marker == _OURS and not labels:
            first_line = number
            labels.append(_decode_label(text))
        elif marker == _END and len(labels) == 1:
            labels.append(_decode_label(text))
    is_closed = len(labels) == 2 and not inside  # noqa: PLR2004 - one for each side
    if not is_closed:
        return None
    return Conflict(first_line, labels[0], labels[1], (b"".join(ours), b"".join(theirs)))


def _markers_after(inside: bytes) -> Iterable[bytes]:
    """The markers that may come next."""
    return {b"": (_OURS,), _OURS: (_BASE, _THEIRS), _BASE: (_THEIRS,), _THEIRS: (_END,)}[inside]


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
