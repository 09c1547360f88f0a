"""The tests of `tests/engine/conformance/test_kill.py`, on Postgres."""

from tests.engine.conformance.test_kill import *  # noqa: F403 - all of its tests
