"""The state file of a project: one SQLite database that several processes share."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from agent_resolver.storage.errors import UnreadableFile

_APPLICATION: Final = 0x41524553
"""Marks the file as ours: `ARES`."""

_WAIT_SECONDS: Final = 30
_ATTEMPTS: Final = 100

_MIGRATIONS: Final = (
    """
    CREATE TABLE audit (
        position INTEGER PRIMARY KEY,
        run TEXT NOT NULL,
        sequence INTEGER NOT NULL,
        at TEXT NOT NULL,
        kind TEXT NOT NULL,
        body TEXT NOT NULL,
        previous TEXT NOT NULL,
        hash TEXT NOT NULL,
        UNIQUE (run, sequence)
    );
    CREATE TABLE audit_seal (id INTEGER PRIMARY KEY CHECK (id = 1), count INTEGER NOT NULL, root TEXT NOT NULL);
    INSERT INTO audit_seal VALUES (1, 0, '');
    CREATE TABLE pending (
        id TEXT PRIMARY KEY,
        type TEXT NOT NULL,
        subject TEXT NOT NULL,
        message TEXT NOT NULL,
        asked_at TEXT NOT NULL,
        answer TEXT,
        answered_by TEXT,
        answered_at TEXT
    ) WITHOUT ROWID;
    CREATE TABLE rate (subject TEXT NOT NULL, at REAL NOT NULL);
    CREATE INDEX rate_by_subject ON rate (subject, at);
    """,
    """
    ALTER TABLE pending RENAME TO pending_before;
    CREATE TABLE pending (
        position INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        type TEXT NOT NULL,
        subject TEXT NOT NULL,
        message TEXT NOT NULL,
        asked_at TEXT NOT NULL,
        binding TEXT NOT NULL,
        expires_at TEXT,
        requester TEXT NOT NULL,
        trace_id TEXT NOT NULL,
        arguments TEXT NOT NULL,
        classification TEXT NOT NULL,
        role TEXT NOT NULL,
        needs TEXT NOT NULL,
        answer TEXT,
        reason TEXT,
        answered_by TEXT,
        answered_at TEXT,
        used_at TEXT
    );
    INSERT INTO pending
        SELECT NULL, id, type, subject, message, asked_at, '', NULL, '', '', '', 'INTERNAL', '', '', answer, NULL,
            answered_by, answered_at, NULL
        FROM pending_before ORDER BY asked_at, id;
    DROP TABLE pending_before;
    CREATE INDEX pending_by_binding ON pending (binding, position);
    CREATE TABLE ledger (
        key TEXT PRIMARY KEY,
        tool TEXT NOT NULL,
        arguments TEXT NOT NULL,
        idempotent INTEGER NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('started', 'done', 'unknown')),
        caller TEXT NOT NULL,
        trace_id TEXT NOT NULL,
        owner TEXT NOT NULL,
        started_at TEXT NOT NULL,
        result BLOB
    ) WITHOUT ROWID;
    """,
)
"""Each script brings the schema from one version to the next; they are only ever added to."""


class Busy(Exception):
    """Another process writes at this moment."""


@contextmanager
def written_at_once(connection: sqlite3.Connection) -> Iterator[None]:
    """A transaction: all or nothing, with no other writer in between."""
    with _kept(connection, "COMMIT", "ROLLBACK"):
        connection.execute("BEGIN IMMEDIATE")
        yield


@contextmanager
def _kept(connection: sqlite3.Connection, end: str, *undo: str) -> Iterator[None]:
    """What is begun in it is ended, or undone when it fails."""
    try:
        yield
        connection.execute(end)
    except BaseException:
        # After some faults SQLite has rolled back by itself, and what could not begin need not be undone.
        if connection.in_transaction:
            for statement in undo:
                connection.execute(statement)
        raise


class Database:
    """A connection to the state file. Not for several threads at once: whoever shares it brings the lock."""

    def __init__(self, path: str) -> None:
        """Open the state file, making it and its folder, and bring it to the newest schema.

        Raises:
            UnreadableFile: It is no state file, is damaged, or comes from a newer version.
        """
        self.path = path
        with self._in_our_words():
            _make_folder(os.path.dirname(path) or ".")
            self._connection = sqlite3.connect(
                path, timeout=_WAIT_SECONDS, isolation_level=None, check_same_thread=False
            )
        try:
            with self._in_our_words():
                self._prepare()
        except UnreadableFile:
            self.close()
            raise

    def _prepare(self) -> None:
        version = self._pragma("user_version")
        application = self._pragma("application_id")
        if (application, version) != (_APPLICATION, len(_MIGRATIONS)):
            self._migrate()
        # Readers go on while one process writes; a commit is on the disk when it returns.
        self._use_wal()
        self._connection.execute("PRAGMA synchronous = FULL")

    def _use_wal(self) -> None:
        """Switch the journal, once in the life of the file."""
        for attempt in range(_ATTEMPTS):
            try:
                self._connection.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError:
                if attempt + 1 == _ATTEMPTS:
                    raise
                # Alone of all statements it does not wait for other processes; this one does.
                self._connection.execute("BEGIN EXCLUSIVE")
                self._connection.execute("ROLLBACK")
            else:
                return

    def _pragma(self, name: str) -> int:
        return int(self._connection.execute(f"PRAGMA {name}").fetchone()[0])

    def _migrate(self) -> None:
        with self.transaction() as connection:
            version, application = self._pragma("user_version"), self._pragma("application_id")
            is_new = not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if application != _APPLICATION and (application or not is_new):
                raise sqlite3.DatabaseError("it is a database of another program")
            if version > len(_MIGRATIONS):
                raise sqlite3.DatabaseError("a newer version of this program wrote it")
            for script in _MIGRATIONS[version:]:
                for statement in script.split(";"):
                    connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            connection.execute(f"PRAGMA user_version = {len(_MIGRATIONS)}")

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All of it or nothing, with no other writer in between; inside of another one, it belongs to that.

        Raises:
            UnreadableFile: The file is damaged, the disk is full, or another process does not let go of it.
        """
        if self._connection.in_transaction:
            yield self._connection
        else:
            with self.whole():
                yield self._connection

    @contextmanager
    def whole(self, *, may_wait: bool = True) -> Iterator[None]:
        """A transaction that belongs to no other: what an interruption left open is undone first.

        Raises:
            Busy: Another process writes at this moment, and it may not wait for that.
            UnreadableFile: As of any transaction.
        """
        with self._in_our_words():
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            with _kept(self._connection, "COMMIT", "ROLLBACK"):
                self._connection.execute("BEGIN IMMEDIATE") if may_wait else self._begin_now()
                yield

    def _begin_now(self) -> None:
        try:
            self._connection.execute("PRAGMA busy_timeout = 0")
            self._connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:  # The rest says why.
                raise Busy from None
            raise
        finally:
            self._connection.execute(f"PRAGMA busy_timeout = {_WAIT_SECONDS * 1000}")

    @contextmanager
    def part(self) -> Iterator[None]:
        """A part of a transaction that can fail alone.

        Raises:
            UnreadableFile: As of a transaction.
        """
        with self._in_our_words():
            self._connection.execute("SAVEPOINT part")
            with _kept(self._connection, "RELEASE part", "ROLLBACK TO part", "RELEASE part"):
                yield

    @property
    def is_in_transaction(self) -> bool:
        """Whether one is open still; after some faults, as of a full disk, SQLite ends it by itself."""
        return self._connection.in_transaction

    def query(self, sql: str, *parameters: object) -> Iterator[tuple[object, ...]]:
        """The rows of a question."""
        with self._in_our_words():
            yield from self._connection.execute(sql, parameters)

    @contextmanager
    def _in_our_words(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            raise UnreadableFile(self.path, f"cannot be used as the state file: {error}") from error

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _make_folder(folder: str) -> None:
    """Make the state folder, out of version control."""
    if os.path.isdir(folder):
        return
    os.makedirs(folder, mode=0o700, exist_ok=True)
    with open(os.path.join(folder, ".gitignore"), "w", encoding="utf-8") as file:
        file.write("*\n")
