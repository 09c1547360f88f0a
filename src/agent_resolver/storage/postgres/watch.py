"""The session that shows to other processes that this one is there, and that hears of wake-ups."""

import secrets
import selectors
import socket
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Lock, Thread
from typing import Final

import psycopg
from psycopg import errors

from agent_resolver.storage.errors import UnreadableFile
from agent_resolver.storage.postgres.address import PostgresAddress
from agent_resolver.storage.postgres.connection import (
    PostgresConnection,
    connect,
    connect_ready,
)
from agent_resolver.storage.postgres.lock import OWNERS
from agent_resolver.storage.postgres.transaction import CHANNEL
from agent_resolver.storage.sql.store import OWNERS_IN_USE

_GRACE_SECONDS: Final = 30
"""How much later than the first process another one may connect again; between two attempts are two seconds at most."""
_ONLY_LOOKS: Final = (errors.InsufficientPrivilege, errors.ReadOnlySqlTransaction)
"""The refusals of a role without the right to write, and of a server that takes no writes."""
_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 2.0
_IS_HELD: Final = f"""
    EXISTS (
        SELECT FROM pg_locks
        WHERE locktype = 'advisory' AND classid = {OWNERS} AND objid = owner.number AND granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    )
"""  # noqa: S608 - our own number
# A server loses all sessions at once when it is started again, and also when one of its
# processes crashes. Both times it begins its statistics again.
EPOCH: Final = (
    "greatest(pg_postmaster_start_time(), (SELECT stats_reset FROM pg_stat_bgwriter))"
)
"""The time since which sessions of the server last, as SQL."""
# In another epoch than that of its row, a process may be there and not have connected
# again yet. The beginning of the epoch does not say since when it could: a recovery of
# the server may take long, and a replica that takes its place was there before. So the
# first process that connects leaves the time, also for those that are there for a
# moment only.
_IS_GONE: Final = f"""
    NOT {_IS_HELD} AND (
        server_start = {EPOCH} OR EXISTS (
            SELECT FROM epoch
            WHERE start = {EPOCH} AND seen < clock_timestamp() - interval '{_GRACE_SECONDS} seconds'
        )
    )
"""
_SEE_EPOCH: Final = f"""
    DELETE FROM epoch WHERE start <> {EPOCH};
    INSERT INTO epoch (start) VALUES ({EPOCH}) ON CONFLICT DO NOTHING;
"""  # noqa: S608 - our own
_SWEEP: Final = f"DELETE FROM owner WHERE name <> ? AND {_IS_GONE} AND name NOT IN ({OWNERS_IN_USE})"  # noqa: S608


