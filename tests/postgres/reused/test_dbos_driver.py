"""The tests of `tests/engine/test_dbos_driver.py`, on Postgres."""

from tests.engine.test_dbos_driver import *  # noqa: F403 - all of its tests
