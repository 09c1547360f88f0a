"""The tests of `tests/engine/conformance/test_driver.py`, on Postgres."""

from pathlib import Path
from typing import Any

import pytest

from agent_resolver.engine import run_conformance
from tests.engine.conformance.test_driver import *  # noqa: F403 - all of its tests
from tests.state_place import open_state


@pytest.fixture(autouse=True)
def _state_of_the_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks of the package keep their state in Postgres too, not only the driver."""

    def open_store(path: str, **options: Any) -> Any:
        return open_state(Path(path).parent, **options)

    monkeypatch.setattr(run_conformance, "SqliteStore", open_store)
