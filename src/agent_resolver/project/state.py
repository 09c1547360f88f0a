"""The work of an operator on the state of a project: look at it, copy it, remove what is old."""

import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

from msgspec import Struct

from agent_resolver.core.retention import (
    Family,
    Unfinished,
    families_of,
    last_old_record,
    old_actions,
    old_entries,
    old_families,
    traces_of,
    unfinished,
)
from agent_resolver.engine.dbos_place import ENGINE_SCHEMA
from agent_resolver.project.session import Session
from agent_resolver.reasoner.checkpoint_table import delete_thread
from agent_resolver.schema.audit import AuditKind, Record
from agent_resolver.schema.errors import ResolverError
from agent_resolver.schema.state import (
    ARTIFACTS,
    FINISHED,
    JOURNAL,
    LEASES,
    LEDGER,
    PENDING,
    PLANS,
    RUNS,
    THREADS,
    Run,
    RunStatus,
)
from agent_resolver.schema.table import Row, Table
from agent_resolver.storage.errors import UnwritableFile
from agent_resolver.storage.file import replace_with
from agent_resolver.storage.lease import lease_name
from agent_resolver.storage.port import Snapshot, Store, Transaction
from agent_resolver.storage.sqlite.store import SqliteStore

_PAGE = 500
"""How many rows are removed in one commit: other processes write in between."""
_FAMILIES = 20
"""The number of runs that are removed with their parts in one commit: each has some dozens of rows."""


class TrailInfo(Struct, frozen=True, kw_only=True, rename="camel"):
    """The length, the ends and the root of the audit trail."""

    records: int
    pruned: int
    """How many records were removed from its beginning."""
    first_at: str | None
    last_at: str | None
    root: str


class StateInfo(Struct, frozen=True, kw_only=True, rename="camel"):
    """The content of a state, in numbers."""

    path: str
    bytes: int
    schema: int
    """The version of the tables."""
    key: str
    """Where the key comes from that seals it: `variable NAME`, or the file beside the state."""
    key_id: str
    """The id of the key that it is sealed with."""
    ledger: dict[str, int]
    """The number of calls in each state."""
    pending: dict[str, int]
    runs: dict[str, int]
    journal: int
    """The number of steps that runs have written down."""
    plans: int
    threads: int
    trail: TrailInfo


class Pruned(Struct, frozen=True, kw_only=True):
    """The numbers of rows that were removed, or would be."""

    ledger: int = 0
    pending: int = 0
    runs: int = 0
    """With all that belongs to them: journals, conversations, leases."""
    plans: int = 0
    """The number of plans that no kept run refers to."""
    audit: int = 0


def state_info(session: Session, now: str) -> StateInfo:
    """The content of the state of a project, in numbers."""
    store = session.store
    name = session.config.state.key_env
    key = f"variable {name}" if name else os.path.basename(session.key_path)
    calls = store.read_now(
        lambda snapshot: [entry.state for entry in snapshot.find(LEDGER)]
    )
    actions = store.read_now(
        lambda snapshot: [action.state(now) for action in snapshot.find(PENDING)]
    )
    runs = store.read_now(lambda snapshot: [run.status for run in snapshot.find(RUNS)])
    return StateInfo(
        path=session.state_path,
        bytes=store.size,
        schema=store.version,
        key=key,
        key_id=store.key_id,
        ledger=_count_values(calls),
        pending=_count_values(actions),
        runs=_count_values(runs),
        journal=store.count(JOURNAL),
        plans=store.count(PLANS),
        threads=store.count(THREADS),
        trail=store.read_now(_trail_info),
    )


def _count_values(values: Sequence[str]) -> dict[str, int]:
    return dict(sorted(Counter(values).items()))


def _trail_info(snapshot: Snapshot) -> TrailInfo:
    seal = snapshot.seal()
    first = next(snapshot.records(), None)
    last = next(snapshot.records(last=1), None)
    first_at = first.at if first else None
    last_at = last.at if last else None
    # Without its seal, which was removed or edited, nothing vouches for a number.
    if seal is None:
        return TrailInfo(
            records=0, pruned=0, first_at=first_at, last_at=last_at, root=""
        )
    return TrailInfo(
        records=seal.count - seal.anchor,
        pruned=seal.anchor,
        first_at=first_at,
        last_at=last_at,
        root=seal.root,
    )


class BackupElsewhere(ResolverError):
    """The state is in Postgres, whose own tools copy it."""

    exit_code = 2

    def __init__(self, name: str) -> None:
        super().__init__(
            f"`{name}` is copied with the tools of Postgres, also while it is in use"
        )
        self.hint = f"pg_dump --format=custom --schema=agent_resolver --schema={ENGINE_SCHEMA} --file=FILE {name}"


