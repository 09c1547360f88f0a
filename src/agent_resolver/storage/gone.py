"""Finds processes that have ended, while the event loop goes on."""

import asyncio
from collections.abc import Iterable

from agent_resolver.storage.port import Store


async def find_gone(store: Store, owners: Iterable[str]) -> frozenset[str]:
    """Those of these processes that are known to have ended; each is asked about once."""
    named = frozenset(owners) - {""}
    if not named:
        return frozenset()
    # In a thread: the state may be on another machine, which may not answer.
    return await asyncio.to_thread(
        lambda: frozenset(owner for owner in named if store.is_gone(owner))
    )
