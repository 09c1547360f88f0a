"""The audit trail in the state file."""

from collections.abc import Iterator, Mapping
from sqlite3 import Connection
from threading import Lock
from typing import Any, cast

import msgspec

from agent_resolver.core.audit import chain_faults, chained, sealed
from agent_resolver.schema.audit import AuditRecord
from agent_resolver.storage.database import Database
from agent_resolver.storage.errors import UnreadableFile
from agent_resolver.storage.utf8 import in_utf8

_NEWEST = "SELECT * FROM audit WHERE ? IS NULL OR run = ? ORDER BY position DESC LIMIT ?"


class SqliteTrail:
    """Appends to the trail of one state file, and reads it."""

    def __init__(self, database: Database, key: bytes | None = None) -> None:
        self._database = database
        self._key = key
        self._lock = Lock()

    def append(self, run: str, kind: str, body: Mapping[str, object], at: str) -> AuditRecord:
        """Add one record to `run`; it is on the disk when this returns.

        Raises:
            UnreadableFile: The trail was edited so that nothing can follow it.
        """
        with self._lock, self._database.transaction() as connection:
            seal = _seal(connection)
            head = connection.execute(
                "SELECT sequence, hash FROM audit WHERE run = ? ORDER BY sequence DESC LIMIT 1", (run,)
            ).fetchone()
            sequence, previous = head or (0, "")
            if seal is None or not isinstance(sequence, int):
                problem = "has an audit trail that was edited, see `agent audit verify`"
                raise UnreadableFile(self._database.path, problem)
            count, root = seal
            record = chained(
                AuditRecord(
                    position=count + 1,
                    run=run,
                    sequence=sequence + 1,
                    at=at,
                    kind=kind,
                    body=in_utf8(dict(body)),
                    previous=str(previous),
                )
            )
            connection.execute("INSERT INTO audit VALUES (?, ?, ?, ?, ?, ?, ?, ?)", _row(record))
            root = sealed(root, record, self._key)
            connection.execute("UPDATE audit_seal SET count = ?, root = ?", (record.position, root))
        return record

    def records(self, run: str | None = None, last: int | None = None) -> Iterator[AuditRecord]:
        """The records of one run or of all, oldest first; only the `last` ones if asked."""
        rows = self._database.query(_NEWEST, run, run, -1 if last is None else last)
        yield from map(_record, reversed(list(rows)))

    def verify(self, noted: str = "") -> tuple[list[str], int, str]:
        """What is wrong with the trail, how many records it claims to have, and its sealed root.

        A root that was `noted` earlier must be one that the trail had on its way.
        """
        # One question sees one state of the file, whatever others write meanwhile.
        with self._lock, self._database.transaction() as connection:
            seal = _seal(connection)
            count, root = seal or (0, "")
            rows = connection.execute("SELECT * FROM audit ORDER BY position")
            faults = list(chain_faults(map(_record, rows), count, root, self._key, noted))
        return faults if seal else ["the seal was removed or changed", *faults], count, root


def _seal(connection: Connection) -> tuple[int, str] | None:
    """How many records were sealed, and their root; None when that was edited into something else."""
    match connection.execute("SELECT count, root FROM audit_seal").fetchone():
        case (int() as count, str() as root):
            return count, root
    return None


def _row(record: AuditRecord) -> tuple[object, ...]:
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
    )


def _record(row: tuple[object, ...]) -> AuditRecord:
    """The record of a row. SQLite keeps any type in any column, so one that was edited may hold something else."""
    position, run, sequence, at, kind, body, previous, digest = cast("tuple[Any, ...]", row)
    return AuditRecord(
        position=position,
        run=str(run),
        sequence=sequence if isinstance(sequence, int) else 0,
        at=str(at),
        kind=str(kind),
        body=_body(body),
        previous=str(previous),
        hash=str(digest),
    )


def _body(stored: object) -> dict[str, Any]:
    """The body as it was written; of one that was edited the text, so that its hash is another."""
    edited = {"edited": str(stored)}
    try:
        body = msgspec.json.decode(cast("str", stored), type=dict[str, Any])
        return body if msgspec.json.encode(body, order="sorted").decode() == stored else edited
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return edited
