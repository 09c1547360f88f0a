"""A worker as a program: it drives what is there until it is killed. `python -m tests.engine.victim FOLDER`."""

import asyncio
import sys
from pathlib import Path
from typing import Any

from agent_resolver.registry import CallContext
from agent_resolver.storage import SystemClock
from tests.engine.stage import Stage


async def hang_once(arguments: dict[str, Any], context: CallContext) -> Any:
    """Hang the first time that it is called on this folder."""
    marker = Path(sys.argv[1]) / "hung"
    if not marker.exists():
        marker.touch()
        await asyncio.sleep(60)
    return arguments


def open_stage(folder: Path) -> Stage:
    stage = Stage(folder, clock=SystemClock())  # type: ignore[arg-type] # The real time.
    stage.add("shop.reserve")
    stage.add("shop.slow", hang_once)
    stage.add("shop.pay")
    return stage


async def main() -> None:
    stage = open_stage(Path(sys.argv[1]))
    await stage.engine.open()
    await stage.engine.worker.run()


if __name__ == "__main__":
    asyncio.run(main())
