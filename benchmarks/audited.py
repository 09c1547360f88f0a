"""Time `ToolRegistry.call()` with audit trail and ledger on a state file: `audited.py ROUNDS`, with the extra `tools`.

Every round times calls one after the other and many at once, and how long the disk takes for one small write by itself.
"""

import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from typing import Any

from agent_resolver.registry import CallContext, Ports, ToolRegistry
from agent_resolver.schema import Descriptor, local_caller
from agent_resolver.storage import SqliteStore, SystemClock

CALLS = 200
AT_ONCE = 1_000
CONTEXT = CallContext(run="run", trace_id="0af7651916cd43dd8448eb211c80319c", caller=local_caller("bench"))


class Echo:
    """A tool that costs nothing."""

    descriptor = Descriptor(
        id="memory.echo", description="The arguments.", input_schema={"type": "object"}, source="memory"
    )

    async def invoke(self, arguments: dict[str, Any], _context: CallContext) -> dict[str, Any]:
        """Give back the arguments."""
        return arguments


async def measure(folder: str, rounds: int) -> dict[str, float]:
    """The median seconds of a call, of one among many at once, and of one flush to the disk."""
    store = SqliteStore(os.path.join(folder, "state.db"))  # noqa: PTH118 - as the product does
    registry = ToolRegistry(Ports(store=store, clock=SystemClock()))
    registry.add(Echo())

    async def one_by_one() -> None:
        for _ in range(CALLS):
            await registry.call("memory.echo", {"name": "welcome"}, CONTEXT)

    async def at_once() -> None:
        await asyncio.gather(*(registry.call("memory.echo", {"name": "welcome"}, CONTEXT) for _ in range(AT_ONCE)))

    taken: dict[str, list[float]] = {"call": [], "at once": [], "flush": []}
    for number in range(rounds + 1):
        figures = {
            "call": await _seconds(one_by_one) / CALLS,
            "at once": await _seconds(at_once) / AT_ONCE,
            "flush": _flush(folder),
        }
        for name, seconds in figures.items():
            if number:  # The first round warms up.
                taken[name].append(seconds)
    store.close()
    return {name: statistics.median(samples) for name, samples in taken.items()}


async def _seconds(work: Callable[[], Awaitable[None]]) -> float:
    start = time.perf_counter()
    await work()
    return time.perf_counter() - start


def _flush(folder: str) -> float:
    with open(os.path.join(folder, "flush"), "wb", buffering=0) as file:  # noqa: PTH118, PTH123
        start = time.perf_counter()
        for _ in range(CALLS):
            file.write(b"x" * 4096)
            os.fsync(file.fileno())
        return (time.perf_counter() - start) / CALLS


if __name__ == "__main__":
    # On the disk of the repository: a folder for temporary files may be kept in memory.
    with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else None) as where:  # noqa: PLR2004
        print(json.dumps(asyncio.run(measure(where, int(sys.argv[1])))))