def back_up(session: Session, target: str) -> int:
    """Copy one state of the state file to `target`, whole or not at all, while other processes go on; its size.

    Raises:
        BackupElsewhere: The state is not in a file.
        UnwritableFile: There is a file already, or no file can be made there.
        UnreadableFile: The state cannot be copied.
    """
    if os.path.lexists(target):
        raise UnwritableFile(
            target, "is there already: name another file, or move it away"
        )

    store = session.store
    if not isinstance(store, SqliteStore):
        raise BackupElsewhere(store.path)

    def copy(temporary: str) -> None:
        with closing(sqlite3.connect(temporary)) as connection:
            # The backup of SQLite copies one state of the file, while other processes
            # go on writing.
            store.database.back_up(connection)

    # The copy holds all that the state holds, so it is for its owner alone.
    replace_with(target, copy, mode=0o600)
    return os.path.getsize(target)


# Pruning ------------------------------------------------------------------------------


async def prune(  # noqa: PLR0913 - each is one option of a command line
    store: Store,
    run: str,
    now: str,
    before: str,
    audit_before: str | None,
    *,
    is_trial: bool,
    statuses: frozenset[RunStatus] | None = None,
) -> Pruned:
    """Remove what ended before a time, and the beginning of the trail before another one if that is given.

    Args:
        store: The state.
        run: The run that the removal is recorded under.
        now: The time.
        before: Calls, actions and runs that ended before this time are removed.
        audit_before: Records from before this time are removed; None keeps all of them.
        is_trial: True to remove nothing, and only say what would be.
        statuses: Removes only runs and tasks that ended in one of these ways, and what belongs to them; None removes
            all that is old.
    """
    # The rows are read outside of the transactions that remove them, which look again
    # at each family.
    runs = await _all_rows(store, RUNS)
    old = old_families(
        families_of(runs), before, FINISHED if statuses is None else statuses
    )
    # Runs go first: what they need of the ledger must not be gone before they are.
    if is_trial:
        removed = _members_of(old)
    else:
        removed = await _drop_runs(store, old, runs)
    kept = [run for run in runs if run.id not in removed]
    # What unfinished runs still need is kept, however old it is.
    needed = unfinished(kept)
    # A trace that a run which stays shares with a removed one is still needed.
    gone = traces_of(run for run in runs if run.id in removed) - traces_of(kept)
    only = None if statuses is None else gone
    entries = old_entries(await _all_rows(store, LEDGER), before, traces_of(kept), only)
    actions = old_actions(
        await _all_rows(store, PENDING), now, before, needed, gone=gone, only=only
    )
    through, count = await store.read(
        lambda snapshot: _old_records(snapshot, now, audit_before, needed)
    )
    plans = await store.read(lambda snapshot: _unused_plans(snapshot, removed))
    pruned = Pruned(
        ledger=len(entries),
        pending=len(actions),
        runs=len(removed),
        plans=len(plans),
        audit=count,
    )
    if is_trial or pruned == Pruned():
        return pruned
    await _drop_in_pages(store, LEDGER, [entry.key for entry in entries])
    await _drop_in_pages(store, PENDING, [action.id for action in actions])
    details = _details_of(pruned, before, through, statuses)
    record = Record(run, AuditKind.STATE_PRUNED, details)
    await store.write(_finish_pruning(record, through))
    return pruned


def _details_of(
    pruned: Pruned, before: str, through: int, statuses: frozenset[RunStatus] | None
) -> dict[str, Any]:
    details: dict[str, Any] = {"before": before, "through": through}
    if statuses is not None:
        details["status"] = sorted(statuses)
    details["ledger"] = pruned.ledger
    details["pending"] = pruned.pending
    details["runs"] = pruned.runs
    details["audit"] = pruned.audit
    return details


def _finish_pruning(record: Record, through: int) -> Callable[[Transaction], None]:
    """Drop the unused plans and the beginning of the trail, and record all that was removed."""

    def finish(transaction: Transaction) -> None:
        # Looked for again: a run may have begun by one of them meanwhile.
        for digest in _unused_plans(transaction, set()):
            transaction.drop(PLANS, digest)
        if through:
            transaction.prune_trail(through)
        transaction.append(record)

    return finish


# Runs ---------------------------------------------------------------------------------


def _members_of(families: list[Family]) -> set[str]:
    return {run.id for family in families for run in family.members}


