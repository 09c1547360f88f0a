"""Tests of other folders, which run here with all that they keep in Postgres.

Each boundary of a kill takes seconds, so that one in so many is tried; `AGENT_POSTGRES_ALL=1` lets all of them run.
"""

import os
from pathlib import Path
from typing import Final

import pytest

from tests.state_place import use_postgres

_ONE_IN: Final = {
    "test_dbos_driver.py": 4,
    "test_dbos_system.py": 3,
    "test_engine_driver.py": 6,
    "test_engine_kill.py": 16,
    "test_engine_lasting.py": 6,
    "test_task_kill.py": 10,
    "test_task_taken.py": 3,
}
"""How many tests of a module there are for each that runs by default."""


@pytest.fixture
def tmp_path(tmp_path: Path, url: str) -> Path:
    """A folder whose state goes into an empty database."""
    use_postgres(tmp_path, url)
    return tmp_path


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out engines that keep nothing, and most of the tests of each module."""
    here, seen = Path(__file__).parent, dict.fromkeys(_ONE_IN, 0)
    chosen: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        if item.path.parent != here:
            chosen.append(item)
            continue
        is_run = "memory" not in item.name
        if is_run and not os.environ.get("AGENT_POSTGRES_ALL"):
            is_run = seen[item.path.name] % _ONE_IN[item.path.name] == 0
            seen[item.path.name] += 1
        (chosen if is_run else left).append(item)
    items[:] = chosen
    config.hook.pytest_deselected(items=left)
