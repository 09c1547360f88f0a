"""The progress of a workflow: in memory, or in its journal, from which another process can go on."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any, Final

from msgspec import UNSET, structs

from agent_resolver.core.authorization import acting_for
from agent_resolver.project.workflow import StepResult
from agent_resolver.project.workflow_request import WorkflowRequest, WorkflowResult
from agent_resolver.registry.port import Seal
from agent_resolver.runtime.budget import RunBudget
from agent_resolver.runtime.errors import RunRefused
from agent_resolver.runtime.journal.entry import Beginning, EntryRefused
from agent_resolver.runtime.journal.fold import Folded, UnknownRun, fold_run
from agent_resolver.runtime.journal.journal import Journal, RunJournal, RunStart
from agent_resolver.runtime.loop.lifecycle import result_of
from agent_resolver.runtime.loop.spending import budget_after
from agent_resolver.runtime.message import assistant_message, user_message
from agent_resolver.runtime.run import (
    ResumeRequest,
    RunResult,
    RunState,
    Spent,
    is_resumable,
    spent,
)
from agent_resolver.schema.caller import Caller
from agent_resolver.schema.workflow import WorkflowStep, WorkflowSteps
from agent_resolver.storage.errors import FileError, LeaseLost
from agent_resolver.storage.lease_keeper import LeaseKeeper
from agent_resolver.storage.port import Snapshot

_NOT_RECORDED: Final = "see `agent state info`"


class WorkflowProgress:
    """The progress of a workflow: the state of a run whose parts are the runs of its steps.

    The messages of the state are the prompt, and the last text of each step that came to its end. Its limits are those
    of all these steps. What a step used is set by the id of its run, never added to: one that goes on counts once.
    """

    def __init__(self, state: RunState, budget: RunBudget) -> None:
        self.state = state
        self.caller: Caller | None = None
        """On whose behalf the steps act; None for the caller of the runtime."""
        self._budget = budget
        self.is_cancelled = False
        """True once the workflow shall end."""
        self.step_run = ""
        """The run of the step that is being taken."""

    @property
    def prompt(self) -> str:
        """The words of the user; every step is given them."""
        return "".join(
            message.text for message in self.state.messages if message.role == "user"
        )

    def done(self, steps: Sequence[WorkflowStep]) -> list[StepResult]:
        """The steps that came to their end, in order."""
        texts = [
            message.text
            for message in self.state.messages
            if message.role == "assistant"
        ]
        # There are as many texts as steps that ended; the other steps are still to
        # come.
        return [
            StepResult(step, text) for step, text in zip(steps, texts, strict=False)
        ]

    def budget_for(self, run_id: str) -> RunBudget:
        """The rest of the budget for the run of a step; what this run has used itself is not taken away."""
        # A run that goes on counts its own seconds from its state.
        values = self.state.values
        seconds = sum(used["seconds"] for run, used in values.items() if run != run_id)
        return budget_after(self._budget, spent(self.state, without=run_id), seconds)

    async def next_run(self, step: WorkflowStep) -> tuple[str, RunResult | None]:
        """The id of the run that takes a step, and its result if it came to its end already.

        Where a run ended for good without coming to its end, the step is taken again by another run.
        """
        for attempt in count(1):
            run_id = step_run_id(self.state.run, step, attempt)
            known = await self._look_up(run_id)
            if (
                known is None
                or known.termination is None
                or is_resumable(known.termination)
            ):
                return run_id, None
            ran = result_of(known.state, known.termination)
            if known.termination.is_planned:
                return run_id, ran
            # An attempt that failed was paid all the same.
            self.count(ran)
        raise AssertionError  # pragma: no cover - counting does not end

    def count(self, ran: RunResult) -> None:
        """Count what the run of a step has used so far."""
        state = self.state
        used = spent(ran.state)
        rounds = max(used.rounds, ran.rounds)
        # The run is a part of the workflow, as a delegate is of its caller: both are
        # counted in one place.
        state.delegated[ran.run] = Spent(
            usage=ran.usage, cost=ran.cost, rounds=rounds, calls=used.calls
        )
        # Another dictionary each time: the journal finds changes by comparing both.
        state.values = {
            **state.values,
            ran.run: {"seconds": ran.state.seconds, "uncertain": ran.state.uncertain},
        }
        state.seconds = sum(each["seconds"] for each in state.values.values())
        state.uncertain = sum(each["uncertain"] for each in state.values.values())

    async def finish_step(self, ran: RunResult) -> None:
        """Note that a step came to its end: the next one is given its text, under the limits that it was made under."""
        self.state.messages.append(assistant_message(ran.text))
        # The text may repeat data that the step was allowed to see, so its limits bind
        # all later steps.
        self.state.limits = self.state.limits.joined(ran.state.limits)

    async def end(self, result: WorkflowResult) -> None:
        """Note how the workflow ended, or what it waits for."""

    async def _look_up(self, run_id: str) -> Folded | None:  # noqa: ARG002 - memory knows no earlier run
        return None


class KeptProgress(WorkflowProgress):
    """Progress in a journal, while this process has the workflow."""

    def __init__(
        self,
        journal: Journal,
        writer: RunJournal,
        state: RunState,
        budget: RunBudget,
        *,
        caller: Caller,
    ) -> None:
        super().__init__(state, budget)
        self.caller: Caller = caller
        self._journal = journal
        self._writer = writer
        self._keeper = LeaseKeeper(journal.store, journal.seconds)

    def hold(self, cancel: Callable[[str], object]) -> None:
        """Keep the workflow, until it is released; `cancel` ends the run of a step by its id."""

        def cancel_all() -> None:
            self.is_cancelled = True
            cancel(self.step_run)

        def lose() -> None:
            """Another process has the workflow: the end of the present step cannot be written, and no other begins."""

        self._keeper.hold(self.state.run, self._writer.lease, cancel_all, lose)

    async def release(self) -> None:
        """Let other processes take the workflow up, unless it has ended."""
        self._keeper.drop(self.state.run)
        # A lease that cannot be given back runs out by itself.
        with suppress(FileError, OSError):
            await self._writer.release()

    async def finish_step(self, ran: RunResult) -> None:
        """Write down that a step came to its end, before the next one begins.

        Raises:
            RunRefused: Another process has the workflow, or the state cannot be written.
        """
        await super().finish_step(ran)
        used = spent(self.state)
        row = structs.replace(
            self._writer.row,
            rounds=used.rounds,
            tokens=used.usage.total_tokens,
            cost=used.cost,
            uncertain=self.state.uncertain,
        )
        with _recording(self.state.run):
            await self._writer.end_step(self.state.values, row)
        # Another process may have asked for the end while this step was taken: no other
        # step begins then.
        self.is_cancelled = self.is_cancelled or self._writer.is_cancelling

    async def end(self, result: WorkflowResult) -> None:
        """Write down how the workflow ended, or what it waits for; another process can then take it up.

        Raises:
            RunRefused: Another process has the workflow, or the state cannot be written.
        """
        used = spent(self.state)
        ended = RunResult(
            run=self.state.run,
            agent_id=self.state.agent_id,
            plan="",
            termination=result.termination,
            text=result.text,
            rounds=used.rounds,
            usage=used.usage,
            cost=used.cost,
            pending=result.pending,
            # The trail keeps the rounds of all steps; the workflow has none of its own.
            state=structs.replace(self.state, round=used.rounds),
        )
        with _recording(self.state.run):
            await self._writer.end(self.state.values, ended, self.caller)

    async def _look_up(self, run_id: str) -> Folded | None:
        return await self._journal.look_up(run_id)


def step_run_id(workflow: str, step: WorkflowStep, attempt: int = 1) -> str:
    """The id of the run that takes a step: the same for the same attempt, in every process."""
    again = f".{attempt}" if attempt > 1 else ""
    return f"{workflow}.{step.number}{again}"


def new_progress(request: WorkflowRequest, name: str = "") -> WorkflowProgress:
    """The progress of a workflow that begins, in memory."""
    return WorkflowProgress(_first_state(request, name), request.budget)


async def begin_progress(
    journal: Journal, workflow: WorkflowSteps, request: WorkflowRequest, caller: Caller
) -> KeptProgress:
    """Write down that a workflow begins, before its first step does.

    Raises:
        RunRefused: It cannot be written, or there is a run of this id.
    """
    name = _name_of(workflow)
    state = _first_state(request, name)
    start = RunStart(
        kind="workflow",
        state=state,
        beginning=Beginning(
            state=structs.replace(state, messages=[]),
            caller=caller,
            budget=request.budget,
            workflow=workflow,
        ),
        facts=_facts(state),
    )
    with _recording(request.run_id):
        writer = await journal.begin(start)
    return KeptProgress(journal, writer, state, request.budget, caller=caller)


async def take_up_progress(
    journal: Journal, request: ResumeRequest, acting: Caller
) -> tuple[WorkflowSteps, KeptProgress]:
    """Take a workflow up, alone, to go on with it.

    Raises:
        RunRefused: There is no such workflow, another process has it, or it has ended for good.
    """
    folded, lease = await journal.claim(request.run)
    try:
        workflow = _require_workflow(folded, request)
        caller = acting_for(folded.beginning.caller, acting)
        budget = folded.beginning.budget if request.budget is None else request.budget
        writer = journal.resumed(folded, lease, folded.state)
        with _recording(request.run):
            await writer.resume(folded.state.values, caller, _facts(folded.state), b"")
    except BaseException:
        # Other processes can take it up at once.
        with suppress(FileError, OSError):
            await journal.release(lease)
        raise
    progress = KeptProgress(journal, writer, folded.state, budget, caller=caller)
    # The process that was asked to end the workflow was gone before it heard of that.
    progress.is_cancelled = writer.is_cancelling
    return workflow, progress


def kept_workflow(snapshot: Snapshot, run: str, seal: Seal) -> WorkflowSteps:
    """The steps that a workflow began with.

    Raises:
        RunRefused: There is no such workflow, or its journal cannot be read.
    """
    folded = fold_run(snapshot, run, seal)
    if folded is None:
        raise UnknownRun(run)
    return workflow_of(folded)


def workflow_of(folded: Folded) -> WorkflowSteps:
    """The steps that a workflow began with.

    Raises:
        RunRefused: The run is not a workflow.
    """
    workflow = folded.beginning.workflow
    if workflow is UNSET:
        raise RunRefused(f"run {folded.row.id} is not a workflow")
    return workflow


def _require_workflow(folded: Folded, request: ResumeRequest) -> WorkflowSteps:
    run = folded.row.id
    workflow = workflow_of(folded)
    end = folded.termination
    if request.messages:
        raise RunRefused(
            f"run {run} is a workflow, whose prompt is the one that it began with",
            "leave the prompt out",
        )
    # A cancelled workflow has ended for good, and so has one that came to its end. One
    # that failed can be tried again.
    if end is not None and (end.is_planned or end.reason == "cancelled"):
        raise RunRefused(
            f"run {run} has ended: {end.reason}", "start the workflow again"
        )
    return workflow


def _first_state(request: WorkflowRequest, name: str) -> RunState:
    messages = [user_message(request.prompt)] if request.prompt else []
    return RunState(
        run=request.run_id,
        trace_id=request.trace_id,
        agent_id=name,
        plan="",
        messages=messages,
    )


def _name_of(workflow: WorkflowSteps) -> str:
    """The name of the file, as lists of runs show it."""
    _, _, name = workflow.file.rpartition("/")
    return name


def _facts(state: RunState) -> Mapping[str, Any]:
    return {"trace": state.trace_id, "workflow": state.agent_id}


@contextmanager
def _recording(run: str) -> Iterator[None]:
    """Say in words of a run that a step could not be written down."""
    try:
        yield
    except LeaseLost as error:
        message = f"another process has taken workflow {run} up, and goes on with it"
        raise RunRefused(message, "wait for it, or cancel it") from error
    except EntryRefused as error:
        raise RunRefused(f"workflow {run} cannot be recorded: {error}") from error
    except (FileError, OSError) as error:
        message = f"workflow {run} cannot be recorded, and so it does not go on: {type(error).__name__}"
        raise RunRefused(message, _NOT_RECORDED) from error
