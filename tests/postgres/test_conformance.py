"""The state in Postgres keeps the promises of every store, also to processes on several machines."""

import pytest

from tests.postgres.harness import InPostgres
from tests.storage.conformance import Harness
from tests.storage.conformance_cases import *  # noqa: F403 - every case, and what the cases need


@pytest.fixture
def harness(url: str) -> Harness:
    return InPostgres(url)


@pytest.fixture
def shared(url: str) -> Harness:
    return InPostgres(url)
