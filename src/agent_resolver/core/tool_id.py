"""The ids of tools: one rule, wherever a tool comes from."""

from typing import Final

MAX_TOOL_NAME: Final = 128
"""How long the name may be that a server or a module gives a tool."""
MAX_TOOL_ID: Final = 256
"""How long a whole id may be: for a tool of a server, the server's id, a dot and the name."""


def is_usable_name(name: str) -> bool:
    """True if the name of a tool can be shown to people and kept in records."""
    return 0 < len(name) <= MAX_TOOL_NAME and name.isprintable()


def tool_id_fault(tool_id: object) -> str | None:
    """The reason why something cannot be the id of a tool; None if it can."""
    if not isinstance(tool_id, str):
        return "the id of a tool is text"
    if not 0 < len(tool_id) <= MAX_TOOL_ID:
        return f"the id of a tool has 1 to {MAX_TOOL_ID} characters, not {len(tool_id)}"
    if not tool_id.isprintable():
        return "the id of a tool has characters that can be printed, and no others"
    return None
