"""Tools in memory, and the registry that holds them."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from agent_resolver.registry import CallContext, NeedsAction, Ports, ToolFailure, ToolRegistry
from agent_resolver.schema import Descriptor, Outcome, local_caller
from agent_resolver.storage import MemoryStore, Transaction

TRACE = "0af7651916cd43dd8448eb211c80319c"
CONTEXT = CallContext(run="run-1", trace_id=TRACE, caller=local_caller("ada"))
ANYTHING: dict[str, Any] = {"type": "object"}

Result = TypeVar("Result")
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


class MemorySource:
    """A source whose tools are there when it is told so."""

    def __init__(self, name: str, *tools: MemoryTool, registry: ToolRegistry | None = None, prefix: str = "") -> None:
        self.name = name
        self.prefix = prefix or f"{name}."
        self.problem: ToolFailure | NeedsAction | None = None
        self.is_there = False
        self.runs: list[str] = []
        """The runs in which it was looked for."""
        self._tools = tools
        self._registry = registry

    async def restore(self, run: str) -> ToolFailure | NeedsAction | None:
        self.runs.append(run)
        await asyncio.sleep(0)
        if self.problem is None and self._registry is not None:
            self.is_there = True
            self._registry.replace(self.name, self._tools, {})
        return self.problem


def holding(*tools: MemoryTool, **ports: Any) -> ToolRegistry:
    """A registry with these tools."""
    registry = ToolRegistry(Ports(**ports))
    for tool in tools:
        registry.add(tool)
    return registry


def call(registry: ToolRegistry, tool_id: str = "memory.echo", **arguments: Any) -> Outcome:
    """One call, in a loop of its own."""
    return asyncio.run(registry.call(tool_id, arguments, CONTEXT))


def told(store: MemoryStore) -> list[tuple[str, dict[str, object]]]:
    """The records without what all of them share, which is checked here."""
    bodies = []
    for record in store.trail:
        body = record.body
        assert (record.run, body["caller"], body["trace"]) == (CONTEXT.run, CONTEXT.caller.id, CONTEXT.trace_id)
        bodies.append((record.kind, {key: value for key, value in body.items() if key not in {"caller", "trace"}}))
    return bodies


def kinds_of(store: MemoryStore) -> list[str]:
    """The kinds of the records."""
    return [record.kind for record in store.trail]


class FullStore(MemoryStore):
    """A store on a disk that is full, unless it is told otherwise."""

    def __init__(self, *, is_full: bool = True) -> None:
        super().__init__()
        self.is_full = is_full

    async def write(self, work: Callable[[Transaction], Result]) -> Result:
        if self.is_full:
            raise OSError(28, "No space left on device")
        return await super().write(work)


class GatedStore(MemoryStore):
    """A store that lets nothing be written while its gate is shut."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.reached = asyncio.Event(), asyncio.Event()
        self.gate.set()

    async def write(self, work: Callable[[Transaction], Result]) -> Result:
        if not self.gate.is_set():
            self.reached.set()
            await self.gate.wait()
        return await super().write(work)
