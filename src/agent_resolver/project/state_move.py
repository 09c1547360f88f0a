"""Moves a state from its file into a database of Postgres.

1. The process has both to itself: others would write to one of them meanwhile.
2. Everything is copied in one transaction of the database. Sealed values stay as they are; the key stays the same.
3. The trail is verified as it is in the database, before the transaction ends.

A move that is interrupted leaves the file as it was, and nothing in the database. The file is never changed.
"""

import sqlite3
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, structs

from agent_resolver.core.audit import chain_faults
from agent_resolver.project.errors import MoveRefused
from agent_resolver.project.session import Session
from agent_resolver.reasoner.checkpoint_table import CheckpointRow, boxed_checkpoint
from agent_resolver.schema.audit import Seal
from agent_resolver.schema.state import TABLES, LeaseRow
from agent_resolver.schema.table import Row, Table
from agent_resolver.storage.errors import UnreadableFile
from agent_resolver.storage.key_ring import UNNAMED
from agent_resolver.storage.sql.connection import SqlConnection
from agent_resolver.storage.sql.row import find_rows, sql_of
from agent_resolver.storage.sql.store import OWNERS_IN_USE
from agent_resolver.storage.sql.trail import read_records, read_seal
from agent_resolver.storage.sqlite.alone import alone_with
from agent_resolver.storage.sqlite.database import Database

if TYPE_CHECKING:
    from agent_resolver.storage.postgres.address import PostgresAddress
    from agent_resolver.storage.seal import AesSeal

_PAGE: Final = 500
"""The number of rows that are held in memory at a time."""
_TRAIL: Final = "position, run, sequence, at, kind, body, previous, hash, sealed"
_SEAL: Final = (
    "count",
    "root",
    "anchor",
    "anchor_root",
    "anchor_heads",
    "anchor_seal",
    "number",
    "seal",
)
_CHECKPOINT: Final = ("thread_id", "checkpoint_ns", "checkpoint_id")
_CHECKPOINT_COLUMNS: Final = (
    *_CHECKPOINT,
    "parent_checkpoint_id",
    "type",
    "checkpoint",
    "metadata",
)
_WRITES: Final = (*_CHECKPOINT, "task_id", "idx")
_WRITES_COLUMNS: Final = (*_WRITES, "task_path", "channel", "type", "value")

Report = Callable[[str, int], None]
"""Called with the name of a table, and the number of its rows that were copied."""


class Moved(Struct, frozen=True, kw_only=True, rename="camel"):
    """The outcome of a move."""

    source: str
    target: str
    """The database, without a password."""
    key_id: str
    """The id of the key that seals both."""
    rows: dict[str, int]
    """The number of rows of each table that has some."""
    records: int
    """The number of records in the trail, which was verified in the database."""
    root: str
    """The root of the trail, the same in both."""


def move_state(
    session: Session,
    address: "PostgresAddress",
    report: Report = lambda _table, _count: None,
) -> Moved:
    """Copy the state of a project into an empty database.

    Args:
        session: The project, whose state is a file that is not open yet.
        address: The database.
        report: Called while rows are copied.

    Raises:
        MoveRefused: The database is not empty, an earlier version sealed the file, or the trail does not verify.
        StateInUse: Another process uses one of them.
        UnknownKey: The key that seals the state is not known here.
        UnreadableFile: One of them cannot be read or written.
    """
    from agent_resolver.storage.postgres.alone import alone_in, written_in_one
    from agent_resolver.storage.postgres.database import PostgresDatabase

    session.require_trust_in_state()
    path = session.state_path
    keys = session.keys
    # Both get the newest schema, before this process has them to itself.
    Database(path, keys.newest).close()
    PostgresDatabase(address, keys.newest).close()
    with (
        alone_with(path) as source,
        alone_in(address) as target,
        written_in_one(target),
    ):
        key_id = _key_of(source)
        _require_empty(target, address.name, key_id)
        rows = _copy_tables(source, target, path, report)
        # A file that never sealed anything names no key, and then may hold no
        # checkpoints.
        rows |= _copy_checkpoints(
            source, target, path, keys.seal(key_id) if key_id else None, report
        )
        _remember_owners(target)
        target.execute("UPDATE sealed_with SET key = ?", (key_id,))
        seal = _copy_trail(source, target, address.name, keys.trail_key(key_id), report)
    counted = {name: count for name, count in sorted(rows.items()) if count}
    records = seal.count - seal.anchor
    return Moved(
        source=path,
        target=address.name,
        key_id=key_id,
        rows=counted,
        records=records,
        root=seal.root,
    )


