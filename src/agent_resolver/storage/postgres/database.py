"""The connections of a process to the state in Postgres."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import psycopg
from psycopg import errors

from agent_resolver.storage.errors import UnreadableFile
from agent_resolver.storage.key_ring import KeyRing
from agent_resolver.storage.postgres.address import PostgresAddress
from agent_resolver.storage.postgres.connection import (
    NoAnswer,
    PostgresConnection,
    UnreachableState,
    connect_ready,
    is_caused_by,
    is_to_be_done_again,
    unusable,
)
from agent_resolver.storage.postgres.lock import LOCKS, WRITING
from agent_resolver.storage.postgres.schema import (
    MIGRATIONS,
    migrate,
    read_version,
    refuse_foreign,
)
from agent_resolver.storage.postgres.transaction import PostgresTransaction
from agent_resolver.storage.sql.commit import DoAgain
from agent_resolver.storage.sql.connection import SqlConnection
from agent_resolver.storage.sql.database import StoreDatabase

if TYPE_CHECKING:
    from agent_resolver.storage.postgres.watch import Watch

RETURN_SECONDS: Final = 30
"""How long a server may take to come back, before what waits for it fails."""
# An operator may have given the database or the role another isolation, under which a
# batch would fail again and again.
_BEGIN: Final = f"BEGIN ISOLATION LEVEL READ COMMITTED; SELECT pg_advisory_xact_lock_shared({LOCKS}, {WRITING})"
_LOOK: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_LONGEST_LOOK: Final = (
    "SET idle_in_transaction_session_timeout = '10min'; SET statement_timeout = '10min'"
)
"""A look holds up no writer, and may take its time."""
_PAUSE: Final = 0.005
_SHORT_WAITS: Final = "SET LOCAL lock_timeout = '50ms'"
"""Much shorter than the second after which Postgres looks for transactions that wait for each other."""
_USUAL_WAITS: Final = "SET LOCAL lock_timeout TO DEFAULT"
"""As the session has it, which the address may say."""
_END: Final = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE pid = ? AND backend_start IS NOT DISTINCT FROM ?
"""


class RotatedKey(UnreadableFile):
    """The state was sealed with another key than this process knows it by."""

    exit_code = 1
    hint = "start this process again"

    def __init__(self, path: str) -> None:
        super().__init__(
            path,
            "was sealed with another key while this process had lost its connection to it",
        )


