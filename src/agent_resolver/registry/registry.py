"""The tools of one agent, and the one way to call them."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from msgspec import Struct, structs

from agent_resolver.core.admission import Refused
from agent_resolver.core.authorization import may_use
from agent_resolver.core.masking import secret_fields
from agent_resolver.registry.call import Call, Entry
from agent_resolver.registry.compiled_schema import compile_schema
from agent_resolver.registry.errors import ToolIdConflict
from agent_resolver.registry.pipeline import Offer, Pipeline, Ports
from agent_resolver.registry.source import Source
from agent_resolver.registry.tool import CallContext, ChecksArguments, ChecksCode, HasSourceSecrets, Tool
from agent_resolver.registry.tool_check import usable_descriptor
from agent_resolver.schema.caller import Caller
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.outcome import Outcome


class RefusedTool(Struct, frozen=True, kw_only=True):
    """A tool that a source has and that may not be called."""

    id: str
    source: str
    why: Refused


class ToolRegistry:
    """Holds tools by id, lists them, and calls them through one pipeline."""

    def __init__(self, ports: Ports | None = None, *, pipeline: type[Pipeline] = Pipeline) -> None:
        """A registry on these ports."""
        self._offer = Offer()
        self._pipeline = pipeline(self._offer, ports or Ports())
        self._running: set[asyncio.Task[None]] = set()
        self._home: asyncio.AbstractEventLoop | None = None
        """The loop that calls run on."""
        self.on_change: Callable[[], None] | None = None
        """Called after tools came or went; a source that replaces its tools says so once."""

    def add(self, tool: Tool) -> None:
        """Offer a tool.

        Raises:
            UnusableTool: It is not a tool, or its id cannot be one.
            ToolIdConflict: Another tool has its id.
            ValueError: A schema of it is not a schema, or refers to one elsewhere.
        """
        entry = _entry_of(tool)
        self._require_free(entry.descriptor)
        self._offer.entries[entry.descriptor.id] = entry
        self._note_change()

    def refuse(self, tool_id: str, source: str, refused: Refused) -> None:
        """Remember why a tool is not offered, so that a call to it can say so."""
        self._offer.refused.setdefault(tool_id, {})[source] = refused

    def attach(self, source: Source) -> None:
        """Let this source look again for its tools when one of them is called while it is not there."""
        self._offer.sources[source.name] = source

    def replace(self, source: str, tools: Iterable[Tool], refused: Mapping[str, Refused]) -> None:
        """Offer and refuse exactly this of a source, in place of what it offered before.

        Raises:
            UnusableTool: One of them is not a tool, or its id cannot be one.
            ToolIdConflict: Another source has one of the ids.
        """
        before, entries = self._of_source(source), [_entry_of(tool) for tool in tools]
        for entry in entries:
            self._require_free(entry.descriptor, source)
        self._withdraw(source)
        for entry in entries:
            self._offer.entries[entry.descriptor.id] = entry
        for tool_id, why in refused.items():
            self.refuse(tool_id, source, why)
        if self._of_source(source) != before:
            self._note_change()

    def _require_free(self, descriptor: Descriptor, replaced: str | None = None) -> None:
        """Refuse an id that a tool has which is not about to be replaced."""
        known = self._offer.entries.get(descriptor.id)
        if known is not None and known.descriptor.source != replaced:
            raise ToolIdConflict(descriptor.id, known.descriptor.source, descriptor.source)

    def _of_source(self, source: str) -> list[Descriptor]:
        descriptors = (entry.descriptor for entry in self._offer.entries.values())
        return [descriptor for descriptor in descriptors if descriptor.source == source]

    def _withdraw(self, source: str) -> None:
        for descriptor in self._of_source(source):
            del self._offer.entries[descriptor.id]
        for tool_id in [key for key, refusals in self._offer.refused.items() if source in refusals]:
            del self._offer.refused[tool_id][source]
            if not self._offer.refused[tool_id]:
                del self._offer.refused[tool_id]

    def _note_change(self) -> None:
        if self.on_change is not None:
            self.on_change()

    def list(self, tag: str | None = None, *, caller: Caller | None = None) -> tuple[Descriptor, ...]:
        """Every tool that may be called, by id.

        Args:
            tag: Only the tools with this tag.
            caller: Only the tools that this caller's scopes and clearance open.
        """
        entries = self._offer.entries
        known = (entries[tool_id].descriptor for tool_id in sorted(entries))
        return tuple(
            descriptor
            for descriptor in known
            if (tag is None or tag in descriptor.labels.tags) and (caller is None or may_use(descriptor.rules, caller))
        )

    def get(self, tool_id: str) -> Descriptor | None:
        """The tool with this id, if it may be called."""
        entry = self._offer.entries.get(tool_id)
        return entry.descriptor if entry else None

    async def look_up(self, tool_id: str, run: str) -> Descriptor | None:
        """The tool with this id, if it may be called; its source is looked for where the tool is not there."""
        if tool_id not in self._offer.entries:
            await self._offer.restore_sources(tool_id, run)
        return self.get(tool_id)

    def refused(self) -> tuple[RefusedTool, ...]:
        """Every tool that is there and may not be called, by id. Another source may offer a tool of the same id."""
        refused = self._offer.refused
        return tuple(
            RefusedTool(id=tool_id, source=source, why=why)
            for tool_id in sorted(refused)
            for source, why in sorted(refused[tool_id].items())
        )

    async def call(self, tool_id: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
        """Call a tool: `Pipeline.run` has the steps.

        Whoever stops waiting does not stop the call: between its effect and its record nothing may be lost.
        """
        loop = asyncio.get_running_loop()
        if loop is not self._home:
            if self._home is not None and self._home.is_running():
                # A capability runs on another loop, and may call tools as well.
                elsewhere = asyncio.run_coroutine_threadsafe(self.call(tool_id, arguments, context), self._home)
                return await asyncio.wrap_future(elsewhere)
            self._home = loop
        answer: asyncio.Future[Outcome] = loop.create_future()
        self._running.add(loop.create_task(self._answer(answer, Call(tool_id, dict(arguments), context))))
        return await answer

    async def settle(self, seconds: float | None = None) -> None:
        """Wait until every call that was started is recorded, also those whose callers have stopped waiting.

        Args:
            seconds: The longest time to wait. A call that has not ended then counts as interrupted.
        """
        try:
            async with asyncio.timeout(seconds):
                while self._running:
                    await asyncio.wait(self._running)
        except TimeoutError:
            return

    async def recover(self, context: CallContext) -> int:
        """Find the calls whose process is gone; what may not be done twice becomes a question for a person."""
        found = await self._pipeline.interrupted()
        for interrupted in found:
            # The person who is asked about it must know whose call it was; this process only found it.
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


def _entry_of(tool: Tool) -> Entry:
    """A tool, ready to be called.

    Raises:
        UnusableTool: It is not a tool, or its id cannot be one.
        ValueError: A schema of it is not a schema, or refers to one elsewhere.
    """
    descriptor = usable_descriptor(tool)
    compiled = partial(compile_schema, has_formats=descriptor.labels.kind != "TOOL")
    result = None if descriptor.output_schema is None else compiled(descriptor.output_schema)
    find_faults = tool.faults_in if isinstance(tool, ChecksArguments) else None
    changed_file = tool.changed_file if descriptor.rules.is_isolated and isinstance(tool, ChecksCode) else None
    secret_arguments = secret_fields(descriptor.input_schema, descriptor.rules.secret_fields)
    return Entry(
        tool,
        descriptor,
        compiled(descriptor.input_schema),
        result,
        find_faults,
        changed_file,
        secret_arguments,
        # A result often has the fields of the arguments, and marks fewer of them.
        secret_fields(descriptor.output_schema, secret_arguments.names),
        tool.source_secrets if isinstance(tool, HasSourceSecrets) else (),
    )
