"""One piece of work on the tables of a state."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from msgspec import structs

from agent_resolver.schema.audit import CONTENT, AuditRecord, Record, Seal
from agent_resolver.schema.table import Row, Table
from agent_resolver.storage.errors import UnreadableFile
from agent_resolver.storage.excerpt import seal_excerpt
from agent_resolver.storage.lease import require_in
from agent_resolver.storage.port import Lease
from agent_resolver.storage.sql.connection import SqlConnection
from agent_resolver.storage.sql.row import TableSql, find_rows, sql_of
from agent_resolver.storage.sql.sealed_column import FindSeal, open_row, seal_row
from agent_resolver.storage.sql.trail import prune_records, read_records, read_seal
from agent_resolver.storage.trail import as_kept
from agent_resolver.storage.utf8 import in_utf8


class Lent(Protocol):
    """What a library got that brings its own tables."""

    def end(self) -> None:
        """Refuse everything from now on: outside of the work, each statement would commit by itself."""
        ...


class SqlSnapshot:
    """Reads one state."""

    def __init__(
        self,
        connection: SqlConnection,
        path: str,
        find_seal: FindSeal | None = None,
    ) -> None:
        """A view of one state.

        Args:
            connection: The connection, in a transaction.
            path: The name of the state.
            find_seal: Finds what seals the words in it; None where they are kept as they are.
        """
        self.connection = connection
        self._path = path
        self._find_seal = find_seal
        self.lock = ""
        """What is added to a statement so that it locks the row that it reads."""

    def get(self, table: Table[Row], *key: object) -> Row | None:
        """The row with this key."""
        sql = sql_of(table)
        values = self.connection.execute(
            f"{sql.get}{self.lock}", in_utf8(key)
        ).fetchone()
        return None if values is None else self._decode(sql, values)

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
        sql = sql_of(table)
        found = find_rows(
            self.connection,
            table,
            where or {},
            after,
            limit,
            is_reversed=is_reversed,
            lock=self.lock,
        )
        return [self._decode(sql, values) for values in found]

    def records(
        self, run: str | None = None, last: int | None = None
    ) -> Iterator[AuditRecord]:
        """The records of the trail, oldest first."""
        return read_records(self.connection, run, last)

    def seal(self) -> Seal | None:
        """The seal of the trail."""
        return read_seal(self.connection)

    def _decode(self, sql: TableSql[Row], values: tuple[object, ...]) -> Row:
        try:
            if sql.sealed and self._find_seal is not None:
                return sql.decode(open_row(sql, values, self._find_seal))
            return sql.decode(values)
        except ValueError as error:  # Also a value that msgspec refuses.
            problem = f"has a row of `{sql.table.name}` that was edited: {error}"
            raise UnreadableFile(self._path, problem) from error


class SqlTransaction(SqlSnapshot):
    """Writes to a state; what is appended to the trail or woken is collected, and written with the commit."""

    def __init__(
        self,
        connection: SqlConnection,
        path: str,
        key: bytes | None,
        find_seal: FindSeal | None = None,
    ) -> None:
        super().__init__(connection, path, find_seal)
        self._key = key
        self.to_append: list[Record] = []
        self.to_wake: list[tuple[str, str]] = []
        """Topics and keys."""
        self.has_pruned = False
        """True if it may have changed the seal of the trail."""
        self.needs_flush = False
        """True if it changed more than leases."""
        self._read: dict[tuple[object, ...], Any] = {}
        """Rows that were read here and not changed since: what is written together often looks at the same ones."""
        self._lent: Lent | None = None

    def get(self, table: Table[Row], *key: object) -> Row | None:
        """The row with this key; no other transaction can change it before this one ends."""
        name = (table.name, *key)
        row: Row | None = self._read.get(name)
        if row is None or self._lent is not None:
            # A library that has the connection may change any row.
            row = super().get(table, *key)
            self._read[name] = row
        return row

    def forget_read(self) -> None:
        """Read every row again: some of what was read may have been undone."""
        self._read.clear()

    def put(self, table: Table[Row], row: Row, *, only_new: bool = False) -> bool:
        """Keep a row."""
        sql = sql_of(table)
        self.needs_flush = self.needs_flush or table.is_durable
        self._read.pop((table.name, *table.key_of(row)), None)
        values = in_utf8(structs.astuple(row))
        # Only some tables have words of people or models, which are never kept in the
        # open.
        if sql.sealed and self._find_seal is not None:
            values = seal_row(sql, values, self._find_seal)
        statement = sql.insert if only_new else sql.replace
        return self.connection.execute(statement, values).rowcount == 1

    def drop(self, table: Table[Row], *key: object) -> bool:
        """Remove a row."""
        self._read.pop((table.name, *key), None)
        self.needs_flush = self.needs_flush or table.is_durable
        return self.connection.execute(sql_of(table).drop, in_utf8(key)).rowcount == 1

    def append(self, record: Record) -> None:
        """Add a record to the trail, with the commit."""
        self.needs_flush = True
        kept = as_kept(record)
        if self._find_seal is not None and CONTENT in kept.body:
            kept = seal_excerpt(kept, self._find_seal())
        self.to_append.append(kept)

    def prune_trail(self, through: int) -> int:
        """Remove records up to a position, and leave an anchor."""
        self.has_pruned = self.needs_flush = True
        return prune_records(self.connection, self._path, through, self._key, self.lock)

    def wake(self, topic: str, key: str) -> None:
        """Leave a row for those that wait, in any process, with the commit."""
        self.needs_flush = True
        self.to_wake.append((in_utf8(topic), in_utf8(key)))

    @abstractmethod
    def write_wakes(self) -> None:
        """Write what `wake` has collected."""

    def require(self, lease: Lease) -> None:
        """Refuse to go on without the lease."""
        require_in(self, lease)

    def lend(self) -> Any:  # noqa: ANN401 - the port
        """The connection, without what would end the transaction."""
        self.needs_flush = True
        if self._lent is None:
            self._lent = self._make_lent()
        return self._lent

    @abstractmethod
    def _make_lent(self) -> Lent:
        """What a borrower gets."""

    def take_back(self) -> None:
        """End what was lent."""
        if self._lent is not None:
            # The library may keep the object, and must not use it after the commit.
            self._lent.end()
            self._lent = None
            self.forget_read()
