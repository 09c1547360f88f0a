"""The tools of one agent, and the one way to call them."""

import asyncio
from collections.abc import Mapping
from math import ceil
from typing import Any

from msgspec import Struct

from agent_resolver.core.admission import Refused
from agent_resolver.registry.errors import NeedsAction, ToolFailure, ToolIdConflict
from agent_resolver.registry.memory import FixedClock, MemoryPendingActions, MemoryRate, NoTrail
from agent_resolver.registry.outcome import Done, Failed, FailureCode, Outcome, Pending
from agent_resolver.registry.port import Clock, PendingActions, Rate, Trail
from agent_resolver.registry.shape import Shape, compiled, faults_of
from agent_resolver.registry.tool import CallContext, Descriptor, Tool
from agent_resolver.schema import digest
from agent_resolver.schema.pending import PendingAction

_LOOK_FIRST = "it may have done its work all the same: look before you call it again"


class Entry(Struct, frozen=True):
    """A tool, ready to be called: its schemas are compiled once."""

    tool: Tool
    descriptor: Descriptor
    arguments: Shape
    result: Shape | None


class ToolRegistry:
    """Holds tools by id, lists them, and calls them through one pipeline."""

    def __init__(
        self,
        *,
        trail: Trail | None = None,
        pending: PendingActions | None = None,
        rate: Rate | None = None,
        clock: Clock | None = None,
    ) -> None:
        """A registry on these ports; what is not given is kept in memory, and no trail is kept."""
        self._entries: dict[str, Entry] = {}
        self._refused: dict[str, tuple[str, Refused]] = {}
        self._trail: Trail = trail or NoTrail()
        self._keeps_trail = trail is not None
        self._pending: PendingActions = pending or MemoryPendingActions()
        self._rate: Rate = rate or MemoryRate()
        self._clock: Clock = clock or FixedClock()
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
        result = None if descriptor.output_schema is None else compiled(descriptor.output_schema)
        self._entries[descriptor.id] = Entry(tool, descriptor, compiled(descriptor.input_schema), result)

    def refuse(self, tool_id: str, source: str, refused: Refused) -> None:
        """Remember why a tool is not offered, so that a call to it can say so."""
        self._refused[tool_id] = (source, refused)

    def list(self) -> tuple[Descriptor, ...]:
        """Every tool that may be called, by id."""
        return tuple(self._entries[tool_id].descriptor for tool_id in sorted(self._entries))

    def withdraw(self, source: str) -> None:
        """Offer and refuse nothing of `source` any longer."""
        kept = {tool_id: entry for tool_id, entry in self._entries.items() if entry.descriptor.source != source}
        self._entries = kept
        self._refused = {tool_id: (origin, why) for tool_id, (origin, why) in self._refused.items() if origin != source}

    def refused(self) -> dict[str, Refused]:
        """Every tool that is there and may not be called, by id."""
        return {tool_id: self._refused[tool_id][1] for tool_id in sorted(self._refused)}

    async def call(self, tool_id: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
        """Call a tool.

        1. The tool must be known and admitted.
        2. The arguments must follow its schema; every fault is told.
        3. Its server's rate limit must leave room.
        4. It runs under its timeout, and its result must follow its schema if it has one.
        5. Every decision and outcome is recorded before it is told.

        Whoever stops waiting does not stop the call: between its effect and its record nothing may be lost.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Outcome] = loop.create_future()
        self._running.add(loop.create_task(self._answer(answer, tool_id, dict(arguments), context)))
        return await answer

    async def settle(self) -> None:
        """Wait until every call that was started is recorded, also those that nobody waits for any longer."""
        while self._running:
            await asyncio.wait(self._running)

    async def unavailable(self, tool_id: str, problem: ToolFailure | NeedsAction, context: CallContext) -> Outcome:
        """The outcome of a call to a tool whose server is not there, recorded like any other."""
        if isinstance(problem, NeedsAction):
            outcome: Outcome = await self._ask(problem, context.trace_id)
        else:
            outcome = _failed(problem, context.trace_id)
        await self._record(context, f"call.{_word(outcome)}", tool=tool_id, **_evidence(outcome))
        return outcome

    async def _answer(
        self, answer: "asyncio.Future[Outcome]", tool_id: str, arguments: dict[str, Any], context: CallContext
    ) -> None:
        """Run a call to its end in a task of its own, and tell whoever still waits for it."""
        try:
            outcome = await self._run(tool_id, arguments, context)
            if not answer.done():
                answer.set_result(outcome)
        except BaseException as error:
            if answer.done():
                raise
            answer.set_exception(error)
        finally:
            if task := asyncio.current_task():
                self._running.discard(task)

    async def _run(self, tool_id: str, arguments: dict[str, Any], context: CallContext) -> Outcome:
        found = self._admitted(tool_id, arguments, context.trace_id)
        if isinstance(found, Entry):
            limit = found.descriptor.rate_limit_per_minute
            refused = None if limit is None else await self._rate_limit(found.descriptor, limit, context.trace_id)
            outcome = refused or await self._start(found, arguments, context)
        else:
            outcome = found
        if self._keeps_trail:
            await self._record(context, f"call.{_word(outcome)}", tool=tool_id, **_evidence(outcome))
        return outcome

    def _admitted(self, tool_id: str, arguments: dict[str, Any], trace_id: str) -> Entry | Failed:
        """The tool, ready to take the arguments, or why it is refused."""
        if tool_id in self._refused:
            _, refused = self._refused[tool_id]
            code = FailureCode(refused.code.value)
            return Failed(trace_id=trace_id, code=code, message=refused.message, remedy=refused.remedy)
        entry = self._entries.get(tool_id)
        if entry is None:
            message, remedy = f"Unknown tool: {tool_id}", "list the tools with `agent tools list`"
            return Failed(trace_id=trace_id, code=FailureCode.UNKNOWN_TOOL, message=message, remedy=remedy)
        if faults := faults_of(entry.arguments, arguments, "arguments", for_record=self._keeps_trail):
            return Failed(
                trace_id=trace_id,
                code=FailureCode.INPUT_VALIDATION_FAILED,
                message=f"The arguments do not follow the schema of {tool_id}",
                remedy=f"see `agent tools show {tool_id}`",
                details=faults,
            )
        return entry

    async def _rate_limit(self, descriptor: Descriptor, limit: float, trace_id: str) -> Failed | None:
        wait = await self._rate.take(descriptor.source, limit)
        if not wait:
            return None
        return Failed(
            trace_id=trace_id,
            code=FailureCode.RATE_LIMITED,
            message=f"{descriptor.source} allows {limit:g} calls a minute",
            remedy=f"try again in {ceil(wait)} s",
        )

    async def _start(self, entry: Entry, arguments: dict[str, Any], context: CallContext) -> Outcome:
        if self._keeps_trail:
            await self._record(context, "call.started", tool=entry.descriptor.id, arguments=digest(arguments))
        outcome = await self._invoke(entry, arguments, context)
        return self._checked(entry, outcome) if isinstance(outcome, Done) else outcome

    async def _invoke(self, entry: Entry, arguments: dict[str, Any], context: CallContext) -> Outcome:
        trace_id = context.trace_id
        limit = entry.descriptor.timeout_seconds
        try:
            async with asyncio.timeout(limit):
                return Done(trace_id=trace_id, result=await entry.tool.invoke(arguments, context))
        except TimeoutError:
            message = f"{entry.descriptor.id} did not answer within {limit:g} s"
            return Failed(trace_id=trace_id, code=FailureCode.TIMEOUT, message=message, remedy=_LOOK_FIRST)
        except ToolFailure as failure:
            return _failed(failure, trace_id)
        except NeedsAction as needed:
            return await self._ask(needed, trace_id)
        except (Exception, asyncio.CancelledError) as error:
            if _is_being_cancelled():
                raise
            # Whatever is wrong with a tool, its call ends with a record.
            message = f"{entry.descriptor.id} failed: {type(error).__name__}: {error}"
            return Failed(trace_id=trace_id, code=FailureCode.TOOL_ERROR, message=message, remedy=_LOOK_FIRST)

    def _checked(self, entry: Entry, done: Done) -> Outcome:
        faults = faults_of(entry.result, done.result, "result", for_record=self._keeps_trail)
        if not faults:
            return done
        return Failed(
            trace_id=done.trace_id,
            code=FailureCode.OUTPUT_VALIDATION_FAILED,
            message=f"The result of {entry.descriptor.id} does not follow its schema",
            remedy=_LOOK_FIRST,
            details=faults,
        )

    async def _ask(self, needed: NeedsAction, trace_id: str) -> Pending:
        action = PendingAction(
            id=digest([needed.kind, needed.subject, str(needed)])[-12:],
            type=needed.kind,
            subject=needed.subject,
            message=str(needed),
            asked_at=self._clock.now(),
        )
        kept = await self._pending.ask(action)
        return Pending(trace_id=trace_id, id=kept.id, type=kept.type, message=kept.message)

    async def _record(self, context: CallContext, kind: str, **body: object) -> None:
        await self._trail.append(context.run, kind, {"caller": context.caller, "trace": context.trace_id, **body})


def _is_being_cancelled() -> bool:
    """Whether somebody ends the call itself; a tool may also end itself like this."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _failed(failure: ToolFailure, trace_id: str) -> Failed:
    return Failed(trace_id=trace_id, code=failure.code, message=str(failure), remedy=failure.remedy)


def _word(outcome: Outcome) -> str:
    match outcome:
        case Done():
            return "done"
        case Failed():
            return "failed"
        case Pending():
            return "pending"


def _evidence(outcome: Outcome) -> dict[str, object]:
    """What the trail keeps of an outcome: enough to prove it, and nothing of its content."""
    match outcome:
        case Done():
            return {"result": digest(outcome.result)}
        case Failed():
            return {"code": outcome.code.value}
        case Pending():
            return {"pending": outcome.id}
