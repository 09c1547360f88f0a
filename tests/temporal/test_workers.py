"""The test of `tests/postgres/test_workers.py`, with Temporal in place of the other engines."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgres import test_workers
from tests.postgres.test_workers import Machines
from tests.postgres_server import postgres_server
from tests.temporal_server import TemporalServer


@pytest.fixture
def machines(tmp_path: Path, server: TemporalServer) -> Iterator[Machines]:
    with postgres_server() as state:
        engine = {"AGENT_ENGINE_KIND": "temporal", "AGENT_ENGINE_ADDRESS": server.address}
        made = Machines(tmp_path, state.new_database(), **engine)
        yield made
        made.end()


test_four_workers_end_every_run_once = (
    test_workers.test_four_workers_end_every_run_once_though_one_is_killed_stopped_and_frozen
)
