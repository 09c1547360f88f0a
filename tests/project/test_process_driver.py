"""The one DBOS of a process, for every registry of a project."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from agent_resolver.engine import StepRunner
from agent_resolver.project.engine import _ProcessDriver, _SharingDriver
from agent_resolver.project.state_place import SqlitePlace
from agent_resolver.storage import AesSeal


def test_segments_that_are_the_first_ones_together_are_all_driven(tmp_path: Path) -> None:
    driven: list[str] = []

    async def run_segment(segment: str, step: StepRunner) -> None:
        driven.append(segment)

    async def scenario() -> None:
        place = SqlitePlace(str(tmp_path / "state.db"))
        session = SimpleNamespace(state_place=place, engine_path=place.engine_path, seal=AesSeal(b"k" * 32))
        driver = _SharingDriver(_ProcessDriver(cast("Any", session)))
        await driver.open("one", run_segment)
        await asyncio.gather(*(driver.drive(f"run-{number}:1") for number in range(3)))
        await driver.close()

    asyncio.run(scenario())
    assert sorted(driven) == ["run-0:1", "run-1:1", "run-2:1"]
