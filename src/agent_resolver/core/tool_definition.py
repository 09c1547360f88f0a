"""The definition of a tool as a server gives it: its digest, and what changed between two sets of digests."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

from msgspec import Struct

from agent_resolver.schema.canonical_digest import digest

_KEYS: Final = ("name", "description", "inputSchema", "outputSchema", "annotations")
"""What a definition is made of: all that tells a model or a person what the tool does and takes."""


class DefinitionChange(Struct, frozen=True):
    """A tool whose definition is not the one that was pinned."""

    tool: str
    kind: Literal["added", "changed", "removed"]
    before: str | None
    after: str | None


def definition_digest(definition: Mapping[str, Any]) -> str:
    """The digest of a tool as a server lists it; a part that is null is the same as one that is absent."""
    parts = {key: definition[key] for key in _KEYS if definition.get(key) is not None}
    return digest(parts)


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
