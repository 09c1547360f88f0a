"""What a store asks of its database. Nothing here imports asyncio: the catalog reads files of SQLite without it."""

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager

from agent_resolver.storage.sql.commit import CommitDatabase
from agent_resolver.storage.sql.connection import SqlConnection
from agent_resolver.storage.sql.sealed_column import FindSeal


class StoreDatabase(CommitDatabase, ABC):
    """The database of a store: its connections, its schema and the name of its key."""

    key_id: str
    """The id of the key that seals the words in it; empty while nothing was sealed in it."""
    trail_key: bytes | None
    """What seals the trail."""
    find_seal: FindSeal | None = None
    """Finds what seals the words in it; None where they are kept as they are."""

    @property
    @abstractmethod
    def version(self) -> int:
        """The version of the tables."""

    @abstractmethod
    def snapshot(self) -> AbstractContextManager[SqlConnection]:
        """One state, on a connection of its own."""

    @abstractmethod
    def close(self) -> None:
        """Close the connections."""
