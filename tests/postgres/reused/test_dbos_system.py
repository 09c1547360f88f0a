"""The tests of `tests/engine/test_dbos_system.py`, on Postgres."""

from tests.engine.test_dbos_system import *  # noqa: F403 - all of its tests
