"""How the suite of the store gets at stores in Postgres."""

from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg

from agent_resolver.storage import PostgresAddress, PostgresStore
from tests.process import eventually
from tests.storage.conformance import Harness

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator


class InPostgres(Harness):
    """The adapter on a database, which no folder belongs to."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._count = 0
        """How many processes were started."""

    def open(self) -> PostgresStore:
        return PostgresStore(PostgresAddress(self._url))

    def opening(self) -> str:
        self._count += 1
        joined = "&" if "?" in self._url else "?"
        url = f"{self._url}{joined}application_name=process-{self._count}"
        module = "__import__('agent_resolver.storage', fromlist=['PostgresStore'])"
        return f"{module}.PostgresStore({module}.PostgresAddress({url!r}))"

    @contextmanager
    def process(self, script: str) -> "Iterator[subprocess.Popen[str]]":
        """As every harness; in the end the server has dropped the sessions of the process too."""
        with super().process(script) as process:
            name = f"process-{self._count}"
            yield process
        with psycopg.connect(self._url, autocommit=True) as connection:
            assert eventually(lambda: not _sessions(connection, name))


def _sessions(connection: "psycopg.Connection[tuple[object, ...]]", name: str) -> list[object]:
    looking = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = %s"
    return list(connection.execute(looking, (name,)))
