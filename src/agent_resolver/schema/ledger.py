"""Values of the ledger, which keeps the calls that started and how each ended."""

from typing import Literal

from msgspec import Struct

from agent_resolver.schema.audit import Record

Ending = Literal["done", "failed", "unknown", "waiting", "forgotten"]
"""How a call ended. After `unknown` only a person knows; a call that is `forgotten` may start again under its key. One
that is `waiting` goes on under the approval that it started with, such as that of a blueprint whose run waits."""


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
    """The id of the approval or answer that lets the call start; it is good for one start.

    A call that was interrupted goes on under the one that it used.
    """
    is_new_attempt: bool = False
    """True if a person said to try again what may have been done."""
    at: str
    record: Record | None


class LedgerEntry(Struct, frozen=True, kw_only=True):
    """A call as the ledger keeps it."""

    key: str
    tool: str
    arguments: str
    is_idempotent: bool
    state: Literal["started", "done", "failed", "unknown", "waiting"]
    caller: str
    trace_id: str
    owner: str
    """The process that started the call."""
    started_at: str
    ended_at: str | None = None
    result: bytes | None = None
    """The sealed outcome: of a call that is done its result, of one that failed the whole failure."""
    lease: int = 0
    """The fencing number of the lease under which its run was held when it started; 0 for a call of no run."""


class Begun(Struct, frozen=True):
    """The ledger's answer to a call that wants to start."""

    state: Literal[
        "started", "done", "failed", "running", "unknown", "reused", "refused"
    ]
    """`started`: the call may start. Otherwise it ended, runs in another process, was interrupted, has a key that
    another call used (`reused`), or lacks its approval (`refused`)."""
    sealed: bytes | None = None
    """The sealed outcome of a call that ended."""
