"""The state file of a project: one SQLite database that several processes share."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from agent_resolver.storage.errors import UNUSABLE, FileError, UnreadableFile
from agent_resolver.storage.file import make_state_folder, tighten
from agent_resolver.storage.key_ring import KeyRing
from agent_resolver.storage.sql.commit import Busy
from agent_resolver.storage.sql.connection import SqlConnection
from agent_resolver.storage.sql.database import StoreDatabase
from agent_resolver.storage.sql.trail import seal_first
from agent_resolver.storage.sqlite.owner import owners_folder, remember_gone
from agent_resolver.storage.sqlite.transaction import SqliteTransaction

_APPLICATION: Final = 0x41524553
"""Marks the file as ours: `ARES`."""

_WAIT_SECONDS: Final = 30
_ATTEMPTS: Final = 100
_BEFORE_NAMES_WERE_KEPT: Final = 2
"""The version of the schema that knew a ledger, and removed the file of each process that was gone."""

MIGRATIONS: Final = (
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
    """
    ALTER TABLE ledger RENAME TO ledger_before;
    CREATE TABLE ledger (
        key TEXT NOT NULL PRIMARY KEY,
        tool TEXT NOT NULL,
        arguments TEXT NOT NULL,
        is_idempotent INTEGER NOT NULL,
        state TEXT NOT NULL,
        caller TEXT NOT NULL,
        trace_id TEXT NOT NULL,
        owner TEXT NOT NULL,
        started_at TEXT NOT NULL,
        ended_at TEXT,
        result BLOB
    ) WITHOUT ROWID;
    INSERT INTO ledger
        SELECT key, tool, arguments, idempotent, state, caller, trace_id, owner, started_at, NULL, result
        FROM ledger_before;
    DROP TABLE ledger_before;
    ALTER TABLE rate RENAME TO rate_before;
    DROP INDEX rate_by_subject;
    CREATE TABLE rate (
        position INTEGER PRIMARY KEY,
        subject TEXT NOT NULL,
        number INTEGER NOT NULL,
        at REAL NOT NULL,
        UNIQUE (subject, number)
    );
    INSERT INTO rate SELECT NULL, subject, rowid, at FROM rate_before ORDER BY at;
    DROP TABLE rate_before;
    CREATE TABLE run (
        position INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        kind TEXT NOT NULL,
        status TEXT NOT NULL,
        trace_id TEXT NOT NULL,
        lease INTEGER NOT NULL,
        waits_for TEXT,
        started_at TEXT NOT NULL,
        changed_at TEXT NOT NULL
    );
    CREATE INDEX run_by_status ON run (status);
    CREATE TABLE lease (
        position INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        owner TEXT NOT NULL,
        number INTEGER NOT NULL,
        until REAL NOT NULL
    );
    CREATE TABLE wake (position INTEGER PRIMARY KEY AUTOINCREMENT, topic TEXT NOT NULL, key TEXT NOT NULL);
    ALTER TABLE audit_seal ADD COLUMN anchor INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE audit_seal ADD COLUMN anchor_root TEXT NOT NULL DEFAULT '';
    ALTER TABLE audit_seal ADD COLUMN anchor_heads TEXT NOT NULL DEFAULT '{}';
    ALTER TABLE audit_seal ADD COLUMN anchor_seal TEXT NOT NULL DEFAULT '';
    """,
    """
    ALTER TABLE pending ADD COLUMN content BLOB;
    ALTER TABLE pending ADD COLUMN connection TEXT NOT NULL DEFAULT '';
    ALTER TABLE pending ADD COLUMN agent TEXT NOT NULL DEFAULT '';
    ALTER TABLE pending ADD COLUMN lock TEXT NOT NULL DEFAULT '';
    ALTER TABLE pending ADD COLUMN code TEXT NOT NULL DEFAULT '';
    ALTER TABLE pending ADD COLUMN effects TEXT NOT NULL DEFAULT '';
    ALTER TABLE pending ADD COLUMN takes_approver INTEGER NOT NULL DEFAULT 0;
    CREATE INDEX pending_by_requester ON pending (requester, answer);
    ALTER TABLE audit_seal ADD COLUMN number INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE audit_seal ADD COLUMN seal TEXT NOT NULL DEFAULT '';
    CREATE TABLE audit_mark (id INTEGER PRIMARY KEY CHECK (id = 1), mark TEXT NOT NULL);
    INSERT INTO audit_mark VALUES (1, '');
    """,
    """
    ALTER TABLE run ADD COLUMN agent TEXT NOT NULL DEFAULT '';
    ALTER TABLE run ADD COLUMN plan TEXT NOT NULL DEFAULT '';
    ALTER TABLE run ADD COLUMN caller TEXT NOT NULL DEFAULT '';
    ALTER TABLE run ADD COLUMN parent TEXT NOT NULL DEFAULT '';
    ALTER TABLE run ADD COLUMN thread TEXT NOT NULL DEFAULT '';
    ALTER TABLE run ADD COLUMN continues TEXT NOT NULL DEFAULT '';
    ALTER TABLE run ADD COLUMN reason TEXT NOT NULL DEFAULT '';
    ALTER TABLE run ADD COLUMN code TEXT NOT NULL DEFAULT '';
    ALTER TABLE run ADD COLUMN rounds INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE run ADD COLUMN tokens INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE run ADD COLUMN cost REAL;
    ALTER TABLE run ADD COLUMN uncertain INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE run ADD COLUMN entries INTEGER NOT NULL DEFAULT 0;
    CREATE TABLE journal (
        run TEXT NOT NULL,
        number INTEGER NOT NULL,
        kind TEXT NOT NULL,
        at INTEGER NOT NULL,
        body BLOB NOT NULL,
        PRIMARY KEY (run, number)
    ) WITHOUT ROWID;
    CREATE TABLE plan (digest TEXT NOT NULL PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID;
    CREATE TABLE thread (
        caller TEXT NOT NULL,
        name TEXT NOT NULL,
        agent TEXT NOT NULL,
        run TEXT NOT NULL,
        PRIMARY KEY (caller, name)
    ) WITHOUT ROWID;
    ALTER TABLE pending ADD COLUMN via TEXT NOT NULL DEFAULT '';
    """,
    """
    CREATE TABLE wait (
        due INTEGER NOT NULL,
        run TEXT NOT NULL,
        awaited TEXT NOT NULL,
        PRIMARY KEY (due, run, awaited)
    ) WITHOUT ROWID;
    CREATE INDEX wait_by_awaited ON wait (awaited);
    CREATE INDEX wait_by_run ON wait (run);
    """,
    # The tables `checkpoints` and `writes` are those of LangGraph's saver, which uses
    # them on a lent connection. A saver that made them itself would commit our
    # transaction.
    """
    ALTER TABLE run ADD COLUMN stage TEXT NOT NULL DEFAULT '';
    CREATE TABLE artifact (
        task TEXT NOT NULL,
        digest TEXT NOT NULL,
        body BLOB NOT NULL,
        PRIMARY KEY (task, digest)
    ) WITHOUT ROWID;
    CREATE TABLE checkpoints (
        thread_id TEXT NOT NULL,
        checkpoint_ns TEXT NOT NULL DEFAULT '',
        checkpoint_id TEXT NOT NULL,
        parent_checkpoint_id TEXT,
        type TEXT,
        checkpoint BLOB,
        metadata BLOB,
        PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id)
    );
    CREATE TABLE writes (
        thread_id TEXT NOT NULL,
        checkpoint_ns TEXT NOT NULL DEFAULT '',
        checkpoint_id TEXT NOT NULL,
        task_id TEXT NOT NULL,
        task_path TEXT NOT NULL DEFAULT '',
        idx INTEGER NOT NULL,
        channel TEXT NOT NULL,
        type TEXT,
        value BLOB,
        PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx)
    );
    """,
    # The id of the key that seals the file; empty until the first process with a key
    # opens it. What an earlier version sealed names no key, and its words are open:
    # `agent state rotate-key` takes it over.
    """
    ALTER TABLE audit ADD COLUMN sealed BLOB;
    ALTER TABLE run ADD COLUMN issuer TEXT NOT NULL DEFAULT '';
    ALTER TABLE pending ADD COLUMN issuer TEXT NOT NULL DEFAULT '';
    CREATE TABLE sealed_with (id INTEGER PRIMARY KEY CHECK (id = 1), key TEXT NOT NULL);
    INSERT INTO sealed_with VALUES (1, '');
    UPDATE sealed_with SET key = 'unnamed'
        WHERE EXISTS (SELECT 1 FROM ledger WHERE result IS NOT NULL)
        OR EXISTS (SELECT 1 FROM pending)
        OR EXISTS (SELECT 1 FROM run);
    """,
    """
    ALTER TABLE lease ADD COLUMN lost INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE lease ADD COLUMN losses INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE ledger ADD COLUMN lease INTEGER NOT NULL DEFAULT 0;
    CREATE TABLE worker (
        name TEXT NOT NULL PRIMARY KEY,
        host TEXT NOT NULL,
        pid INTEGER NOT NULL,
        version TEXT NOT NULL,
        kinds TEXT NOT NULL,
        capacity INTEGER NOT NULL,
        driven INTEGER NOT NULL,
        started_at TEXT NOT NULL,
        seen REAL NOT NULL,
        state TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE served (
        key TEXT NOT NULL PRIMARY KEY,
        until INTEGER NOT NULL,
        body TEXT NOT NULL
    ) WITHOUT ROWID;
    """,
)
"""Each script brings the schema from one version to the next; they are only ever added to."""


@contextmanager
def written_at_once(connection: sqlite3.Connection) -> Iterator[None]:
    """A transaction: all or nothing, with no other writer in between."""
    with _kept_or_undone(connection, "COMMIT", "ROLLBACK"):
        connection.execute("BEGIN IMMEDIATE")
        yield


@contextmanager
def _kept_or_undone(
    connection: sqlite3.Connection,
    end: str,
    *undo: str,
) -> Iterator[None]:
    """What is begun in it is ended, or undone when it fails."""
    try:
        yield
        connection.execute(end)
    except BaseException:
        # After some faults SQLite has rolled back by itself, and what could not begin
        # need not be undone.
        if connection.in_transaction:
            for statement in undo:
                connection.execute(statement)
        raise


class Database(StoreDatabase):
    """A connection to the state file. Not for several threads at once: threads that share it bring the lock."""

    def __init__(
        self,
        path: str,
        key: bytes | None = None,
        keys: KeyRing | None = None,
    ) -> None:
        """Open the state file, making it and its folder, and bring it to the newest schema.

        Args:
            path: The file.
            key: What seals the trail of a new file, where there are no `keys`.
            keys: The keys of the state.

        Raises:
            UnreadableFile: It is not a state file, is damaged, or comes from a newer version.
            UnknownKey: The settings name keys, and it is sealed with another one.
        """
        self._path = path
        self.trail_key = key if keys is None else keys.newest
        """What seals the trail."""
        self.key_id = ""
        """The id of the key that seals the words in the file; empty while nothing was sealed in it."""
        self._identity: tuple[int, int] | None = None
        """Which file was opened, as the system tells files apart; None until it is open."""
        self._waits = True
        """True while a transaction that begins waits for other processes."""
        self._flushes = True
        """True while a commit waits until it is on the disk."""
        self._reading: sqlite3.Connection | None = None
        """The connection for snapshots, opened with the first of them."""
        with self._in_our_words():
            make_state_folder(os.path.dirname(path) or ".")
            _make_private(path)
            self._connection = self._connect()
        try:
            with self._in_our_words():
                self._prepare(self.trail_key)
                self._identity = _identity_of(path)
                if keys is not None:
                    self._find_key(keys)
        except FileError:
            self.close()
            raise

    @property
    def path(self) -> str:
        """The file."""
        return self._path

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(
            self.path,
            timeout=_WAIT_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )

    def _prepare(self, key: bytes | None) -> None:
        version = self._pragma("user_version")
        application = self._pragma("application_id")
        if (application, version) != (_APPLICATION, len(MIGRATIONS)):
            self._migrate(key)
        self._refuse_triggers()
        # Readers go on while one process writes; a commit is on the disk when it
        # returns.
        self._use_wal()
        self._connection.execute("PRAGMA synchronous = FULL")

    def _find_key(self, keys: KeyRing) -> None:
        """Learn which key seals the file, and name the first one in a file that has none yet.

        While this connection is open the key stays the same: a rotation waits for no connection, and is refused.
        """
        self.key_id = self._recorded_key()
        if not self.key_id:
            first = keys.first_id()
            with self.whole() as connection:
                connection.execute(
                    "UPDATE sealed_with SET key = ? WHERE key = ''", (first,)
                )
            self.key_id = self._recorded_key()
        self.trail_key = keys.trail_key(self.key_id)

    def _recorded_key(self) -> str:
        found = self._connection.execute("SELECT key FROM sealed_with").fetchone()
        if found is None or not isinstance(found[0], str):
            raise sqlite3.DatabaseError("the name of its key was removed or edited")
        return found[0]

    def _refuse_triggers(self) -> None:
        """Refuse a file that answers or records by itself: with a trigger it could approve every call that asks.

        Raises:
            DatabaseError: It has a trigger or a view.
        """
        found = self._connection.execute(
            "SELECT name FROM sqlite_master WHERE type IN ('trigger', 'view')"
        ).fetchone()
        if found is not None:
            raise sqlite3.DatabaseError(
                "it has a trigger or a view, which this program never makes"
            )

    def _use_wal(self) -> None:
        """Switch the journal, once in the life of the file."""
        for attempt in range(_ATTEMPTS):
            try:
                self._connection.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError:
                if attempt + 1 == _ATTEMPTS:
                    raise
                # Alone of all statements it does not wait for other processes; this one
                # does.
                self._connection.execute("BEGIN EXCLUSIVE")
                self._connection.execute("ROLLBACK")
            else:
                return

    def _pragma(self, name: str) -> int:
        return int(self._connection.execute(f"PRAGMA {name}").fetchone()[0])

    def _migrate(self, key: bytes | None) -> None:
        with self.whole() as connection:
            version = self._pragma("user_version")
            application = self._pragma("application_id")
            is_new = not connection.execute(
                "SELECT count(*) FROM sqlite_master"
            ).fetchone()[0]
            if application != _APPLICATION and (application or not is_new):
                raise sqlite3.DatabaseError("it is a database of another program")
            if version > len(MIGRATIONS):
                raise sqlite3.DatabaseError("a newer version of this program wrote it")
            if version == _BEFORE_NAMES_WERE_KEPT:
                self._remember_gone_owners()
            for script in MIGRATIONS[version:]:
                for statement in script.split(";"):
                    connection.execute(statement)
            try:
                seal_first(connection, key, is_new=is_new)
            except ValueError as error:
                raise sqlite3.DatabaseError(str(error)) from None
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")

    def _remember_gone_owners(self) -> None:
        """Let calls that were interrupted before the migration be found after it.

        Up to version 2, a process without a file was gone. From version 3 on it is not known, so each process that a
        started call names gets a file; one that still runs has its own.
        """
        owners = self._connection.execute(
            "SELECT DISTINCT owner FROM ledger WHERE state = 'started'"
        )
        names = [str(name) for (name,) in owners]
        if names:
            remember_gone(owners_folder(self.path), names)

    @contextmanager
    def whole(
        self, *, may_wait: bool = True, flushes: bool = True
    ) -> Iterator[sqlite3.Connection]:
        """A transaction: all of it or nothing, with no other writer in between.

        What an interruption left open is undone first. One that does not flush is in the file for all processes, and on
        the disk with the next one that does.

        Raises:
            Busy: Another process writes at this moment, and it may not wait for that.
            UnreadableFile: The file is damaged, the disk is full, or another process does not let go of it.
        """
        connection = self._connection
        # One block in place of `_in_our_words` and `_kept_or_undone`: each step of a
        # run waits for this.
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            try:
                self._begin(may_wait=may_wait, flushes=flushes)
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        except (OSError, sqlite3.Error) as error:
            raise self._unusable(error) from error

    def _begin(self, *, may_wait: bool, flushes: bool) -> None:
        # SQLite would go on writing into a file that has lost its name, and what it
        # wrote would be gone with it.
        if self._identity is not None and _identity_of(self.path) != self._identity:
            raise sqlite3.OperationalError(
                "it was removed or replaced while it was in use"
            )
        if may_wait != self._waits:
            # Only when it changes: one call after the other sets it never, and it takes
            # as long as a small query.
            self._connection.execute(
                f"PRAGMA busy_timeout = {_WAIT_SECONDS * 1000 if may_wait else 0}"
            )
            self._waits = may_wait
        if flushes != self._flushes:
            self._connection.execute(
                f"PRAGMA synchronous = {'FULL' if flushes else 'NORMAL'}"
            )
            self._flushes = flushes
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if (
                not may_wait and error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            ):  # The rest says why.
                raise Busy from None
            raise

    @contextmanager
    def part(self) -> Iterator[None]:
        """A part of a transaction that can fail alone.

        Raises:
            UnreadableFile: As of a transaction.
        """
        with self._in_our_words():
            self._connection.execute("SAVEPOINT part")
            with _kept_or_undone(
                self._connection, "RELEASE part", "ROLLBACK TO part", "RELEASE part"
            ):
                yield

    @property
    def version(self) -> int:
        """The version of the tables."""
        with self._in_our_words():
            return self._pragma("user_version")

    def shorten_waits(self) -> None:
        """Nothing: a transaction of SQLite has the whole file, and waits for no rows."""

    def restore_waits(self) -> None:
        """Nothing, as above."""

    def is_held_elsewhere(self, error: BaseException) -> bool:  # noqa: ARG002 - the port
        """Never, as above."""
        return False

    def is_undone_by(self, error: BaseException) -> bool:  # noqa: ARG002 - the port
        """True if no transaction is open any more: after some faults, as of a full disk, SQLite ends it by itself."""
        return not self._connection.in_transaction

    def transaction(self, connection: SqlConnection) -> SqliteTransaction:
        """What a piece of work gets."""
        return SqliteTransaction(connection, self.path, self.trail_key, self.find_seal)

    def data_version(self) -> int:
        """A number that SQLite counts up for a connection whenever another one has written."""
        return self._pragma("data_version")

    def wait_to_do_again(self, attempt: int) -> None:
        """Nothing: with one writer at a time, no transaction has to be done again."""

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """One state of the file, on a connection of its own: it neither waits for writers nor holds them up.

        Raises:
            UnreadableFile: The file is damaged.
        """
        try:
            if self._reading is None:
                self._reading = self._connect()
                self._reading.execute("PRAGMA query_only = ON")
            connection = self._reading
            try:
                connection.execute("BEGIN")
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        except (OSError, sqlite3.Error) as error:
            raise self._unusable(error) from error

    def back_up(self, target: sqlite3.Connection) -> None:
        """Copy the whole of one state of the file to another database, without what is being written.

        Raises:
            UnreadableFile: It cannot be copied, be it for this file or for the other.
        """
        with self.snapshot() as connection:
            try:
                connection.backup(target)
            except sqlite3.Error as error:
                raise UnreadableFile(self.path, f"cannot be copied: {error}") from error

    @contextmanager
    def _in_our_words(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            raise self._unusable(error) from error

    def _unusable(self, error: Exception) -> UnreadableFile:
        return UnreadableFile(self.path, f"{UNUSABLE}: {error}")

    def close(self) -> None:
        """Close the connections."""
        if self._reading is not None:
            self._reading.close()
        self._connection.close()


def _make_private(path: str) -> None:
    """Let only its owner read the state file, nor what SQLite keeps beside it; make it if it is not there.

    A file that is there is not opened: closing it would drop the locks of another connection of this process.
    """
    flags = os.O_CREAT | os.O_EXCL | os.O_RDWR
    with suppress(FileExistsError):
        os.close(os.open(path, flags, 0o600))
    for suffix in ("", "-wal", "-shm"):
        tighten(f"{path}{suffix}", 0o600)


def _identity_of(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
