"""The connection of a piece of work, as a library borrows it."""

from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from psycopg import pq

from agent_resolver.storage.postgres.connection import BoundedSession

if TYPE_CHECKING:
    from collections.abc import Generator

Value = TypeVar("Value")


class LentPostgresConnection(BoundedSession):
    """A connection in the middle of our transaction, as a library expects one that it owns.

    It is another object on the same session: what the library sets on it, such as the form of rows, stays there.
    Transactions of the library are savepoints, as psycopg has it for a connection that is in a transaction.
    """

    def __init__(self, connection: BoundedSession) -> None:
        super().__init__(connection.pgconn)
        self.longest_wait = connection.longest_wait
        self._autocommit = (
            True  # No statement of the library begins a transaction: there is one.
        )
        self.prepare_threshold = (
            None  # The names of prepared statements belong to the other object.
        )
        self._is_lent = True

    def wait(
        self,
        gen: "Generator[Any, Any, Value]",
        *given: Any,  # noqa: ANN401 - as psycopg
        **named: Any,  # noqa: ANN401 - as psycopg
    ) -> Value:
        """Talk to the server; everything that a connection or a cursor does comes through here."""
        if not self._is_lent:
            gen.close()
            raise RuntimeError(
                "the connection was lent for one piece of work, which has ended"
            )
        outcome: Value = super().wait(gen, *given, **named)
        if self.pgconn.transaction_status == pq.TransactionStatus.IDLE:
            raise RuntimeError(
                "a connection that was lent must not end the transaction: it undid or kept a part of it"
            )
        return outcome

    def end(self) -> None:
        """Refuse everything from now on: outside of the work, each statement would commit by itself."""
        self._is_lent = False

    def commit(self) -> None:
        """Nothing: the work is committed as a whole, by the store."""

    def close(self) -> None:
        """Nothing: the connection is the store's."""

    def rollback(self) -> NoReturn:
        """Refused: it would undo what others wrote."""
        raise RuntimeError(
            "a connection that was lent cannot roll back: raise an exception in the work instead"
        )

    def __del__(self, *_: object) -> None:
        """Nothing: the connection is the store's, which closes it."""
