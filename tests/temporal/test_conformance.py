"""Blueprints run on Temporal as on every other engine: the same checks, on both servers."""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from agent_resolver.engine import RUN_CHECKS
from tests.temporal.places import carrier_for
from tests.temporal_server import TemporalServer


@pytest.mark.parametrize("name", RUN_CHECKS)
def test_blueprints_run_on_temporal_as_on_every_driver(name: str, tmp_path: Path, server: TemporalServer) -> None:
    asyncio.run(RUN_CHECKS[name](partial(carrier_for, server), tmp_path))


@pytest.mark.parametrize("name", RUN_CHECKS)
def test_blueprints_run_on_the_server_that_skips_time(
    name: str, tmp_path: Path, skipping_server: TemporalServer
) -> None:
    asyncio.run(RUN_CHECKS[name](partial(carrier_for, skipping_server), tmp_path))
