"""Runs a workflow: one step after the other, each as the agent that it mentions, with that agent's definition alone."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from agent_resolver.project.errors import RefusedStep
from agent_resolver.project.run import ProjectRuns
from agent_resolver.project.workflow import (
    StepResult,
    content_digest,
    plan_steps,
    step_prompt,
)
from agent_resolver.project.workflow_event import (
    WorkflowEvent,
    WorkflowSink,
    WorkflowStepEnded,
    WorkflowStepStarted,
)
from agent_resolver.project.workflow_progress import (
    KeptProgress,
    WorkflowProgress,
    begin_progress,
    new_progress,
    take_up_progress,
)
from agent_resolver.project.workflow_request import WorkflowRequest, WorkflowResult
from agent_resolver.runtime.budget import RunBudget
from agent_resolver.runtime.errors import RunRefused
from agent_resolver.runtime.journal.journal import Journal
from agent_resolver.runtime.loop.calling import INTERRUPTED
from agent_resolver.runtime.message import user_message
from agent_resolver.runtime.plan import ResolvedRunPlan
from agent_resolver.runtime.run import (
    ResumeRequest,
    RunRequest,
    RunResult,
    Termination,
    spent,
)
from agent_resolver.schema.errors import ResolverError
from agent_resolver.schema.limit import MAX_WORKFLOW_BYTES
from agent_resolver.schema.workflow import WorkflowStep, WorkflowSteps
from agent_resolver.storage.errors import FileError
from agent_resolver.storage.file import read_bounded

RunStep = Callable[[RunRequest], Awaitable[RunResult]]
"""Runs one step to its end; what it waits for may be answered meanwhile."""


async def start_workflow(
    runs: ProjectRuns,
    workflow: WorkflowSteps,
    request: WorkflowRequest,
    run_step: RunStep | None = None,
    sink: WorkflowSink | None = None,
) -> WorkflowResult:
    """Run a workflow that lasts: wherever it stops, `resume_workflow` goes on from there.

    Args:
        runs: Runs the steps.
        workflow: The steps.
        request: What is asked.
        run_step: Runs a step, in place of `ProjectRuns.take_step`, which it has to call.
        sink: Takes the events of the workflow.

    Raises:
        RefusedStep: A step cannot start. If that is found before the first one starts, nothing is kept.
        RunRefused: The workflow cannot be recorded.
    """
    # All steps are planned before anything is kept, so that a workflow which cannot run
    # leaves nothing behind.
    await _prepare(runs, plan_steps(runs.runtime, workflow.steps))
    progress = await begin_progress(_journal_of(runs), workflow, request, runs.caller)
    async with _held(progress, runs):
        return await run_workflow(
            workflow.steps, request, run_step or runs.take_step, sink, progress
        )


async def resume_workflow(
    runs: ProjectRuns,
    request: ResumeRequest,
    run_step: RunStep | None = None,
    sink: WorkflowSink | None = None,
) -> WorkflowResult:
    """Let a workflow go on from its journal, by the steps that it began with.

    A step that came to its end is not taken again. One that waited or was interrupted goes on under the same id. One
    that failed is taken again, from its beginning.

    Raises:
        RunRefused: There is no such workflow, another process has it, or it has ended.
        RefusedStep: A step cannot start or go on, for instance because its agent changed while it waited.
    """
    workflow, progress = await take_up_progress(
        _journal_of(runs), request, request.caller or runs.caller
    )
    resumed = WorkflowRequest(
        prompt=progress.prompt,
        streams=request.streams,
        run_id=request.run,
        trace_id=progress.state.trace_id,
        with_changes=request.with_changes,
    )
    async with _held(progress, runs):
        # A step that is done needs no plan: its agent may be gone meanwhile.
        left = workflow.steps[len(progress.done(workflow.steps)) :]
        await _prepare(runs, plan_steps(runs.runtime, left, progress.state.limits))
        return await run_workflow(
            workflow.steps, resumed, run_step or runs.take_step, sink, progress
        )


def has_changed(workflow: WorkflowSteps, users: frozenset[int]) -> bool:
    """True if the file of a workflow is not as it was when the workflow began, or not there."""
    try:
        return (
            content_digest(read_bounded(workflow.file, MAX_WORKFLOW_BYTES, users))
            != workflow.digest
        )
    except FileError:
        return True


def _journal_of(runs: ProjectRuns) -> Journal:
    journal = runs.runtime.journal
    if journal is None:
        raise RunRefused(
            "runs are kept in memory alone here, and a workflow could not go on"
        )
    return journal


async def _prepare(runs: ProjectRuns, plans: Sequence[ResolvedRunPlan]) -> None:
    """Report the faults of all steps before the first one is paid for."""
    for plan in plans:
        await runs.prepare(plan)


@asynccontextmanager
async def _held(progress: KeptProgress, runs: ProjectRuns) -> AsyncIterator[None]:
    """Let no other process take the workflow up meanwhile."""
    progress.hold(runs.runtime.cancel)
    try:
        yield
    finally:
        await progress.release()


async def run_workflow(
    steps: Sequence[WorkflowStep],
    request: WorkflowRequest,
    run_step: RunStep,
    sink: WorkflowSink | None = None,
    progress: WorkflowProgress | None = None,
) -> WorkflowResult:
    """Take the steps one after the other, until one does not come to its end.

    Each is a run of its own, under its own id, so that nothing of a definition is left in the next request. What goes
    on from one to the next is the text of its result, with the limits that it was made under, and what is left of the
    budget.

    Raises:
        RefusedStep: A step cannot start.
        RunRefused: The progress cannot be kept.
    """
    progress = progress or new_progress(request)
    events = _Events(request.run_id, len(steps), sink)
    done = progress.done(steps)
    # This is the result where no step is left: the last process had taken all of them,
    # and was gone before it said so.
    result = WorkflowResult(
        run=request.run_id,
        step=steps[0],
        termination=Termination(reason="natural_end"),
        done=done,
    )
    for step in steps[len(done) :]:
        result.step = step
        ran = await _take(step, request, run_step, events, progress, result)
        if result.termination.code == INTERRUPTED:
            # The workflow has not ended: another process takes the step up.
            _set_totals(result, progress)
            return result
        if not result.termination.is_planned or ran is None:
            break
        result.done.append(StepResult(step, ran.text))
        # Written before the next step begins, so that no finished step is paid twice.
        await progress.finish_step(ran)
    _set_totals(result, progress)
    await progress.end(result)
    return result


async def _take(  # noqa: PLR0913, PLR0917 - what a step is taken with
    step: WorkflowStep,
    request: WorkflowRequest,
    run_step: RunStep,
    events: "_Events",
    progress: WorkflowProgress,
    result: WorkflowResult,
) -> RunResult | None:
    """Take one step, and put into the result how it ended; None if it was not begun."""
    # Its run may have come to its end in a process that was gone before it could write
    # so for the workflow.
    run_id, ran = await progress.next_run(step)
    budget = progress.budget_for(run_id)
    # The budget concerns a run that is still to begin: one that came to its end has
    # been paid already.
    if ran is None and (end := _end_before(progress, budget)):
        result.termination = end
        await events.end(step, "", result)
        return None
    if ran is None:
        await events.start(step, run_id)
        step_request = RunRequest(
            agent_id=step.agent,
            messages=(user_message(step_prompt(request.prompt, step, result.done)),),
            limits=progress.state.limits,
            caller=progress.caller,
            run_id=run_id,
            part_of=request.run_id,
            trace_id=request.trace_id,
            budget=budget,
            streams=request.streams,
            with_changes=request.with_changes,
        )
        # From here on, to cancel the workflow means to cancel this run.
        progress.step_run = run_id
        try:
            ran = await run_step(step_request)
        except ResolverError as error:
            raise RefusedStep(step.number, step.heading, error) from error
    # A step is counted however it ended, since it was paid for.
    progress.count(ran)
    result.termination = ran.termination
    result.pending = ran.pending
    # The event has the totals of all steps so far, so they are set first.
    _set_totals(result, progress)
    await events.end(step, ran.run, result)
    return ran


def _end_before(progress: WorkflowProgress, budget: RunBudget) -> Termination | None:
    """The end of a workflow that was cancelled, or has nothing left of a budget for its next step."""
    if progress.is_cancelled:
        return Termination(reason="cancelled", message="The run was cancelled")
    left = {
        "rounds": budget.max_rounds,
        "tokens": budget.max_tokens,
        "cost": budget.max_cost,
        "seconds": budget.max_seconds,
    }
    # None means that the budget sets no limit of this kind; only 0 means that nothing
    # is left.
    kind = next((kind for kind, amount in left.items() if amount == 0), "")
    if not kind:
        return None
    return Termination(
        reason="stopped",
        code=f"budget_{kind}",
        message="The budget of the workflow is used up",
    )


def _set_totals(result: WorkflowResult, progress: WorkflowProgress) -> None:
    used = spent(progress.state)
    result.rounds = used.rounds
    result.usage = used.usage
    result.cost = used.cost
    result.uncertain = progress.state.uncertain


class _Events:
    """Sends the events of one workflow."""

    def __init__(self, run: str, steps: int, sink: WorkflowSink | None) -> None:
        self._run = run
        self._steps = steps
        self._sink = sink
        self._number = 0

    async def start(self, step: WorkflowStep, run_id: str) -> None:
        await self._send(
            WorkflowStepStarted(
                run=self._run,
                number=self._next_number(),
                step=step.number,
                steps=self._steps,
                step_run=run_id,
                heading=step.heading,
                agent=step.agent,
            )
        )

    async def end(
        self, step: WorkflowStep, run_id: str, so_far: WorkflowResult
    ) -> None:
        await self._send(
            WorkflowStepEnded(
                run=self._run,
                number=self._next_number(),
                step=step.number,
                steps=self._steps,
                step_run=run_id,
                termination=so_far.termination,
                rounds=so_far.rounds,
                usage=so_far.usage,
                cost=so_far.cost,
            )
        )

    def _next_number(self) -> int:
        self._number += 1
        return self._number

    async def _send(self, event: WorkflowEvent) -> None:
        if self._sink is None:
            return
        taken = self._sink(event)
        # A sink may be a plain function or a coroutine function.
        if inspect.isawaitable(taken):
            await taken
