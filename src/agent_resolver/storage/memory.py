"""A store that keeps everything in memory: for tests, and for programs that need no state file."""

import secrets
import time
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import partial
from itertools import count, takewhile
from threading import Lock, get_ident
from typing import Any, NamedTuple

from agent_resolver.core.audit import anchored, extended, new_seal
from agent_resolver.schema.audit import AuditRecord, Head, Record, Seal
from agent_resolver.schema.table import Row, Table
from agent_resolver.storage.clock import system_time
from agent_resolver.storage.lease import (
    claim_in,
    release_in,
    renew_in,
    require_in,
    require_leases_alone,
)
from agent_resolver.storage.port import MOST_WAKES, Lease, Result, Snapshot, Transaction
from agent_resolver.storage.trail import as_kept
from agent_resolver.storage.wake import Waiters

Key = tuple[Any, ...]


class _Kept(NamedTuple):
    """A row, and its place in the order of first puts."""

    place: int
    row: Any


class _Wake(NamedTuple):
    position: int
    topic: str
    key: str


class MemoryStore:
    """Keeps the state of one process; it ends with the process. The event loops of several threads may share it."""

    def __init__(
        self,
        *,
        now: Callable[[], str] = system_time,
        seconds: Callable[[], float] = time.time,
        key: bytes | None = None,
    ) -> None:
        """An empty store.

        Args:
            now: The time for records, as ISO 8601 in UTC with milliseconds.
            seconds: The time for leases.
            key: What seals the trail.
        """
        self.owner = secrets.token_hex(8)
        self.tables: defaultdict[str, dict[Key, _Kept]] = defaultdict(dict)
        self.trail: list[AuditRecord] = []
        self.trail_seal = new_seal(key)
        self._now = now
        self._seconds = seconds
        self._key = key
        self.places = count()
        self._heads: dict[str, Head] = {}
        """The last record of every run that has one in the trail."""
        self._turn = Lock()
        """Held while a thread does a piece of work."""
        self._working: int | None = None
        """The thread that does a piece of work at this moment."""
        self._is_closed = False
        self._newest_wake = 0
        self._wakes: deque[_Wake] = deque(maxlen=MOST_WAKES)
        self._waiters = Waiters(self._woken_since)

    def write(
        self, work: Callable[[Transaction], Result]
    ) -> Coroutine[Any, Any, Result]:
        """Do a piece of work, as a whole or not at all."""
        self._require_ready()
        return self._write(work)

    def write_leases(
        self, work: Callable[[Transaction], Result]
    ) -> Coroutine[Any, Any, Result]:
        """Do a piece of work that changes leases alone."""
        self._require_ready()
        return self._write(work, only_leases=True)

    async def _write(
        self, work: Callable[[Transaction], Result], *, only_leases: bool = False
    ) -> Result:
        transaction = _MemoryTransaction(self)
        with self._turn:
            self._working = get_ident()
            try:
                result = work(transaction)
                if only_leases:
                    require_leases_alone(needs_flush=transaction.needs_flush)
                self._extend_trail(transaction.records_to_add)
            # A cancelled piece of work is undone too.
            except BaseException:
                transaction.undo()
                raise
            finally:
                self._working = None
            self._keep_wakes(transaction.to_wake)
        self._waiters.tell({topic for topic, _ in transaction.to_wake})
        return result

    async def read(self, work: Callable[[Snapshot], Result]) -> Result:
        """Look at the store as it is."""
        self._require_ready()
        with self._turn:
            self._working = get_ident()
            try:
                return work(_MemoryTransaction(self))
            finally:
                self._working = None

    async def claim(self, name: str, seconds: float) -> Lease | None:
        """Take a lease, unless another holder has it."""
        return await self.write_leases(
            lambda transaction: claim_in(
                transaction, self, name, self._seconds(), seconds
            )
        )

    async def renew(self, lease: Lease, seconds: float) -> bool:
        """Keep a lease for some more time."""
        now = self._seconds()
        return await self.write_leases(
            lambda transaction: renew_in(transaction, lease, now, seconds)
        )

    async def release(self, lease: Lease) -> bool:
        """Give a lease back; returns False if it was lost."""
        return await self.write_leases(
            lambda transaction: release_in(transaction, lease)
        )

    async def woken(self, topic: str, seconds: float) -> frozenset[str]:
        """The keys that were woken since the last call."""
        return await self._waiters.woken(topic, seconds)

    async def _woken_since(
        self, topic: str, position: int | None
    ) -> tuple[frozenset[str], int]:
        self._require_ready()
        with self._turn:
            last = self._newest_wake if position is None else position
            # The newest come last, so that the search ends at the first old one.
            newer = takewhile(lambda wake: wake.position > last, reversed(self._wakes))
            return frozenset(
                wake.key for wake in newer if wake.topic == topic
            ), self._newest_wake

    def _keep_wakes(self, to_wake: list[tuple[str, str]]) -> None:
        for topic, key in to_wake:
            self._newest_wake += 1
            self._wakes.append(_Wake(self._newest_wake, topic, key))

    def is_gone(self, owner: str) -> bool:  # noqa: ARG002 - the port
        """Never: no other process uses this store, and this one is there."""
        return False

    def close(self) -> None:
        """End; what was kept can still be looked at by its attributes."""
        self._is_closed = True
        self._waiters.tell_all()

    def _require_ready(self) -> None:
        if self._is_closed:
            raise RuntimeError("the state was closed")
        if self._working == get_ident():
            raise RuntimeError(
                "a piece of work must not write or read through the store: use its transaction"
            )

    def _extend_trail(self, records: list[Record]) -> None:
        if not records:
            return
        runs = {record.run for record in records}
        heads = {run: self._heads[run] for run in runs if run in self._heads}
        added, self.trail_seal = extended(
            self.trail_seal, heads, records, self._now(), self._key
        )
        self.trail += added
        self._heads |= _heads_of(added)

    def prune_trail(self, through: int) -> int:
        """Remove records up to a position, and leave an anchor."""
        through = min(through, self.trail_seal.count)
        kept = [record for record in self.trail if record.position > through]
        removed = len(self.trail) - len(kept)
        if removed:
            self.trail_seal = anchored(self.trail_seal, self.trail, through, self._key)
            self.trail = kept
            self._heads = _heads_of(kept)
        return removed

    def unpruned(self) -> Callable[[], None]:
        """Returns what puts the trail back as it is now."""
        before = (self.trail, self.trail_seal, self._heads)

        def put_back() -> None:
            self.trail, self.trail_seal, self._heads = before

        return put_back


