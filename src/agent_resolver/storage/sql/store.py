"""What the stores on SQLite and on Postgres have in common."""

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock, get_ident
from typing import Any

from agent_resolver.schema.state import TABLES
from agent_resolver.schema.table import Table
from agent_resolver.storage.key_ring import KeyRing
from agent_resolver.storage.lease import (
    claim_in,
    release_in,
    renew_in,
    require_leases_alone,
)
from agent_resolver.storage.port import Lease, Result, Snapshot, Transaction
from agent_resolver.storage.seal import AesSeal
from agent_resolver.storage.sql.commit import Committer
from agent_resolver.storage.sql.connection import SqlConnection
from agent_resolver.storage.sql.database import StoreDatabase
from agent_resolver.storage.sql.row import count_rows
from agent_resolver.storage.sql.transaction import SqlSnapshot, SqlTransaction
from agent_resolver.storage.sql.writer import Writer
from agent_resolver.storage.utf8 import in_utf8
from agent_resolver.storage.wake import Waiters, WokenSince


class SqlStore(ABC):
    """A store on tables: a writer with group commit, and a second connection for reading."""

    def __init__(  # noqa: PLR0913 - the database, its keys, and the clocks
        self,
        database: StoreDatabase,
        keys: KeyRing | None,
        *,
        now: Callable[[], str],
        seconds: Callable[[], float] = time.time,
        quick_seconds: float,
        poll_seconds: float,
    ) -> None:
        """A store on this database.

        Args:
            database: The database, which the store closes.
            keys: The keys that seal the words in the state; without them, words are kept as they are.
            now: The time for records, as ISO 8601 in UTC with milliseconds.
            seconds: The time for leases.
            quick_seconds: How long a commit may take that the event loop waits for; 0 leaves all to the thread.
            poll_seconds: How often a waiting process looks for wake-ups of other processes.
        """
        self._database = database
        self._keys = keys
        self._seal: AesSeal | None = None
        if keys is not None:
            database.find_seal = self.find_seal
        self._seconds = seconds
        self._working: int | None = None
        """The thread that does a piece of work at this moment."""
        woken_since: WokenSince = self._woken_since
        self._waiters = Waiters(woken_since, poll_seconds)
        committer = self._committer = Committer(
            database, now, database.trail_key, self._waiters.tell
        )
        self._writer = Writer(committer, quick_seconds=quick_seconds)
        self._process = os.getpid()
        self._reading = Lock()
        self._reader: int | None = None
        """The thread that reads at this moment."""
        self._is_closed = False

    @property
    def path(self) -> str:
        """What messages call the state."""
        return self._database.path

    @property
    def trail_key(self) -> bytes | None:
        """What seals the trail."""
        return self._database.trail_key

    @property
    def key_id(self) -> str:
        """The id of the key that seals the words in the state; empty while nothing was sealed in it."""
        return self._database.key_id

    @property
    def version(self) -> int:
        """The version of the tables."""
        return self._database.version

    def find_seal(self) -> AesSeal:
        """What seals this state: the key that it names, which no process can change while this one has it open.

        Raises:
            UnknownKey: That key is not known here.
        """
        if self._seal is None:
            if self._keys is None:
                raise RuntimeError("the state was opened without keys")
            self._seal = self._keys.seal(self._database.key_id)
        return self._seal

    # Writing --------------------------------------------------------------------------

    def write(
        self, work: Callable[[Transaction], Result]
    ) -> Coroutine[Any, Any, Result]:
        """Do a piece of work; when this returns, it is on the disk."""
        return self._write(work)

    def write_leases(
        self, work: Callable[[Transaction], Result]
    ) -> Coroutine[Any, Any, Result]:
        """Do a piece of work that changes leases alone; when this returns, all processes see it."""

        def only_leases(transaction: SqlTransaction) -> Result:
            # It may share its commit with other work, which is flushed.
            before, transaction.needs_flush = transaction.needs_flush, False
            result = work(transaction)
            require_leases_alone(needs_flush=transaction.needs_flush)
            transaction.needs_flush = before
            return result

        return self._write(only_leases, flushes=False)

    def _write(
        self, work: Callable[[SqlTransaction], Result], *, flushes: bool = True
    ) -> Coroutine[Any, Any, Result]:
        self._require_own_process()
        if self._working == get_ident():
            raise RuntimeError(
                "a piece of work must not write through the store: use its transaction"
            )

        def do(transaction: SqlTransaction) -> Result:
            self._working = get_ident()
            try:
                return work(transaction)
            finally:
                self._working = None

        return self._writer.do(do, flushes=flushes)

    # Reading --------------------------------------------------------------------------

    async def read(self, work: Callable[[Snapshot], Result]) -> Result:
        """Look at one state."""
        return self.read_now(work)

    def read_now(self, work: Callable[[Snapshot], Result]) -> Result:
        """Look at one state, for code that has no event loop."""
        return self._look(
            lambda connection: work(
                SqlSnapshot(connection, self.path, self._database.find_seal)
            )
        )

    @property
    def commits(self) -> int:
        """The number of commits that this process has made."""
        return self._committer.commits

    def count(
        self, table: Table[Any], where: Mapping[str, object] | None = None
    ) -> int:
        """The number of rows of a table with these values, without reading them.

        Raises:
            ValueError: No index has exactly these columns.
        """
        return self._look(lambda connection: count_rows(connection, table, where or {}))

    def _look(self, work: Callable[[SqlConnection], Result]) -> Result:
        """Do work on one state."""
        with self._snapshot() as connection:
            return work(connection)

    def _require_outside(self) -> None:
        self._require_own_process()
        if self._reader == get_ident():
            raise RuntimeError(
                "a piece of work must not read through the store: use its snapshot"
            )

    @contextmanager
    def _snapshot(self) -> Iterator[SqlConnection]:
        self._require_outside()
        with self._reading:
            self._require_open()
            self._reader = get_ident()
            try:
                with self._database.snapshot() as connection:
                    yield connection
            finally:
                self._reader = None

    def _require_open(self) -> None:
        if self._is_closed:
            raise RuntimeError("the state was closed")

    def _require_own_process(self) -> None:
        """Refuse to use a connection, and to wait for a thread, that only the process before a fork has."""
        if os.getpid() != self._process:
            raise RuntimeError(
                "the state was opened before this process was forked off: open it again"
            )

    # Leases and owners ----------------------------------------------------------------

    @property
    @abstractmethod
    def owner(self) -> str:
        """The name of this process; made when it is first asked for."""

    @abstractmethod
    def is_gone(self, owner: str) -> bool:
        """True if the process of that name is known to have ended."""

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

    # Wake-ups -------------------------------------------------------------------------

    async def woken(self, topic: str, seconds: float) -> frozenset[str]:
        """The keys that were woken since the last call, in any process."""
        return await self._waiters.woken(topic, seconds)

    async def _woken_since(
        self, topic: str, position: int | None
    ) -> tuple[frozenset[str], int]:
        return self._look(lambda connection: woken_after(connection, topic, position))

    # The end --------------------------------------------------------------------------

    def close(self) -> None:
        """Finish what waits, and end."""
        if os.getpid() != self._process:
            return  # The connections are those of the process that opened them.
        self._writer.close()
        if self._is_closed:
            return
        self._give_up_name()
        with self._reading:
            self._is_closed = True
            self._database.close()
        self._waiters.tell_all()

    @abstractmethod
    def _give_up_name(self) -> None:
        """Be gone; the name is kept where a row still has it."""


def woken_after(
    connection: SqlConnection,
    topic: str,
    position: int | None,
) -> tuple[frozenset[str], int]:
    """The keys of a topic that were woken after a position, and the newest position; without a position no keys."""
    newest = int(
        connection.execute("SELECT coalesce(max(position), 0) FROM wake").fetchone()[0]
    )
    last = newest if position is None else position
    statement = "SELECT key FROM wake WHERE position > ? AND topic = ?"
    rows = connection.execute(statement, (last, in_utf8(topic))).fetchall()
    return frozenset(str(key) for (key,) in rows), newest


OWNERS_IN_USE = " UNION ".join(
    f"SELECT {table.owner} AS name FROM {table.name}"  # noqa: S608
    for table in TABLES
    if table.owner
)
"""Every process that a row belongs to."""
