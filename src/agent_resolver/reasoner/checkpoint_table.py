"""The tables of LangGraph's savers, for work on them that needs no LangGraph."""

from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct

from agent_resolver.reasoner.sealed_purpose import checkpoint_purpose, kind_of_sealed
from agent_resolver.registry.port import Seal
from agent_resolver.storage.port import Transaction

CHANNEL: Final = "checkpoint"
"""The one channel of every checkpoint in Postgres."""
_OF_SQLITE: Final = ("checkpoints", "writes")
_OF_POSTGRES: Final = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")


def is_postgres(connection: Any) -> bool:  # noqa: ANN401 - as it is lent
    """True if a connection that was lent is one to Postgres: only those send several statements at once."""
    return hasattr(connection, "pipeline")


def delete_thread(transaction: Transaction, thread: str) -> None:
    """Remove the checkpoints of a thread."""
    connection = transaction.lend()
    is_server = is_postgres(connection)
    mark = "%s" if is_server else "?"
    for table in _OF_POSTGRES if is_server else _OF_SQLITE:
        # The names are LangGraph's.
        connection.execute(f"DELETE FROM {table} WHERE thread_id = {mark}", (thread,))  # noqa: S608


class CheckpointRow(NamedTuple):
    """A checkpoint as LangGraph's saver for SQLite keeps it: sealed as a whole."""

    thread: str
    namespace: str
    checkpoint: str
    parent: str | None
    type: str
    content: bytes
    metadata: bytes | str | None


class BoxedCheckpoint(NamedTuple):
    """The same as the saver for Postgres keeps it: rows of its tables `checkpoint_blobs` and `checkpoints`."""

    blob: tuple[object, ...]
    row: tuple[object, ...]


def boxed_checkpoint(found: CheckpointRow, seal: Seal) -> BoxedCheckpoint:
    """Seal a checkpoint for the place that it has in Postgres.

    Raises:
        ValueError: This program did not write it, or not with this key.
    """
    kind = kind_of_sealed(found.type, found.content)
    # The only format that checkpoints of tasks are written in: any other was put there
    # by another program.
    if kind != "msgpack":
        raise ValueError(f"a checkpoint claims to be `{kind[:20]}`")
    content = seal.open(found.content, checkpoint_purpose(found.thread, kind))
    sealed = seal.close(content, checkpoint_purpose(found.thread, "bytes"))
    # Nothing of it is read again but the version of the format, which is that of the
    # checkpoint inside.
    try:
        inside = msgspec.msgpack.decode(content, type=_Checkpoint)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(f"a checkpoint cannot be read: {error}") from error
    version = f"{found.checkpoint}.moved"
    box = {
        "v": inside.v,
        "id": found.checkpoint,
        "ts": inside.ts,
        "channel_versions": {CHANNEL: version},
    }
    document = msgspec.json.encode(
        {**box, "channel_values": {}, "versions_seen": {}, "updated_channels": None}
    )
    metadata = found.metadata or "{}"
    return BoxedCheckpoint(
        blob=(
            found.thread,
            found.namespace,
            CHANNEL,
            version,
            f"bytes+{seal.cipher}",
            sealed,
        ),
        row=(
            found.thread,
            found.namespace,
            found.checkpoint,
            found.parent,
            document.decode(),
            metadata.decode() if isinstance(metadata, bytes) else metadata,
        ),
    )


class _Checkpoint(Struct):
    v: int
    ts: str
