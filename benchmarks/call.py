"""Time `ToolRegistry.call()` and the parts that it is made of: `call.py ROUNDS`, with the extra `tools` installed.

Every round times each of them many times over, one after the other, so that a slow moment slows them all.
"""

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from agent_resolver.registry import CallContext, ToolRegistry, compile_schema
from agent_resolver.schema import Descriptor, local_caller

CALLS = 1_000
ARGUMENTS = {"name": "welcome", "page": 3, "tags": ["a", "b"]}
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "page": {"type": "integer", "minimum": 0},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["name"],
    "additionalProperties": False,
}
CONTEXT = CallContext(run="run", trace_id="trace", caller=local_caller("bench"))


class Echo:
    """A tool that costs nothing."""

    descriptor = Descriptor(id="memory.echo", description="The arguments.", input_schema=SCHEMA, source="memory")

    async def invoke(self, arguments: dict[str, Any], _context: CallContext) -> dict[str, Any]:
        """Give back the arguments."""
        return arguments


async def _nothing() -> None:
    """Do nothing, as a task or under a timeout."""


async def _in_a_task() -> None:
    await asyncio.get_running_loop().create_task(_nothing())


async def _in_a_shielded_task() -> None:
    await asyncio.shield(asyncio.get_running_loop().create_task(_nothing()))


async def _under_a_timeout() -> None:
    async with asyncio.timeout(60):
        await _nothing()


def _parts() -> dict[str, Callable[[], Awaitable[object]]]:
    registry = ToolRegistry()
    registry.add(Echo())
    shape = compile_schema(SCHEMA)

    async def validated() -> bool:
        return shape.is_valid(ARGUMENTS)

    return {
        "call": lambda: registry.call("memory.echo", ARGUMENTS, CONTEXT),
        "nothing": _nothing,
        "task": _in_a_task,
        "shielded": _in_a_shielded_task,
        "timeout": _under_a_timeout,
        "validation": validated,
    }


async def _seconds(work: Callable[[], Awaitable[object]]) -> float:
    start = time.perf_counter()
    for _ in range(CALLS):
        await work()
    return (time.perf_counter() - start) / CALLS


async def measure(rounds: int) -> dict[str, float]:
    """The median seconds of the call, and of each part by itself."""
    parts = _parts()
    taken: dict[str, list[float]] = {name: [] for name in parts}
    for number in range(rounds + 1):
        for name, work in parts.items():
            seconds = await _seconds(work)
            if number:  # The first round warms up.
                taken[name].append(seconds)
    middle = {name: statistics.median(samples) for name, samples in taken.items()}
    bare, task = middle["nothing"], middle["task"]
    return {
        "call": middle["call"],
        "task": task - bare,
        "shield": middle["shielded"] - task,
        "timeout": middle["timeout"] - bare,
        "validation": middle["validation"] - bare,
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(int(sys.argv[1])))))
