"""The stores under which the views of the registry are tested, and how to make the trail of each fail."""

import asyncio
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from agent_resolver.schema import Record
from agent_resolver.storage import Lease, MemoryStore, Snapshot, SqliteStore, Store, Transaction, trail_faults

Value = TypeVar("Value")
CANNOT_RECORD = r"No space left|was edited"


class Shelf(ABC):
    """A store, and a way to look into it."""

    store: Store

    def kinds(self) -> list[str]:
        """The kinds of all records, oldest first."""
        (kinds,) = run(self.store.read(_verified_kinds))
        return [str(kind) for kind in kinds]

    @abstractmethod
    def break_trail(self) -> None:
        """From now on nothing can be recorded."""

    @abstractmethod
    def mend_trail(self) -> None:
        """Records are taken again."""


def _verified_kinds(snapshot: Snapshot) -> list[str]:
    assert trail_faults(snapshot, None)[0] == []
    return [record.kind for record in snapshot.records()]


class BreakableStore(MemoryStore):
    """A store in memory whose trail can be made to fail."""

    is_broken = False

    def _extend_trail(self, records: list[Record]) -> None:
        if records and self.is_broken:
            raise OSError(28, "No space left on device")
        super()._extend_trail(records)


class InMemory(Shelf):
    """A store in memory."""

    def __init__(self, _folder: Path) -> None:
        self.store = self._store = BreakableStore()

    def break_trail(self) -> None:
        self._store.is_broken = True

    def mend_trail(self) -> None:
        self._store.is_broken = False


class InFile(Shelf):
    """A store on a state file."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "state.db"
        self.store = SqliteStore(str(self._path))

    def break_trail(self) -> None:
        self._execute("UPDATE audit_seal SET count = 'broken' || count")

    def mend_trail(self) -> None:
        self._execute("UPDATE audit_seal SET count = CAST(substr(count, 7) AS INTEGER)")

    def _execute(self, statement: str) -> None:
        connection = sqlite3.connect(self._path, isolation_level=None)
        connection.execute(statement)
        connection.close()


SHELVES: dict[str, type[InMemory] | type[InFile]] = {"memory": InMemory, "state file": InFile}


def open_shelf(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shelf]:
    """A fixture: `shelf = pytest.fixture(params=SHELVES)(open_shelf)`."""
    shelf = SHELVES[request.param](tmp_path)
    yield shelf
    shelf.store.close()


class ProcessStore:
    """A store as a process of some name has it; whether a process is gone is what the test says."""

    def __init__(self, shared: Store, owner: str, gone: set[str]) -> None:
        self.owner = owner
        self._shared = shared
        self._gone = gone

    def is_gone(self, owner: str) -> bool:
        return owner in self._gone

    async def write(self, work: Callable[[Transaction], Value]) -> Value:
        return await self._shared.write(work)

    async def write_leases(self, work: Callable[[Transaction], Value]) -> Value:
        return await self._shared.write_leases(work)

    async def read(self, work: Callable[[Snapshot], Value]) -> Value:
        return await self._shared.read(work)

    async def claim(self, name: str, seconds: float) -> Lease | None:
        return await self._shared.claim(name, seconds)

    async def renew(self, lease: Lease, seconds: float) -> bool:
        return await self._shared.renew(lease, seconds)

    async def release(self, lease: Lease) -> bool:
        return await self._shared.release(lease)

    async def woken(self, topic: str, seconds: float) -> frozenset[str]:
        return await self._shared.woken(topic, seconds)

    def close(self) -> None:
        """Nothing: the store is shared."""


def run(*steps: Awaitable[Any]) -> list[Any]:
    """What these come to, one after the other."""

    async def story() -> list[Any]:
        return [await step for step in steps]

    return asyncio.run(story())


def at_once(*steps: Awaitable[Any]) -> list[Any]:
    """What these come to, all at the same time."""

    async def story() -> list[Any]:
        return await asyncio.gather(*steps)

    return asyncio.run(story())
