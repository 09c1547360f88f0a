"""The definition of a tool of a server: what of it is pinned, and what changed against the pins."""

import json
from collections.abc import Mapping
from typing import Any

import mcp_types
from msgspec import structs

from agent_resolver.core.admission import AdmissionCode, Refused
from agent_resolver.core.tool_definition import definition_diff, definition_digest

_MOST_LINES = 40
"""How many lines of a change a refusal shows; `agent tools accept` shows all."""


def definition_of(tool: mcp_types.Tool) -> dict[str, Any]:
    """A tool as its server lists it, as far as it counts."""
    hints = tool.annotations
    return {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": tool.input_schema,
        "outputSchema": tool.output_schema,
        "annotations": None
        if hints is None
        else hints.model_dump(mode="json", by_alias=True, exclude_none=True),
    }


def digest_of(tool: mcp_types.Tool) -> str:
    """The digest of the definition of a tool; empty for one that cannot be written down, which no pin fits."""
    definition = definition_of(tool)
    try:
        # A number such as `1e999` is infinite, for which JSON has no word: it would be
        # written as null.
        json.dumps(definition, allow_nan=False)
        return definition_digest(definition)
    except (ValueError, RecursionError):
        return ""


def with_change(
    refused: Refused | None,
    kept: Mapping[str, Any] | None,
    pinned: str | None,
    after: Mapping[str, Any] | None,
) -> Refused | None:
    """The refusal of a changed tool, with the old text against the new one.

    Args:
        refused: Why the tool is refused; any other reason stays as it is.
        kept: The text that is kept of the pinned definition, if there is any.
        pinned: The digest that the lock pins. A text with another digest was edited, and is not shown as the old one.
        after: The tool as the server lists it now; None if it does not.
    """
    if refused is None or refused.code is not AdmissionCode.TOOL_CHANGED:
        return refused
    try:
        before = (
            kept if kept is not None and definition_digest(kept) == pinned else None
        )
        return structs.replace(
            refused, details=definition_diff(before, after, _MOST_LINES)
        )
    except (ValueError, RecursionError):
        return refused
