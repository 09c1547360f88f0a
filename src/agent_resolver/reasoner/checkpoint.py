"""Checkpoints of tasks in the state: LangGraph's own savers, on the connection that the store lends.

A checkpoint, the decision records of its step and the row of its task are one piece of work: all of it is kept, or
none. The saver that opens connections of its own would double records under a kill.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)

from agent_resolver._extra import needing_extra
from agent_resolver.reasoner.checkpoint_table import delete_thread, is_postgres
from agent_resolver.reasoner.sealed_serializer import SealedSerializer
from agent_resolver.registry.port import Seal
from agent_resolver.storage.port import Lease, Store, Transaction

if TYPE_CHECKING:
    from langgraph.checkpoint.sqlite import SqliteSaver

    from agent_resolver.reasoner.postgres_checkpoint import SealedPostgresSaver

Result = TypeVar("Result")
KeepStep = Callable[[Transaction, Checkpoint, ChannelVersions], None]
"""Writes what belongs to a checkpoint, in the same transaction."""


class StoreSaver(BaseCheckpointSaver[str]):
    """Keeps the checkpoints of graphs in a store that can lend a connection to SQLite or to Postgres."""

    def __init__(
        self,
        store: Store,
        seal: Seal,
        *,
        lease: Lease | None = None,
        keep_step: KeepStep | None = None,
    ) -> None:
        """A saver.

        Args:
            store: The state.
            seal: What seals checkpoints.
            lease: The lease under which the thread is worked on; nothing is written once it is lost.
            keep_step: Writes what belongs to each checkpoint.
        """
        super().__init__()
        self._store = store
        self._seal = seal
        self._lease = lease
        self._keep_step = keep_step

    # Writing --------------------------------------------------------------------------

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Keep a checkpoint, and in the same transaction all that belongs to it."""

        def put(transaction: Transaction) -> RunnableConfig:
            self._require_lease(transaction)
            kept = self._upstream(transaction, config).put(
                config, checkpoint, metadata, new_versions
            )
            if self._keep_step is not None:
                self._keep_step(transaction, checkpoint, new_versions)
            return kept

        return await self._store.write(put)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Keep what a node returned, until the next checkpoint has it."""

        def put(transaction: Transaction) -> None:
            self._require_lease(transaction)
            self._upstream(transaction, config).put_writes(
                config, writes, task_id, task_path
            )

        await self._store.write(put)

    async def adelete_thread(self, thread_id: str) -> None:
        """Remove a thread."""
        await self._store.write(
            lambda transaction: delete_thread(transaction, thread_id)
        )

    # Reading --------------------------------------------------------------------------

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The newest checkpoint of a thread, or the one that is asked for."""
        # Only a transaction lends its connection, so that also a read goes through
        # `write`.
        return await self._store.write(
            lambda transaction: self.read_in(transaction, config)
        )

    def read_in(
        self, transaction: Transaction, config: RunnableConfig
    ) -> CheckpointTuple | None:
        """The same as a part of other work."""
        return self._upstream(transaction, config).get_tuple(config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """The checkpoints of a thread, the newest first; of all threads where none is named."""

        def read(transaction: Transaction) -> list[CheckpointTuple]:
            found: list[CheckpointTuple] = []
            for each in _configs_of_threads(transaction, config):
                saver = self._upstream(transaction, each)
                found += saver.list(each, filter=filter, before=before, limit=limit)
            # Each thread gives up to the limit, and the limit holds for all of them
            # together.
            return found[:limit]

        for checkpoint in await self._store.write(read):
            yield checkpoint

    def _require_lease(self, transaction: Transaction) -> None:
        if self._lease is not None:
            transaction.require(self._lease)

    def _upstream(
        self, transaction: Transaction, config: RunnableConfig
    ) -> "SqliteSaver | SealedPostgresSaver":
        # The saver works inside the transaction of the store. On a connection of its
        # own it would commit by itself.
        connection = transaction.lend()
        serializer = SealedSerializer(
            self._seal, str(config["configurable"]["thread_id"])
        )
        if is_postgres(connection):
            with needing_extra("postgres"):
                from agent_resolver.reasoner.postgres_checkpoint import (
                    SealedPostgresSaver,
                )
            return SealedPostgresSaver(connection, serializer)
        from langgraph.checkpoint.sqlite import SqliteSaver

        saver = SqliteSaver(connection, serde=serializer)
        # The tables are there since the migration; to make them here would commit our
        # transaction.
        saver.is_setup = True
        return saver

    def get_next_version(self, current: str | None, channel: None) -> str:  # noqa: ARG002 - LangGraph's port
        """The version of a channel after `current`: it counts up, and has nothing random in it."""
        # LangGraph's own versions have a random part after the dot. Without it, the
        # same task writes the same checkpoints.
        number = 0 if current is None else int(str(current).partition(".")[0])
        return f"{number + 1:032}"


def _configs_of_threads(
    transaction: Transaction, config: RunnableConfig | None
) -> list[RunnableConfig]:
    """One config for each thread that is asked for: each thread is sealed for itself."""
    if config is not None and config["configurable"].get("thread_id") is not None:
        return [config]
    rows = transaction.lend().execute(
        "SELECT DISTINCT thread_id FROM checkpoints ORDER BY thread_id"
    )
    return [
        {"configurable": {"thread_id": str(thread)}} for (thread,) in rows.fetchall()
    ]
