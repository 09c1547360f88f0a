"""The place where DBOS keeps its rows: a SQLite file of its own, or a schema of its own in a Postgres database."""

import os
import sqlite3
from typing import TYPE_CHECKING, Any, Final, Protocol

from agent_resolver._extra import needing_extra
from agent_resolver.engine.errors import EngineAway, EngineBroken
from agent_resolver.schema.errors import ResolverError
from agent_resolver.storage.exclusive import exclusively
from agent_resolver.storage.file import replace_with, tighten

if TYPE_CHECKING:
    from dbos import DBOSConfig
    from sqlalchemy import Engine

    from agent_resolver.storage.postgres.address import PostgresAddress

ENGINE_SCHEMA: Final = "agent_engine"
"""The schema of the engine, beside that of the state. Nothing else is in it."""
_FILE_CONNECTIONS: Final = 2
"""SQLite lets one connection write at a time, and the others sleep up to a tenth of a second between their attempts.
With many of them, steps that begin together take several times as long."""
_SCHEMA_CONNECTIONS: Final = 4
"""A server has a limited number of connections for all processes. More of them than this made no run faster."""
_CONNECTION_SECONDS: Final = 300.0
"""How long a call waits for its turn at the connections."""
_SESSION: Final = (
    f"SET synchronous_commit = off; SET search_path = {ENGINE_SCHEMA}, pg_temp"
)
"""A commit does not wait for the disk, as in a file: see `_Connection`. No name leads to a table of the state."""


class EnginePlace(Protocol):
    """A place that belongs to the engine alone. The engine calls it from one thread at a time."""

    name: str
    """Names the place in errors; it holds no password."""

    def prepare(self) -> None:
        """Make the tables of DBOS, or bring them to the newest version. It may take a second."""
        ...

    def options(self) -> "DBOSConfig":
        """The settings by which DBOS finds the place. Called once, after `prepare`."""
        ...

    def as_our_error(self, problem: Exception, message: str) -> ResolverError:
        """Our error for one of DBOS or of its database: the place is broken for good, or away for now."""
        ...

    def close(self) -> None:
        """Let go of what `prepare` and `options` opened, after the end of DBOS."""
        ...


class EngineFile:
    """A SQLite file. It may be deleted while no worker runs."""

    def __init__(self, path: str) -> None:
        self.name = path

    def prepare(self) -> None:
        """Make the file with the tables of DBOS, or bring it to the newest ones.

        DBOS makes its tables one by one: a process that ends in the middle, or two at once, would leave a useless file.
        So it is made under another name, and by one process at a time.
        """
        path = self.name
        os.makedirs(os.path.dirname(path) or ".", mode=0o700, exist_ok=True)
        with exclusively(path):
            try:
                is_new = os.path.getsize(path) == 0
            except FileNotFoundError:
                is_new = True
            if is_new:
                replace_with(path, _make_tables, mode=0o600)
            else:
                # The log files of SQLite hold the same values as the file itself.
                for suffix in ("", "-wal", "-shm"):
                    tighten(f"{path}{suffix}", 0o600)
                _make_tables(path)

    def options(self) -> "DBOSConfig":
        """The address of the file."""
        return {
            "system_database_url": _address(self.name),
            "sys_db_pool_size": _FILE_CONNECTIONS,
            # A file needs no test whether it still answers, and errors must not quote
            # values.
            "db_engine_kwargs": {
                "connect_args": {"factory": _Connection},
                "hide_parameters": True,
                "pool_pre_ping": False,
                "pool_timeout": _CONNECTION_SECONDS,
            },
        }

    def as_our_error(self, problem: Exception, message: str) -> ResolverError:  # noqa: ARG002 - the port
        """The file is broken: it does not come back by itself."""
        return EngineBroken(self.name, message)

    def close(self) -> None:
        """Nothing: DBOS closes the connections that it made."""


class _Connection(sqlite3.Connection):
    """A connection whose commits do not wait for the disk.

    A machine that loses its power may lose the newest rows of this file, and no more than that: the log is written in
    order. The steps of these rows are then taken again, and the state, whose commits do wait, knows what was done.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 - those of the driver
        super().__init__(*arguments, **options)
        self.execute("PRAGMA synchronous = NORMAL")


def _make_tables(path: str) -> None:
    from dbos import DBOS

    connection = sqlite3.connect(path)
    try:
        # The mode is kept in the file, so that every later connection has it.
        connection.execute("PRAGMA journal_mode = WAL")
    finally:
        connection.close()
    DBOS.migrate(_address(path))


def _address(path: str) -> str:
    """The file as an address, in which `?` and `%` are quoted."""
    from sqlalchemy import URL

    return URL.create("sqlite", database=os.path.abspath(path)).render_as_string()


class EngineSchema:
    """A schema of its own in a Postgres database. It may be dropped while no worker runs."""

    def __init__(self, address: "PostgresAddress", schema: str = ENGINE_SCHEMA) -> None:
        """A schema that `prepare` makes, in the database at an address."""
        self.name = address.name
        self.schema = schema
        self._address = address
        self._engine: Engine | None = None

    def prepare(self) -> None:
        """Make the schema with the tables of DBOS, or bring it to the newest ones.

        Each migration is a transaction that notes its number, under a lock that other processes wait for: one that
        ends in the middle leaves the rest to the next.
        """
        from dbos._serialization import DefaultSerializer
        from dbos._sys_db import SystemDatabase

        self._engine = _engine_at(self._address)
        # The public call would connect to the database `postgres` too, and make
        # triggers that nothing here listens to.
        SystemDatabase.create(
            system_database_url="postgresql://",
            engine_kwargs={},
            engine=self._engine,
            schema=self.schema,
            serializer=DefaultSerializer(),
            executor_id=None,
            use_listen_notify=False,
        ).run_migrations()

    def options(self) -> "DBOSConfig":
        """The connections to the database. DBOS itself never sees the address, and so cannot write it to a log."""
        return {
            "system_database_engine": self._engine,
            "dbos_system_schema": self.schema,
            "use_listen_notify": False,
            "run_migrations": False,
        }

    def as_our_error(self, problem: Exception, message: str) -> ResolverError:
        """A server that was stopped may come back; everything else is broken."""
        from sqlalchemy.exc import OperationalError

        if isinstance(problem, OperationalError):
            return EngineAway(self.name, message)
        return EngineBroken(self.name, message, schema=self.schema)

    def close(self) -> None:
        """Close the connections."""
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None


def _engine_at(address: "PostgresAddress") -> "Engine":
    with needing_extra("postgres"):
        from agent_resolver.storage.postgres.connection import connect
    from sqlalchemy import create_engine

    def connect_for_dbos() -> Any:  # noqa: ANN401 - SQLAlchemy's word for a connection
        connection = connect(address)
        connection.run(_SESSION)
        # From here on, transactions begin and end as DBOS says.
        connection.raw.autocommit = False
        return connection.raw

    return create_engine(
        "postgresql+psycopg://",
        creator=connect_for_dbos,
        hide_parameters=True,
        pool_size=_SCHEMA_CONNECTIONS,
        max_overflow=0,
        # A server that was started again has closed every connection.
        pool_pre_ping=True,
        pool_timeout=_CONNECTION_SECONDS,
    )
