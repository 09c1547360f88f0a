"""The tests of `tests/reasoner/test_taken.py`, on Postgres."""

from tests.reasoner.test_taken import *  # noqa: F403 - all of its tests
