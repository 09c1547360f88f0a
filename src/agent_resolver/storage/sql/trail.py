"""The audit trail in the tables of a state."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, cast

import msgspec
from msgspec import Struct

from agent_resolver.core.audit import (
    anchored,
    chain_faults,
    extended,
    is_sealed,
    new_seal,
    rekeyed,
    resealed,
)
from agent_resolver.schema.audit import AuditRecord, Head, Record, Seal
from agent_resolver.storage.errors import UnreadableFile
from agent_resolver.storage.sql.connection import SqlConnection

_RECORDS: Final = (
    "SELECT position, run, sequence, at, kind, body, previous, hash, sealed FROM audit"
)
_PAGE: Final = 1000
_HEAD: Final = (
    "SELECT sequence, hash FROM audit WHERE run = ? ORDER BY sequence DESC LIMIT 1"
)
_INSERT: Final = "INSERT INTO audit VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_SEAL: Final = """
    SELECT count, root, anchor, anchor_root, anchor_heads, anchor_seal, number, seal, mark
    FROM audit_seal JOIN audit_mark USING (id)"""
_RESEAL: Final = "UPDATE audit_seal SET count = ?, root = ?, number = ?, seal = ?"
_REMARK: Final = "UPDATE audit_mark SET mark = ?"
_SEALED_BEFORE: Final = (
    "an older version of this program sealed it with a key: set it aside, with its "
    "key, and begin a new one"
)
_HEADS: Final = msgspec.json.Decoder(dict[str, Head])
_ANCHOR: Final = "UPDATE audit_seal SET anchor = ?, anchor_root = ?, anchor_heads = ?, anchor_seal = ?"


class EditedTrail(UnreadableFile):
    """The trail was edited so that nothing can follow it."""

    def __init__(self, path: str) -> None:
        super().__init__(
            path, "has an audit trail that was edited, see `agent audit verify`"
        )


class TrailEnd(Struct, frozen=True):
    """The end of the trail after a commit of this connection; as long as no other one writes, it is not read again."""

    version: int | None
    """Another number whenever another process has written; None where that is not known."""
    seal: Seal
    heads: dict[str, Head]
    """The last records of the runs that the commit added to."""


def append_records(  # noqa: PLR0913 - what a trail is, and what is added to it
    connection: SqlConnection,
    path: str,
    records: list[Record],
    at: str,
    key: bytes | None,
    *,
    last: TrailEnd | None,
    version: int | None = None,
    lock: str = "",
) -> TrailEnd:
    """Chain and seal these records; all of a commit together, so that the seal is read and written once.

    Args:
        connection: The state.
        path: Its name.
        records: What is added.
        at: The time.
        key: What seals the trail.
        last: The end of the trail after the last commit of this connection.
        version: Another number than that of `last` if another process has written since; None where that is not known.
        lock: What locks a row that is read, where a transaction does not lock all of them.

    Raises:
        EditedTrail: Nothing can follow what is there.
    """
    if last is not None and version is not None and version == last.version:
        seal = last.seal
    else:
        seal = _trusted_seal(connection, path, key, last, lock)
    # A seal that is the same has the same records before it.
    known = last.heads if last is not None and seal == last.seal else {}
    runs = {record.run for record in records}
    heads = seal.anchor_heads | _heads_of_runs(connection, path, runs, known)
    added, sealed = extended(seal, heads, records, at, key)
    try:
        connection.executemany(_INSERT, map(_row_of, added))
        _write_seal(connection, sealed)
    except (connection.IntegrityError, connection.DataError, OverflowError):
        # A record is there already that the seal does not count, or a number was edited
        # that has no next one.
        raise EditedTrail(path) from None
    return TrailEnd(
        version,
        sealed,
        {record.run: Head(record.sequence, record.hash) for record in added},
    )


def _trusted_seal(
    connection: SqlConnection,
    path: str,
    key: bytes | None,
    last: TrailEnd | None,
    lock: str,
) -> Seal:
    """The seal of a trail that other processes may have added to, and that was not edited."""
    seal = read_seal(connection, lock)
    if seal is None or not is_sealed(seal, key):
        raise EditedTrail(path)
    if last is not None and seal.number < last.seal.number:
        # Numbers only ever grow: an earlier seal was put back.
        raise EditedTrail(path)
    return seal


def _heads_of_runs(
    connection: SqlConnection,
    path: str,
    runs: Iterable[str],
    known: Mapping[str, Head],
) -> dict[str, Head]:
    """The last records of those of the runs that have any; the `known` ones are not read again."""
    heads = {}
    for run in runs:
        head = known.get(run) or _head_of(connection, path, run)
        if head is not None:
            heads[run] = head
    return heads


def _head_of(connection: SqlConnection, path: str, run: str) -> Head | None:
    match connection.execute(_HEAD, (run,)).fetchone():
        case (int() as sequence, str() as digest):
            return Head(sequence, digest)
        case None:
            return None
        case _:
            raise EditedTrail(path)


def seal_first(connection: SqlConnection, key: bytes | None, *, is_new: bool) -> None:
    """Seal a trail that is new, or that an older version of this program kept, which had no such seal.

    Raises:
        ValueError: An older version kept it, and there is a key. Without that seal nothing shows that the trail is
            whole, and a person who can edit the file could take the version back to get it sealed.
    """
    seal = read_seal(connection)
    if seal is None or seal.seal:
        return
    if is_new:
        _write_seal(connection, new_seal(key))
    elif key is None:
        _write_seal(connection, resealed(seal, key))
    else:
        raise ValueError(_SEALED_BEFORE)


def _write_seal(connection: SqlConnection, seal: Seal) -> None:
    connection.execute(_RESEAL, (seal.count, seal.root, seal.number, seal.seal))
    connection.execute(_REMARK, (seal.mark,))


def read_records(
    connection: SqlConnection,
    run: str | None,
    last: int | None,
) -> Iterator[AuditRecord]:
    """The records of one run or of all, oldest first; only the last ones if asked."""
    if run is None and last is None:
        return _read_pages(connection)
    condition = "" if run is None else " WHERE run = ?"
    bound = "" if last is None else " LIMIT ?"
    values = [value for value in (run, last) if value is not None]
    rows = connection.execute(
        f"{_RECORDS}{condition} ORDER BY position DESC{bound}", values
    ).fetchall()
    return map(_record_of, reversed(rows))


def _read_pages(connection: SqlConnection) -> Iterator[AuditRecord]:
    """Every record, without holding all of them in memory: some libraries fetch the whole of an answer at once."""
    statement = f"{_RECORDS} WHERE position > ? ORDER BY position LIMIT {_PAGE}"
    rows = connection.execute(f"{_RECORDS} ORDER BY position LIMIT {_PAGE}").fetchall()
    while rows:
        yield from map(_record_of, rows)
        rows = connection.execute(statement, (rows[-1][0],)).fetchall()


def read_seal(connection: SqlConnection, lock: str = "") -> Seal | None:
    """The seal; None where it was removed, or edited into something else."""
    match connection.execute(f"{_SEAL}{lock}").fetchone():
        case (
            int() as count,
            str() as root,
            int() as anchor,
            str() as anchor_root,
            str() as stored,
            str() as anchor_seal,
            int() as number,
            str() as digest,
            str() as mark,
        ):
            heads = _heads_of(stored)
            if heads is None:
                return None
            return Seal(
                count=count,
                root=root,
                anchor=anchor,
                anchor_root=anchor_root,
                anchor_heads=heads,
                anchor_seal=anchor_seal,
                number=number,
                seal=digest,
                mark=mark,
            )
    return None


def prune_records(
    connection: SqlConnection,
    path: str,
    through: int,
    key: bytes | None,
    lock: str = "",
) -> int:
    """Remove the records up to a position, and leave an anchor.

    Returns:
        The number of records that were removed.

    Raises:
        EditedTrail: The trail does not verify: pruning would remove the proof.
    """
    seal = read_seal(connection, lock)
    if seal is None:
        raise EditedTrail(path)
    through = min(through, seal.count)
    if through <= seal.anchor:
        return 0
    if any(chain_faults(read_records(connection, None, None), seal, key)):
        raise EditedTrail(path)
    pruned = anchored(seal, read_records(connection, None, None), through, key)
    heads = msgspec.json.encode(pruned.anchor_heads, order="sorted").decode()
    connection.execute(
        _ANCHOR, (pruned.anchor, pruned.anchor_root, heads, pruned.anchor_seal)
    )
    _write_seal(connection, pruned)
    return connection.execute(
        "DELETE FROM audit WHERE position <= ?", (through,)
    ).rowcount


def rekey_trail(
    connection: SqlConnection,
    path: str,
    old: bytes | None,
    new: bytes | None,
) -> Seal:
    """Seal the trail with another key, or with none; the seal that it had.

    Raises:
        EditedTrail: The trail does not verify with its key: sealing it again would hide that.
    """
    seal = read_seal(connection)
    if seal is None or any(
        chain_faults(read_records(connection, None, None), seal, old)
    ):
        raise EditedTrail(path)
    # The same key, or none before and after, leaves the roots as they are: one that was
    # noted can still be found.
    if new != old:
        changed = rekeyed(seal, read_records(connection, None, None), new)
        connection.execute(
            "UPDATE audit_seal SET anchor_seal = ?", (changed.anchor_seal,)
        )
        _write_seal(connection, changed)
    return seal


def _heads_of(stored: str) -> dict[str, Head] | None:
    try:
        return _HEADS.decode(stored)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def _row_of(record: AuditRecord) -> tuple[object, ...]:
    body = msgspec.json.encode(record.body, order="sorted").decode()
    return (
        record.position,
        record.run,
        record.sequence,
        record.at,
        record.kind,
        body,
        record.previous,
        record.hash,
        record.sealed,
    )


def _record_of(row: tuple[object, ...]) -> AuditRecord:
    """The record of a row. SQLite keeps any type in any column: one that was edited may hold a value of any."""
    position, run, sequence, at, kind, body, previous, digest, sealed = cast(
        "tuple[Any, ...]", row
    )
    number = sequence if isinstance(sequence, int) else 0
    ciphertext = sealed if isinstance(sealed, bytes) else None
    return AuditRecord(
        position=position,
        run=str(run),
        sequence=number,
        at=str(at),
        kind=str(kind),
        body=_body_of(body),
        previous=str(previous),
        hash=str(digest),
        sealed=ciphertext,
    )


def _body_of(stored: object) -> dict[str, Any]:
    """The body as it was written; of one that was edited the text, so that its hash is another."""
    edited = {"edited": str(stored)}
    try:
        body = msgspec.json.decode(cast("str", stored), type=dict[str, Any])
        rewritten = msgspec.json.encode(body, order="sorted").decode()
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return edited
    return body if rewritten == stored else edited
