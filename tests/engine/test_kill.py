"""A worker that is killed in the middle of a step loses nothing."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from agent_resolver.storage import SystemClock
from tests.engine.stage import Stage, blueprint
from tests.process import eventually

STEPS = [{"id": name, "capability": f"shop.{name}", "input_mapping": {"n": 1}} for name in ("reserve", "slow", "pay")]


@pytest.mark.slow
def test_a_run_goes_on_after_its_worker_was_killed(tmp_path: Path) -> None:
    stage = Stage(tmp_path, clock=SystemClock())  # type: ignore[arg-type] # The real time.
    asyncio.run(stage.start(blueprint(*STEPS, output="${steps.pay.n}")))
    line = [sys.executable, "-m", "tests.engine.victim", str(tmp_path)]
    with subprocess.Popen(line) as first:
        assert eventually((tmp_path / "hung").exists, 60.0)
        first.kill()
    with subprocess.Popen(line) as second:
        ended = asyncio.run(stage.engine.result("run-1", 60))
        second.kill()

    assert (getattr(ended, "status", ""), getattr(ended, "output", None)) == ("done", 1)
    # The step that was interrupted is safe to repeat, and was; those around it were done once.
    assert stage.calls() == ["shop.reserve reserve", "shop.slow slow", "shop.slow slow", "shop.pay pay"]
    stage.close()
