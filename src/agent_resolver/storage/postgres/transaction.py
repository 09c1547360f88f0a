"""One piece of work on the state in Postgres."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from psycopg import errors

from agent_resolver.schema.table import Row, Table
from agent_resolver.storage.port import MOST_WAKES
from agent_resolver.storage.postgres.lent import LentPostgresConnection
from agent_resolver.storage.postgres.lock import FINDING, LOCKS, WAKING, WRITING, number_of
from agent_resolver.storage.sql.transaction import SqlTransaction

if TYPE_CHECKING:
    from agent_resolver.storage.postgres.connection import PostgresConnection

CHANNEL: Final = "agent_resolver"
_MAX_PAYLOAD: Final = 2000
_WAKES_PER_REMOVAL: Final = 100


class PostgresTransaction(SqlTransaction):
    """Writes to Postgres, while other processes do.

    Decisions are as safe as with one writer at a time:

    - A row that was got or found is locked until the end.
    - A row that was not there, and that another process puts meanwhile, makes a put here fail: the work is done again.
    - Two pieces of work that find rows by the same values come one after the other, so that neither misses what the
      other puts. One that looks at a whole table waits until no other process writes.
    """

    def __init__(self, *given: Any) -> None:  # noqa: ANN401 - as `SqlTransaction` has it
        super().__init__(*given)
        self.lock = " FOR UPDATE"
        self._absent: set[tuple[object, ...]] = set()
        """The keys that were looked for and not there."""

    def get(self, table: Table[Row], *key: object) -> Row | None:
        """The row with this key; no other transaction can change it before this one ends."""
        row = super().get(table, *key)
        if row is None:
            self._absent.add((table.name, *key))
        return row

    def put(self, table: Table[Row], row: Row, *, only_new: bool = False) -> bool:
        """Keep a row."""
        name = (table.name, *table.key_of(row))
        if only_new or name not in self._absent:
            return super().put(table, row, only_new=only_new)
        self._absent.discard(name)
        if not super().put(table, row, only_new=True):
            raise errors.SerializationFailure(f"another process put the row of `{table.name}` that was not there")
        return True

    def forget_read(self) -> None:
        """Read every row again: some of what was read may have been undone."""
        super().forget_read()
        self._absent.clear()

    def find(
        self,
        table: Table[Row],
        where: Mapping[str, object] | None = None,
        *,
        after: tuple[object, ...] | None = None,
        limit: int | None = None,
        is_reversed: bool = False,
    ) -> list[Row]:
        """The rows with these values, in the order of the table."""
        table.check_columns(frozenset(where or {}))
        if where:
            looked_for = number_of(f"{table.name} {sorted(where.items())!r}")
            self.connection.execute("SELECT pg_advisory_xact_lock(?, ?)", (FINDING, looked_for))
        else:
            self.connection.execute("SELECT pg_advisory_xact_lock(?, ?)", (LOCKS, WRITING))
        return super().find(table, where, after=after, limit=limit, is_reversed=is_reversed)

    def write_wakes(self) -> None:
        """Leave a row for each that is woken, and send word to every process that waits."""
        topics, keys = zip(*self.to_wake, strict=True)
        self.connection.execute("SELECT pg_advisory_xact_lock(?, ?)", (LOCKS, WAKING))
        inserted = self.connection.execute(
            "INSERT INTO wake (topic, key) SELECT * FROM unnest(?::text[], ?::text[]) RETURNING position",
            (list(topics), list(keys)),
        )
        positions = [int(position) for (position,) in inserted]
        removing = [position for position in positions if position % _WAKES_PER_REMOVAL == 0]
        if removing:
            self.connection.execute("DELETE FROM wake WHERE position <= ?", (max(removing) - MOST_WAKES,))
        told = sorted({topic if len(topic) <= _MAX_PAYLOAD else "" for topic in topics})
        self.connection.execute("SELECT pg_notify(?, topic) FROM unnest(?::text[]) AS topic", (CHANNEL, told))

    def _make_lent(self) -> LentPostgresConnection:
        return LentPostgresConnection(cast("PostgresConnection", self.connection).raw)
