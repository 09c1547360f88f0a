"""The state of a project in Postgres, which several machines share."""

import asyncio
import time
from collections.abc import Callable
from math import inf
from typing import Final

import psycopg

from agent_resolver.storage.clock import system_time
from agent_resolver.storage.errors import UnreadableFile
from agent_resolver.storage.key_ring import KeyRing
from agent_resolver.storage.port import Result, Snapshot
from agent_resolver.storage.postgres.address import PostgresAddress
from agent_resolver.storage.postgres.connection import (
    SCHEMA,
    UnreachableState,
    connect_within,
    unusable,
    without_zero,
)
from agent_resolver.storage.postgres.database import RETURN_SECONDS, PostgresDatabase
from agent_resolver.storage.postgres.schema import read_version
from agent_resolver.storage.postgres.watch import Watch
from agent_resolver.storage.sql.commit import DoAgain
from agent_resolver.storage.sql.connection import SqlConnection
from agent_resolver.storage.sql.store import SqlStore, woken_after

_LOOKS: Final = 5
"""How often a look is tried whose connection was lost."""


class PostgresStore(SqlStore):
    """A store on one database of Postgres.

    A thread does all that is written, and other threads do what is read: an event loop never waits for the network.
    """

    def __init__(
        self,
        address: PostgresAddress,
        *,
        key: bytes | None = None,
        keys: KeyRing | None = None,
        now: Callable[[], str] = system_time,
        seconds: Callable[[], float] = time.time,
    ) -> None:
        """Connect, make the tables, or bring them to the newest version.

        Args:
            address: The database.
            key: What seals the trail, where there are no `keys`.
            keys: The keys that seal the words in the state; without them, words are kept as they are.
            now: The time for records, as ISO 8601 in UTC with milliseconds.
            seconds: The time for leases.

        Raises:
            UnreachableState: It cannot be reached.
            UnreadableFile: Another program has tables there, or a newer version wrote them.
            UnknownKey: The settings name keys, and it is sealed with another one.
        """
        self.database = PostgresDatabase(address, key, keys)
        super().__init__(
            self.database,
            keys,
            now=now,
            seconds=seconds,
            quick_seconds=0,
            poll_seconds=inf,
        )
        self._watch = self.database.watch = Watch(address, self._hear)

    def _hear(self, topics: set[str] | None) -> None:
        if topics is None:
            self._waiters.tell_all()
        else:
            self._waiters.tell(topics)

    async def read(self, work: Callable[[Snapshot], Result]) -> Result:
        """Look at one state."""
        self._require_outside()
        return await asyncio.to_thread(self.read_now, work)

    def _look(self, work: Callable[[SqlConnection], Result]) -> Result:
        for _ in range(_LOOKS - 1):
            try:
                return super()._look(work)
            except DoAgain:
                continue
        try:
            return super()._look(work)
        except DoAgain as last:
            raise last.error from last

    @property
    def size(self) -> int:
        """The bytes of all tables and indexes."""
        statement = (
            "SELECT coalesce(sum(pg_total_relation_size(oid)), 0) FROM pg_class WHERE "
            "relnamespace = ?::regnamespace"
        )
        return self._look(
            lambda connection: int(
                connection.execute(
                    f"{statement} AND relkind = 'r'", (SCHEMA,)
                ).fetchone()[0]
            )
        )

    @property
    def owner(self) -> str:
        """The name of this process; known to others from the first use on."""
        self._require_own_process()
        self._watch.start()
        return self._watch.name

    def is_gone(self, owner: str) -> bool:
        """True if the process of that name is known to have ended."""
        self._require_own_process()
        return self._watch.is_gone(owner)

    async def woken(self, topic: str, seconds: float) -> frozenset[str]:
        """The keys that were woken since the last call, in any process."""
        # Words are sent with the topic as the table has it.
        return await super().woken(without_zero(topic), seconds)

    async def _woken_since(
        self, topic: str, position: int | None
    ) -> tuple[frozenset[str], int]:
        if position is None:
            # Once for each topic, and at once: what is woken after the call must come
            # after this position.
            return self._look(lambda connection: woken_after(connection, topic, None))
        return await asyncio.to_thread(self._look_while_listening, topic, position)

    def _look_while_listening(
        self, topic: str, position: int
    ) -> tuple[frozenset[str], int]:
        self._watch.start(RETURN_SECONDS)
        return self._look(lambda connection: woken_after(connection, topic, position))

    def _give_up_name(self) -> None:
        self._watch.close()


_IDENTITY: Final = """
    SELECT system_identifier, pg_database.oid FROM pg_control_system(), pg_database
    WHERE datname = current_database()
"""


def database_identity(address: PostgresAddress) -> str:
    """A name for a database, the same by whatever host, user or parameters it is reached.

    A database that a dump was restored into has another name. A copy of the server's files has the same one: it cannot
    be told from a replica that takes the place of the server.

    Raises:
        UnreadableFile: The server cannot be reached, or does not tell this user.
    """
    connection = connect_within(address, 0)
    try:
        server, database = connection.execute(_IDENTITY).fetchone()
    except psycopg.Error as error:
        if connection.is_lost:
            raise UnreachableState(address.name, error) from error
        problem = f"does not say which database it is: {' '.join(str(error).split())}"
        raise UnreadableFile(address.name, problem) from error
    finally:
        connection.close()
    return f"{server}/{database}"


def has_state(address: PostgresAddress) -> bool:
    """True if there is a state: looking at what is not there must not make it.

    Raises:
        UnreadableFile: The server cannot be reached, or does not let this user look.
    """
    connection = connect_within(address, 0)
    try:
        return read_version(connection) > 0
    except psycopg.Error as error:
        raise unusable(address.name, error) from error
    finally:
        connection.close()
