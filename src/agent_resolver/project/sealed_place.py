"""Every place of a state that holds sealed values, and what each value is sealed for."""

import sqlite3
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, Protocol

from msgspec import Struct

from agent_resolver.engine.dbos_serializer import PURPOSE as ENGINE_PURPOSE
from agent_resolver.engine.entry import blueprint_entry_purpose, blueprint_purpose
from agent_resolver.engine.temporal_place import payload_purpose
from agent_resolver.reasoner.sealed_purpose import (
    FIRST,
    artifact_purpose,
    checkpoint_purpose,
    first_purpose,
)
from agent_resolver.registry.ledger import outcome_purposes
from agent_resolver.registry.question import seal_purpose
from agent_resolver.runtime.journal.entry import entry_purpose, plan_purpose
from agent_resolver.schema.state import TABLES
from agent_resolver.schema.table import Table
from agent_resolver.storage.excerpt import excerpt_purpose_of_text
from agent_resolver.storage.seal import (
    CIPHER,
    AesSeal,
    sealed_as_text,
    sealed_from_text,
)
from agent_resolver.storage.sql.connection import SqlConnection
from agent_resolver.storage.sql.sealed_column import column_purpose

Row = Mapping[str, Any]


class Opens(Protocol):
    """Opens sealed values."""

    def open(self, sealed: bytes, purpose: str) -> bytes:
        """The content of a sealed value, or `ValueError`."""
        ...


class UnopenedValue(Exception):
    """A sealed value cannot be opened; says where it is."""


class SealedPlace(Struct, frozen=True, kw_only=True):
    """A column whose values are sealed."""

    table: str
    key: tuple[str, ...]
    """The columns that tell its rows apart."""
    column: str
    needs: tuple[str, ...] = ()
    """The columns besides the key that the purpose is made of."""
    purposes: Callable[[Row], tuple[str, ...]]
    """The purposes that a value of a row may have been sealed for: two kinds of runs share a journal."""
    type: str = ""
    """The column that names the cipher too; empty if there is none."""


def _thread_purposes(row: Row) -> tuple[str, ...]:
    # LangGraph keeps the type of a value, a plus and the cipher in one column. The
    # purpose is made of the type alone.
    return (checkpoint_purpose(row["thread_id"], str(row["type"]).partition("+")[0]),)


def _journal_purposes(row: Row) -> tuple[str, ...]:
    place = (row["run"], row["number"], row["kind"], row["at"])
    return entry_purpose(*place), blueprint_entry_purpose(*place)


def _artifact_purposes(row: Row) -> tuple[str, ...]:
    if row["digest"] == FIRST:
        return (first_purpose(row["task"]),)
    return artifact_purpose(row["task"], row["digest"]), payload_purpose(
        row["task"], row["digest"]
    )


_CHECKPOINT: Final = ("thread_id", "checkpoint_ns", "checkpoint_id")
_OF_BOTH: Final = (
    SealedPlace(
        table="ledger",
        key=("key",),
        column="result",
        needs=("state",),
        purposes=lambda row: outcome_purposes(row["key"], row["state"]),
    ),
    SealedPlace(
        table="pending",
        key=("id",),
        column="content",
        purposes=lambda row: (seal_purpose(row["id"]),),
    ),
    SealedPlace(
        table="journal",
        key=("run", "number"),
        column="body",
        needs=("kind", "at"),
        purposes=_journal_purposes,
    ),
    SealedPlace(
        table="plan",
        key=("digest",),
        column="body",
        purposes=lambda row: (
            plan_purpose(row["digest"]),
            blueprint_purpose(row["digest"]),
        ),
    ),
    SealedPlace(
        table="artifact",
        key=("task", "digest"),
        column="body",
        purposes=_artifact_purposes,
    ),
    SealedPlace(
        table="audit",
        key=("position",),
        column="sealed",
        needs=("run", "body"),
        purposes=lambda row: (excerpt_purpose_of_text(row["run"], row["body"]),),
    ),
)
SQLITE_PLACES: Final[tuple[SealedPlace, ...]] = (
    *_OF_BOTH,
    SealedPlace(
        table="checkpoints",
        key=_CHECKPOINT,
        column="checkpoint",
        purposes=_thread_purposes,
        type="type",
    ),
    SealedPlace(
        table="writes",
        key=(*_CHECKPOINT, "task_id", "idx"),
        column="value",
        purposes=_thread_purposes,
        type="type",
    ),
)
"""Every column of a state file that holds sealed bytes."""
POSTGRES_PLACES: Final[tuple[SealedPlace, ...]] = (
    *_OF_BOTH,
    SealedPlace(
        table="checkpoint_blobs",
        key=("thread_id", "checkpoint_ns", "channel", "version"),
        column="blob",
        purposes=_thread_purposes,
        type="type",
    ),
    SealedPlace(
        table="checkpoint_writes",
        key=(*_CHECKPOINT, "task_id", "idx"),
        column="blob",
        purposes=_thread_purposes,
        type="type",
    ),
)
"""Every column of a state in Postgres that holds sealed bytes."""


