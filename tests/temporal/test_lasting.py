"""The tests of `tests/engine/conformance/test_lasting.py`, on Temporal, all of them."""

import pytest

from tests.engine.conformance.stage import TEMPORAL
from tests.engine.conformance.test_lasting import *  # noqa: F403 - all of its tests
from tests.temporal_server import TemporalServer

pytestmark = [pytest.mark.slow]


@pytest.fixture
def driver(server: TemporalServer) -> str:
    """The name of the driver that has this server carry every run."""
    return f"{TEMPORAL}{server.address}"
