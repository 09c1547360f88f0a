"""The tools of one agent, and the one way to call them."""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any

from msgspec import structs

from agent_resolver.core.admission import Refused
from agent_resolver.registry.call import Call, Entry
from agent_resolver.registry.compiled_schema import compile_schema
from agent_resolver.registry.errors import NeedsAction, ToolFailure, ToolIdConflict
from agent_resolver.registry.pipeline import Pipeline, Ports
from agent_resolver.registry.tool import CallContext, Tool
from agent_resolver.schema.caller import Caller
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.outcome import Outcome


class ToolRegistry:
    """Holds tools by id, lists them, and calls them through one pipeline."""

    def __init__(self, ports: Ports | None = None, *, pipeline: type[Pipeline] = Pipeline) -> None:
        """A registry on these ports."""
        self._entries: dict[str, Entry] = {}
        self._refused: dict[str, tuple[str, Refused]] = {}
        self._ports = ports or Ports()
        self._pipeline = pipeline(self._entries, self._refused, self._ports)
        self._running: set[asyncio.Task[None]] = set()

    def add(self, tool: Tool) -> None:
        """Offer a tool.

        Raises:
            ToolIdConflict: Another tool has its id.
            ValueError: A schema of it is no schema, or refers to one elsewhere.
        """
        descriptor = tool.descriptor
        if known := self._entries.get(descriptor.id):
            raise ToolIdConflict(descriptor.id, known.descriptor.source, descriptor.source)
        shape = partial(compile_schema, has_formats=descriptor.labels.kind != "TOOL")
        result = None if descriptor.output_schema is None else shape(descriptor.output_schema)
        self._entries[descriptor.id] = Entry(tool, descriptor, shape(descriptor.input_schema), result)

    def refuse(self, tool_id: str, source: str, refused: Refused) -> None:
        """Remember why a tool is not offered, so that a call to it can say so."""
        self._refused[tool_id] = (source, refused)

    def list(self, tag: str | None = None) -> tuple[Descriptor, ...]:
        """Every tool that may be called, by id; only those with a tag if one is named."""
        known = (self._entries[tool_id].descriptor for tool_id in sorted(self._entries))
        return tuple(descriptor for descriptor in known if tag is None or tag in descriptor.labels.tags)

    def get(self, tool_id: str) -> Descriptor | None:
        """The tool with this id, if it may be called."""
        entry = self._entries.get(tool_id)
        return entry.descriptor if entry else None

    def withdraw(self, source: str) -> None:
        """Offer and refuse nothing of `source` any longer."""
        for tool_id in [key for key, entry in self._entries.items() if entry.descriptor.source == source]:
            del self._entries[tool_id]
        for tool_id in [key for key, (origin, _) in self._refused.items() if origin == source]:
            del self._refused[tool_id]

    def refused(self) -> dict[str, Refused]:
        """Every tool that is there and may not be called, by id."""
        return {tool_id: self._refused[tool_id][1] for tool_id in sorted(self._refused)}

    async def call(self, tool_id: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
        """Call a tool: `Pipeline.run` has the steps.

        Whoever stops waiting does not stop the call: between its effect and its record nothing may be lost.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Outcome] = loop.create_future()
        self._running.add(loop.create_task(self._answer(answer, Call(tool_id, dict(arguments), context))))
        return await answer

    async def settle(self) -> None:
        """Wait until every call that was started is recorded, also those that nobody waits for any longer."""
        while self._running:
            await asyncio.wait(self._running)

    async def unavailable(self, tool_id: str, problem: ToolFailure | NeedsAction, context: CallContext) -> Outcome:
        """The outcome of a call to a tool whose server is not there, recorded like any other."""
        return await self._pipeline.unavailable(Call(tool_id, {}, context), problem)

    async def recover(self, context: CallContext) -> int:
        """Find the calls whose process is gone; what may not be done twice becomes a question for a person."""
        found = await self._ports.ledger.interrupted() if self._ports.ledger else []
        for interrupted in found:
            # Whoever is asked about it must know whose call it was; this process only found it.
            theirs = structs.replace(context, trace_id=interrupted.trace_id, caller=Caller(id=interrupted.caller))
            await self._pipeline.recover(Call(interrupted.tool, {}, theirs), interrupted)
        return len(found)

    async def _answer(self, answer: "asyncio.Future[Outcome]", call: Call) -> None:
        """Run a call to its end in a task of its own, and tell whoever still waits for it."""
        try:
            outcome = await self._pipeline.run(call)
            if not answer.done():
                answer.set_result(outcome)
        except BaseException as error:
            if answer.done():
                raise
            answer.set_exception(error)
        finally:
            if task := asyncio.current_task():
                self._running.discard(task)
