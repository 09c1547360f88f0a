"""Checkpoints in Postgres: LangGraph's own saver, given checkpoints in which nothing can be read.

That saver puts plain values, and the versions of channels, into columns of JSON beside the sealed ones. So it is given
a checkpoint with one channel, which holds the whole of the real one as bytes: those it seals. Bytes cannot be written
in JSON, so that a checkpoint in which they were replaced is found out.
"""

import secrets
from collections.abc import Iterator, Sequence
from typing import Any, Final

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from agent_resolver.reasoner.checkpoint_table import CHANNEL
from agent_resolver.reasoner.sealed_serializer import SealedSerializer

_KIND: Final = "msgpack"


class SealedPostgresSaver:
    """The methods of LangGraph's saver that `StoreSaver` calls, with checkpoints that are sealed as a whole."""

    def __init__(self, connection: Any, serializer: SealedSerializer) -> None:  # noqa: ANN401 - as it is lent
        """A saver.

        Args:
            connection: The connection of the store, in a transaction.
            serializer: Seals for the thread that is worked on.
        """
        self._saver = PostgresSaver(connection, serde=serializer)
        self._plain = JsonPlusSerializer(allowed_msgpack_modules=None)

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,  # noqa: ARG002 - LangGraph's port
    ) -> RunnableConfig:
        """Keep a checkpoint."""
        _, content = self._plain.dumps_typed(checkpoint)
        # A checkpoint that is kept again under its id takes the place of the one
        # before, which has another version.
        versions: ChannelVersions = {
            CHANNEL: f"{checkpoint['id']}.{secrets.token_hex(4)}"
        }
        return self._saver.put(
            config, _box(checkpoint, content, versions), metadata, versions
        )

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Keep what a node returned."""
        self._saver.put_writes(config, writes, task_id, task_path)

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The newest checkpoint of a thread, or the one that is asked for."""
        found = self._saver.get_tuple(config)
        return None if found is None else self._unbox(found)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """The checkpoints of a thread, the newest first."""
        return map(
            self._unbox,
            self._saver.list(config, filter=filter, before=before, limit=limit),
        )

    def _unbox(self, found: CheckpointTuple) -> CheckpointTuple:
        """The checkpoint in the one channel.

        Raises:
            ValueError: This program did not write it, or wrote it for another row.
        """
        content = found.checkpoint["channel_values"].get(CHANNEL)
        if not isinstance(content, bytes):
            raise ValueError("a checkpoint is not sealed")  # noqa: TRY004 - the row is wrong, not the caller
        checkpoint: Checkpoint = self._plain.loads_typed((_KIND, content))
        if checkpoint["id"] != found.config["configurable"]["checkpoint_id"]:
            raise ValueError("a checkpoint was moved from another row")
        return found._replace(checkpoint=checkpoint)


def _box(
    checkpoint: Checkpoint,
    content: bytes,
    versions: ChannelVersions,
) -> Checkpoint:
    """A checkpoint that tells nothing but its id and its time, with the real one in its one channel."""
    return {
        "v": checkpoint["v"],
        "id": checkpoint["id"],
        "ts": checkpoint["ts"],
        "channel_values": {CHANNEL: content},
        "channel_versions": versions,
        "versions_seen": {},
        "updated_channels": None,
    }
