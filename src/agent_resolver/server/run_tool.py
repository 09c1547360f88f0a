"""`run_agent`: the agents of the project as one tool, for clients that may let them run."""

import asyncio
import logging
from typing import Any, Final

from msgspec import to_builtins

from agent_resolver.catalog.catalog import Catalog
from agent_resolver.catalog.errors import MalformedUri, UnknownAgent
from agent_resolver.catalog.query import View
from agent_resolver.catalog.uri import agent_uri, parse_uri
from agent_resolver.core.authorization import is_same_caller
from agent_resolver.project.plan import agent_id_of
from agent_resolver.project.run import ProjectRuns
from agent_resolver.registry.errors import ToolFailure, WaitsFor
from agent_resolver.registry.tool import CallContext
from agent_resolver.runtime.errors import ResolveError, RunRefused
from agent_resolver.runtime.event import RunEvent, Sink, ToolEnded, ToolStarted
from agent_resolver.runtime.journal.fold import Folded
from agent_resolver.runtime.journal.journal import Journal
from agent_resolver.runtime.loop.lifecycle import result_of
from agent_resolver.runtime.message import user_message
from agent_resolver.runtime.run import ResumeRequest, RunRequest, RunResult
from agent_resolver.schema.caller import Caller
from agent_resolver.schema.canonical_digest import digest
from agent_resolver.schema.descriptor import Descriptor, Rules
from agent_resolver.schema.errors import ResolverError
from agent_resolver.schema.outcome import FailureCode

RUN_AGENT: Final = "run_agent"
CLASSIFICATION: Final = "INTERNAL"
SCOPE: Final = "run:agents"
"""What a caller that an issuer vouches for must hold; whoever sits at this machine holds every scope."""
_log = logging.getLogger(__name__)
_MOST_ATTEMPTS: Final = 100
"""The number of times that the same call may start another run after one that failed."""
_ID_DIGITS: Final = 32
_MAX_THREAD: Final = 200
_CLOSING_SECONDS: Final = 5.0
"""Seconds that a cancelled run may take for its end; a call that it made goes on by itself."""
_MOST_SECONDS: Final = 3600.0
_MAX_PROMPT: Final = 1_000_000

_SCHEMA: Final = {
    "type": "object",
    "properties": {
        "agent": {
            "type": "string",
            "minLength": 1,
            "maxLength": 2048,
            "description": "The name of the agent",
        },
        "prompt": {
            "type": "string",
            "minLength": 1,
            "maxLength": _MAX_PROMPT,
            "pattern": "\\S",
            "description": "What it shall do",
        },
        "thread": {
            "type": "string",
            "minLength": 1,
            "maxLength": _MAX_THREAD,
            "description": "The name of a conversation with the agent to go on with, or to begin",
        },
    },
    "required": ["agent", "prompt"],
    "additionalProperties": False,
}