# The state ----------------------------------------------------------------------------


def reseal_state(
    connection: SqlConnection,
    places: tuple[SealedPlace, ...],
    opener: Opens,
    seal: AesSeal,
    *,
    are_words_open: bool,
) -> int:
    """Seal every value of a state again, in the transaction that is open; the number of values.

    Args:
        connection: The state.
        places: Every column with sealed bytes.
        opener: Opens the values as they are.
        seal: Closes them.
        are_words_open: True if an earlier version wrote the state, which kept the words of rows as they were.

    Raises:
        UnopenedValue: A value cannot be opened; nothing is to be committed then.
    """
    count = sum(_reseal_place(connection, place, opener, seal) for place in places)
    # Words are sealed as texts in their columns, beside the values above, which are
    # bytes.
    for table in TABLES:
        for column in table.sealed:
            count += _reseal_words(
                connection, table, column, None if are_words_open else opener, seal
            )
    return count


def _reseal_place(
    connection: SqlConnection, place: SealedPlace, opener: Opens, seal: AesSeal
) -> int:
    count = 0
    for row in _rows_with(connection, place.table, place.key, place.column):
        wanted = (*place.key, *place.needs, place.column, *filter(None, (place.type,)))
        values = dict(
            zip(
                wanted,
                _read(connection, place.table, place.key, row, wanted),
                strict=True,
            )
        )
        content, purpose = _open_for_any(opener, values[place.column], place, values)
        changes: dict[str, object] = {place.column: seal.close(content, purpose)}
        if place.type:
            plain_kind = str(values[place.type]).partition("+")[0]
            # The type keeps its name, and gets the cipher of the new seal behind the
            # plus.
            changes[place.type] = f"{plain_kind}+{seal.cipher}"
        _update(connection, place.table, place.key, row, changes)
        count += 1
    return count


def _open_for_any(
    opener: Opens, sealed: object, place: SealedPlace, row: Row
) -> tuple[bytes, str]:
    """The content of a value, and the purpose that it was sealed for."""
    # A value that is not bytes was edited, since sealing always makes bytes.
    if isinstance(sealed, bytes):
        # The seal itself tells the purpose: a value opens for the one that it was
        # closed for, and for no other.
        for purpose in place.purposes(row):
            try:
                return opener.open(sealed, purpose), purpose
            except ValueError:
                continue
    where = ", ".join(f"{name} {row[name]}" for name in place.key)
    raise UnopenedValue(f"`{place.column}` of `{place.table}` ({where})")


def _reseal_words(
    connection: SqlConnection,
    table: Table[Any],
    column: str,
    opener: Opens | None,
    seal: AesSeal,
) -> int:
    """Seal the words in a column again; without an opener they are not sealed yet."""
    count = 0
    for key in _rows_with(connection, table.name, table.key, column):
        (text,) = _read(connection, table.name, table.key, key, (column,))
        # An empty text is never sealed, so there is nothing to open.
        if text == "":
            continue
        purpose = column_purpose(table.name, column, key)
        try:
            content = (
                str(text).encode()
                if opener is None
                else opener.open(sealed_from_text(str(text)), purpose)
            )
        except ValueError:
            where = ", ".join(map(str, key))
            raise UnopenedValue(f"`{column}` of `{table.name}` ({where})") from None
        _update(
            connection,
            table.name,
            table.key,
            key,
            {column: sealed_as_text(seal.close(content, purpose))},
        )
        count += 1
    return count


def _rows_with(
    connection: SqlConnection, table: str, key: tuple[str, ...], column: str
) -> list[tuple[object, ...]]:
    """The keys of the rows that hold something in a column: read first, since a row must not change under a cursor."""
    # The names are those of our own declarations.
    statement = f"SELECT {', '.join(key)} FROM {table} WHERE {column} IS NOT NULL"  # noqa: S608
    return connection.execute(statement).fetchall()


def _read(
    connection: SqlConnection,
    table: str,
    key: tuple[str, ...],
    values: tuple[object, ...],
    wanted: tuple[str, ...],
) -> tuple[Any, ...]:
    is_key = " AND ".join(f"{name} = ?" for name in key)
    statement = f"SELECT {', '.join(wanted)} FROM {table} WHERE {is_key}"  # noqa: S608 - as above
    found: tuple[Any, ...] = connection.execute(statement, values).fetchone()
    return found


