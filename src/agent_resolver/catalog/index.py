"""The index of a catalog: a SQLite file that several processes share, and that can be made again at any time."""

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from agent_resolver.storage.sqlite.database import written_at_once

_SCHEMA: Final = 4
_APPLICATION: Final = 0x41_47_52_43
"""Marks a database as an index of ours; any other is somebody else's, and stays as it is."""
_WAIT_SECONDS: Final = 30
_DAMAGE: Final = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR}
"""What a file gives that is no index of ours, or not any more."""
_TABLES: Final = """
    CREATE TABLE file (
        id INTEGER PRIMARY KEY,
        root INTEGER NOT NULL,
        path TEXT NOT NULL,
        mtime INTEGER NOT NULL,
        size INTEGER NOT NULL,
        inode INTEGER NOT NULL,
        name TEXT,
        entry BLOB,
        issue BLOB,
        UNIQUE (root, path)
    );
    CREATE INDEX file_by_name ON file (name);
    CREATE TABLE agent (
        file INTEGER PRIMARY KEY,
        uri TEXT NOT NULL UNIQUE,
        also TEXT,
        clashes_with INTEGER,
        clearance INTEGER NOT NULL,
        name TEXT NOT NULL,
        description TEXT NOT NULL,
        model TEXT,
        role TEXT,
        digest TEXT NOT NULL,
        size INTEGER NOT NULL,
        tokens INTEGER NOT NULL,
        status TEXT NOT NULL,
        reason TEXT NOT NULL,
        capabilities TEXT NOT NULL,
        is_derived INTEGER NOT NULL,
        shown INTEGER NOT NULL
    );
    CREATE INDEX agent_in_order ON agent (name, uri);
    CREATE INDEX agent_by_also ON agent (also);
    CREATE INDEX agent_by_model ON agent (model, name, uri);
    CREATE TABLE capability (capability TEXT NOT NULL, file INTEGER NOT NULL, PRIMARY KEY (capability, file))
        WITHOUT ROWID;
    CREATE INDEX capability_by_file ON capability (file);
    CREATE TABLE role (role TEXT NOT NULL, file INTEGER NOT NULL, PRIMARY KEY (role, file)) WITHOUT ROWID;
    CREATE INDEX role_by_file ON role (file);
    CREATE VIRTUAL TABLE words USING fts5
        (name, capabilities, tags, use_when, description, tokenize = 'porter unicode61');
    CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""


class _OtherVersion(sqlite3.DatabaseError):
    """An index that another version of this program made."""

    sqlite_errorcode = sqlite3.SQLITE_NOTADB


class _Foreign(sqlite3.DatabaseError):
    """A database that this program did not make."""

    sqlite_errorcode = sqlite3.SQLITE_CANTOPEN


class CatalogIndex:
    """A connection to the index; in memory where the disk cannot be written."""

    def __init__(self, path: str | None) -> None:
        """Open the index at `path`, or make it.

        A damaged one, or one of another version, is made again; a database of another program is left alone.
        """
        self.path = path
        self._connection = self._opened(path)

    def _opened(self, path: str | None) -> sqlite3.Connection:
        if path is None:
            return _open_prepared(":memory:")
        try:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            return _open_prepared(path)
        except sqlite3.DatabaseError as error:
            if _is_damage(error):
                with suppress(sqlite3.DatabaseError, OSError):
                    _remove_files(path)
                    return _open_prepared(path)
        except OSError:
            pass
        self.path = None
        return _open_prepared(":memory:")

    def recover(self, error: Exception) -> None:
        """Go on after an error: a damaged index is made again, and one that cannot be used is left to others."""
        self._connection.close()
        if self.path is not None and _is_damage(error):
            with suppress(OSError):
                _remove_files(self.path)
            self._connection = self._opened(self.path)
        else:
            self.path = None
            self._connection = self._opened(None)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All of it or nothing, with no other writer in between."""
        with written_at_once(self._connection):
            yield self._connection

    def rows(self, sql: str, parameters: Iterable[object] = ()) -> list[Any]:
        """The rows of a question."""
        try:
            return self._connection.execute(sql, tuple(parameters)).fetchall()
        except UnicodeEncodeError:
            return []  # No row holds text that is not Unicode.

    def each(self, sql: str) -> Iterator[Any]:
        """The rows of a question that has many, one at a time."""
        return self._connection.execute(sql)

    def meta(self, key: str) -> str:
        """A value about the index as a whole."""
        rows = self.rows("SELECT value FROM meta WHERE key = ?", [key])
        return str(rows[0][0]) if rows else ""

    @property
    def version(self) -> int:
        """Changes when another process has written."""
        return int(self._connection.execute("PRAGMA data_version").fetchone()[0])

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _open_prepared(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=_WAIT_SECONDS, isolation_level=None, check_same_thread=False
    )
    try:
        if _read_marks(connection) != (_APPLICATION, _SCHEMA):
            _create_tables(connection)
        # It can be made again at any time, so a commit need not wait for the disk.
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("SELECT count(*) FROM meta").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _read_marks(connection: sqlite3.Connection) -> tuple[int, int]:
    """The marks of a database: the program that it belongs to, and its version."""
    return tuple(
        connection.execute(f"PRAGMA {mark}").fetchone()[0]
        for mark in ("application_id", "user_version")
    )


def _create_tables(connection: sqlite3.Connection) -> None:
    # In this order: another process that makes it now writes its tables and its mark at
    # once.
    has_tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if has_tables and _read_marks(connection)[0] != _APPLICATION:
        raise _Foreign
    # It does not wait for others, and one that makes the same index now does the same.
    with suppress(sqlite3.OperationalError):
        connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("BEGIN IMMEDIATE")
    if _read_marks(connection) == (_APPLICATION, _SCHEMA):
        connection.execute("ROLLBACK")  # Another process was faster.
        return
    if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        connection.execute("ROLLBACK")
        raise _OtherVersion
    for statement in _TABLES.split(";"):
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
    connection.execute(f"PRAGMA user_version = {_SCHEMA}")
    connection.execute("COMMIT")


def _is_damage(error: Exception) -> bool:
    """True if the index has to be made again; a row that Python cannot read is damage too."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return not isinstance(error, sqlite3.ProgrammingError)
    return code & 0xFF in _DAMAGE  # The rest says where.


def _remove_files(path: str) -> None:
    for suffix in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            os.unlink(path + suffix)
