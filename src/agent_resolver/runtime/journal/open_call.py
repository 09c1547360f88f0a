"""What became of the calls that a run leaves open: a model that takes a finished one for one not made repeats it."""

from typing import Any, Final

import msgspec
from msgspec import Struct

from agent_resolver.core.wire_name import from_wire_name
from agent_resolver.registry.call import ledger_key
from agent_resolver.registry.ledger import open_outcome
from agent_resolver.registry.port import Seal
from agent_resolver.runtime.call_key import call_key
from agent_resolver.runtime.journal.entry import plan_purpose, unpack
from agent_resolver.runtime.journal.fold import Folded
from agent_resolver.runtime.result_text import text_of, text_of_result
from agent_resolver.runtime.run import NOT_MADE
from agent_resolver.schema.ledger import LedgerEntry
from agent_resolver.schema.outcome import Failed
from agent_resolver.schema.state import LEDGER, PLANS
from agent_resolver.storage.port import Snapshot

NOT_KNOWN: Final = (
    "This call was begun, and the run went on without its result. It may have been "
    "done: find out before you repeat it."
)
"""What a model reads of a call that was on its way when the run was interrupted."""


class _PlannedTools(Struct):
    tools: list[tuple[Any, ...]] = []


def notes_on_open_calls(snapshot: Snapshot, folded: Folded, seal: Seal) -> list[str]:
    """A note for the model on each open call, in place of its result and in the order of the calls."""
    state = folded.state
    if not state.open_calls:
        return []
    # The recorded plan maps wire names back to ids: the agent may have other tools now.
    tools = _tools_of_plan(snapshot, state.plan, seal)
    notes = []
    for place, call in enumerate(state.open_calls):
        tool_id = from_wire_name(call.name, tools) or call.name
        # The key counts the calls that were open when this one was made, itself
        # included.
        given = call_key(state, len(state.open_calls) - place, call.id)
        key = ledger_key(folded.beginning.caller.id, tool_id, given)
        notes.append(_note_on(snapshot.get(LEDGER, key), seal))
    return notes


def _tools_of_plan(snapshot: Snapshot, digest: str, seal: Seal) -> frozenset[str]:
    """The ids of the tools of a plan; none where it is gone."""
    row = snapshot.get(PLANS, digest)
    try:
        content = (
            b"{}" if row is None else unpack(seal.open(row.body, plan_purpose(digest)))
        )
        return frozenset(
            str(tool[0])
            for tool in msgspec.json.decode(content, type=_PlannedTools).tools
            if tool
        )
    except (ValueError, RecursionError):
        # Without its plan, a call is looked up under the name that the model used.
        return frozenset()


def _note_on(kept: LedgerEntry | None, seal: Seal) -> str:
    if kept is None:
        return NOT_MADE
    if kept.result is None or kept.state not in {"done", "failed"}:
        return NOT_KNOWN
    try:
        if kept.state == "failed":
            return text_of(
                msgspec.json.decode(
                    open_outcome(seal, kept.result, kept.key, "failed"), type=Failed
                )
            )
        return text_of_result(
            msgspec.json.decode(open_outcome(seal, kept.result, kept.key, "done"))
        )
    except ValueError:
        # It was edited: what is certain is that the call was begun.
        return NOT_KNOWN
