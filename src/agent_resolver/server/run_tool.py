"""`run_agent`: the agents of the project as one tool, for clients that may let them run."""

import asyncio
import logging
from typing import Any, Final

from msgspec import to_builtins

from agent_resolver.catalog.catalog import Catalog
from agent_resolver.catalog.errors import MalformedUri, UnknownAgent
from agent_resolver.catalog.query import View
from agent_resolver.catalog.uri import agent_uri, parse_uri
from agent_resolver.project.plan import agent_id_of
from agent_resolver.project.run import ProjectRuns
from agent_resolver.registry.errors import ToolFailure, WaitsFor
from agent_resolver.registry.tool import CallContext
from agent_resolver.runtime.errors import ResolveError, RunRefused
from agent_resolver.runtime.event import RunEvent, Sink, ToolEnded, ToolStarted
from agent_resolver.runtime.message import user_message
from agent_resolver.runtime.run import RunRequest, RunResult, RunState
from agent_resolver.schema.caller import Caller
from agent_resolver.schema.canonical_digest import digest
from agent_resolver.schema.descriptor import Descriptor, Rules
from agent_resolver.schema.errors import ResolverError
from agent_resolver.schema.outcome import FailureCode

SCOPE: Final = "run:agents"
"""What a caller that an issuer vouches for must hold; whoever sits at this machine holds every scope."""
_log = logging.getLogger(__name__)
_MOST_WAITING: Final = 100
"""How many runs that wait for a person are kept."""
_MOST_SECONDS: Final = 3600.0
_MAX_PROMPT: Final = 1_000_000
_ENDS_WELL: Final = {"natural_end", "behavior_requested"}
_SCHEMA: Final = {
    "type": "object",
    "properties": {
        "agent": {"type": "string", "minLength": 1, "maxLength": 2048, "description": "The name of the agent"},
        "prompt": {
            "type": "string",
            "minLength": 1,
            "maxLength": _MAX_PROMPT,
            "pattern": "\\S",
            "description": "What it shall do",
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

    def __init__(self, runs: ProjectRuns, catalog: Catalog, *, is_strict: bool = False) -> None:
        self._runs = runs
        self._catalog = catalog
        self._is_strict = is_strict
        self._waiting: dict[tuple[str, str], RunState] = {}
        """The runs that wait for a person, by the caller and the call that started each, the oldest first."""
        self.descriptor = Descriptor(
            id="run_agent",
            description="Run an agent with a prompt, and return what it says in the end. "
            "`list_agents` and `search_agents` have the names.",
            input_schema=_SCHEMA,
            source="agents",
            timeout_seconds=_MOST_SECONDS,
            hints={"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": True},
            # A caller over HTTP that no issuer vouches for is cleared for PUBLIC alone, and runs nothing.
            rules=Rules(classification="INTERNAL", required_scopes=(SCOPE,)),
        )

    async def invoke(self, arguments: dict[str, Any], context: CallContext) -> Any:  # noqa: ANN401 - the port
        """Run the agent; the same call under the same trace goes on with a run that waits.

        Raises:
            ToolFailure: There is no such agent, it cannot run, or it did not come to its natural end.
            WaitsFor: A call of the run waits for a person.
        """
        key = (context.caller.id, digest([context.trace_id, arguments]))
        agent_id = self._agent_id(arguments["agent"], context.caller)
        resumed = self._waiting.pop(key, None)
        request = RunRequest(
            agent_id=agent_id,
            messages=() if resumed else (user_message(arguments["prompt"]),),
            caller=context.caller,
            trace_id=context.trace_id,
            parent=context.parent,
            connection=context.connection,
            resume=resumed,
        )
        result = await self._run_until_given_up(request, context)
        if result.pending is not None:
            self._keep(key, result.state)
            raise WaitsFor(result.pending)
        return _document_of(result)

    def _agent_id(self, text: str, caller: Caller) -> str:
        """The id of an agent that the caller may see."""
        try:
            uri = parse_uri(text if "://" in text else agent_uri(text))
            found = self._catalog.definition(uri, view=View(is_strict=self._is_strict, clearance=caller.clearance))
        except (UnknownAgent, MalformedUri) as error:
            remedy = "list the agents with `list_agents`, or find one with `search_agents`"
            raise ToolFailure(FailureCode.TOOL_ERROR, str(error), remedy) from None
        return agent_id_of(found.uri)

    def _keep(self, key: tuple[str, str], state: RunState) -> None:
        """Keep a run that waits. If there are too many, the caller with the most gives up the oldest of theirs."""
        self._waiting[key] = state
        if len(self._waiting) > _MOST_WAITING:
            callers = [caller for caller, _ in self._waiting]
            greediest = max(callers, key=callers.count)
            del self._waiting[next(each for each in self._waiting if each[0] == greediest)]

    async def _run_until_given_up(self, request: RunRequest, context: CallContext) -> RunResult:
        """Run, and end the run once the client no longer waits. Calls that had started are recorded all the same."""
        running = asyncio.create_task(self._run(request, _progress_sink(context)))
        try:
            await _first_of(running, context.given_up)
        finally:
            if not running.done():
                running.cancel()
                await asyncio.wait([running])
        if running.cancelled():
            raise ToolFailure(FailureCode.TOOL_ERROR, "The client no longer waits, and the run was cancelled")
        return running.result()

    async def _run(self, request: RunRequest, sink: Sink) -> RunResult:
        try:
            return await self._runs.run(request, sink)
        except (ResolveError, RunRefused) as error:
            raise ToolFailure(FailureCode.NOT_CONFIGURED, str(error), error.hint or "`agent plan` says more") from None
        except ResolverError as error:
            # What is wrong with the disk or with trust is for whoever runs the server, not for a model to read.
            _log.warning("%s cannot run: %s", request.agent_id, error)
            message = f"{request.agent_id} cannot run here: {type(error).__name__}"
            raise ToolFailure(FailureCode.NOT_CONFIGURED, message, "ask whoever runs this server") from None


async def _first_of(running: "asyncio.Task[RunResult]", given_up: asyncio.Event | None) -> None:
    """Wait until the run ends, or the client no longer waits for it."""
    if given_up is None:
        await asyncio.wait([running])
        return
    gone = asyncio.create_task(given_up.wait())
    try:
        await asyncio.wait([running, gone], return_when=asyncio.FIRST_COMPLETED)
    finally:
        gone.cancel()


def _progress_sink(context: CallContext) -> Sink:
    """Tells the client of each event, as progress of its call."""

    async def tell(event: RunEvent) -> None:
        await context.progress(event.number, None, _words_of(event))

    return tell


def _words_of(event: RunEvent) -> str:
    """One line about an event; what tools and models say in it stays out."""
    kind = str(event.__struct_config__.tag)
    if isinstance(event, ToolStarted):
        return f"{kind} {event.tool}"
    return f"{kind} {event.tool}: {event.outcome}" if isinstance(event, ToolEnded) else kind


def _document_of(result: RunResult) -> dict[str, Any]:
    """The result for the client.

    Raises:
        ToolFailure: The agent did not come to its natural end.
    """
    end = result.termination
    if end.reason not in _ENDS_WELL:
        words = f": {end.message}" if end.message else ""
        message = f"agent {result.agent_id} ended as {end.reason}{words}"
        raise ToolFailure(FailureCode.TOOL_ERROR, message, "ask for less, or ask whoever runs this server")
    usage = to_builtins(result.usage)
    return {
        "agent": result.agent_id,
        "run": result.run,
        "text": result.text,
        "rounds": result.rounds,
        "usage": usage,
        "cost": result.cost,
    }
