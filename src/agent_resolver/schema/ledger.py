"""Values of the ledger, which keeps the calls that started and how each ended."""

from typing import Literal

from msgspec import Struct

from agent_resolver.schema.audit import Record


class Start(Struct, frozen=True, kw_only=True):
    """A call that is about to have its effect."""

    key: str
    tool: str
    arguments: str
    """Their digest."""
    is_idempotent: bool
    caller: str
    trace_id: str
    uses: str | None = None
    """The id of the approval or answer that lets it start, good for one start; what was interrupted goes on with it."""
    is_new_attempt: bool = False
    """Whether a person said to try again what may have been done."""
    at: str
    record: Record | None


class Begun(Struct, frozen=True):
    """What the ledger knows of a key when a call wants to start under it."""

    state: Literal["started", "done", "running", "unknown", "reused", "refused"]
    """It may start; or it is done, runs elsewhere, was interrupted, is for other arguments, lacks its approval."""
    sealed: bytes | None = None
    """The result, where it is done."""


class Interrupted(Struct, frozen=True, kw_only=True):
    """A call that started and whose process is gone."""

    key: str
    tool: str
    arguments: str
    is_idempotent: bool
    caller: str
    trace_id: str
