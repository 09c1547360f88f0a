"""A state file that one process has to itself."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Final

from agent_resolver.storage.errors import UNUSABLE, UnreadableFile

_WAIT_SECONDS: Final = 5
"""How long a short command may take to let go of the file."""


class StateInUse(UnreadableFile):
    """Another process has the state open."""

    exit_code = 1
    hint = (
        "end `agent serve`, workers, runs and tasks that use this state, then try again"
    )

    def __init__(self, path: str) -> None:
        super().__init__(
            path,
            "is in use by another process, which knows only the keys that it started with",
        )


@contextmanager
def alone_with(
    path: str, wait_seconds: float = _WAIT_SECONDS
) -> Iterator[sqlite3.Connection]:
    """A connection to a state file that no other process has open, nor can open before this ends.

    Every connection to a file in WAL mode holds a shared lock for as long as it is open, also while it does nothing. So
    the exclusive lock is granted only where there is no other, and the system drops it when this process ends.

    Raises:
        StateInUse: Another process has it open.
        UnreadableFile: It is damaged.
    """
    try:
        with closing(
            sqlite3.connect(path, timeout=wait_seconds, isolation_level=None)
        ) as connection:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            try:
                connection.execute("PRAGMA synchronous = FULL")
                # The lock is taken with the first write, and kept.
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("COMMIT")
            except sqlite3.OperationalError as error:
                if (
                    error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
                ):  # The rest says why.
                    raise StateInUse(path) from None
                raise
            yield connection
    except sqlite3.Error as error:
        raise UnreadableFile(path, f"{UNUSABLE}: {error}") from error


def forget_removed(connection: sqlite3.Connection) -> None:
    """Write the file again without what was removed or replaced in it: it stays in unused pages otherwise."""
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
