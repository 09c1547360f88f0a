"""A state that one process has to itself while it is sealed again, in a file or in Postgres, with its engine."""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from agent_resolver.engine.dbos_place import ENGINE_SCHEMA
from agent_resolver.project.sealed_place import (
    POSTGRES_PLACES,
    SQLITE_PLACES,
    SealedPlace,
    reseal_engine_file,
    reseal_engine_schema,
)
from agent_resolver.storage.key_ring import KeyRing
from agent_resolver.storage.sql.connection import SqlConnection
from agent_resolver.storage.sqlite.alone import alone_with, forget_removed
from agent_resolver.storage.sqlite.database import Database, written_at_once

if TYPE_CHECKING:
    from agent_resolver.project.sealed_place import Opens
    from agent_resolver.storage.postgres.address import PostgresAddress
    from agent_resolver.storage.postgres.connection import PostgresConnection
    from agent_resolver.storage.seal import AesSeal

_WAIT_SECONDS: Final = 5
Reach = Callable[[str], None]
"""Called with the name of each step before it is taken, for tests that end the process there."""


class RotationPlace(Protocol):
    """The part of the place of a state that a rotation needs."""

    path: str
    """Names the state in errors."""
    sealed: tuple[SealedPlace, ...]

    def prepare(self, keys: KeyRing) -> None:
        """Bring the tables to the newest version, before this process has the state to itself."""
        ...

    def alone(self) -> AbstractContextManager[SqlConnection]:
        """A connection to a state that no other process has open."""
        ...

    def at_once(self, connection: Any) -> AbstractContextManager[None]:  # noqa: ANN401 - its own
        """A transaction: all or nothing."""
        ...

    def reseal_engine(
        self,
        connection: Any,  # noqa: ANN401 - its own
        opener: "Opens",
        seal: "AesSeal",
        reach: Reach,
        *,
        is_unnamed: bool,
    ) -> None:
        """Seal what the engine keeps, in a transaction of its own."""
        ...

    def forget(self, connection: Any) -> None:  # noqa: ANN401 - its own
        """Write everything again without the old values."""
        ...


class RotationFile:
    """A state file, and the file of the engine beside it."""

    sealed: tuple[SealedPlace, ...] = SQLITE_PLACES

    def __init__(self, path: str, engine: str) -> None:
        self.path = path
        self._engine = engine

    def prepare(self, keys: KeyRing) -> None:
        """Bring the file to the newest schema."""
        Database(self.path, keys.newest).close()

    def alone(self) -> AbstractContextManager[SqlConnection]:
        """A connection that no other process shares the file with."""
        return cast("AbstractContextManager[SqlConnection]", alone_with(self.path))

    def at_once(self, connection: sqlite3.Connection) -> AbstractContextManager[None]:
        """A transaction."""
        return written_at_once(connection)

    def reseal_engine(
        self,
        connection: sqlite3.Connection,  # noqa: ARG002 - the engine has a file of its own
        opener: "Opens",
        seal: "AesSeal",
        reach: Reach,
        *,
        is_unnamed: bool,
    ) -> None:
        """Seal the file of the engine. No process has it open: each that drives runs has the state open too."""
        # A project that never ran a blueprint here has no file of the engine.
        if not os.path.exists(self._engine):
            return
        # With no isolation level, Python begins no transactions of its own beside the
        # one below.
        with closing(
            sqlite3.connect(self._engine, timeout=_WAIT_SECONDS, isolation_level=None)
        ) as engine:
            with written_at_once(engine):
                reseal_engine_file(engine, opener, seal, is_unnamed=is_unnamed)
                reach("engine commit")
            # SQLite writes a file again only outside of a transaction.
            forget_removed(engine)

    def forget(self, connection: sqlite3.Connection) -> None:
        """Write the file again."""
        forget_removed(connection)


class RotationDatabase:
    """A state in Postgres, and the schema of the engine beside it."""

    sealed: tuple[SealedPlace, ...] = POSTGRES_PLACES

    def __init__(self, address: "PostgresAddress") -> None:
        self.path = address.name
        self._address = address

    def prepare(self, keys: KeyRing) -> None:
        """Bring the tables to the newest version."""
        from agent_resolver.storage.postgres.database import PostgresDatabase

        PostgresDatabase(self._address, keys.newest).close()

    @contextmanager
    def alone(self) -> Iterator[SqlConnection]:
        """A connection that no other process shares the state with."""
        from agent_resolver.storage.postgres.alone import alone_in

        with alone_in(self._address) as connection:
            yield connection

    def at_once(self, connection: "PostgresConnection") -> AbstractContextManager[None]:
        """A transaction."""
        from agent_resolver.storage.postgres.alone import written_in_one

        return written_in_one(connection)

    def reseal_engine(
        self,
        connection: "PostgresConnection",
        opener: "Opens",
        seal: "AesSeal",
        reach: Reach,
        *,
        is_unnamed: bool,  # noqa: ARG002 - no earlier version kept a state here
    ) -> None:
        """Seal the rows of the engine's schema; nothing where there is none yet."""
        # The engine gets a transaction of its own, before that of the state, as where
        # it has a file of its own.
        with self.at_once(connection):
            reseal_engine_schema(connection, ENGINE_SCHEMA, opener, seal)
            reach("engine commit")

    def forget(self, connection: "PostgresConnection") -> None:
        """Write every table again: what was replaced stays in its file otherwise."""
        from agent_resolver.storage.postgres.connection import SCHEMA

        # The tables of LangGraph and of the engine are among them, whatever they are
        # called.
        tables = connection.execute(
            "SELECT quote_ident(schemaname), quote_ident(tablename) FROM pg_tables WHERE schemaname IN (?, ?)",
            (SCHEMA, ENGINE_SCHEMA),
        ).fetchall()
        for schema, table in tables:
            # This writes the live rows into a new file, without the old values that
            # stayed in the file before it.
            connection.run(f"VACUUM FULL {schema}.{table}")
