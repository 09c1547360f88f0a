"""One line of the audit trail."""

from typing import Any

from msgspec import Struct


class AuditRecord(Struct, frozen=True, kw_only=True):
    """Something that was decided or done, chained to what came before it in the same run."""

    position: int
    """Its place among all records of all runs, from 1."""
    run: str
    sequence: int
    """Its place among the records of its run, from 1."""
    at: str
    kind: str
    body: dict[str, Any]
    previous: str
    """The hash of the record before it in its run; empty for the first."""
    hash: str = ""


class Record(Struct, frozen=True):
    """What the trail keeps of a change: both are written, or neither is."""

    run: str
    kind: str
    body: dict[str, object]
