"""The audit trail: what is recorded, and the records as they are kept."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct

CONTENT: Final = "content"
"""The key of a body that has the excerpt of arguments or of a result."""
SHOWN: Final = "shown"
"""The key of a body that has the digest of the excerpt, where the excerpt itself is sealed beside the record."""


class AuditKind(StrEnum):
    """Everything that the trail records; stable for machines."""

    ACTION_ANSWERED = "action.answered"
    ACTION_APPROVED = "action.approved"
    ACTION_ASKED = "action.asked"
    ACTION_REFUSED = "action.refused"
    ACTION_REJECTED = "action.rejected"
    ACTION_SETTLED = "action.settled"
    CALL_DONE = "call.done"
    CALL_FAILED = "call.failed"
    CALL_INTERRUPTED = "call.interrupted"
    CALL_PENDING = "call.pending"
    CALL_STARTED = "call.started"
    FOLDER_REFUSED = "folder.refused"
    LOCK_REFUSED = "lock.refused"
    LOCK_VERIFIED = "lock.verified"
    RUN_CANCELLING = "run.cancelling"
    RUN_ENDED = "run.ended"
    RUN_RESUMED = "run.resumed"
    RUN_SET_ASIDE = "run.aside"
    RUN_SIGNALLED = "run.signalled"
    RUN_STARTED = "run.started"
    RUN_WAITING = "run.waiting"
    SERVER_CONNECTED = "server.connected"
    SERVER_TOOLS = "server.tools"
    SERVER_UNAVAILABLE = "server.unavailable"
    STATE_PRUNED = "state.pruned"
    STATE_REKEYED = "state.rekeyed"
    TASK_DECIDED = "task.decided"
    TOOLS_ACCEPTED = "tools.accepted"
    # Older versions wrote one of these for each tool; now one `server.tools` has all of
    # them.
    TOOL_ADMITTED = "tool.admitted"
    TOOL_REFUSED = "tool.refused"


class Record(Struct, frozen=True):
    """What the trail is to keep of a change; the change and its record are both written, or neither is."""

    run: str
    kind: AuditKind
    body: Mapping[str, object]
    sealed: bytes | None = None
    """The sealed excerpt, where the body has only its digest."""


class AuditRecord(Struct, frozen=True, kw_only=True):
    """A record as it is kept, chained to the record before it in the same run."""

    position: int
    """Its place among all records of all runs, from 1."""
    run: str
    sequence: int
    """Its place among the records of its run, from 1."""
    at: str
    kind: str
    """An `AuditKind`; any text where the record was edited or a newer version wrote it."""
    body: dict[str, Any]
    previous: str
    """The hash of the record before it in its run; empty for the first."""
    hash: str = ""
    sealed: bytes | None = None
    """The sealed excerpt of arguments or of a result, if there is one. The hash covers the digest in the body, so that
    the excerpt can be sealed again with another key."""


class Head(Struct, frozen=True):
    """The last record of a run, as the next one refers to it."""

    sequence: int
    hash: str


class Seal(Struct, frozen=True, kw_only=True):
    """What closes the trail: how many records there are, and a root over all of them.

    Records that were pruned leave an anchor, from which the rest is verified. All of it is sealed again with each
    change, also of a trail without records.
    """

    count: int = 0
    root: str = ""
    anchor: int = 0
    """The position of the last record that was pruned; 0 where none was."""
    anchor_root: str = ""
    """The root after that record."""
    anchor_heads: dict[str, Head] = {}
    """The last pruned record of each run that has records after the anchor."""
    anchor_seal: str = ""
    """What seals the anchor itself; empty where nothing was pruned."""
    number: int = 0
    """How often the trail was sealed since it was made."""
    seal: str = ""
    """A digest of all of the above, with the key if there is one. Unlike a root it is never shown, so that knowing an
    earlier root is not enough to put an earlier seal in its place."""
    mark: str = ""
    """A digest of the number and the seal, kept apart from them: an earlier seal that is put back does not have it."""
