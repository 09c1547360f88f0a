"""Processes that end themselves at a numbered boundary, and a file outside of the store that says what they did.

The kills come from stores, models, tools and drivers that wrap the real ones: nothing of the product is patched.
"""

import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent_resolver.schema import LEDGER, JournalRow, LedgerEntry, PendingAction, Run
from agent_resolver.schema.state import ArtifactRow
from agent_resolver.storage import Lease, Transaction

KILLED = -signal.SIGKILL
"""The exit code of a process that was killed."""


class Death:
    """Ends the process at a boundary, once it was reached so many times."""

    def __init__(self, point: str = "", number: int = 0, family_of: Callable[[str], str] = str) -> None:
        """Nothing was reached yet.

        Args:
            point: The boundary, such as `run.ended:before`, or the same of one kind of run, `plain.run.ended:before`.
            number: How often it is reached before it kills, from 1.
            family_of: The kind of a run, from its id.
        """
        self._point, self._number, self._family_of = point, number, family_of
        self.reached: Counter[str] = Counter()

    def at(self, boundary: str, run: str = "") -> None:
        """A boundary is reached."""
        for point in (boundary, f"{self._family_of(run)}.{boundary}"):
            self.reached[point] += 1
            if point == self._point and self.reached[point] == self._number:
                os.kill(os.getpid(), signal.SIGKILL)


class Effects:
    """A file outside of the store: what models and tools really did, in order."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "effects"

    def note(self, *words: str) -> None:
        """Add a line."""
        # One write at the end of the file is whole, whatever process it comes from.
        file = os.open(self._path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
        os.write(file, f"{' '.join(words)}\n".encode())
        os.close(file)

    def read(self) -> list[tuple[str, ...]]:
        """Every line, in words."""
        if not self._path.exists():
            return []
        return [tuple(line.split(" ")) for line in self._path.read_text().splitlines()]


class WatchedConnection:
    """A connection that was lent; it notes which tables of a library are written."""

    def __init__(self, connection: Any, note: Callable[[str], None]) -> None:
        self._connection, self._note = connection, note

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def __iter__(self) -> Any:
        return iter(self._connection)

    @property  # type: ignore[misc]  # Nothing sets it.
    def __class__(self) -> Any:
        """That of the connection: LangGraph's saver for Postgres asks for it."""
        return type(self._connection)

    def __enter__(self) -> Any:
        return WatchedConnection(self._connection.__enter__(), self._note)

    def __exit__(self, *error: object) -> Any:
        return self._connection.__exit__(*error)

    def cursor(self, **options: Any) -> Any:
        return WatchedConnection(self._connection.cursor(**options), self._note)

    def execute(self, sql: str, parameters: Any = ()) -> Any:
        self._look_at(sql)
        return self._connection.execute(sql, parameters)

    def executemany(self, sql: str, parameters: Any) -> Any:
        self._look_at(sql)
        return self._connection.executemany(sql, parameters)

    def _look_at(self, sql: str) -> None:
        """Note a write: `checkpoint` for a checkpoint of LangGraph, `writes` for what a node returned."""
        if "INTO checkpoints" in sql:
            self._note("checkpoint")
        elif "INTO writes" in sql or "INTO checkpoint_writes" in sql:
            self._note("writes")


class WatchedTransaction:
    """A transaction that notes which steps of runs, calls and tasks it keeps."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self.steps: list[tuple[str, str]] = []

    def lend(self) -> Any:
        return WatchedConnection(self._transaction.lend(), lambda step: self.steps.append((step, "")))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transaction, name)

    def put(self, table: Any, row: Any, *, only_new: bool = False) -> bool:
        is_kept = self._transaction.put(table, row, only_new=only_new)
        if isinstance(row, JournalRow):
            self.steps.append((row.kind, row.run))
        elif isinstance(row, LedgerEntry):
            self.steps.append((f"call.{row.state}", ""))
        elif isinstance(row, PendingAction):
            self.steps.append(("action.asked" if row.is_open else "action.answered", ""))
        elif isinstance(row, ArtifactRow):
            self.steps.append(("artifact", row.task))
        elif isinstance(row, Run) and row.kind == "task":
            # A row that comes with a checkpoint is that of a stage; else the task begins, or is taken up again.
            kind = "stage" if ("checkpoint", "") in self.steps else "task"
            self.steps.append((f"{kind}.{row.stage}.{row.status}", row.id))
        return is_kept

    def drop(self, table: Any, *key: object) -> bool:
        if table is LEDGER:
            self.steps.append(("call.forgotten", ""))
        return self._transaction.drop(table, *key)


class DyingStore:
    """A store in whose process each commit may be the last thing that happens, or the last that does not."""

    def __init__(self, store: Any, death: Death) -> None:
        self._store, self._death = store, death

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def write(self, work: Callable[[Transaction], Any]) -> Any:
        steps: list[tuple[str, str]] = []

        def watched(transaction: Transaction) -> Any:
            watching: Any = WatchedTransaction(transaction)
            result = work(watching)
            # Before the commit: all of it is lost.
            for step, run in watching.steps:
                self._death.at(f"{step}:before", run)
            steps[:] = watching.steps
            return result

        result = await self._store.write(watched)
        for step, run in steps:
            self._death.at(f"{step}:after", run)
        return result

    async def release(self, lease: Lease) -> bool:
        self._death.at("release:before")
        is_released: bool = await self._store.release(lease)
        self._death.at("release:after")
        return is_released