def _key_of(source: sqlite3.Connection) -> str:
    found = source.execute("SELECT key FROM sealed_with").fetchone()
    if found is None or not isinstance(found[0], str):
        raise MoveRefused(
            "The state does not name the key that seals it: the name was removed or edited"
        )
    if found[0] == UNNAMED:
        hint = "`agent state rotate-key --from-earlier-version` takes it over first: read docs/state.md"
        raise MoveRefused(
            "An earlier version wrote this state, in a form that is not read any more",
            hint,
        )
    return found[0]


def _require_empty(target: SqlConnection, name: str, key_id: str) -> None:
    """Refuse a database that holds any part of a state, or that was made for another key.

    Raises:
        MoveRefused: It does.
    """
    names = [
        *(table.name for table in TABLES),
        "audit",
        "checkpoints",
        "checkpoint_writes",
    ]
    statement = " OR ".join(f"EXISTS (SELECT FROM {each})" for each in names)
    seal = read_seal(target)
    is_used = bool(target.execute(f"SELECT {statement}").fetchone()[0])
    (named,) = target.execute("SELECT key FROM sealed_with").fetchone() or ("",)
    # Preparing the tables may have named a key, which then has to be the one that seals
    # the file.
    if (
        is_used
        or seal is None
        or seal.count
        or seal.anchor
        or named not in {"", key_id}
    ):
        hint = "name a database without a state; nothing was changed"
        raise MoveRefused(f"`{name}` holds a state already", hint)


# Rows ---------------------------------------------------------------------------------


def _copy_tables(
    source: sqlite3.Connection, target: SqlConnection, path: str, report: Report
) -> dict[str, int]:
    copied = {}
    for table in TABLES:
        copied[table.name] = 0
        for page in _pages(source, table, path):
            target.executemany(
                sql_of(table).insert, [structs.astuple(_as_left(row)) for row in page]
            )
            copied[table.name] += len(page)
            report(table.name, copied[table.name])
    return copied


def _pages(
    source: sqlite3.Connection, table: Table[Row], path: str
) -> Iterator[list[Row]]:
    """The rows of a table in its order, some at a time; words stay sealed.

    Raises:
        UnreadableFile: A row was edited, so that it is none of this table.
    """
    sql = sql_of(table)
    last: tuple[Any, ...] | None = None
    while found := find_rows(source, table, {}, last, _PAGE):
        try:
            rows = [sql.decode(values) for values in found]
        except ValueError as error:
            raise UnreadableFile(
                path, f"has a row of `{table.name}` that was edited: {error}"
            ) from error
        last = table.key_of(rows[-1])
        yield rows


def _as_left(row: Row) -> Row:
    """The row as it is left by processes that are gone: this one has the file to itself.

    No process holds a lease. Its number stays, so that the next holder has a higher one.
    """
    return (
        structs.replace(row, owner="", until=0.0) if isinstance(row, LeaseRow) else row
    )


def _remember_owners(target: SqlConnection) -> None:
    """Let the database know the processes of calls that were interrupted: it takes only known ones for gone."""
    # Only now: it imports the driver of Postgres, which only a move needs.
    from agent_resolver.storage.postgres.watch import EPOCH

    # They never had a session here. In the present epoch, a process without one is gone
    # at once.
    columns = f"SELECT name, {EPOCH} FROM ({OWNERS_IN_USE}) AS used WHERE name <> ''"  # noqa: S608 - our own texts
    target.execute(f"INSERT INTO owner (name, server_start) {columns}")


# Checkpoints --------------------------------------------------------------------------


