"""Seals the words in rows on their way into the state, and opens them on their way out."""

from collections.abc import Callable, Sequence
from typing import Any

from agent_resolver.storage.seal import AesSeal
from agent_resolver.storage.sql.row import TableSql

FindSeal = Callable[[], AesSeal]
"""Finds the seal of a state when it is first needed: a trail can be verified without the key of the rest."""


def column_purpose(table: str, column: str, key: Sequence[object]) -> str:
    """The place that a text is sealed for: in another row or column it does not open."""
    return f"{table}.{column}/{'/'.join(map(str, key))}"


def seal_row(
    sql: TableSql[Any],
    values: Sequence[Any],
    find_seal: FindSeal,
) -> list[Any]:
    """The values of a row as the file has them."""
    sealed = list(values)
    key = _key_in(sql, values)
    for place in sql.sealed:
        if values[place]:
            purpose = column_purpose(sql.table.name, sql.table.columns[place], key)
            sealed[place] = find_seal().close_text(values[place], purpose)
    return sealed


def open_row(
    sql: TableSql[Any],
    values: Sequence[Any],
    find_seal: FindSeal,
) -> list[Any]:
    """The values of a row again.

    Raises:
        ValueError: A text is not sealed, or not for this place, or with a key that is not known.
    """
    opened = list(values)
    key = _key_in(sql, values)
    for place in sql.sealed:
        # SQLite keeps any type in any column; what is not text is refused when the row
        # is decoded.
        if isinstance(values[place], str) and values[place]:
            purpose = column_purpose(sql.table.name, sql.table.columns[place], key)
            opened[place] = find_seal().open_text(values[place], purpose)
    return opened


def _key_in(sql: TableSql[Any], values: Sequence[Any]) -> list[Any]:
    columns = sql.table.columns
    return [values[columns.index(name)] for name in sql.table.key]
