"""The definition of a tool as a server gives it: its digest, its text, and what changed in either."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from agent_resolver.schema.canonical_digest import digest

_KEYS: Final = (
    "name",
    "title",
    "description",
    "inputSchema",
    "outputSchema",
    "annotations",
)
"""What a definition is made of: all that tells a model or a person what the tool does and takes."""

MAX_DEFINITION_BYTES: Final = 64 * 1024
"""The largest definition that is pinned and kept: a person must be able to review it."""
MAX_DEFINITION_LINES: Final = 2_000
"""As many lines as it may have, as a diff shows it: behind thousands of blank lines, a reviewer misses a change."""
_WIDTH: Final = 100
_END: Final = "⏎"


class DefinitionChange(Struct, frozen=True):
    """A tool whose definition is not the one that was pinned."""

    tool: str
    kind: Literal["added", "changed", "removed"]
    before: str | None
    after: str | None


def definition_digest(definition: Mapping[str, Any]) -> str:
    """The digest of a tool as a server lists it; a part that is null is the same as one that is absent."""
    return digest(definition_parts(definition))


def definition_parts(definition: Mapping[str, Any]) -> dict[str, Any]:
    """The parts that count of a tool as a server lists it, in a fixed order."""
    parts = {key: definition.get(key) for key in _KEYS}
    return {key: value for key, value in parts.items() if value is not None}


def is_reviewable(definition: Mapping[str, Any]) -> bool:
    """True if a definition is small enough to be kept and to be read by a person."""
    return not exceeded_limit(definition)


def exceeded_limit(definition: Mapping[str, Any]) -> str:
    """The limit that a definition exceeds, for a message; empty if a person can review it."""
    encoded = msgspec.json.encode(definition_parts(definition))
    if len(encoded) > MAX_DEFINITION_BYTES:
        return f"{MAX_DEFINITION_BYTES:,} bytes"
    if len(_definition_lines(definition)) > MAX_DEFINITION_LINES:
        return f"{MAX_DEFINITION_LINES:,} lines"
    return ""


def definition_diff(
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
    most: int | None = None,
) -> tuple[str, ...]:
    """The lines that differ between two definitions, as a unified diff; the last line says how many are left out.

    A definition that no person can review is not shown in part: one line stands for it.

    Args:
        before: The definition that was pinned; None if its text is not known, or if there was none.
        after: The definition as it is now; None if the tool is gone.
        most: How many lines to give; all of them if None.
    """
    from difflib import unified_diff

    old = _shown_lines(before)
    new = _shown_lines(after)
    compared = unified_diff(old, new, lineterm="", n=2)
    # The first two lines name files, which these are not.
    lines = list(islice(compared, 2, None))
    if most is None or len(lines) <= most:
        return tuple(lines)
    return (*lines[:most], f"… and {len(lines) - most} more lines")


def _shown_lines(definition: Mapping[str, Any] | None) -> list[str]:
    if definition is None:
        return []
    limit = exceeded_limit(definition)
    if limit:
        # The digest lets two of these differ.
        return [f"… larger than {limit}: {definition_digest(definition)}"]
    return _definition_lines(definition)


def _definition_lines(definition: Mapping[str, Any]) -> list[str]:
    """A definition as lines of text, none of them cut off; two different definitions never have the same lines."""
    lines: list[str] = []
    for key, value in definition_parts(definition).items():
        lines.append(f"{key}:")
        text = value if isinstance(value, str) else _indented_json(value)
        for line in text.split("\n"):
            lines += _pieces_of(line)
    return lines


def _indented_json(value: object) -> str:
    compact = msgspec.json.encode(value, order="sorted")
    return msgspec.json.format(compact, indent=2).decode()


def _pieces_of(line: str) -> Iterator[str]:
    """A line in pieces that fit a terminal, marked so that neither a line break nor a space at the end is lost."""
    # A space at the end of a line is marked, and so is the mark itself, or the two
    # would look alike.
    end = _END if line.endswith(_END) or line != line.rstrip() else ""
    # An empty line is one piece, too.
    for start in range(0, max(1, len(line)), _WIDTH):
        piece = line[start : start + _WIDTH]
        is_last = start + _WIDTH >= len(line)
        sign = "↳" if start else " "
        yield f"{sign} {piece}{end if is_last else ''}"


def definition_changes(
    before: Mapping[str, str],
    after: Mapping[str, str],
) -> Iterator[DefinitionChange]:
    """Every tool whose digest differs, by name.

    Args:
        before: The digests that were pinned; nothing if none were.
        after: The digests as they are now.
    """
    for tool in sorted({*before, *after}):
        was = before.get(tool)
        now = after.get(tool)
        if was == now:
            continue
        kind: Literal["added", "changed", "removed"] = "changed"
        if was is None:
            kind = "added"
        if now is None:
            kind = "removed"
        yield DefinitionChange(tool, kind, was, now)
