"""Records the histories of the present version of the workflow: `python -m tests.temporal.record`."""

import asyncio
import json
import platform
import tempfile
from pathlib import Path
from typing import Any, Final

from agent_resolver.engine.temporal_message import BUILD_ID
from agent_resolver.registry import ToolFailure
from agent_resolver.schema import FailureCode
from tests.engine.stage import Stage, blueprint
from tests.temporal.places import carrier_for, client_of
from tests.temporal_server import TemporalServer, temporal_server

FOLDER: Final = Path(__file__).with_name("histories")
QUEUE: Final = "agent-tests-golden"


def _call(name: str, tool: str = "shop.pay", **more: Any) -> dict[str, Any]:
    return {"id": name, "capability": tool, "input_mapping": {"n": 1}, **more}


_UNDO: Final[dict[str, Any]] = {"compensation": {"capability": "shop.undo"}}
_WAIT: Final = {"id": "w", "wait": {"kind": "signal", "signal": "go"}}
_GROUP: Final = [_call(f"p{number}", is_parallel=True) for number in range(3)]
_RETRY: Final[dict[str, Any]] = {"retry": {"max_attempts": 2, "first_delay_seconds": 0.0}}
STORIES: Final[dict[str, list[dict[str, Any]]]] = {
    "cancelled": [_call("a", **_UNDO), _call("b", **_UNDO), _WAIT, _call("c")],
    "failed": [_call("a", **_UNDO), *_GROUP, _call("z", "shop.fail", **_RETRY)],
    "timed": [{"id": "t", "wait": {"kind": "time", "seconds": 0.3}}, _call("a")],
    "waited": [_call("a"), *_GROUP, _WAIT, _call("c")],
}
"""The steps of one run for each path through the workflow."""


async def _fail(_arguments: dict[str, Any], _context: Any) -> Any:
    raise ToolFailure(FailureCode.TOOL_ERROR, "It does not work", "do without it")


async def _record(server: TemporalServer, folder: Path) -> None:
    stage = Stage(folder, driver=carrier_for(server, folder, queue=QUEUE, state="golden"))
    for tool in ("shop.pay", "shop.undo"):
        stage.add(tool)
    stage.add("shop.fail", _fail)
    await stage.engine.open()
    for run, steps in STORIES.items():
        await stage.start(blueprint(*steps), run)
    await stage.engine.worker.drain()
    await stage.engine.signal("waited", "go", 1, stage.context())
    await stage.engine.cancel("cancelled", stage.context())
    stage.clock.forward(1)
    await stage.engine.worker.drain()
    client = await client_of(server)
    (FOLDER / BUILD_ID).mkdir(parents=True, exist_ok=True)
    for run in STORIES:
        handle = client.get_workflow_handle(f"{QUEUE}/{run}")
        while (await handle.describe()).close_time is None:  # noqa: ASYNC110 - it is about the server
            await asyncio.sleep(0.1)
        history = _without_machine(json.loads((await handle.fetch_history()).to_json()))
        path = FOLDER / BUILD_ID / f"{run}.json"
        path.write_text(json.dumps(history, indent=1, sort_keys=True) + "\n")
    await stage.engine.close()
    stage.close()


def _without_machine(value: Any, key: str = "") -> Any:
    """The same history without the name of the machine that recorded it, which is nothing to others."""
    if isinstance(value, dict):
        return {name: _without_machine(each, name) for name, each in value.items()}
    if isinstance(value, list):
        return [_without_machine(each) for each in value]
    # Payloads may hold the same letters by chance.
    return value.replace(platform.node(), "machine") if key in {"identity", "name"} else value


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name, temporal_server(Path(name)) as running:
        asyncio.run(_record(running, Path(name)))
