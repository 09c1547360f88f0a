"""Time blueprints on Temporal against bare workflows of the same shape: `temporal.py ROUNDS SCRATCH`.

It takes the extra `temporal` and the servers of `requirements/services.txt`. Both sides share one server, which is
tuned: its defaults are made for a look at it. Bare workflows have the same number of activities, which return at once;
they seal nothing, keep nothing elsewhere, and share no lease. In every round each side runs each shape once, in turn
forwards and backwards.
"""

import asyncio
import json
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from agent_resolver.engine import BlueprintJournal, EngineParts, StoredEngine
from agent_resolver.engine.temporal_carrier import TemporalCarrier
from agent_resolver.engine.temporal_place import place_of
from agent_resolver.registry import CallContext, Ports, ToolRegistry
from agent_resolver.schema import Blueprint, Descriptor, Rules, local_caller
from agent_resolver.storage import AesSeal, SqliteStore, SystemClock

SHAPES = {"sequence": (1, 20), "many": (100, 5)}
"""The number of runs of each shape, and of their steps."""
KEY = bytes(range(32))


@activity.defn(name="bare-call")
async def bare_call(number: int) -> dict[str, int]:
    """Do nothing."""
    return {"n": number}


@workflow.defn(name="bare-run")
class BareRun:
    """So many activities, one after the other."""

    @workflow.run
    async def run(self, steps: int) -> int:
        """The last result."""
        found = {"n": 0}
        for number in range(steps):
            found = await workflow.execute_activity(bare_call, number, start_to_close_timeout=timedelta(seconds=60))
        return found["n"]


class Idle:
    """A tool that does nothing."""

    descriptor = Descriptor(
        id="bench.idle",
        description="Does nothing.",
        input_schema={"type": "object"},
        source="memory",
        rules=Rules(is_idempotent=True),
    )

    async def invoke(self, arguments: dict[str, Any], _context: CallContext) -> Any:  # noqa: ANN401 - JSON
        """Return what it was given."""
        return arguments


class Ours:
    """An engine on a state file, with a Temporal server."""

    def __init__(self, address: str, folder: Path) -> None:
        clock, seal = SystemClock(), AesSeal(KEY)
        self._store = SqliteStore(str(folder / "state.db"), key=KEY)
        registry = ToolRegistry(Ports(store=self._store, seal=seal, clock=clock))
        registry.add(Idle())
        carrier = TemporalCarrier(place_of(address, "bench", str(folder), is_shared=False), seal)
        journal = BlueprintJournal(self._store, seal, clock)
        self.engine = StoredEngine(EngineParts(journal=journal, call=registry.call, driver=carrier))
        self._count = 0

    async def run(self, runs: int, steps: int) -> None:
        """Start runs, and drive them to their end."""
        made = [{"id": f"s{number:02}", "capability": Idle.descriptor.id} for number in range(steps)]
        about = {"id": "bench.run", "version": "1.0.0", "description": "A run that is timed."}
        blueprint = msgspec.convert({"blueprint_metadata": about, "dag": {"steps": made}}, Blueprint)
        context = CallContext.for_caller(local_caller("bench"))
        for _ in range(runs):
            self._count += 1
            await self.engine.start(blueprint, {}, context, f"run-{self._count}")
        await self.engine.worker.drain()

    async def close(self) -> None:
        """End."""
        await self.engine.close()
        self._store.close()


async def run_bare(client: Client, mark: str, runs: int, steps: int) -> None:
    """Start bare workflows, and wait for their ends."""
    handles = [
        await client.start_workflow("bare-run", steps, id=f"{mark}-{number}", task_queue="bare")
        for number in range(runs)
    ]
    await asyncio.gather(*(handle.result() for handle in handles))


async def measure(address: str, folder: Path, rounds: int) -> dict[str, object]:
    """The median milliseconds of a step on both sides, and of their ratio, for each shape."""
    client = await Client.connect(address)
    ours = Ours(address, folder)
    await ours.engine.open()
    bare = Worker(
        client,
        task_queue="bare",
        workflows=[BareRun],
        activities=[bare_call],
        workflow_runner=UnsandboxedWorkflowRunner(),
    )
    taken: dict[str, dict[str, list[float]]] = {shape: {"ours": [], "bare": []} for shape in SHAPES}
    async with bare:
        for number in range(rounds + 1):
            for shape, (runs, steps) in SHAPES.items():
                sides = {
                    "ours": lambda runs=runs, steps=steps: ours.run(runs, steps),
                    "bare": lambda runs=runs, steps=steps, mark=f"{shape}{number}": run_bare(  # type: ignore[misc]
                        client, mark, runs, steps
                    ),
                }
                for name in list(sides) if number % 2 else list(sides)[::-1]:
                    began = time.perf_counter()
                    await sides[name]()
                    if number:  # The first round warms up.
                        taken[shape][name].append((time.perf_counter() - began) * 1000 / (runs * steps))
    await ours.close()
    return {shape: compared(figures) for shape, figures in taken.items()}


def compared(figures: dict[str, list[float]]) -> dict[str, float]:
    """Medians in milliseconds a step."""
    ratios = [ours / bare for ours, bare in zip(figures["ours"], figures["bare"], strict=True)]
    medians = {name: round(statistics.median(samples), 2) for name, samples in figures.items()}
    return {**medians, "ratio": round(statistics.median(ratios), 2)}


def main() -> None:
    """Start a server, measure, and print the figures as JSON."""
    rounds, scratch = int(sys.argv[1]), sys.argv[2]
    program = shutil.which("temporal", path=str(Path(sys.executable).parent)) or shutil.which("temporal")
    if program is None:
        raise SystemExit("it takes `temporal`, which requirements/services.txt brings")
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    # On the disk of the repository: a folder for temporary files may be kept in memory.
    with tempfile.TemporaryDirectory(dir=scratch) as name:
        command = [
            *(program, "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--log-level", "error"),
            *("--port", str(port), "--db-filename", f"{name}/temporal.db"),
            *("--sqlite-pragma", "journal_mode=wal", "--sqlite-pragma", "synchronous=1"),
            *("--dynamic-config-value", "history.transferProcessorMaxPollRPS=2000"),
        ]
        with subprocess.Popen(command) as server:
            try:
                while True:
                    with closing(socket.socket()) as probe:
                        if probe.connect_ex(("127.0.0.1", port)) == 0:
                            break
                    time.sleep(0.05)
                print(json.dumps(asyncio.run(measure(f"127.0.0.1:{port}", Path(name), rounds))))
            finally:
                server.kill()


if __name__ == "__main__":
    main()
