"""One piece of work on the state in Postgres."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec import structs
from psycopg import errors

from agent_resolver.schema.audit import Record
from agent_resolver.schema.table import Row, Table
from agent_resolver.storage.port import MOST_WAKES
from agent_resolver.storage.postgres.connection import without_zero
from agent_resolver.storage.postgres.lent import LentPostgresConnection
from agent_resolver.storage.postgres.lock import (
    FINDING,
    LOCKS,
    WAKING,
    WRITING,
    number_of,
)
from agent_resolver.storage.sql.transaction import SqlTransaction

if TYPE_CHECKING:
    from agent_resolver.storage.postgres.connection import PostgresConnection

CHANNEL: Final = "agent_resolver"
_MAX_PAYLOAD: Final = 7999
"""The bytes that a message of `NOTIFY` may have."""
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
        kept = tuple(map(without_zero, key))
        row = super().get(table, *kept)
        if row is None:
            self._absent.add((table.name, *kept))
        return row

    def put(self, table: Table[Row], row: Row, *, only_new: bool = False) -> bool:
        """Keep a row."""
        # A row is sealed for its key, and must have the key that is read again.
        row = _without_zeros(row)
        name = (table.name, *table.key_of(row))
        if only_new or name not in self._absent:
            return super().put(table, row, only_new=only_new)
        self._absent.discard(name)
        if not super().put(table, row, only_new=True):
            raise errors.SerializationFailure(
                f"another process put the row of `{table.name}` that was not there"
            )
        return True

    def drop(self, table: Table[Row], *key: object) -> bool:
        """Remove a row."""
        return super().drop(table, *map(without_zero, key))

    def append(self, record: Record) -> None:
        """Add a record to the trail, with the commit."""
        # The trail is chained over what is read again.
        super().append(structs.replace(record, run=without_zero(record.run)))

    def wake(self, topic: str, key: str) -> None:
        """Leave a row for those that wait, in any process, with the commit."""
        super().wake(without_zero(topic), without_zero(key))

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
            self.connection.execute(
                "SELECT pg_advisory_xact_lock(?, ?)", (FINDING, looked_for)
            )
        else:
            self.connection.execute(
                "SELECT pg_advisory_xact_lock(?, ?)", (LOCKS, WRITING)
            )
        return super().find(
            table, where, after=after, limit=limit, is_reversed=is_reversed
        )

    def write_wakes(self) -> None:
        """Leave a row for each that is woken, and send word to every process that waits."""
        topics, keys = zip(*self.to_wake, strict=True)
        self.connection.execute("SELECT pg_advisory_xact_lock(?, ?)", (LOCKS, WAKING))
        inserted = self.connection.execute(
            "INSERT INTO wake (topic, key) SELECT * FROM unnest(?::text[], ?::text[]) RETURNING position",
            (list(topics), list(keys)),
        )
        positions = [int(position) for (position,) in inserted]
        removing = [
            position for position in positions if position % _WAKES_PER_REMOVAL == 0
        ]
        if removing:
            self.connection.execute(
                "DELETE FROM wake WHERE position <= ?", (max(removing) - MOST_WAKES,)
            )
        payloads = sorted(set(map(_payload, topics)))
        self.connection.execute(
            "SELECT pg_notify(?, topic) FROM unnest(?::text[]) AS topic",
            (CHANNEL, payloads),
        )

    def _make_lent(self) -> LentPostgresConnection:
        return LentPostgresConnection(cast("PostgresConnection", self.connection).raw)


def _payload(topic: str) -> str:
    """The topic, as a notification carries it: empty, for any topic, if it is too long for one."""
    return topic if len(topic.encode()) <= _MAX_PAYLOAD else ""


def _without_zeros(row: Row) -> Row:
    values = structs.asdict(row)
    changed = {
        name: without_zero(value) for name, value in values.items() if _has_zero(value)
    }
    return structs.replace(row, **changed) if changed else row


def _has_zero(value: object) -> bool:
    return isinstance(value, str) and "\x00" in value
