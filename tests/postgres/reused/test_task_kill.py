"""The tests of `tests/reasoner/test_kill.py`, on Postgres."""

from tests.reasoner.test_kill import *  # noqa: F403 - all of its tests