def _copy_checkpoints(
    source: sqlite3.Connection,
    target: SqlConnection,
    path: str,
    seal: "AesSeal | None",
    report: Report,
) -> dict[str, int]:
    """Copy what LangGraph's saver for SQLite wrote into the tables of the one for Postgres."""
    copied = {"checkpoints": 0, "writes": 0}
    for page in _raw_pages(source, "checkpoints", _CHECKPOINT_COLUMNS, _CHECKPOINT):
        if seal is None:
            raise UnreadableFile(path, "has checkpoints that are not sealed")
        try:
            # The two savers of LangGraph keep a checkpoint in different forms, so each
            # is opened and sealed for its new place.
            boxed = [boxed_checkpoint(CheckpointRow(*values), seal) for values in page]
        except ValueError as error:
            raise UnreadableFile(
                path, f"has a checkpoint that was edited: {error}"
            ) from error
        target.executemany(
            "INSERT INTO checkpoint_blobs (thread_id, checkpoint_ns, channel, version, type, blob)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            [each.blob for each in boxed],
        )
        target.executemany(
            "INSERT INTO checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, checkpoint,"
            " metadata) VALUES (?, ?, ?, ?, ?::jsonb, ?::jsonb)",
            [each.row for each in boxed],
        )
        copied["checkpoints"] += len(page)
        report("checkpoints", copied["checkpoints"])
    for page in _raw_pages(source, "writes", _WRITES_COLUMNS, _WRITES):
        target.executemany(
            "INSERT INTO checkpoint_writes (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, task_path, channel,"
            " type, blob) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            page,
        )
        copied["writes"] += len(page)
        report("writes", copied["writes"])
    return copied


def _raw_pages(
    source: sqlite3.Connection,
    table: str,
    columns: tuple[str, ...],
    key: tuple[str, ...],
) -> Iterator[list[tuple[Any, ...]]]:
    """The rows of a table by its key, which is the beginning of the columns, some at a time."""
    listed = ", ".join(columns)
    order = ", ".join(key)
    # The names are our own and LangGraph's.
    first = f"SELECT {listed} FROM {table} ORDER BY {order} LIMIT {_PAGE}"  # noqa: S608
    places = ", ".join("?" * len(key))
    # SQL compares the columns as one tuple, so a page begins right after the last row
    # of the page before it.
    later = f"SELECT {listed} FROM {table} WHERE ({order}) > ({places}) ORDER BY {order} LIMIT {_PAGE}"  # noqa: S608
    page = source.execute(first).fetchall()
    while page:
        yield page
        page = source.execute(later, page[-1][: len(key)]).fetchall()


# The trail ----------------------------------------------------------------------------


def _copy_trail(
    source: sqlite3.Connection,
    target: SqlConnection,
    name: str,
    key: bytes | None,
    report: Report,
) -> Seal:
    """Copy the trail byte for byte, and verify it where it is now; its seal.

    Raises:
        MoveRefused: It does not verify.
    """
    columns = tuple(_TRAIL.split(", "))
    statement = f"INSERT INTO audit ({_TRAIL}) VALUES ({', '.join('?' * len(columns))})"  # noqa: S608 - our own names
    copied = 0
    for page in _raw_pages(source, "audit", columns, ("position",)):
        target.executemany(statement, page)
        copied += len(page)
        report("audit", copied)
    values = source.execute(f"SELECT {', '.join(_SEAL)} FROM audit_seal").fetchone()  # noqa: S608 - our own names
    mark = source.execute("SELECT mark FROM audit_mark").fetchone()
    # Without one of these rows the trail was edited, which is refused below.
    if values is not None and mark is not None:
        sets = ", ".join(f"{column} = ?" for column in _SEAL)
        target.execute(f"UPDATE audit_seal SET {sets}", values)  # noqa: S608 - our own names
        target.execute("UPDATE audit_mark SET mark = ?", mark)
    report("verified", 0)
    seal = None if values is None or mark is None else read_seal(target)
    if seal is None or any(chain_faults(read_records(target, None, None), seal, key)):
        hint = "`agent audit verify` says what is wrong; nothing was changed"
        raise MoveRefused(
            f"The audit trail does not verify in `{name}`: it was edited where it comes from",
            hint,
        )
    return seal