class _MemoryTransaction:
    """A piece of work on a `MemoryStore`; it notes how to undo each step."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._undo: list[Callable[[], None]] = []
        self.records_to_add: list[Record] = []
        self.to_wake: list[tuple[str, str]] = []
        self.needs_flush = False
        """True if it changed more than leases."""

    def undo(self) -> None:
        """Take back every step, the last first."""
        for step in reversed(self._undo):
            step()

    def get(self, table: Table[Row], *key: object) -> Row | None:
        kept = self._store.tables[table.name].get(key)
        row: Row | None = kept.row if kept else None
        return row

    def find(
        self,
        table: Table[Row],
        where: Mapping[str, object] | None = None,
        *,
        after: tuple[object, ...] | None = None,
        limit: int | None = None,
        is_reversed: bool = False,
    ) -> list[Row]:
        wanted = dict(where or {})
        table.check_columns(frozenset(wanted))
        rows = self._store.tables[table.name]
        fitting = [
            (key, kept) for key, kept in rows.items() if _has_values(kept.row, wanted)
        ]
        if table.order == "key":
            in_order = _by_key(fitting, after, is_reversed=is_reversed)
        else:
            last_before = rows.get(after) if after else None
            in_order = _by_place(fitting, last_before, is_reversed=is_reversed)
        return [kept.row for kept in in_order[:limit]]

    def records(
        self, run: str | None = None, last: int | None = None
    ) -> Iterator[AuditRecord]:
        chosen = [record for record in self._store.trail if run in {None, record.run}]
        first = 0 if last is None else max(0, len(chosen) - last)
        return iter(chosen[first:])

    def seal(self) -> Seal | None:
        return self._store.trail_seal

    def put(self, table: Table[Row], row: Row, *, only_new: bool = False) -> bool:
        rows = self._store.tables[table.name]
        key = table.key_of(row)
        self.needs_flush = self.needs_flush or table.is_durable
        before = rows.get(key)
        if before is not None and only_new:
            return False
        place = before.place if before else next(self._store.places)
        rows[key] = _Kept(place, row)
        self._undo.append(partial(_restore_row, rows, key, before))
        return True

    def drop(self, table: Table[Row], *key: object) -> bool:
        rows = self._store.tables[table.name]
        self.needs_flush = self.needs_flush or table.is_durable
        before = rows.pop(key, None)
        if before is None:
            return False
        self._undo.append(partial(_restore_row, rows, key, before))
        return True

    def append(self, record: Record) -> None:
        self.needs_flush = True
        self.records_to_add.append(as_kept(record))

    def prune_trail(self, through: int) -> int:
        self.needs_flush = True
        # Before anything is removed: what is noted puts back the trail as it is now.
        self._undo.append(self._store.unpruned())
        return self._store.prune_trail(through)

    def wake(self, topic: str, key: str) -> None:
        self.needs_flush = True
        self.to_wake.append((topic, key))

    def require(self, lease: Lease) -> None:
        require_in(self, lease)

    def lend(self) -> Any:  # noqa: ANN401 - the port
        raise TypeError("a store in memory has no connection to lend")


def _heads_of(records: list[AuditRecord]) -> dict[str, Head]:
    return {record.run: Head(record.sequence, record.hash) for record in records}


def _by_key(
    fitting: list[tuple[Key, _Kept]],
    after: Key | None,
    *,
    is_reversed: bool,
) -> list[_Kept]:
    """The rows whose keys come after this one, in the order of their keys."""
    keyed = [item for item in fitting if after is None or item[0] > after]
    keyed.sort(key=lambda item: item[0], reverse=is_reversed)
    return [kept for _, kept in keyed]


def _by_place(
    fitting: list[tuple[Key, _Kept]],
    last_before: _Kept | None,
    *,
    is_reversed: bool,
) -> list[_Kept]:
    """The rows that were first put after this one, in the order of that."""
    first = last_before.place + 1 if last_before else 0
    # A row that was put back by an undo comes last in the dictionary, and has its old
    # place.
    placed = [kept for _, kept in fitting if kept.place >= first]
    return sorted(placed, key=lambda kept: kept.place, reverse=is_reversed)


def _has_values(row: Any, wanted: Mapping[str, object]) -> bool:  # noqa: ANN401 - a row of any table
    return all(getattr(row, column) == value for column, value in wanted.items())


def _restore_row(rows: dict[Key, _Kept], key: Key, before: _Kept | None) -> None:
    if before is None:
        del rows[key]
    else:
        rows[key] = before
