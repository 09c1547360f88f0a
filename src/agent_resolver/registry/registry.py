"""The tools of one agent, and the one way to call them."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any

from msgspec import Struct, structs

from agent_resolver.core.admission import Refused
from agent_resolver.core.authorization import may_use
from agent_resolver.core.masking import SecretFields, secret_fields
from agent_resolver.registry.call import Call, Entry
from agent_resolver.registry.compiled_schema import (
    CompiledSchema,
    compile_once,
    compile_schema,
)
from agent_resolver.registry.errors import ToolIdConflict
from agent_resolver.registry.offer import Offer, RunOffer, kept_ids
from agent_resolver.registry.pipeline import Pipeline, Ports
from agent_resolver.registry.port import Telemetry
from agent_resolver.registry.source import Source
from agent_resolver.registry.tool import (
    CallContext,
    ChecksArguments,
    ChecksCode,
    HasSourceSecrets,
    Tool,
)
from agent_resolver.registry.tool_check import usable_descriptor
from agent_resolver.schema.caller import Caller
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.outcome import Failed, Outcome, Pending


class RefusedTool(Struct, frozen=True, kw_only=True):
    """A tool that a source has and that may not be called."""

    id: str
    source: str
    why: Refused


class _RunningCalls:
    """The calls that run, of a registry and of all registries for runs that were made of it."""

    __slots__ = ("home", "tasks")

    def __init__(self) -> None:
        self.tasks: set[asyncio.Task[None]] = set()
        self.home: asyncio.AbstractEventLoop | None = None
        """The loop that calls run on."""

    def other_home(self) -> asyncio.AbstractEventLoop | None:
        """The loop that calls run on, where that is not the present one; else the present one becomes it.

        A capability runs on another loop, and may call tools as well.
        """
        loop = asyncio.get_running_loop()
        if self.home is not None and self.home is not loop and self.home.is_running():
            return self.home
        self.home = loop
        return None


class ToolRegistry:
    """Holds tools by id, lists them, and calls them through one pipeline."""

    __slots__ = ("__weakref__", "_calls", "_offer", "_pipeline", "on_change")

    def __init__(
        self, ports: Ports | None = None, *, pipeline: type[Pipeline] = Pipeline
    ) -> None:
        """A registry on these ports."""
        self._offer = Offer()
        self._pipeline = pipeline(ports or Ports())
        self._calls = _RunningCalls()
        self.on_change: Callable[[], None] | None = None
        """Called after tools came or went; a source that replaces its tools says so once."""

    def for_run(
        self, allowed: Collection[str], tools: Iterable[Tool] = ()
    ) -> "ToolRegistry":
        """The registry of one run: of this one the tools with an allowed id, and `tools` of the run's own.

        It shares everything else with this registry: the ports, the ledger, rate limits, questions, sources and the
        calls that run. Tools that come and go here come and go there; what is added there is not seen here.

        Args:
            allowed: The ids that the run may call. A call of any other tool fails with `FORBIDDEN_ACTION`.
            tools: Tools that this run alone has; those whose id is not allowed are not offered either.

        Raises:
            UnusableTool: One of them is not a tool, or its id cannot be one.
            ToolIdConflict: Another tool has its id, here or among `tools`.
            ValueError: A schema of it is not a schema, or refers to one elsewhere.
        """
        # Calling the class would build a second pipeline, with a ledger and rate limits
        # of its own.
        registry = object.__new__(type(self))
        registry._offer = RunOffer(around=self._offer, allowed=kept_ids(allowed))
        registry._pipeline = self._pipeline
        registry._calls = self._calls
        registry.on_change = None
        for tool in tools:
            entry = _entry_of(tool, compile_once)
            tool_id = entry.descriptor.id
            # A tool here that this run may not call keeps its id as well: two tools
            # under one id are a mistake.
            known = registry._offer.entries.get(tool_id) or self._offer.find(tool_id)
            if known is not None:
                raise ToolIdConflict(
                    tool_id, known.descriptor.source, entry.descriptor.source
                )
            registry._offer.put(entry)
        return registry

    @property
    def is_recorded(self) -> bool:
        """True if calls are recorded in a store, so that a call under a key is known again after a crash."""
        return self._pipeline.is_recorded

    @property
    def telemetry(self) -> Telemetry | None:
        """The telemetry that watches the calls, if there is one."""
        return self._pipeline.telemetry

    def now(self) -> str:
        """The time by which the tokens of callers expire."""
        return self._pipeline.now()

    def end_run(self) -> None:
        """Offer nothing any longer: what still holds the registry of a run cannot call tools after the run.

        Calls that have started go on to their end.
        """
        if isinstance(self._offer, RunOffer):
            self._offer.end()

    def add(self, tool: Tool) -> None:
        """Offer a tool.

        Raises:
            UnusableTool: It is not a tool, or its id cannot be one.
            ToolIdConflict: Another tool has its id.
            ValueError: A schema of it is not a schema, or refers to one elsewhere.
        """
        entry = _entry_of(tool)
        self._require_free(entry.descriptor)
        self._offer.put(entry)
        self._note_change()

    def refuse(self, tool_id: str, source: str, refused: Refused) -> None:
        """Remember why a tool is not offered, so that a call to it can say so."""
        self._offer.refuse(tool_id, source, refused)

    def attach(self, source: Source) -> None:
        """Let this source look again for its tools when one of them is called while it is not there."""
        self._offer.attach(source)

    def replace(
        self,
        source: str,
        tools: Iterable[Tool],
        refused: Mapping[str, Refused],
    ) -> None:
        """Offer and refuse exactly this of a source, in place of what it offered before.

        Raises:
            UnusableTool: One of them is not a tool, or its id cannot be one.
            ToolIdConflict: Another source has one of the ids.
        """
        before = self._of_source(source)
        entries = [_entry_of(tool) for tool in tools]
        # Every id is checked before anything is withdrawn, so that a clash leaves the
        # old tools as they were.
        for entry in entries:
            self._require_free(entry.descriptor, source)
        self._withdraw(source)
        for entry in entries:
            self._offer.put(entry)
        for tool_id, why in refused.items():
            self.refuse(tool_id, source, why)
        # A plugin or a server may offer what it offered before: listeners hear of a
        # real change only.
        if self._of_source(source) != before:
            self._note_change()

    def _require_free(
        self, descriptor: Descriptor, replaced: str | None = None
    ) -> None:
        """Refuse an id that a tool has which is not about to be replaced."""
        known = self._offer.find(descriptor.id)
        if known is not None and known.descriptor.source != replaced:
            raise ToolIdConflict(
                descriptor.id, known.descriptor.source, descriptor.source
            )

    def _of_source(self, source: str) -> list[Descriptor]:
        descriptors = (entry.descriptor for entry in self._offer.entries.values())
        return [descriptor for descriptor in descriptors if descriptor.source == source]

    def _withdraw(self, source: str) -> None:
        for descriptor in self._of_source(source):
            del self._offer.entries[descriptor.id]
        for tool_id in [
            key for key, refusals in self._offer.refused.items() if source in refusals
        ]:
            del self._offer.refused[tool_id][source]
            if not self._offer.refused[tool_id]:
                del self._offer.refused[tool_id]

    def _note_change(self) -> None:
        if self.on_change is not None:
            self.on_change()

    def list(
        self, tag: str | None = None, *, caller: Caller | None = None
    ) -> tuple[Descriptor, ...]:
        """Every tool that may be called, by id.

        Args:
            tag: Only the tools with this tag.
            caller: Only the tools that this caller's scopes and clearance open.
        """
        found = map(self._offer.find, sorted(self._offer.ids()))
        known = (entry.descriptor for entry in found if entry is not None)
        return tuple(
            descriptor
            for descriptor in known
            if (tag is None or tag in descriptor.labels.tags)
            and (caller is None or may_use(descriptor.rules, caller))
        )

    def get(self, tool_id: str) -> Descriptor | None:
        """The tool with this id, if it may be called."""
        entry = self._offer.find(tool_id)
        return entry.descriptor if entry else None

    def secret_arguments_of(self, tool_id: str) -> SecretFields:
        """The fields of a tool's arguments that nothing may show; those that are usually secret, of an unknown tool."""
        entry = self._offer.find(tool_id)
        return entry.secret_arguments if entry else SecretFields()

    async def look_up(self, tool_id: str, run: str) -> Descriptor | None:
        """The tool with this id, if it may be called; its source is looked for where the tool is not there."""
        if self._offer.find(tool_id) is None:
            await self._offer.restore_sources(tool_id, run)
        return self.get(tool_id)

    def refused(self) -> tuple[RefusedTool, ...]:
        """Every tool that is there and may not be called, by id. Another source may offer a tool of the same id."""
        refused = self._offer.refusals()
        return tuple(
            RefusedTool(id=tool_id, source=source, why=why)
            for tool_id in sorted(refused)
            for source, why in sorted(refused[tool_id].items())
        )

    async def call(
        self,
        tool_id: str,
        arguments: Mapping[str, Any],
        context: CallContext,
    ) -> Outcome:
        """Call a tool: `Pipeline.run` has the steps.

        A caller that stops waiting does not stop the call: between its effect and its record nothing may be lost.
        """
        return await self.start_call(tool_id, arguments, context)

    def start_call(
        self,
        tool_id: str,
        arguments: Mapping[str, Any],
        context: CallContext,
    ) -> "asyncio.Future[Outcome]":
        """Start a call as `call` does, and return the future of its outcome; to cancel that does not stop the call."""
        # The tasks of calls belong to one loop; a call from any other loop is handed
        # over to it.
        if (home := self._calls.other_home()) is not None:
            elsewhere = asyncio.run_coroutine_threadsafe(
                self.call(tool_id, arguments, context), home
            )
            return asyncio.wrap_future(elsewhere)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Outcome] = loop.create_future()
        # The set keeps the task alive: the loop itself holds only a weak reference.
        self._calls.tasks.add(
            loop.create_task(self._answer(answer, tool_id, dict(arguments), context))
        )
        return answer

    async def is_under_way(self, tool_id: str, context: CallContext) -> bool:
        """True if a call with this key has started in any process that is there, and has not ended."""
        return await self._pipeline.is_under_way(tool_id, context)

    async def clarify(
        self,
        tool_id: str,
        arguments: Mapping[str, Any],
        question: str,
        context: CallContext,
    ) -> str | Pending | Failed:
        """Ask a person about a call that cannot be made as it is: its arguments need not follow the schema.

        The question waits in the inbox like every other. Asking the same again under the same trace returns the
        answer once there is one.

        Returns:
            The person's words; `Pending` while there are none; `Failed` if the tool may not be called, or if the
            caller has too many questions open.
        """
        if (home := self._calls.other_home()) is not None:
            elsewhere = asyncio.run_coroutine_threadsafe(
                self.clarify(tool_id, arguments, question, context), home
            )
            return await asyncio.wrap_future(elsewhere)
        return await self._pipeline.clarify(
            Call(tool_id, dict(arguments), context, self._offer), question
        )

    async def authorize(
        self,
        tool_id: str,
        arguments: Mapping[str, Any],
        context: CallContext,
    ) -> Failed | Pending | None:
        """Ask whether a call may be made, without making it; None if it may.

        Where the call takes an approval, it is asked for now. The call uses it later, under the same trace.
        """
        if (home := self._calls.other_home()) is not None:
            elsewhere = asyncio.run_coroutine_threadsafe(
                self.authorize(tool_id, arguments, context), home
            )
            return await asyncio.wrap_future(elsewhere)
        return await self._pipeline.authorize(
            Call(tool_id, dict(arguments), context, self._offer)
        )

    async def deny(self, tool_id: str, reason: str, context: CallContext) -> Failed:
        """Record that a call is not made, and why: the runtime of an agent may deny more than its tools do."""
        if (home := self._calls.other_home()) is not None:
            elsewhere = asyncio.run_coroutine_threadsafe(
                self.deny(tool_id, reason, context), home
            )
            return await asyncio.wrap_future(elsewhere)
        return await self._pipeline.deny(
            Call(tool_id, {}, context, self._offer), reason
        )

    async def settle(self, seconds: float | None = None) -> None:
        """Wait until every call that was started is recorded, also those whose callers have stopped waiting.

        Args:
            seconds: The longest time to wait. A call that has not ended then is given up, and counts as interrupted.
        """
        try:
            async with asyncio.timeout(seconds):
                # A call that runs may start further ones before it ends.
                while self._calls.tasks:
                    await asyncio.wait(self._calls.tasks)
        except TimeoutError:
            for task in self._calls.tasks:
                task.cancel()

    async def recover(self, context: CallContext) -> int:
        """Find the calls whose process is gone; what may not be done twice becomes a question for a person."""
        found = await self._pipeline.interrupted()
        for interrupted in found:
            # The person who is asked about it must know whose call it was; this process
            # only found it.
            theirs = structs.replace(
                context,
                trace_id=interrupted.trace_id,
                caller=Caller(id=interrupted.caller),
            )
            await self._pipeline.recover(
                Call(interrupted.tool, {}, theirs, self._offer), interrupted
            )
        return len(found)

    async def _answer(
        self,
        answer: "asyncio.Future[Outcome]",
        tool_id: str,
        arguments: dict[str, Any],
        context: CallContext,
    ) -> None:
        """Run a call to its end in a task of its own, and hand the outcome to the caller if it still waits."""
        try:
            outcome = await self._pipeline.run(
                Call(tool_id, arguments, context, self._offer)
            )
            if not answer.done():
                answer.set_result(outcome)
        except BaseException as error:
            if answer.done():
                # No caller waits for this error any longer, so it is left to asyncio to
                # report it.
                raise
            answer.set_exception(error)
        finally:
            if task := asyncio.current_task():
                self._calls.tasks.discard(task)


def _entry_of(
    tool: Tool, compile_schema: Callable[..., CompiledSchema] = compile_schema
) -> Entry:
    """A tool, ready to be called.

    Args:
        tool: The tool.
        compile_schema: What compiles its schemas.

    Raises:
        UnusableTool: It is not a tool, or its id cannot be one.
        ValueError: A schema of it is not a schema, or refers to one elsewhere.
    """
    descriptor = usable_descriptor(tool)
    # Formats are checked for the project's own tools; a foreign author may have meant
    # them as remarks.
    compiled = partial(compile_schema, has_formats=descriptor.labels.kind != "TOOL")
    result = (
        None if descriptor.output_schema is None else compiled(descriptor.output_schema)
    )
    find_faults = tool.faults_in if isinstance(tool, ChecksArguments) else None
    changed_file = (
        tool.changed_file
        if descriptor.rules.is_isolated and isinstance(tool, ChecksCode)
        else None
    )
    secret_arguments = secret_fields(
        descriptor.input_schema, descriptor.rules.secret_fields
    )
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
