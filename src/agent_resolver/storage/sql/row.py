"""Rows of declared tables as SQL: statements are made of the declaration once, and kept.

Each statement is one that SQLite and Postgres both know; `?` marks the place of a value.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Generic

import msgspec
from msgspec import Struct, structs

from agent_resolver.schema.table import Row, Table
from agent_resolver.storage.sql.connection import SqlConnection
from agent_resolver.storage.utf8 import in_utf8


class TableSql(Struct, Generic[Row], frozen=True, kw_only=True):
    """The statements of one table, and how its rows are read.

    A table in the order of first puts has a column `position` besides its own, which counts up. One in the order of its
    keys is a single tree without rowids: a put writes to one page of the file instead of two.
    """

    table: Table[Row]
    names: tuple[str, ...]
    """The columns as the struct is decoded from."""
    flags: tuple[int, ...]
    """The places of the columns that are true or false, for which SQLite has only numbers."""
    sealed: tuple[int, ...]
    """The places of the columns whose texts are sealed."""
    get: str
    insert: str
    replace: str
    drop: str

    def decode(self, values: Sequence[object]) -> Row:
        """The row with these values.

        Raises:
            msgspec.ValidationError: The file was edited: these are not values of such a row.
        """
        fields = dict(zip(self.names, values, strict=True))
        for place in self.flags:
            if values[place] in (0, 1):
                fields[self.names[place]] = bool(values[place])
        # Bytes are bytes: without this, a text in their place would be read as base64.
        return msgspec.convert(fields, self.table.row, builtin_types=(bytes,))


@cache
def sql_of(table: Table[Row]) -> TableSql[Row]:
    """The statements of a table."""
    columns = table.columns
    fields = structs.fields(table.row)
    listed = ", ".join(columns)
    places = ", ".join("?" * len(columns))
    is_key = " AND ".join(f"{name} = ?" for name in table.key)
    # SQLite writes every index again that has a column of the list, whether or not its
    # value changes. A table with nothing but its key still has to update something, so
    # that the row counts as put.
    changing = [name for name in columns if name not in table.key]
    changing = changing or [table.key[0]]
    updates = ", ".join(f"{name} = excluded.{name}" for name in changing)
    key = ", ".join(table.key)
    # The names are those of our own declarations: nothing that a user writes gets into
    # a statement.
    insert = f"INSERT INTO {table.name} ({listed}) VALUES ({places}) ON CONFLICT"  # noqa: S608
    flags = [place for place, field in enumerate(fields) if field.type is bool]
    return TableSql(
        table=table,
        names=tuple(field.encode_name for field in fields),
        flags=tuple(flags),
        sealed=tuple(columns.index(name) for name in table.sealed),
        get=f"SELECT {listed} FROM {table.name} WHERE {is_key}",  # noqa: S608
        insert=f"{insert} DO NOTHING",
        # A row keeps its position when it is put again.
        replace=f"{insert} ({key}) DO UPDATE SET {updates}",
        drop=f"DELETE FROM {table.name} WHERE {is_key}",  # noqa: S608
    )


def find_rows(  # noqa: PLR0913 - what `Snapshot.find` takes
    connection: SqlConnection,
    table: Table[Row],
    where: Mapping[str, object],
    after: tuple[object, ...] | None,
    limit: int | None,
    *,
    is_reversed: bool = False,
    lock: str = "",
) -> list[tuple[Any, ...]]:
    """The values of the rows with these values, in the order of the table; `lock` is added to the statement."""
    empty = frozenset(name for name, value in where.items() if value is None)
    statement = _find_statement(
        table,
        tuple(where),
        empty,
        has_after=after is not None,
        has_limit=limit is not None,
        is_reversed=is_reversed,
    )
    parameters = [value for value in where.values() if value is not None]
    parameters += after or ()
    if limit is not None:
        parameters.append(limit)
    return connection.execute(f"{statement}{lock}", in_utf8(parameters)).fetchall()


def count_rows(
    connection: SqlConnection,
    table: Table[Row],
    where: Mapping[str, object],
) -> int:
    """The number of rows with these values.

    Raises:
        ValueError: No index has exactly these columns.
    """
    table.check_columns(frozenset(where))
    conditions = [
        _is_value(name, is_empty=value is None) for name, value in where.items()
    ]
    condition = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    given = [value for value in where.values() if value is not None]
    # The names are those of our own declarations: nothing that a user writes gets into
    # a statement.
    statement = f"SELECT count(*) FROM {table.name}{condition}"  # noqa: S608
    return int(connection.execute(statement, in_utf8(given)).fetchone()[0])


@cache
def _find_statement(  # noqa: PLR0913 - the parts of a statement
    table: Table[Row],
    where: tuple[str, ...],
    empty: frozenset[str],
    *,
    has_after: bool,
    has_limit: bool,
    is_reversed: bool,
) -> str:
    """The statement that finds rows by these columns, of which the `empty` ones hold nothing.

    Raises:
        ValueError: No index has exactly these columns.
    """
    table.check_columns(frozenset(where))
    conditions = [_is_value(name, is_empty=name in empty) for name in where]
    if has_after:
        conditions.append(_comes_after(table))
    condition = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    columns = ("position",) if table.order == "put" else table.key
    direction = " DESC" if is_reversed else ""
    order = ", ".join(f"{name}{direction}" for name in columns)
    bound = " LIMIT ?" if has_limit else ""
    listed = ", ".join(table.columns)
    return f"SELECT {listed} FROM {table.name} {condition} ORDER BY {order}{bound}"  # noqa: S608


def _is_value(name: str, *, is_empty: bool) -> str:
    """The condition that a column has the value of a parameter, or is empty."""
    # Nothing equals NULL in SQL, NULL included.
    return f"{name} IS NULL" if is_empty else f"{name} = ?"


def _comes_after(table: Table[Row]) -> str:
    """The condition that a row comes after the one with a key."""
    if table.order == "key":
        key = ", ".join(table.key)
        marks = ", ".join("?" * len(table.key))
        return f"({key}) > ({marks})"
    is_key = " AND ".join(f"{name} = ?" for name in table.key)
    # Past a row that is not there any more comes everything, as from the start.
    return f"position > coalesce((SELECT position FROM {table.name} WHERE {is_key}), 0)"  # noqa: S608