class Watch:
    """A connection of its own, which holds a lock with the number of this process for as long as the process is there.

    The server drops the lock with the session, however the process ended. A connection that was lost is made again, and
    the process keeps its name; meanwhile others may take it for gone, and what they claim then has a higher number.
    """

    def __init__(
        self, address: PostgresAddress, on_word: Callable[[set[str] | None], None]
    ) -> None:
        """No session yet: the first use makes it.

        Args:
            address: The database.
            on_word: Called with the topics that were woken; with None when any may have been.
        """
        self.name = secrets.token_hex(8)
        self.rows = 0
        """How often the row of this process was made: another process removes it if the server lost this one."""
        self._refusal: psycopg.Error | None = None
        """Why this process has no name that others can ask about."""
        self._address = address
        self._on_word = on_word
        self._starting = Lock()
        self._connection: PostgresConnection | None = None
        self._thread: Thread | None = None
        self._closing = Event()
        self._here, self._there = socket.socketpair()
        """A byte from here lets the thread look."""

    def start(self, seconds: float = 0) -> None:
        """Be there, under the name of this process.

        Args:
            seconds: How long the server may take to come back.

        Raises:
            UnreachableState: The server does not answer.
        """
        with self._starting:
            if self._thread is not None or self._closing.is_set():
                return
            self._connection = self._first_connection(seconds)
            self._thread = Thread(target=self._listen, name="state words", daemon=True)
            self._thread.start()

    def _first_connection(self, seconds: float) -> PostgresConnection:
        try:
            return connect_ready(self._address, seconds, self._enter_first)
        except psycopg.Error as error:
            raise self._nameless(error) from error

    def require_name(self) -> None:
        """Refuse a process that others could not find to be gone: nothing that it began would be taken up by them.

        Raises:
            UnreadableFile: It may only look.
        """
        if self._refusal is not None:
            raise self._nameless(self._refusal) from self._refusal

    def _nameless(self, error: psycopg.Error) -> UnreadableFile:
        problem = f"cannot keep the names of processes: {error}"
        return UnreadableFile(self._address.name, problem)

    def _enter_first(self, connection: PostgresConnection) -> None:
        if self._enter(connection):
            connection.execute(_SWEEP, (self.name,))

    def is_gone(self, name: str) -> bool:
        """True if the process of that name has ended; one that is not known, or cannot be asked for, is not gone."""
        if name == self.name:
            return False
        self.start()
        connection = self._connection
        if connection is None:
            return False
        try:
            found = connection.execute(
                f"SELECT {_IS_GONE} FROM owner WHERE name = ?",  # noqa: S608
                (name,),
            ).fetchone()
        except psycopg.OperationalError:
            return False
        finally:
            self._look()  # Words may have come with the answer.
        return found is not None and bool(found[0])

    def _enter(self, connection: PostgresConnection) -> bool:
        """Be there, and listen; False if this process may only look, so that no other one has to know of it."""
        try:
            self._take_name(connection)
            self._refusal = None
        except _ONLY_LOOKS as error:
            self._refusal = error
        # A replica refuses this too.
        with suppress(*_ONLY_LOOKS):
            connection.run(f"LISTEN {CHANNEL}")
        return self._refusal is None

    def _take_name(self, connection: PostgresConnection) -> None:
        """Take the lock, and then the name: others take a name without a lock for one of a process that is gone."""
        known = connection.execute(
            "SELECT number FROM owner WHERE name = ?", (self.name,)
        ).fetchone()
        if known is None:
            (number,) = connection.execute(
                "SELECT nextval(pg_get_serial_sequence('owner', 'number'))"
            ).fetchone()
            connection.run(f"SELECT pg_advisory_lock_shared({OWNERS}, {int(number)})")
            self.rows += 1
            columns = "(name, number, server_start) OVERRIDING SYSTEM VALUE"
            inserting = f"INSERT INTO owner {columns} VALUES (?, ?, {EPOCH})"  # noqa: S608
            connection.execute(inserting, (self.name, number))
        else:
            connection.run(f"SELECT pg_advisory_lock_shared({OWNERS}, {int(known[0])})")
            renewing = f"UPDATE owner SET server_start = {EPOCH} WHERE name = ?"  # noqa: S608
            connection.execute(renewing, (self.name,))
        connection.run(_SEE_EPOCH)

    # The thread -----------------------------------------------------------------------

    def _listen(self) -> None:
        while not self._closing.is_set():
            try:
                self._hear()
            except (psycopg.Error, OSError, ValueError):
                self._come_back()

    def _hear(self) -> None:
        connection = self._connection
        if connection is None:
            raise psycopg.OperationalError("not connected")
        # Not `select.select`: it refuses file descriptors from 1024 on, which a server
        # with many clients reaches.
        with selectors.DefaultSelector() as selector:
            selector.register(connection.raw.fileno(), selectors.EVENT_READ)
            selector.register(self._there, selectors.EVENT_READ)
            ready = {key.fileobj for key, _ in selector.select()}
        if self._there in ready:
            self._there.recv(4096)
        topics = {word.payload for word in connection.raw.notifies(timeout=0)}
        if topics:
            self._on_word(None if "" in topics else topics)

    def _come_back(self) -> None:
        """Make the connection again, as long as it takes."""
        pause = _FIRST_PAUSE
        old, self._connection = self._connection, None
        if old is not None:
            old.close()
        while not self._closing.is_set():
            try:
                self._connection = self._entered()
            except (psycopg.Error, UnreadableFile):
                self._closing.wait(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
            else:
                # Whatever was woken meanwhile is in the table.
                self._on_word(None)
                return

    def _entered(self) -> PostgresConnection:
        connection = connect(self._address)
        try:
            self._enter(connection)
        except psycopg.Error:
            connection.close()
            raise
        return connection

    def _look(self) -> None:
        with suppress(OSError):
            self._here.send(b"x")

    def close(self) -> None:
        """Be gone; the name is kept where a row still has it."""
        with self._starting:
            self._closing.set()
        self._look()
        if self._thread is not None:
            self._thread.join()
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                leaving = f"DELETE FROM owner WHERE name = ? AND name NOT IN ({OWNERS_IN_USE})"  # noqa: S608
                connection.execute(leaving, (self.name,))
            connection.close()
        self._here.close()
        self._there.close()