class RunAgentTool:
    """Runs one agent with one prompt, on behalf of the caller: calls within the run take the caller's own rights.

    There is one tool for all agents, so that the listing stays small however many there are; `list_agents` and
    `search_agents` find their names. It is not among the tools of the runs it starts: no agent can start it again.
    """

    def __init__(
        self,
        runs: ProjectRuns,
        catalog: Catalog,
        *,
        is_strict: bool = False,
    ) -> None:
        self._runs = runs
        self._catalog = catalog
        self._is_strict = is_strict
        self._is_stopping = False
        self.descriptor = Descriptor(
            id=RUN_AGENT,
            description="Run an agent with a prompt, and return what it says in the end. "
            "`list_agents` and `search_agents` have the names.",
            input_schema=_SCHEMA,
            source="agents",
            timeout_seconds=_MOST_SECONDS,
            hints={
                "readOnlyHint": False,
                "destructiveHint": True,
                "idempotentHint": False,
                "openWorldHint": True,
            },
            # A caller over HTTP that no issuer vouches for is cleared for PUBLIC alone,
            # and runs nothing.
            rules=Rules(classification=CLASSIFICATION, required_scopes=(SCOPE,)),
        )

    async def invoke(self, arguments: dict[str, Any], context: CallContext) -> Any:  # noqa: ANN401 - the port
        """Run the agent; the same call under the same trace goes on with a run that waits, or returns what it said.

        Raises:
            ToolFailure: There is no such agent, it cannot run, or it did not come to its natural end.
            WaitsFor: A call of the run waits for a person.
        """
        agent_id = self._agent_id(arguments["agent"], context.caller)
        handle = context.handle
        if handle is not None and handle.run:
            run_id = handle.run
            known = await self._own_run(handle.run, agent_id, context.caller)
        else:
            run_id, known = await self._find_run(arguments, context)
        if handle is not None and known is not None:
            handle.keep(run_id)
        if (
            known is not None
            and known.termination is not None
            and known.pending is None
        ):
            return _document_of(result_of(known.state, known.termination))
        request: RunRequest | ResumeRequest
        if known is None:
            request = RunRequest(
                agent_id=agent_id,
                messages=(user_message(arguments["prompt"]),),
                caller=context.caller,
                run_id=run_id,
                thread=arguments.get("thread", ""),
                trace_id=context.trace_id,
                parent=context.parent,
                connection=context.connection,
            )
        else:
            request = ResumeRequest(
                run=run_id,
                caller=context.caller,
                parent=context.parent,
                connection=context.connection,
            )
        result = await self._run_until_given_up(request, run_id, context)
        if result.pending is not None:
            raise WaitsFor(result.pending)
        return _document_of(result)

    async def _own_run(
        self,
        run_id: str,
        agent_id: str,
        caller: Caller,
    ) -> Folded | None:
        """A run of this agent that the caller started.

        Raises:
            ToolFailure: There is none.
        """
        known = await self._look_up(self._journal(), run_id)
        # The sealed beginning decides, never the row.
        is_own = known is not None and is_same_caller(known.beginning.caller, caller)
        if known is None or not is_own or known.row.agent != agent_id:
            raise ToolFailure(
                FailureCode.TOOL_ERROR,
                f"There is no run {run_id} of agent {agent_id}",
                "start one",
            )
        return known

    def stop(self) -> None:
        """Let the runs be interrupted: the server stops, and they go on later with `agent runs resume`."""
        self._is_stopping = True

    async def _find_run(
        self, arguments: dict[str, Any], context: CallContext
    ) -> tuple[str, Folded | None]:
        """The run that this very call started before, if it waits, was interrupted or came to its natural end.

        The id of a run follows from its caller and the call, so that no caller finds the run of another. A run that
        failed is left as it is: the same call starts another one.
        """
        journal = self._journal()
        caller = context.caller
        for attempt in range(_MOST_ATTEMPTS):
            asked = [caller.id, caller.issuer, context.trace_id, arguments, attempt]
            run_id = digest(asked)[-_ID_DIGITS:]
            known = await self._look_up(journal, run_id)
            end = known.termination if known else None
            # A run without an end was interrupted, and goes on.
            if end is None or end.reason == "suspended" or end.is_planned:
                return run_id, known
        message = f"The same call has failed {_MOST_ATTEMPTS} times under this trace"
        raise ToolFailure(
            FailureCode.TOOL_ERROR, message, "make it under another trace"
        )

    def _journal(self) -> Journal:
        journal = self._runs.runtime.journal
        if journal is None:
            raise ToolFailure(
                FailureCode.NOT_CONFIGURED,
                "Runs are not kept here",
                "ask the operator of this server",
            )
        return journal

    async def _look_up(self, journal: Journal, run_id: str) -> Folded | None:
        try:
            return await journal.look_up(run_id)
        except ResolverError as error:
            raise self._failure_of(run_id, error) from None

    def _agent_id(self, text: str, caller: Caller) -> str:
        """The id of an agent that the caller may see."""
        try:
            uri = parse_uri(text if "://" in text else agent_uri(text))
            found = self._catalog.definition(
                uri, view=View(is_strict=self._is_strict, clearance=caller.clearance)
            )
        except (UnknownAgent, MalformedUri) as error:
            remedy = (
                "list the agents with `list_agents`, or find one with `search_agents`"
            )
            raise ToolFailure(FailureCode.TOOL_ERROR, str(error), remedy) from None
        return agent_id_of(found.uri)

    async def _run_until_given_up(
        self,
        request: RunRequest | ResumeRequest,
        run_id: str,
        context: CallContext,
    ) -> RunResult:
        """Run, and end the run once the client no longer waits. Calls that had started are recorded all the same."""
        running = asyncio.create_task(self._run(request, _sink_of(context, run_id)))
        try:
            await _first_of(running, context.given_up)
            # With a handle, only the end of this server ends the wait: the run goes on
            # elsewhere.
            is_unwanted = not self._is_stopping and context.handle is None
            if not running.done() and is_unwanted and self._runs.runtime.cancel(run_id):
                await asyncio.wait([running], timeout=_CLOSING_SECONDS)
        finally:
            # Cancelled like this, a run is interrupted, unless it has ended.
            if not running.done():
                running.cancel()
                await asyncio.wait([running])
        if running.cancelled():
            raise ToolFailure(
                FailureCode.TOOL_ERROR,
                "The client no longer waits, and the run was cancelled",
            )
        return running.result()

    async def _run(self, request: RunRequest | ResumeRequest, sink: Sink) -> RunResult:
        try:
            if isinstance(request, RunRequest):
                return await self._runs.run(request, sink)
            return await self._runs.resume(request, sink)
        except ResolverError as error:
            subject = (
                request.agent_id
                if isinstance(request, RunRequest)
                else f"run {request.run}"
            )
            raise self._failure_of(subject, error) from None

    @staticmethod
    def _failure_of(subject: str, error: ResolverError) -> ToolFailure:
        if isinstance(error, ResolveError | RunRefused):
            return ToolFailure(
                FailureCode.NOT_CONFIGURED,
                str(error),
                error.hint or "`agent plan` says more",
            )
        # Faults of the disk or of trust are for the operator of the server, not for a
        # model to read.
        _log.warning("%s cannot run: %s", subject, error)
        message = f"{subject} cannot run here: {type(error).__name__}"
        return ToolFailure(
            FailureCode.NOT_CONFIGURED, message, "ask the operator of this server"
        )