class PostgresDatabase(StoreDatabase):
    """One connection that writes, and one that reads; each is made when it is needed, and again when it was lost."""

    def __init__(
        self,
        address: PostgresAddress,
        key: bytes | None = None,
        keys: KeyRing | None = None,
    ) -> None:
        """Connect, make the tables, or bring them to the newest version.

        Args:
            address: The database.
            key: What seals the trail of a new state, where there are no `keys`.
            keys: The keys of the state.

        Raises:
            UnreachableState: It cannot be reached.
            UnreadableFile: Another program has tables there, or a newer version wrote them.
            UnknownKey: The settings name keys, and it is sealed with another one.
        """
        self._address = address
        self.trail_key = key if keys is None else keys.newest
        self.key_id = ""
        self.watch: Watch | None = None
        """The session that shows that this process is there; the store brings it."""
        self._batch = 0
        """The number of the last commit that was tried; a later one never has it again."""
        self._has_part = False
        """True if the transaction that is open has a savepoint."""
        self._writing: PostgresConnection | None = None
        self._reading: PostgresConnection | None = None
        try:
            self._prepare(keys)
        except psycopg.Error as error:
            self.close()
            raise unusable(self.path, error) from error
        except BaseException:
            self.close()
            raise

    @property
    def path(self) -> str:
        """The database, without what is secret."""
        return self._address.name

    def _prepare(self, keys: KeyRing | None) -> None:
        reading = self._ready_to_read(0)
        version = read_version(reading)
        if version:
            refuse_foreign(reading, self.path)
        if version < len(MIGRATIONS):
            migrate(self._ready_to_write(0), self.path, self.trail_key)
            refuse_foreign(reading, self.path)
        if keys is not None:
            self._find_key(keys, reading)

    def _find_key(self, keys: KeyRing, reading: PostgresConnection) -> None:
        """Learn which key seals the state, and name the first one in a state that has none yet."""
        self.key_id = self._recorded_key(reading)
        if not self.key_id:
            first = keys.first_id()
            self._ready_to_write(0).execute(
                "UPDATE sealed_with SET key = ? WHERE key = ''", (first,)
            )
            self.key_id = self._recorded_key(reading)
        self.trail_key = keys.trail_key(self.key_id)

    def _recorded_key(self, connection: PostgresConnection) -> str:
        found = connection.execute("SELECT key FROM sealed_with").fetchone()
        if found is None:
            raise UnreadableFile(
                self.path,
                "cannot be used as the state: the name of its key was removed",
            )
        return str(found[0])

    @property
    def version(self) -> int:
        """The version of the tables."""
        with self.snapshot() as connection:
            return read_version(connection)

    # Writing --------------------------------------------------------------------------

    @contextmanager
    def whole(
        self,
        *,
        may_wait: bool = True,  # noqa: ARG002 - the port
        flushes: bool = True,  # noqa: ARG002 - the port
    ) -> Iterator[SqlConnection]:
        """A transaction: all of it or nothing. It always waits, and always flushes.

        Leases are flushed too: a server that fails does not end the processes that a lost lease would have kept away.

        Raises:
            DoAgain: Nothing was kept, and it can be done again.
            UnreadableFile: It cannot be written.
        """
        if self.watch is not None:
            self.watch.start(RETURN_SECONDS)
            self.watch.require_name()
        connection = self._ready_to_write(RETURN_SECONDS)
        try:
            self._has_part = False
            connection.run(_BEGIN)
            yield connection
        except BaseException as error:
            connection.undo()
            self._refuse_or_do_again(connection, error)
            raise
        self._commit(connection)

    def _commit(self, connection: PostgresConnection) -> None:
        """Commit, and leave a mark by which it can be found out later that it was."""
        # Also a commit of which nothing could be found out keeps its number: the next
        # one must not find that mark and take it for its own.
        self._batch += 1
        number = self._batch
        rows = self._count_rows()
        try:
            connection.run(
                f"UPDATE owner SET batch = {number} WHERE name = '{self._name}'; COMMIT"  # noqa: S608 - our own
            )
        except psycopg.Error as error:
            connection.undo()
            if not connection.is_lost or not self._was_committed(
                connection, number, rows, error
            ):
                self._refuse_or_do_again(connection, error)

    @property
    def _name(self) -> str:
        """The name of this process; empty where it has none."""
        return "" if self.watch is None else self.watch.name

    def _count_rows(self) -> int:
        """How often the row with that name was made."""
        return 0 if self.watch is None else self.watch.rows

    def _refuse_or_do_again(
        self, connection: PostgresConnection, error: BaseException
    ) -> None:
        """Raise an error of Postgres in our words; return for any other."""
        self._refuse_hanging(error)
        if connection.is_lost:
            # The next transaction makes another one.
            raise DoAgain(UnreachableState(self.path, _as_exception(error))) from error
        if is_to_be_done_again(error):
            problem = f"could not be written: other processes came in between again and again: {error}"
            raise DoAgain(UnreadableFile(self.path, problem)) from error
        if isinstance(error, psycopg.Error):
            raise unusable(self.path, error) from error

    def _refuse_hanging(self, error: BaseException) -> None:
        """Raise if the server hangs: each further attempt would wait as long again."""
        if is_caused_by(error, NoAnswer):
            raise UnreachableState(self.path, _as_exception(error)) from error

    def _was_committed(
        self,
        lost: PostgresConnection,
        number: int,
        rows: int,
        error: Exception,
    ) -> bool:
        """Find out whether the commit was done during which the connection was lost.

        Args:
            lost: The connection.
            number: The number of the commit.
            rows: How often the row with the mark had been made before the commit.
            error: How it was lost.

        Raises:
            UnreadableFile: It cannot be found out.
        """
        try:
            connection = self._ready_to_write(RETURN_SECONDS)
            # The server's process may still be at it.
            _end_process(connection, lost)
            found = connection.execute(
                "SELECT batch FROM owner WHERE name = ?", (self._name,)
            ).fetchone()
        except (psycopg.Error, UnreadableFile) as unknown:
            problem = f"was lost during a commit, and it is not known whether that was done: {unknown}"
            raise UnreadableFile(self.path, problem) from error
        if found is not None and int(found[0]) == number:
            return True
        # A mark may have gone with a row that another process removed meanwhile.
        if found is None or self._count_rows() != rows:
            problem = (
                "was lost during a commit, and it is not known whether that was done"
            )
            raise UnreadableFile(self.path, problem) from error
        return False

    @contextmanager
    def part(self) -> Iterator[None]:
        """A part of a transaction that can fail alone."""
        connection = self._open_connection()
        # The part before it ends with the same message, and the last one with the
        # commit.
        connection.run(
            "RELEASE part; SAVEPOINT part" if self._has_part else "SAVEPOINT part"
        )
        self._has_part = True
        try:
            yield
        except BaseException as error:
            if not self.is_undone_by(error):
                connection.run("ROLLBACK TO part")
            raise

    def shorten_waits(self) -> None:
        """Let the parts that follow wait only for a moment for rows that another process has."""
        self._open_connection().run(_SHORT_WAITS)

    def restore_waits(self) -> None:
        """Let what follows wait again for as long as it takes."""
        self._open_connection().run(_USUAL_WAITS)

    def is_held_elsewhere(self, error: BaseException) -> bool:
        """True if a part failed since another process has a row that it needs."""
        return is_caused_by(error, errors.LockNotAvailable)

    def _open_connection(self) -> PostgresConnection:
        """The connection of the transaction that is open."""
        if self._writing is None:
            raise RuntimeError("no transaction is open")
        return self._writing

    def is_undone_by(self, error: BaseException) -> bool:
        """True if the whole transaction came to nothing with this error of a part."""
        connection = self._writing
        if connection is None or not connection.is_in_transaction:
            return True
        return is_to_be_done_again(error)

    def transaction(self, connection: SqlConnection) -> PostgresTransaction:
        """What a piece of work gets."""
        return PostgresTransaction(
            connection, self.path, self.trail_key, self.find_seal
        )

    def data_version(self) -> None:
        """Not known: the seal is read with every commit."""

    def wait_to_do_again(self, attempt: int) -> None:
        """Let the other transaction go on."""
        time.sleep(_PAUSE * attempt * random.random())  # noqa: S311 - only so that two do not try at the same time

    # Reading --------------------------------------------------------------------------

    @contextmanager
    def snapshot(self) -> Iterator[PostgresConnection]:
        """One state, on a connection of its own.

        Raises:
            DoAgain: The connection was lost, and the work can be done again.
            UnreadableFile: It cannot be read.
        """
        connection = self._ready_to_read(RETURN_SECONDS)
        try:
            connection.run(_LOOK)
            yield connection
            connection.run("COMMIT")
        except BaseException as error:
            connection.undo()
            self._refuse_hanging(error)
            if connection.is_lost:
                raise DoAgain(
                    UnreachableState(self.path, _as_exception(error))
                ) from error
            if isinstance(error, psycopg.Error):
                raise unusable(self.path, error) from error
            raise

    # Connections ----------------------------------------------------------------------

    def _ready_to_write(self, seconds: float) -> PostgresConnection:
        if self._writing is None or self._writing.is_lost:
            self._writing = self._connected(seconds, self._require_same_key)
        return self._writing

    def _ready_to_read(self, seconds: float) -> PostgresConnection:
        if self._reading is None or self._reading.is_lost:
            self._reading = self._connected(seconds, self._prepare_to_read)
        return self._reading

    def _connected(
        self, seconds: float, prepare: Callable[[PostgresConnection], None]
    ) -> PostgresConnection:
        try:
            return connect_ready(self._address, seconds, prepare)
        except psycopg.Error as error:
            raise unusable(self.path, error) from error

    def _prepare_to_read(self, connection: PostgresConnection) -> None:
        self._require_same_key(connection)
        connection.run(_LONGEST_LOOK)
        connection.bound_waits()

    def _require_same_key(self, connection: PostgresConnection) -> None:
        """Refuse a state whose key was changed while this process had no connection that would have prevented it.

        Raises:
            RotatedKey: It was.
        """
        if self.key_id and self._recorded_key(connection) != self.key_id:
            raise RotatedKey(self.path)

    def close(self) -> None:
        """Close the connections."""
        for connection in (self._writing, self._reading):
            if connection is not None:
                connection.close()


def _as_exception(error: BaseException) -> Exception:
    return error if isinstance(error, Exception) else RuntimeError(type(error).__name__)


def _end_process(connection: PostgresConnection, lost: PostgresConnection) -> None:
    """Wait until the server's process for a connection that was lost has ended.

    Raises:
        psycopg.Error: It cannot be ended.
    """
    for _ in range(500):
        if not connection.execute(_END, (lost.process, lost.started)).fetchall():
            return
        time.sleep(0.02)
    raise psycopg.OperationalError(
        "the server does not end the connection that was lost"
    )