def _update(
    connection: SqlConnection,
    table: str,
    key: tuple[str, ...],
    values: tuple[object, ...],
    changes: Mapping[str, object],
) -> None:
    sets = ", ".join(f"{name} = ?" for name in changes)
    is_key = " AND ".join(f"{name} = ?" for name in key)
    statement = f"UPDATE {table} SET {sets} WHERE {is_key}"  # noqa: S608 - as above
    connection.execute(statement, (*changes.values(), *values))


# The engine ---------------------------------------------------------------------------


def reseal_engine_file(
    connection: sqlite3.Connection, opener: Opens, seal: AesSeal, *, is_unnamed: bool
) -> int:
    """Seal every value in the file of the engine again, in the transaction that is open; the number of values.

    The engine is free to choose its tables, so each text in it is looked at.

    Args:
        connection: The file of the engine.
        opener: Opens the values as they are.
        seal: Closes them.
        is_unnamed: True if an earlier version wrote them, without the name of a cipher.

    Raises:
        UnopenedValue: A value cannot be opened; nothing is to be committed then.
    """
    count = 0
    for table, column in _text_columns(connection):
        # SQLite's names, quoted: the engine chose them.
        statement = f"""SELECT rowid, "{column}" FROM "{table}" WHERE typeof("{column}") = 'text'"""  # noqa: S608
        # All rows are read before the first update, since a row must not change under a
        # cursor.
        for row, text in connection.execute(statement).fetchall():
            content = _open_text_of_engine(text, opener, is_unnamed=is_unnamed)
            if content is None:
                raise UnopenedValue(
                    f"`{column}` of `{table}` in the file of the engine (row {row})"
                )
            # Empty content means that the text was not sealed, and it stays as it is.
            if content:
                sealed = sealed_as_text(seal.close(content, ENGINE_PURPOSE))
                update = f'UPDATE "{table}" SET "{column}" = ? WHERE rowid = ?'  # noqa: S608 - as above
                connection.execute(update, (sealed, row))
                count += 1
    return count


def reseal_engine_schema(
    connection: SqlConnection, schema: str, opener: Opens, seal: AesSeal
) -> int:
    """Seal every value in the schema of the engine again, in the transaction that is open; the number of values.

    Args:
        connection: The database.
        schema: The schema of the engine; it need not be there.
        opener: Opens the values as they are.
        seal: Closes them.

    Raises:
        UnopenedValue: A value cannot be opened; nothing is to be committed then.
    """
    count = 0
    columns = connection.execute(
        "SELECT quote_ident(table_schema) || '.' || quote_ident(table_name), quote_ident(column_name)"
        " FROM information_schema.columns WHERE table_schema = ? AND data_type IN ('text', 'character varying')",
        (schema,),
    ).fetchall()
    for table, column in columns:
        # Read for each column: a row that was written again is in another place.
        statement = (
            f"SELECT ctid::text, {column} FROM {table} WHERE starts_with({column}, ?)"  # noqa: S608 - quoted
        )
        for row, text in connection.execute(statement, (f"{CIPHER}.",)).fetchall():
            content = _open_text_of_engine(text, opener, is_unnamed=False)
            if content is None:
                raise UnopenedValue(f"`{column}` of `{table}` (row {row})")
            sealed = sealed_as_text(seal.close(content, ENGINE_PURPOSE))
            update = f"UPDATE {table} SET {column} = ? WHERE ctid = ?::tid"  # noqa: S608 - as above
            connection.execute(update, (sealed, row))
            count += 1
    return count


def _open_text_of_engine(text: str, opener: Opens, *, is_unnamed: bool) -> bytes | None:
    """The content of a sealed text, empty for one that is not sealed; None if it cannot be opened."""
    if text.startswith(f"{CIPHER}."):
        with suppress(ValueError):
            return opener.open(sealed_from_text(text), ENGINE_PURPOSE)
        return None
    if is_unnamed:
        # Nothing tells these apart but that they open.
        with suppress(ValueError):
            return opener.open(b64decode(text, validate=True), ENGINE_PURPOSE)
    return b""


def _text_columns(connection: sqlite3.Connection) -> Iterator[tuple[str, str]]:
    tables = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT NULL"
    ).fetchall()
    for (table,) in tables:
        for column in connection.execute(f'PRAGMA table_info("{table}")').fetchall():
            yield table, column[1]
