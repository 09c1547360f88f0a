"""A run as one JSON document: its row, plan, conversation, journal, calls and records."""

import json
from typing import Any, Final

import msgspec

from agent_resolver.core.moment import moment_of
from agent_resolver.registry.port import Seal
from agent_resolver.runtime.run_history import RunHistory, read_history
from agent_resolver.storage.port import Snapshot

_FORM: Final = "run-1"
"""Raised when the parts change."""


def export_run(snapshot: Snapshot, run: str, seal: Seal) -> dict[str, Any] | None:
    """All that is kept of a run, with secret fields masked; None if there is no such run.

    Of a run that has ended it is the same each time: no clock is in it.

    Raises:
        DamagedJournal: Its journal cannot be read.
    """
    history = read_history(snapshot, run, seal)
    if history is None:
        return None
    plain: dict[str, Any] = msgspec.to_builtins(
        {
            "conversation": history.folded.state.messages,
            "journal": _entries_of(history),
            "calls": history.calls,
            "audit": list(snapshot.records(run)),
            "delegates": sorted(row.id for row in history.delegates),
        },
        # Some maps of the journal have numbers as keys, which JSON has not.
        str_keys=True,
    )
    masked = history.mask.mask_document(plain)
    return {
        "format": _FORM,
        "run": msgspec.to_builtins(history.folded.row),
        "plan": history.plan,
        **masked,
    }


def _entries_of(history: RunHistory) -> list[dict[str, Any]]:
    return [
        {
            "number": row.number,
            "kind": row.kind,
            "at": moment_of(row.at),
            "entry": entry,
        }
        for row, entry in history.entries
    ]


def export_bytes(document: dict[str, Any]) -> bytes:
    """The document as bytes: sorted keys, and escapes for what is not ASCII, so that no terminal is steered by it."""
    return f"{json.dumps(document, indent=2, sort_keys=True)}\n".encode()
