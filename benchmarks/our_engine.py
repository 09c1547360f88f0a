"""Blueprints on DBOS, as `bare_engine.py` runs workflows: `our_engine.py FOLDER [URL]`, with the extra `engine`.

Besides the shapes it takes `wait N`, which starts runs that wait for a signal until N of them do; `list`, which answers
with the seconds that listing them takes; and `idle`, which answers with the share of a core that the worker takes while
all of them wait.
"""

import asyncio
import os
import statistics
import sys
import time
from typing import Any

import msgspec

from agent_resolver.core import INTERPRETER_VERSION
from agent_resolver.engine import (
    BlueprintJournal,
    DbosDriver,
    EngineFile,
    EngineParts,
    EnginePlace,
    EngineSchema,
    RunResult,
    StoredEngine,
)
from agent_resolver.registry import CallContext, Ports, ToolRegistry
from agent_resolver.schema import RUNS as RUN_TABLE, WAITS, Blueprint, Descriptor, Rules, local_caller
from agent_resolver.storage import AesSeal, PostgresAddress, PostgresStore, Snapshot, SqliteStore, Store, SystemClock

STEPS = 10
RUNS = 100
RUN_STEPS = 5
IDLE_SECONDS = 10.0
KEY = bytes(32)
CONTEXT = CallContext.for_caller(local_caller("bench"))


class Nothing:
    """A tool without an effect."""

    descriptor = Descriptor(
        id="nothing",
        description="Nothing.",
        input_schema={"type": "object"},
        source="memory",
        rules=Rules(is_idempotent=True),
    )

    async def invoke(self, _arguments: dict[str, Any], _context: CallContext) -> dict[str, int]:
        """Give what the bare step gives."""
        return {"n": 1}


def blueprint(name: str, steps: list[dict[str, Any]]) -> Blueprint:
    """A blueprint with these steps."""
    about = {"id": f"bench.{name}", "version": "1.0.0", "description": name}
    return msgspec.convert({"blueprint_metadata": about, "dag": {"steps": steps}}, Blueprint)


def _steps(count: int, *, is_parallel: bool = False) -> list[dict[str, Any]]:
    return [{"id": f"s{number}", "capability": "nothing", "is_parallel": is_parallel} for number in range(count)]


SHAPES = {
    "sequence": blueprint("sequence", _steps(STEPS)),
    "group": blueprint("group", _steps(STEPS, is_parallel=True)),
    "many": blueprint("many", _steps(RUN_STEPS)),
    "waiting": blueprint("waiting", [{"id": "w", "wait": {"kind": "signal", "signal": "go"}}]),
}


class Bench:
    """An engine with its worker."""

    def __init__(self, folder: str, url: str) -> None:
        self.store: Store
        place: EnginePlace
        if url:
            address = PostgresAddress(url)
            self.store, place = PostgresStore(address, key=KEY), EngineSchema(address)
        else:
            self.store = SqliteStore(os.path.join(folder, "state.db"), key=KEY)  # noqa: PTH118 - as the product does
            place = EngineFile(os.path.join(folder, "engine.db"))  # noqa: PTH118 - as above
        seal, clock = AesSeal(KEY), SystemClock()
        registry = ToolRegistry(Ports(store=self.store, seal=seal, clock=clock))
        registry.add(Nothing())
        driver = DbosDriver(place, seal, INTERPRETER_VERSION)
        journal = BlueprintJournal(self.store, seal, clock)
        self.engine = StoredEngine(EngineParts(journal=journal, call=registry.call, driver=driver))
        self._number = 0

    async def start(self, shape: str) -> str:
        """Start a run."""
        self._number += 1
        run = f"{shape}-{self._number}"
        await self.engine.start(SHAPES[shape], {}, CONTEXT, run)
        return run

    async def run_shape(self, shape: str) -> float:
        """Run blueprints of a shape to their end, and return the seconds."""
        count = RUNS if shape == "many" else 1
        start = time.perf_counter()
        runs = await asyncio.gather(*(self.start(shape) for _ in range(count)))
        results = await asyncio.gather(*(self.engine.result(run, 60.0) for run in runs))
        seconds = time.perf_counter() - start
        failed = [result for result in results if not (isinstance(result, RunResult) and result.status == "done")]
        if failed:
            raise SystemExit(f"runs did not come to their end: {failed[0]}")
        return seconds

    async def let_wait(self, count: int) -> float:
        """Start runs that wait, until so many do."""
        start = time.perf_counter()
        for _ in range(count):
            await self.start("waiting")
        # A run that is started waits for a worker first, and has a code only once it waits for its signal.
        while not await self.store.read(_is_settled):
            await self.store.woken("run", 0.5)
        return time.perf_counter() - start

    async def list(self) -> float:
        """The seconds that listing the runs takes: the median of five."""
        taken = []
        for _ in range(5):
            start = time.perf_counter()
            await self.engine.list()
            taken.append(time.perf_counter() - start)
        return statistics.median(taken)

    async def idle(self) -> float:
        """The share of a core that is used while every run waits."""
        start, used = time.perf_counter(), time.process_time()
        await asyncio.sleep(IDLE_SECONDS)
        return (time.process_time() - used) / (time.perf_counter() - start)

    async def answer(self, line: str) -> float:
        """What is answered to a line."""
        match line.split():
            case ["wait", count]:
                return await self.let_wait(int(count))
            case ["list"]:
                return await self.list()
            case ["idle"]:
                return await self.idle()
            case _:
                return await self.run_shape(line)


def _is_settled(snapshot: Snapshot) -> bool:
    """True if no run is due, and none is driven."""
    is_due = any(row.due == 0 for row in snapshot.find(WAITS, limit=1))
    return not is_due and not snapshot.find(RUN_TABLE, {"status": "running"}, limit=1)


async def serve(folder: str, url: str = "") -> None:
    """Answer every line with a number."""
    bench = Bench(folder, url)
    await bench.engine.open()
    working = asyncio.create_task(bench.engine.worker.run())
    while line := await asyncio.to_thread(sys.stdin.readline):
        print(await bench.answer(line.strip()), flush=True)
    bench.engine.worker.stop()
    await working
    await bench.engine.close()
    bench.store.close()


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:3]))
