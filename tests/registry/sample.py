"""Tools in memory, and the registry that holds them."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from agent_resolver.registry import CallContext, MemoryTrail, Ports, ToolRegistry
from agent_resolver.schema import Descriptor, Outcome, local_caller

TRACE = "0af7651916cd43dd8448eb211c80319c"
CONTEXT = CallContext(run="run-1", trace_id=TRACE, caller=local_caller("ada"))
ANYTHING: dict[str, Any] = {"type": "object"}

Work = Callable[[dict[str, Any]], Awaitable[Any]]


async def echo(arguments: dict[str, Any]) -> Any:
    """Give back the arguments."""
    return arguments


def raising(error: BaseException) -> Work:
    """Work that goes wrong like this."""

    async def fail(_: dict[str, Any]) -> Any:
        raise error

    return fail


class MemoryTool:
    """A tool that does `work`."""

    def __init__(self, tool_id: str = "memory.echo", work: Work = echo, **fields: Any) -> None:
        known = {"description": "For a test.", "input_schema": ANYTHING, "source": "memory", **fields}
        self.descriptor = Descriptor(id=tool_id, **known)
        self.calls = 0
        self._work = work

    async def invoke(self, arguments: dict[str, Any], context: CallContext) -> Any:  # noqa: ARG002
        self.calls += 1
        return await self._work(arguments)


def holding(*tools: MemoryTool, **ports: Any) -> ToolRegistry:
    """A registry with these tools."""
    registry = ToolRegistry(Ports(**ports))
    for tool in tools:
        registry.add(tool)
    return registry


def call(registry: ToolRegistry, tool_id: str = "memory.echo", **arguments: Any) -> Outcome:
    """One call, in a loop of its own."""
    return asyncio.run(registry.call(tool_id, arguments, CONTEXT))


def told(trail: MemoryTrail) -> list[tuple[str, dict[str, object]]]:
    """The records without what all of them share, which is checked here."""
    bodies = []
    for run, kind, body in trail.records:
        assert (run, body["caller"], body["trace"]) == (CONTEXT.run, CONTEXT.caller.id, CONTEXT.trace_id)
        bodies.append((kind, {key: value for key, value in body.items() if key not in {"caller", "trace"}}))
    return bodies
