"""The kinds of fault that a lock can have, and the remedy for each."""

from enum import StrEnum
from typing import Final

from msgspec import Struct


class DifferenceKind(StrEnum):
    """The kinds of statement in a lock that do not hold."""

    AGENT_CHANGED = "agent-changed"
    ENDPOINT_MOVED = "endpoint-moved"
    FOREIGN_FILE = "foreign-file"
    FORMAT_EDITED = "format-edited"
    HASH_EDITED = "hash-edited"
    LAUNCH_CHANGED = "launch-changed"
    MALFORMED = "malformed"
    MERGE_CONFLICT = "merge-conflict"
    NEWER_FORMAT = "newer-format"
    NOT_ELIGIBLE = "not-eligible"
    REQUIREMENT_CHANGED = "requirement-changed"
    SCOPES_NARROWED = "scopes-narrowed"
    SCOPES_WIDENED = "scopes-widened"
    SERVER_VANISHED = "server-vanished"
    TOOL_CHANGED = "tool-changed"
    TOOL_SCOPES_CHANGED = "tool-scopes-changed"


class Difference(Struct, frozen=True):
    """One thing that the lock says and that is not so."""

    kind: DifferenceKind
    subject: str
    """The server or category it is about, or the agent, or the lock itself."""
    message: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.message}"


_REVIEW: Final = "review what changed, then run `agent resolve`"
_REMEDIES: Final = {
    DifferenceKind.FOREIGN_FILE: "name another file, or move it away and run `agent resolve`",
    DifferenceKind.HASH_EDITED: "somebody edited the lock: find out who and why before you run `agent resolve`",
    DifferenceKind.MERGE_CONFLICT: (
        "settle the agent file and the index, then run `agent resolve`: the lock is made of those two alone"
    ),
    DifferenceKind.NEWER_FORMAT: "upgrade `agent`, or move the file away",
}


def remedy(kind: DifferenceKind) -> str:
    """The remedy for a difference of this kind."""
    return _REMEDIES.get(kind, _REVIEW)
