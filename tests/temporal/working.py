"""A worker on a real server, and what tests wait for."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent_resolver.engine import RunResult
from agent_resolver.engine.temporal_carrier import TemporalCarrier
from agent_resolver.engine.temporal_message import BUILD_ID
from agent_resolver.storage import AesSeal
from tests.engine.stage import Stage
from tests.temporal.places import KEY, place_for
from tests.temporal_server import TemporalServer

STEPS: list[dict[str, Any]] = [
    {"id": name, "capability": "shop.pay", "input_mapping": {"n": 1}} for name in ("first", "second")
]


@asynccontextmanager
async def worker(
    server: TemporalServer, folder: Path, *, build: str = BUILD_ID, clock: Any = None, **changes: Any
) -> AsyncIterator[Stage]:
    """A process that drives runs until the block ends."""
    carrier = TemporalCarrier(place_for(server, folder, **changes), AesSeal(KEY), build)
    stage = Stage(folder, driver=carrier, clock=clock)
    stage.add("shop.pay")
    try:
        await stage.engine.open()
        working = asyncio.create_task(stage.engine.worker.run())
        async with asyncio.timeout(60):
            yield stage
        stage.engine.worker.stop()
        await working
    finally:
        await stage.engine.close()
        stage.close()


async def until(condition: Callable[[], Any]) -> None:
    while not await condition():  # noqa: ASYNC110 - it is about the server
        await asyncio.sleep(0.05)


async def waits_for(stage: Stage, signal: str) -> bool:
    view = await stage.engine.query("run-1")
    return view is not None and [each.id for each in view.waits] == [signal]


async def finished(stage: Stage, run: str) -> RunResult:
    while not isinstance(found := await stage.engine.result(run, 1.0), RunResult):  # noqa: ASYNC110 - as above
        await asyncio.sleep(0.05)
    return found


def fail_first(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, *errors: Exception) -> None:
    """Let the first calls of a method fail."""
    real, left = getattr(owner, name), list(errors)

    async def attempt(*arguments: Any, **named: Any) -> Any:
        if left:
            raise left.pop(0)
        return await real(*arguments, **named)

    monkeypatch.setattr(owner, name, attempt)
