"""Time `ToolRegistry.call()` on capabilities of a project: `capability_call.py ROUNDS`, with the extra `tools`.

The project beside this script is loaded as a command loads it. The functions do next to nothing, so that what is timed
is the way to them and back: a thread, an event loop in a thread, or a process that is forked off a prepared one.
"""

import asyncio
import json
import statistics
import sys
import time
from pathlib import Path

from agent_resolver.project import Session, load_capabilities
from agent_resolver.registry import CallContext, ToolRegistry
from agent_resolver.schema import Done, local_caller

PROJECT = Path(__file__).parent / "project"
ARGUMENTS = {"name": "welcome", "page": 3, "tags": ["a", "b"]}
CONTEXT = CallContext(run="run", trace_id="0" * 32, caller=local_caller("bench"))
CALLS = {"notes.find": 500, "notes.await": 500, "notes.fetch": 5}
"""How many calls a round makes of each, one after the other."""


async def _call(registry: ToolRegistry, tool_id: str) -> None:
    outcome = await registry.call(tool_id, ARGUMENTS, CONTEXT)
    if not isinstance(outcome, Done):
        raise SystemExit(f"{tool_id}: {outcome}")


async def measure(rounds: int) -> dict[str, float]:
    """The median seconds of a call of each capability, and of the first isolated one."""
    registry = ToolRegistry()
    with Session(str(PROJECT / "agents.md"), "mcp.index.json", environment={}, trusts=True) as session:
        for capability in load_capabilities(session):
            registry.add(capability)
    start = time.perf_counter()
    await _call(registry, "notes.fetch")
    first = time.perf_counter() - start
    taken: dict[str, list[float]] = {tool_id: [] for tool_id in CALLS}
    for number in range(rounds + 1):
        for tool_id, calls in CALLS.items():
            start = time.perf_counter()
            for _ in range(calls):
                await _call(registry, tool_id)
            if number:  # The first round warms up.
                taken[tool_id].append((time.perf_counter() - start) / calls)
    return {"first": first, **{tool_id: statistics.median(samples) for tool_id, samples in taken.items()}}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(int(sys.argv[1])))))
