"""Every driver keeps the promises of the port, and runs blueprints in the same way."""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from agent_resolver.engine import DRIVER_CHECKS, RUN_CHECKS
from tests.engine.conformance.stage import DRIVERS, make_driver

# Each check starts an engine on a file several times: the promises of the port are tried on it every time, and the
# blueprints with the slow tests.
QUICK_DRIVERS = [pytest.param(name, marks=[pytest.mark.slow] if name == "dbos" else []) for name in DRIVERS]


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("name", DRIVER_CHECKS)
def test_a_driver_keeps_the_promises_of_the_port(driver: str, name: str, tmp_path: Path) -> None:
    asyncio.run(DRIVER_CHECKS[name](partial(make_driver, driver), tmp_path))


@pytest.mark.parametrize("driver", QUICK_DRIVERS)
@pytest.mark.parametrize("name", RUN_CHECKS)
def test_blueprints_run_alike_on_every_driver(driver: str, name: str, tmp_path: Path) -> None:
    asyncio.run(RUN_CHECKS[name](partial(make_driver, driver), tmp_path))
