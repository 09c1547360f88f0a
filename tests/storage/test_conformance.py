"""Every adapter of this package keeps the promises of the store."""

from pathlib import Path

import pytest

from agent_resolver.storage import MemoryStore, SqliteStore, Store
from tests.storage.conformance import Harness, write
from tests.storage.conformance_cases import *  # noqa: F403 - every case, and what the cases need


class InMemory(Harness):
    """The adapter that keeps everything in memory: a second store on the same state is the same store."""

    is_shared = False
    can_lend = False

    def __init__(self, _folder: Path) -> None:
        self._store = MemoryStore()

    def open(self) -> Store:
        return self._store

    def opening(self) -> str:
        raise NotImplementedError


class InSqlite(Harness):
    """The adapter on a state file."""

    quick_seconds: float = 1000

    def __init__(self, folder: Path) -> None:
        self._path = folder / ".agent" / "state.db"

    def open(self) -> Store:
        return SqliteStore(str(self._path), quick_seconds=self.quick_seconds)

    def opening(self) -> str:
        module = "__import__('agent_resolver.storage', fromlist=['SqliteStore'])"
        return f"{module}.SqliteStore({str(self._path)!r}, quick_seconds={self.quick_seconds})"


class InSqliteByThread(InSqlite):
    """The same with a disk that is never quick: a thread does all work."""

    quick_seconds = 0


ADAPTERS: dict[str, type[InMemory] | type[InSqlite]] = {
    "memory": InMemory,
    "sqlite": InSqlite,
    "sqlite by its thread": InSqliteByThread,
}


@pytest.fixture(params=ADAPTERS)
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Harness:
    return ADAPTERS[request.param](tmp_path)


@pytest.fixture(params=[name for name, adapter in ADAPTERS.items() if adapter.is_shared])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Harness:
    return ADAPTERS[request.param](tmp_path)


def test_a_store_without_a_connection_has_none_to_lend() -> None:
    with pytest.raises(TypeError, match="no connection"):
        write(MemoryStore(), lambda transaction: transaction.lend())