async def _drop_runs(store: Store, families: list[Family], runs: list[Run]) -> set[str]:
    """Remove runs, each with its parts and all that belongs to them in one commit; the ids of those removed."""
    known = {run.id: run for run in runs}
    removed: set[str] = set()
    # The newest of a conversation goes first: if it goes on meanwhile, it needs all
    # that came before it.
    ordered = sorted(
        families,
        key=lambda family: (family.root.started_at, family.root.id),
        reverse=True,
    )
    for start in range(0, len(ordered), _FAMILIES):
        page = ordered[start : start + _FAMILIES]
        removed |= await store.write(_drop_families(page, known))
    return removed


def _drop_families(
    families: list[Family], known: dict[str, Run]
) -> Callable[[Transaction], set[str]]:
    def drop(transaction: Transaction) -> set[str]:
        # A run may have gone on since it was chosen: its whole family stays until the
        # next pruning.
        unchanged = [
            family
            for family in families
            if not _has_changed(transaction, family, known)
        ]
        removed = [run for family in unchanged for run in family.members]
        for run in removed:
            _drop_run(transaction, run)
        return {run.id for run in removed}

    return drop


def _has_changed(snapshot: Snapshot, family: Family, known: dict[str, Run]) -> bool:
    """True if a run of a family, or the newest of its conversation, is not as it was `known` when it was chosen."""
    for run in family.members:
        thread = snapshot.get(THREADS, run.caller, run.thread) if run.thread else None
        needed = {run.id} if thread is None else {run.id, thread.run}
        if not all(_is_as_known(snapshot, each, known) for each in needed):
            return True
    return False


def _is_as_known(snapshot: Snapshot, run: str, known: dict[str, Run]) -> bool:
    return run in known and snapshot.get(RUNS, run) == known[run]


def _drop_run(transaction: Transaction, run: Run) -> None:
    for row in transaction.find(JOURNAL, {"run": run.id}):
        transaction.drop(JOURNAL, run.id, row.number)
    # Those of a task, or the payloads of a run that are too large for Temporal.
    for artifact in transaction.find(ARTIFACTS, {"task": run.id}):
        transaction.drop(ARTIFACTS, run.id, artifact.digest)
    if run.kind == "task":
        # The thread of a task is that of `reasoner/tasks.py`.
        delete_thread(transaction, f"{run.trace_id}/{run.id}")
    transaction.drop(LEASES, lease_name(run.id))
    thread = transaction.get(THREADS, run.caller, run.thread) if run.thread else None
    # Only the newest run takes the conversation along, which would go on from that run
    # and from no older one.
    if thread is not None and thread.run == run.id:
        transaction.drop(THREADS, run.caller, run.thread)
    transaction.drop(RUNS, run.id)


def _unused_plans(snapshot: Snapshot, removed: set[str]) -> list[str]:
    """The plans that no run refers to, once the runs `removed` are gone."""
    used = {run.plan for run in snapshot.find(RUNS) if run.id not in removed}
    return [plan.digest for plan in snapshot.find(PLANS) if plan.digest not in used]


# Rows ---------------------------------------------------------------------------------


async def _all_rows(store: Store, table: Table[Row]) -> list[Row]:
    """Every row, read page by page."""
    rows: dict[tuple[object, ...], Row] = {}
    last: tuple[object, ...] | None = None
    while page := await store.read(_page_after(table, last)):
        # By key: where the last row of a page was removed meanwhile, the next page
        # begins at the start.
        rows |= {table.key_of(row): row for row in page}
        last = table.key_of(page[-1])
    return list(rows.values())


def _page_after(
    table: Table[Row], last: tuple[object, ...] | None
) -> Callable[[Snapshot], list[Row]]:
    return lambda snapshot: snapshot.find(table, after=last, limit=_PAGE)


def _old_records(
    snapshot: Snapshot, now: str, before: str | None, needed: Unfinished
) -> tuple[int, int]:
    """Up to which position the trail can be pruned, and how many records that are."""
    seal = snapshot.seal()
    if before is None or seal is None:
        return 0, 0
    through = last_old_record(snapshot.records(), now, before, needed)
    return through, max(0, through - seal.anchor)


async def _drop_in_pages(store: Store, table: Table[Row], keys: list[str]) -> None:
    for start in range(0, len(keys), _PAGE):
        await store.write(_drop_all(table, keys[start : start + _PAGE]))


def _drop_all(table: Table[Row], keys: list[str]) -> Callable[[Transaction], None]:
    def drop(transaction: Transaction) -> None:
        for key in keys:
            transaction.drop(table, key)

    return drop
