"""Calls that were told to wait for a person."""

from typing import Any, Final

from agent_resolver.schema.canonical_digest import digest
from agent_resolver.schema.outcome import Done, Failed, FailureCode, Outcome, Pending
from agent_resolver.schema.state import SERVED
from agent_resolver.server.served_note import (
    milliseconds_now,
    put_note,
    read_note,
    short_digest,
)
from agent_resolver.storage.memory import MemoryStore
from agent_resolver.storage.port import Store

_KEPT_MS: Final = 30 * 24 * 3600 * 1000


class WaitingCalls:
    """Knows under which trace each of them waits, for clients that name none, at whichever server of the project.

    An approval holds for one trace, and few clients can name the one that they were told of, or keep to it: the same
    call by the same caller goes on with it. The approval is bound as before, and is still used up by one call.
    """

    def __init__(self, store: Store | None = None) -> None:
        """Calls that wait; without a store, those of this process alone."""
        self._store = store or MemoryStore()

    async def trace_of(
        self,
        caller_id: str,
        tool_id: str,
        arguments: dict[str, Any],
    ) -> str | None:
        """The trace under which this very call waits, if it does."""
        key = _key_of_call(caller_id, tool_id, arguments)
        if key:
            return await self._store.read(lambda snapshot: read_note(snapshot, key))
        return None

    async def note(
        self,
        caller_id: str,
        tool_id: str,
        arguments: dict[str, Any],
        outcome: Outcome,
        known: str | None = None,
    ) -> None:
        """Remember a call that has to wait; what is done or rejected waits no longer.

        `known` is the trace that `trace_of` gave for the call.
        """
        key = _key_of_call(caller_id, tool_id, arguments)
        if isinstance(outcome, Pending) and key and outcome.trace_id != known:
            until = milliseconds_now() + _KEPT_MS
            await self._store.write(
                lambda work: put_note(work, key, until, outcome.trace_id)
            )
        elif known is not None and _is_over(outcome):
            await self._store.write(lambda work: work.drop(SERVED, key))


def _is_over(outcome: Outcome) -> bool:
    return isinstance(outcome, Done) or (
        isinstance(outcome, Failed) and outcome.code is FailureCode.APPROVAL_REJECTED
    )


def _key_of_call(caller_id: str, tool_id: str, arguments: dict[str, Any]) -> str:
    try:
        return f"waiting/{short_digest(digest([caller_id, tool_id, arguments]))}"
    except (TypeError, ValueError, RecursionError):
        return ""  # What is no JSON never comes to wait.
