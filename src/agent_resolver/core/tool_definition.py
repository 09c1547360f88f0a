"""The definition of a tool as a server gives it: its digest, its text, and what changed in either."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from agent_resolver.schema.canonical_digest import digest

_KEYS: Final = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")
"""What a definition is made of: all that tells a model or a person what the tool does and takes."""

MAX_DEFINITION_BYTES: Final = 64 * 1024
"""The largest definition that is pinned and kept: a person must be able to review it."""
_WIDTH: Final = 100
_MOST_LINES: Final = 2_000
"""How much of a definition is compared line by line."""


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
    """What counts of a tool as a server lists it, in a fixed order."""
    return {key: definition[key] for key in _KEYS if definition.get(key) is not None}


def is_reviewable(definition: Mapping[str, Any]) -> bool:
    """True if a definition is small enough to be kept and to be read by a person."""
    return len(msgspec.json.encode(definition_parts(definition))) <= MAX_DEFINITION_BYTES


def definition_diff(
    before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, most: int = _MOST_LINES
) -> tuple[str, ...]:
    """The lines that differ between two definitions, as a unified diff; the last line says how many are left out.

    Args:
        before: The definition that was pinned; None if its text is not known, or if there was none.
        after: The definition as it is now; None if the tool is gone.
        most: How many lines to give.
    """
    from difflib import unified_diff

    old, new = _definition_lines(before), _definition_lines(after)
    # The first two lines name files, which these are not.
    lines = list(islice(unified_diff(old, new, lineterm="", n=2), 2, None))
    if len(lines) <= most:
        return tuple(lines)
    return (*lines[:most], f"… and {len(lines) - most} more lines")


def _definition_lines(definition: Mapping[str, Any] | None) -> list[str]:
    """A definition as lines of text: a change far behind in a long line must be seen as well, so none is cut off."""
    lines: list[str] = []
    for key, value in definition_parts(definition or {}).items():
        lines.append(f"{key}:")
        text = value if isinstance(value, str) else _indented_json(value)
        lines.extend(f"  {piece}" for line in text.split("\n") for piece in _pieces_of(line))
    left_out = len(lines) - _MOST_LINES
    return [*lines[:_MOST_LINES], f"… and {left_out} more lines"] if left_out > 0 else lines


def _indented_json(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value, order="sorted"), indent=2).decode()


def _pieces_of(line: str) -> Iterator[str]:
    for start in range(0, max(len(line), 1), _WIDTH):
        yield line[start : start + _WIDTH]


def definition_changes(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[DefinitionChange]:
    """Every tool whose digest differs, by name.

    Args:
        before: The digests that were pinned; nothing if none were.
        after: The digests as they are now.
    """
    for tool in sorted({*before, *after}):
        was, now = before.get(tool), after.get(tool)
        if was == now:
            continue
        kind: Literal["added", "changed", "removed"] = "changed"
        if was is None:
            kind = "added"
        if now is None:
            kind = "removed"
        yield DefinitionChange(tool, kind, was, now)