async def _first_of(
    running: "asyncio.Task[RunResult]", given_up: asyncio.Event | None
) -> None:
    """Wait until the run ends, or the client no longer waits for it."""
    if given_up is None:
        await asyncio.wait([running])
        return
    gone = asyncio.create_task(given_up.wait())
    try:
        await asyncio.wait([running, gone], return_when=asyncio.FIRST_COMPLETED)
    finally:
        gone.cancel()


def _sink_of(context: CallContext, run_id: str) -> Sink:
    """Sends each event to the client, as progress of its call; the first one comes when the state has the run."""

    async def send_progress(event: RunEvent) -> None:
        if context.handle is not None:
            context.handle.keep(run_id)
        await context.progress(event.number, None, _words_of(event))

    return send_progress


def _words_of(event: RunEvent) -> str:
    """One line about an event; what tools and models say in it stays out."""
    kind = str(event.__struct_config__.tag)
    if isinstance(event, ToolStarted):
        return f"{kind} {event.tool}"
    if isinstance(event, ToolEnded):
        return f"{kind} {event.tool}: {event.outcome}"
    return kind


def _document_of(result: RunResult) -> dict[str, Any]:
    """The result for the client.

    Raises:
        ToolFailure: The agent did not come to its natural end.
    """
    end = result.termination
    if not end.is_planned:
        words = f": {end.message}" if end.message else ""
        message = f"agent {result.agent_id} ended as {end.reason}{words}"
        raise ToolFailure(
            FailureCode.TOOL_ERROR,
            message,
            "ask for less, or ask the operator of this server",
        )
    usage = to_builtins(result.usage)
    return {
        "agent": result.agent_id,
        "run": result.run,
        "text": result.text,
        "rounds": result.rounds,
        "usage": usage,
        "cost": result.cost,
    }
