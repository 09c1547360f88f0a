"""A state in Postgres that one process has to itself."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg

from agent_resolver.storage.postgres.address import PostgresAddress
from agent_resolver.storage.postgres.connection import (
    PostgresConnection,
    connect_within,
    unusable,
)
from agent_resolver.storage.postgres.lock import IN_USE, LOCKS
from agent_resolver.storage.sqlite.alone import StateInUse

_WAIT_SECONDS: Final = 5.0
"""How long a short command may take to let go of the state."""
_PAUSE_SECONDS: Final = 0.05
_LONG_WORK: Final = (
    "SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0"
)


@contextmanager
def alone_in(
    address: PostgresAddress, wait_seconds: float = _WAIT_SECONDS
) -> Iterator[PostgresConnection]:
    """A connection to a state that no other process has open, nor can open before this ends.

    Every connection shares one lock for as long as it is there, so that it is granted alone only where there is no
    other. The server drops it when this process ends.

    Raises:
        StateInUse: Another process has it open.
        UnreachableState: The server does not answer.
        UnreadableFile: It refuses the work.
    """
    connection = connect_within(address, 0)
    try:
        deadline = time.monotonic() + wait_seconds
        while not _take(connection):
            if time.monotonic() > deadline:
                raise StateInUse(address.name)
            time.sleep(_PAUSE_SECONDS)
        connection.run(_LONG_WORK)
        connection.bound_waits()
        yield connection
    except psycopg.Error as error:
        raise unusable(address.name, error) from error
    finally:
        connection.close()


def _take(connection: PostgresConnection) -> bool:
    (is_taken,) = connection.execute(
        f"SELECT pg_try_advisory_lock({LOCKS}, {IN_USE})"
    ).fetchone()
    return bool(is_taken)


@contextmanager
def written_in_one(connection: PostgresConnection) -> Iterator[None]:
    """A transaction: all or nothing."""
    connection.run("BEGIN")
    try:
        yield
        connection.run("COMMIT")
    except BaseException:
        connection.undo()
        raise
