"""Numbers about the state of a project, for metrics: cheap to find, and without a word of what is in it."""

import asyncio
import time
from typing import get_args

from msgspec import Struct

from agent_resolver.project.session import Session
from agent_resolver.schema.state import PENDING, RUNS, WAITS, RunStatus, WaitRow
from agent_resolver.storage.port import Snapshot
from agent_resolver.storage.worker_listing import ShownState, list_workers

_MOST_DUE = 1000
"""The most runs in the queue of workers that are counted."""


class StateNumbers(Struct, frozen=True, kw_only=True):
    """The runs, questions and workers of a state, in numbers."""

    runs: dict[RunStatus, int]
    unanswered: int
    """Questions without an answer; some may have expired."""
    due: int
    """Runs of blueprints that a worker may take up now, at most `_MOST_DUE`."""
    oldest_due_seconds: float
    """For how long the oldest of them is due whose time is known."""
    workers: dict[ShownState, int]


async def count_state(session: Session) -> StateNumbers:
    """Count what is in the state of a project.

    Raises:
        FileError: It cannot be read.
    """
    store = session.store
    now = int(time.time() * 1000)
    due = await store.read(lambda snapshot: _due_waits(snapshot, now))
    times = [row.due for row in due if row.due]
    states = [each.state for each in await list_workers(store, time.time())]

    def count() -> tuple[dict[RunStatus, int], int]:
        runs = {
            status: store.count(RUNS, {"status": status})
            for status in get_args(RunStatus)
        }
        return runs, store.count(PENDING, {"answer": None})

    # In a thread: the state may be on another machine.
    runs, unanswered = await asyncio.to_thread(count)
    return StateNumbers(
        runs=runs,
        unanswered=unanswered,
        due=len({row.run for row in due}),
        oldest_due_seconds=(now - min(times)) / 1000 if times else 0.0,
        workers={state: states.count(state) for state in get_args(ShownState)},
    )


def _due_waits(snapshot: Snapshot, now: int) -> list[WaitRow]:
    # In the order of their keys, which begin with the time: the first ones are due.
    return [row for row in snapshot.find(WAITS, limit=_MOST_DUE) if row.due <= now]
