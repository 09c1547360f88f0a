"""Finds runs in the store and says what became of each, from their rows alone: no journal is opened for a list."""

from collections.abc import Callable
from typing import Final, Literal, get_args

from msgspec import Struct

from agent_resolver.core.lease import is_free
from agent_resolver.schema.pending import PendingAction
from agent_resolver.schema.state import (
    LEASES,
    PENDING,
    RUNS,
    LeaseRow,
    Run,
    RunKind,
    RunStatus,
)
from agent_resolver.storage.gone import find_gone
from agent_resolver.storage.lease import lease_name
from agent_resolver.storage.port import Snapshot, Store

ShownStatus = Literal[
    "running", "waiting", "interrupted", "done", "failed", "cancelled"
]
SHOWN_STATUSES: Final[tuple[ShownStatus, ...]] = get_args(ShownStatus)
_IN_A_PROCESS: Final[tuple[RunStatus, ...]] = ("running", "cancelling")
"""The status in the row of a run while a process has it; one whose process is gone was interrupted."""


class ListedRun(Struct, frozen=True, kw_only=True):
    """A run as a list shows it."""

    row: Run
    status: ShownStatus
    action: PendingAction | None = None
    """The action that a waiting run waits for."""
    crashes: int = 0
    """The number of processes in a row that ended, or were lost, in the middle of an interrupted run."""

    @property
    def is_part(self) -> bool:
        """True if another run started it, and lets it go on."""
        return bool(self.row.parent)


class RunFilter(Struct, frozen=True, kw_only=True):
    """The runs that a caller asks for."""

    status: ShownStatus | None = None
    agent: str = ""
    """The agent, or the blueprint with or without its version."""
    kind: RunKind | None = None

    @property
    def statuses(self) -> tuple[RunStatus, ...] | None:
        """The statuses that the rows of such runs have; None for any."""
        if self.status is None:
            return None
        if self.status in {"running", "interrupted"}:
            return _IN_A_PROCESS
        # The other words are the same for rows.
        return (self.status,)  # type: ignore[return-value]


async def list_runs(
    store: Store,
    seconds: float,
    chosen: RunFilter,
    limit: int | None = None,
    may_read: Callable[[Run], bool] | None = None,
) -> list[ListedRun]:
    """The runs that are asked for, the newest first.

    Args:
        store: The state.
        seconds: The time, as leases measure it.
        chosen: Which runs.
        limit: The most runs that are returned.
        may_read: The runs that are there for the person who asks; None for all.
    """
    rows, leases = await store.read(
        lambda snapshot: _rows_and_leases(snapshot, chosen, limit, may_read)
    )
    free = await _find_free(store, leases, seconds)
    judged = [(row, _shown_status(row, is_free=row.id in free)) for row in rows]
    # `running` and `interrupted` are the same in rows: which of both it is shows only
    # here.
    found = [pair for pair in judged if chosen.status in {None, pair[1]}][:limit]
    waiting = [row.waits_for for row, _ in found if row.waits_for is not None]
    actions = await store.read(
        lambda snapshot: {each: snapshot.get(PENDING, each) for each in waiting}
    )
    listed = []
    for row, status in found:
        is_interrupted = status == "interrupted"
        crashes = _count_crashes(leases.get(row.id)) if is_interrupted else 0
        action = actions.get(row.waits_for or "")
        listed.append(ListedRun(row=row, status=status, action=action, crashes=crashes))
    return listed


async def look_at_run(store: Store, seconds: float, run: str) -> ListedRun | None:
    """One run as a list shows it; None if there is no such run."""

    def read(
        snapshot: Snapshot,
    ) -> tuple[Run | None, LeaseRow | None, PendingAction | None]:
        row = snapshot.get(RUNS, run)
        if row is None:
            return None, None, None
        action = snapshot.get(PENDING, row.waits_for) if row.waits_for else None
        return row, snapshot.get(LEASES, lease_name(run)), action

    row, lease, action = await store.read(read)
    if row is None:
        return None
    free = await _find_free(store, {run: lease}, seconds)
    return ListedRun(
        row=row, status=_shown_status(row, is_free=run in free), action=action
    )


def _rows_and_leases(
    snapshot: Snapshot,
    chosen: RunFilter,
    limit: int | None,
    may_read: Callable[[Run], bool] | None,
) -> tuple[list[Run], dict[str, LeaseRow | None]]:
    """The rows that may fit and may be read, and the leases of those that a process has."""
    # All of the newest runs may be ones that the caller may not read.
    rows = _rows(snapshot, chosen, limit if may_read is None else None)
    if may_read is not None:
        rows = list(filter(may_read, rows))
    leases = {
        row.id: snapshot.get(LEASES, lease_name(row.id))
        for row in rows
        if row.status in _IN_A_PROCESS
    }
    return rows, leases


def _rows(snapshot: Snapshot, chosen: RunFilter, limit: int | None) -> list[Run]:
    # Who wants a few of many runs does not wait until all of them are read. An agent,
    # and whether a process still has a run, show only in the rows themselves.
    is_cut = not chosen.agent and chosen.status not in {"running", "interrupted"}
    most = limit if is_cut else None
    kind: dict[str, str] = {} if chosen.kind is None else {"kind": chosen.kind}
    wanted: list[dict[str, str]] = [kind]
    if chosen.statuses is not None:
        wanted = [{**kind, "status": status} for status in chosen.statuses]
    rows = [
        row
        for where in wanted
        for row in snapshot.find(RUNS, where, limit=most, is_reversed=True)
    ]
    if chosen.agent:
        rows = [
            row
            for row in rows
            if chosen.agent in {row.agent, row.agent.rpartition("@")[0]}
        ]
    return sorted(rows, key=lambda row: (row.started_at, row.id), reverse=True)


async def _find_free(
    store: Store,
    leases: dict[str, LeaseRow | None],
    seconds: float,
) -> set[str]:
    """The runs that no process has."""
    gone = await find_gone(
        store, (lease.owner for lease in leases.values() if lease is not None)
    )
    free = set()
    for run, lease in leases.items():
        is_owner_gone = lease is not None and lease.owner in gone
        if is_free(lease, seconds, is_owner_gone=is_owner_gone):
            free.add(run)
    return free


def _count_crashes(lease: LeaseRow | None) -> int:
    """The number of holders in a row that did not give the lease of an interrupted run back."""
    return lease.losses + 1 if lease is not None and lease.owner else 0


def _shown_status(row: Run, *, is_free: bool) -> ShownStatus:
    if row.status not in _IN_A_PROCESS:
        return row.status  # type: ignore[return-value] # The two others are the ones above.
    return "interrupted" if is_free else "running"
