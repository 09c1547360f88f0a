"""The state of a project in one SQLite file, which several processes share."""

import os
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from sqlite3 import Connection
from threading import Lock, get_ident
from typing import Any, Final

from agent_resolver.schema.state import TABLES
from agent_resolver.schema.table import Table
from agent_resolver.storage.clock import system_time
from agent_resolver.storage.errors import UnreadableFile
from agent_resolver.storage.key_ring import KeyRing
from agent_resolver.storage.lease import claim_in, release_in, renew_in, require_leases_alone
from agent_resolver.storage.port import Lease, Result, Snapshot, Transaction
from agent_resolver.storage.seal import AesSeal
from agent_resolver.storage.sqlite.commit import Committer
from agent_resolver.storage.sqlite.database import Database
from agent_resolver.storage.sqlite.owner import Owner, owners_folder
from agent_resolver.storage.sqlite.transaction import SqliteSnapshot, SqliteTransaction
from agent_resolver.storage.sqlite.writer import QUICK_SECONDS, Writer
from agent_resolver.storage.utf8 import in_utf8
from agent_resolver.storage.wake import Waiters

_POLL_SECONDS: Final = 0.05
"""How often a waiting process looks for wake-ups of other processes."""


class SqliteStore:
    """A store on one file: a writer with group commit, and a second connection for reading.

    Work that comes alone is committed by the event loop itself: on a quick disk, handing it to a thread and back would
    take as long again. What comes together goes to a thread, in one commit.
    """

    def __init__(  # noqa: PLR0913 - the keys of a state, and the clocks of tests
        self,
        path: str,
        *,
        key: bytes | None = None,
        keys: KeyRing | None = None,
        now: Callable[[], str] = system_time,
        seconds: Callable[[], float] = time.time,
        quick_seconds: float = QUICK_SECONDS,
    ) -> None:
        """Open the state file, making it and its folder, and bring it to the newest schema.

        Args:
            path: The file.
            key: What seals the trail, where there are no `keys`.
            keys: The keys that seal the words in the state; without them, words are kept as they are.
            now: The time for records, as ISO 8601 in UTC with milliseconds.
            seconds: The time for leases.
            quick_seconds: How long a commit may take that the event loop waits for; 0 leaves all to the thread.

        Raises:
            UnreadableFile: It is not a state file, is damaged, or comes from a newer version.
            UnknownKey: The settings name keys, and it is sealed with another one.
        """
        self.path = path
        self.database = Database(path, key, keys)
        self.trail_key = self.database.trail_key
        self._keys = keys
        self._seal: AesSeal | None = None
        self._find_seal = None if keys is None else self.find_seal
        self._seconds = seconds
        self._working: int | None = None
        """The thread that does a piece of work at this moment."""
        self._waiters = Waiters(self._woken_since, _POLL_SECONDS)
        committer = Committer(self.database, now, self.trail_key, self._waiters.tell, self._find_seal)
        self._writer = Writer(committer, quick_seconds=quick_seconds)
        self._process = os.getpid()
        self._reading = Lock()
        self._reader: int | None = None
        """The thread that reads at this moment."""
        self._is_closed = False
        self._naming = Lock()
        self._owner: Owner | None = None

    def find_seal(self) -> AesSeal:
        """What seals this state: the key that the file names, which no process can change while this one has it open.

        Raises:
            UnknownKey: That key is not known here.
        """
        if self._seal is None:
            if self._keys is None:
                raise RuntimeError("the state was opened without keys")
            self._seal = self._keys.seal(self.database.key_id)
        return self._seal

    def write(self, work: Callable[[Transaction], Result]) -> Coroutine[Any, Any, Result]:
        """Do a piece of work; when this returns, it is on the disk."""
        return self._write(work)

    def write_leases(self, work: Callable[[Transaction], Result]) -> Coroutine[Any, Any, Result]:
        """Do a piece of work that changes leases alone; when this returns, all processes see it."""

        def only_leases(transaction: SqliteTransaction) -> Result:
            # It may share its commit with other work, which is flushed.
            before, transaction.needs_flush = transaction.needs_flush, False
            result = work(transaction)
            require_leases_alone(needs_flush=transaction.needs_flush)
            transaction.needs_flush = before
            return result

        return self._write(only_leases, flushes=False)

    def _write(
        self, work: Callable[[SqliteTransaction], Result], *, flushes: bool = True
    ) -> Coroutine[Any, Any, Result]:
        self._require_own_process()
        if self._working == get_ident():
            raise RuntimeError("a piece of work must not write through the store: use its transaction")

        def do(transaction: SqliteTransaction) -> Result:
            self._working = get_ident()
            try:
                return work(transaction)
            finally:
                self._working = None

        return self._writer.do(do, flushes=flushes)

    async def read(self, work: Callable[[Snapshot], Result]) -> Result:
        """Look at one state of the file."""
        return self.read_now(work)

    def read_now(self, work: Callable[[Snapshot], Result]) -> Result:
        """Look at one state of the file, for code that has no event loop."""
        with self._snapshot() as connection:
            return work(SqliteSnapshot(connection, self.path, self._find_seal))

    def count(self, table: Table[Any]) -> int:
        """The number of rows of a table, without reading them."""
        with self._snapshot() as connection:
            (found,) = connection.execute(f"SELECT count(*) FROM {table.name}").fetchone()  # noqa: S608 - our own name
        return int(found)

    @contextmanager
    def _snapshot(self) -> Iterator[Connection]:
        self._require_own_process()
        if self._reader == get_ident():
            raise RuntimeError("a piece of work must not read through the store: use its snapshot")
        with self._reading:
            self._require_open()
            self._reader = get_ident()
            try:
                with self.database.snapshot() as connection:
                    yield connection
            finally:
                self._reader = None

    def _require_open(self) -> None:
        if self._is_closed:
            raise RuntimeError("the state was closed")

    def _require_own_process(self) -> None:
        """Refuse to use a connection, and to wait for a thread, that only the process before a fork has."""
        if os.getpid() != self._process:
            raise RuntimeError("the state was opened before this process was forked off: open it again")

    # Leases and owners ------------------------------------------------------------------------------------------------

    @property
    def owner(self) -> str:
        """The name of this process; made when it is first asked for."""
        return self._known_owner().name

    def is_gone(self, owner: str) -> bool:
        """True if the process of that name is known to have ended."""
        return self._known_owner().is_gone(owner)

    def _known_owner(self) -> Owner:
        self._require_own_process()
        with self._naming:
            if self._owner is not None:
                return self._owner
            self._require_open()
            folder = owners_folder(self.path)
            try:
                self._owner = owner = Owner(folder)
            except OSError as error:
                problem = f"cannot be used for the names of processes: {error.strerror}"
                raise UnreadableFile(folder, problem) from error
        # Outside of the lock: another thread may read, and ask for the name meanwhile. In the middle of a read, the
        # state that is read may be too old to tell which names are in use: the next process sweeps.
        if self._reader != get_ident():
            owner.sweep(self._owners_in_use)
        return owner

    def _owners_in_use(self) -> set[str]:
        """Every process that a row belongs to."""
        statements = [f"SELECT {table.owner} FROM {table.name}" for table in TABLES if table.owner]  # noqa: S608
        with self._snapshot() as connection:
            return {str(name) for (name,) in connection.execute(" UNION ".join(statements))}

    async def claim(self, name: str, seconds: float) -> Lease | None:
        """Take a lease, unless another holder has it."""
        self._known_owner()  # Making the name reads the file, which a piece of work must not do.
        return await self.write_leases(lambda transaction: claim_in(transaction, self, name, self._seconds(), seconds))

    async def renew(self, lease: Lease, seconds: float) -> bool:
        """Keep a lease for some more time."""
        now = self._seconds()
        return await self.write_leases(lambda transaction: renew_in(transaction, lease, now, seconds))

    async def release(self, lease: Lease) -> None:
        """Give a lease back."""
        await self.write_leases(lambda transaction: release_in(transaction, lease))

    # Wake-ups ---------------------------------------------------------------------------------------------------------

    async def woken(self, topic: str, seconds: float) -> frozenset[str]:
        """The keys that were woken since the last call, in any process."""
        return await self._waiters.woken(topic, seconds)

    def _woken_since(self, topic: str, position: int | None) -> tuple[frozenset[str], int]:
        statement = "SELECT key FROM wake WHERE position > ? AND topic = ?"
        with self._snapshot() as connection:
            newest = int(connection.execute("SELECT coalesce(max(position), 0) FROM wake").fetchone()[0])
            last = newest if position is None else position
            rows = connection.execute(statement, (last, in_utf8(topic))).fetchall()
        return frozenset(str(key) for (key,) in rows), newest

    def close(self) -> None:
        """Finish what waits, and end."""
        if os.getpid() != self._process:
            return  # The connections are those of the process that opened them.
        self._writer.close()
        if self._is_closed:
            return
        if self._owner is not None:
            self._owner.close(is_in_use=self._is_owner_in_use(self._owner.name))
        with self._reading:
            self._is_closed = True
            self.database.close()
        self._waiters.tell_all()

    def _is_owner_in_use(self, name: str) -> bool:
        try:
            return name in self._owners_in_use()
        except UnreadableFile:
            # A file that cannot be read may name this process; it is closed all the same.
            return True
