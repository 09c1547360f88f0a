"""The state in Postgres keeps the promises of every store, also to processes on several machines.

All of it for a role that may do nothing more in the server than own its database.
"""

import psycopg
import pytest

from tests.postgres.harness import InPostgres
from tests.postgres_server import PostgresServer
from tests.storage.conformance import Harness
from tests.storage.conformance_cases import *  # noqa: F403 - every case, and what the cases need


@pytest.fixture(scope="session")
def role(server: PostgresServer) -> str:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("CREATE ROLE ordinary LOGIN")
    return "ordinary"


@pytest.fixture
def url(server: PostgresServer, role: str) -> str:
    return server.new_database(role)


@pytest.fixture
def harness(url: str) -> Harness:
    return InPostgres(url)


@pytest.fixture
def shared(url: str) -> Harness:
    return InPostgres(url)
