"""The runs behind MCP tasks: what a run of a blueprint or of an agent says of itself, to the caller who started it."""

from collections.abc import Callable
from typing import Any, Protocol

from msgspec import Struct

from agent_resolver.engine.errors import EngineRefused, UnknownRun
from agent_resolver.engine.port import RunView
from agent_resolver.engine.runs import BlueprintRuns
from agent_resolver.engine.tool import open_question
from agent_resolver.registry.tool import CallContext
from agent_resolver.runtime.errors import RunRefused
from agent_resolver.runtime.journal.fold import Folded
from agent_resolver.runtime.journal.journal import Journal
from agent_resolver.schema.caller import Caller
from agent_resolver.schema.classification import Classification
from agent_resolver.schema.pending import PendingAction
from agent_resolver.schema.state import FINISHED, RUNS
from agent_resolver.server.run_tool import CLASSIFICATION, RUN_AGENT
from agent_resolver.storage.port import Store
from agent_resolver.storage.run_listing import ListedRun


class TaskRun(Struct, frozen=True, kw_only=True):
    """A run as its sealed journal tells it, and the call that goes on with it or returns its end."""

    starter: Caller
    tool: str
    arguments: dict[str, Any]
    trace_id: str
    classification: Classification
    """That of the tool when the run began."""
    message: str = ""
    """How far the run is, in words."""
    question: PendingAction | None = None
    """What the run asks a person, until a person answers."""
    is_due: bool = False
    """True if the run can go on, and no process has it."""


class TaskRuns(Protocol):
    """The runs of one kind."""

    async def look(self, listed: ListedRun) -> TaskRun | None:
        """A run with this row; None where the row is not that of a run.

        Raises:
            ResolverError: What is kept of it cannot be read.
        """
        ...

    async def cancel(self, run: str, context: CallContext) -> None:
        """Ask for the end of a run; one that has ended stays as it is."""
        ...


class BlueprintTaskRuns:
    """The runs of blueprints."""

    def __init__(self, runs: BlueprintRuns) -> None:
        self._runs = runs

    async def look(self, listed: ListedRun) -> TaskRun | None:
        """A run of a blueprint."""
        run = listed.row.id
        history = await self._runs.history(run)
        if history is None:
            return None
        started = history.started
        view = None if listed.row.status in FINISHED else await self._runs.query(run)
        is_due = view is not None and (
            listed.status == "interrupted" or await self._runs.is_due(run)
        )
        question = (
            None if view is None or is_due else await open_question(self._runs, view)
        )
        return TaskRun(
            starter=started.starter,
            tool=history.blueprint.id,
            arguments=started.input,
            trace_id=started.trace_id,
            classification=started.classification,
            message="" if view is None else _progress_of(view),
            question=question,
            is_due=is_due,
        )

    async def cancel(self, run: str, context: CallContext) -> None:
        """Ask for the end: what the run has done is taken back, as far as its blueprint says how."""
        try:
            await self._runs.cancel(run, context)
        except UnknownRun:
            raise
        except EngineRefused:
            # It came to its end in the meantime, which is what tasks/get says.
            if await self._is_going_on(run):
                raise

    async def _is_going_on(self, run: str) -> bool:
        history = await self._runs.history(run)
        return history is not None and history.ended is None


class AgentTaskRuns:
    """The runs of agents that `run_agent` starts."""

    def __init__(
        self,
        journal: Callable[[], Journal],
        store: Store,
        now: Callable[[], str],
    ) -> None:
        self._journal = journal
        self._store = store
        self._now = now

    async def look(self, listed: ListedRun) -> TaskRun | None:
        """A run of an agent."""
        folded = await self._journal().look_up(listed.row.id)
        if folded is None:
            return None
        question = (
            listed.action
            if listed.action is not None and listed.action.is_open
            else None
        )
        if question is not None and question.state(self._now()) != "open":
            question = None
        return TaskRun(
            starter=folded.beginning.caller,
            tool=RUN_AGENT,
            arguments={"agent": listed.row.agent, "prompt": _prompt_of(folded)},
            trace_id=listed.row.trace_id,
            classification=CLASSIFICATION,
            message=f"round {folded.state.round}",
            question=question,
            is_due=question is None and await self._is_due(listed, folded),
        )

    async def _is_due(self, listed: ListedRun, folded: Folded) -> bool:
        if listed.status == "interrupted":
            # One that is to end is ended by `cancel`, and does not go on.
            return listed.row.status != "cancelling"
        if listed.status != "waiting":
            return False
        if listed.action is not None or folded.pending is None:
            return True
        # It waits for a run of a blueprint.
        awaited = folded.pending.id
        row = await self._store.read(lambda snapshot: snapshot.get(RUNS, awaited))
        return row is None or row.status in FINISHED

    async def cancel(self, run: str, context: CallContext) -> None:
        """End the run, or let the process that has it end it."""
        del context
        try:
            await self._journal().cancel(run)
        except RunRefused:
            folded = await self._journal().look_up(run)
            if folded is not None and folded.row.status not in FINISHED:
                raise


def _prompt_of(folded: Folded) -> str:
    """The words that the run began with, as far as the journal has them as text."""
    spoken = (
        message.text
        for message in reversed(folded.state.messages)
        if message.role == "user"
    )
    return next((text for text in spoken if text.strip()), folded.row.id)


def _progress_of(view: RunView) -> str:
    done = sum(step.state in {"done", "skipped"} for step in view.steps)
    running = ", ".join(step.path for step in view.steps if step.state == "running")
    kinds = sorted({each.kind for each in view.waits})
    told = f"{done} of {len(view.steps)} steps done"
    if running:
        return f"{told}; running: {running}"
    if kinds:
        return f"{told}; waits for: {', '.join(kinds)}"
    return told
