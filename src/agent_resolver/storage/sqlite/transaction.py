"""One piece of work on the state file."""

from sqlite3 import (
    SQLITE_DENY,
    SQLITE_OK,
    SQLITE_SAVEPOINT,
    SQLITE_TRANSACTION,
    Connection,
    Cursor,
)
from typing import Any, Final, NoReturn, cast

from agent_resolver.storage.port import MOST_WAKES
from agent_resolver.storage.sql.transaction import SqlTransaction

_WAKES_PER_REMOVAL: Final = 100
"""Old wake-ups are removed with one of so many new ones."""


class SqliteTransaction(SqlTransaction):
    """Writes to the file; no other process writes before it ends."""

    def write_wakes(self) -> None:
        """Leave a row for each that is woken."""
        for topic, key in self.to_wake:
            self.connection.execute(
                "INSERT INTO wake (topic, key) VALUES (?, ?)", (topic, key)
            )
            (newest,) = self.connection.execute("SELECT last_insert_rowid()").fetchone()
            if newest % _WAKES_PER_REMOVAL == 0:
                self.connection.execute(
                    "DELETE FROM wake WHERE position <= ?", (newest - MOST_WAKES,)
                )

    def _make_lent(self) -> "LentConnection":
        return LentConnection(cast("Connection", self.connection))


def _deny_transactions(action: int, *_: str | None) -> int:
    """Let a borrower do anything but begin, commit or undo: also by a script, which commits by itself."""
    return (
        SQLITE_DENY if action in {SQLITE_TRANSACTION, SQLITE_SAVEPOINT} else SQLITE_OK
    )


class LentConnection:
    """A connection in the middle of our transaction, as a library expects one that it owns."""

    def __init__(self, connection: Connection) -> None:
        self._connection: Connection | None = connection
        connection.set_authorizer(_deny_transactions)

    def end(self) -> None:
        """Refuse everything from now on: outside of the work, each statement would commit by itself."""
        self._borrowed().set_authorizer(None)
        self._connection = None

    def _borrowed(self) -> Connection:
        if self._connection is None:
            raise RuntimeError(
                "the connection was lent for one piece of work, which has ended"
            )
        return self._connection

    def cursor(self) -> Cursor:
        """A cursor on the connection."""
        return self._borrowed().cursor()

    def execute(self, sql: str, parameters: Any = ()) -> Cursor:  # noqa: ANN401 - as sqlite3 has it
        """Run one statement."""
        return self._borrowed().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Any) -> Cursor:  # noqa: ANN401 - as sqlite3 has it
        """Run one statement for each of the parameters."""
        return self._borrowed().executemany(sql, parameters)

    def commit(self) -> None:
        """Nothing: the work is committed as a whole, by the store."""

    def close(self) -> None:
        """Nothing: the connection is the store's."""

    def rollback(self) -> NoReturn:
        """Refused: it would undo what others wrote."""
        raise RuntimeError(
            "a connection that was lent cannot roll back: raise an exception in the work instead"
        )

    def executescript(self, _sql: str) -> NoReturn:
        """Refused: it would commit what others wrote."""
        raise RuntimeError(
            "a connection that was lent runs no scripts: they commit; run statements one by one"
        )
