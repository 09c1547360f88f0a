"""The tests of `tests/engine/conformance/test_lasting.py`, on Postgres."""

from tests.engine.conformance.test_lasting import *  # noqa: F403 - all of its tests
