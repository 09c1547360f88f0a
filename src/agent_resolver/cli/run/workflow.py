"""The command `agent run --workflow`, and `agent runs resume` with a workflow."""

import argparse
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from agent_resolver.catalog.query import Query
from agent_resolver.cli.catalog.execution import open_catalog_of
from agent_resolver.cli.errors import InvalidFile, InvalidFiles, Usage
from agent_resolver.cli.input import AGENT_FILE
from agent_resolver.cli.option import session_of
from agent_resolver.cli.output import err, out, out_json
from agent_resolver.cli.plan.execution import HINTS
from agent_resolver.cli.run.ending import (
    answer_command,
    describe_use,
    exit_code_of,
    go_on_command,
    hint_at_larger_budget,
    report_stop,
)
from agent_resolver.cli.run.execution import (
    Answers,
    answers_of,
    budget_of,
    read_prompt,
    run_in_loop,
    tool_use_of,
    view_of,
)
from agent_resolver.cli.run.view import View
from agent_resolver.cli.tools.execution import end_on_sigterm
from agent_resolver.core.count import counted
from agent_resolver.project.errors import RefusedStep
from agent_resolver.project.identity import caller_of
from agent_resolver.project.plan import agents_of
from agent_resolver.project.run import ProjectRuns, open_runs
from agent_resolver.project.workflow import content_digest, plan_steps, steps_of
from agent_resolver.project.workflow_progress import kept_workflow
from agent_resolver.project.workflow_request import WorkflowRequest, WorkflowResult
from agent_resolver.project.workflow_run import (
    has_changed,
    resume_workflow,
    start_workflow,
)
from agent_resolver.registry.tool import CallContext
from agent_resolver.runtime.errors import ResolveError
from agent_resolver.runtime.run import (
    TOKEN_EXPIRED,
    ResumeRequest,
    RunRequest,
    RunResult,
    Termination,
)
from agent_resolver.schema.errors import InvalidWorkflow
from agent_resolver.schema.limit import MAX_WORKFLOW_BYTES
from agent_resolver.schema.state import FINISHED, RUNS
from agent_resolver.schema.workflow import WorkflowSteps, parse_workflow
from agent_resolver.storage.file import read_bounded

if TYPE_CHECKING:
    from agent_resolver.catalog.catalog import Catalog
    from agent_resolver.project.session import Session


class StepRuns:
    """Runs the steps of a workflow, shows them, and asks the person here what they wait for."""

    def __init__(self, runs: ProjectRuns, view: View, answers: Answers) -> None:
        self._runs = runs
        self._view = view
        self._answers = answers
        self.is_used = False
        """True once a step ran here, and so was shown."""

    async def run_step(self, request: RunRequest) -> RunResult:
        """Run a step, and go on each time that what it waits for was answered."""
        self.is_used = True
        while True:
            with self._view.starting():
                ran = await self._runs.take_step(request, self._view.show)
            # The same request goes on with the step: its id is known to the journal
            # after the first time.
            if ran.pending is None or not await self._answers(ran.pending.id):
                return ran


def run(options: argparse.Namespace) -> int:
    """Take the steps of a workflow to its end, or show them."""
    gc.enable()  # Other commands live for moments, and do without.
    options.agents = AGENT_FILE
    with session_of(options) as session:
        catalog = open_catalog_of(session, options)
        try:
            # The workflow is checked before a server is started or a model is asked.
            workflow = _read_workflow(session, catalog, options)
        except InvalidWorkflow as error:
            raise InvalidFiles(
                [InvalidFile("workflow", options.workflow, error.issues)]
            ) from None
        prompt = _prompt_of(options, catalog)
        view = view_of(options)
        request = WorkflowRequest(
            prompt=prompt, budget=budget_of(options), streams=view.streams
        )
        return run_in_loop(
            _run_to_end(session, catalog, workflow, request, view, options),
            session,
            view,
            options,
        )


def _read_workflow(
    session: "Session", catalog: "Catalog", options: argparse.Namespace
) -> WorkflowSteps:
    # It says which agents act, and what they do: a file of another user must not.
    content = read_bounded(options.workflow, MAX_WORKFLOW_BYTES, session.users)
    workflow = parse_workflow(content)
    return WorkflowSteps(
        title=workflow.title,
        # The path is absolute, since the run may go on in another folder.
        file=str(Path(options.workflow).absolute()),
        # The digest lets a later command see that the file is not the one that the run
        # began with.
        digest=content_digest(content),
        steps=steps_of(workflow, agents_of(session, catalog)),
    )


def _prompt_of(options: argparse.Namespace, catalog: "Catalog") -> str:
    given: str | None = options.agent
    if given is None:
        return ""
    # With a workflow the first word is the prompt; the name of an agent there is likely
    # a habit of `agent run`.
    if given in {agent.name for agent in catalog.search(Query(), None)}:
        raise Usage(
            f"A workflow names its agents itself, and `{given}` is one",
            "leave it out, or give a prompt",
        )
    return read_prompt(given)


async def _run_to_end(  # noqa: PLR0913, PLR0917 - what a command has opened so far
    session: "Session",
    catalog: "Catalog",
    workflow: WorkflowSteps,
    request: WorkflowRequest,
    view: View,
    options: argparse.Namespace,
) -> int:
    end_on_sigterm()
    caller = await caller_of(session, options.token_file, session.environment)
    models = models_of(workflow, options.model)
    async with open_runs(
        session, catalog, caller=caller, use=tool_use_of(options), models=models
    ) as runs:
        with _hints(session, request.run_id, options):
            if options.check:
                # Planning asks no model and starts no server, and finds agents that are
                # missing or have no plan.
                plan_steps(runs.runtime, workflow.steps)
                _print_steps(workflow, options)
                return 0
            steps = StepRuns(
                runs, view, answers_of(runs, options, CallContext.for_caller(caller))
            )
            result = await start_workflow(
                runs, workflow, request, steps.run_step, view.show
            )
    if not options.json:
        _report_end(workflow, result, options)
    return exit_code_of(result.termination)


def models_of(workflow: WorkflowSteps, model: str | None) -> dict[str, str]:
    """The model of the command line, in place of that of every agent that is mentioned."""
    if not model:
        return {}
    return dict.fromkeys((step.agent for step in workflow.steps), model)


async def resume_steps(  # noqa: PLR0913 - what a command has opened so far
    session: "Session",
    runs: ProjectRuns,
    request: ResumeRequest,
    *,
    view: View,
    answers: Answers,
    options: argparse.Namespace,
) -> Termination:
    """Go on with a workflow to its end, or until it waits again, and say how it ended."""
    # The steps come from the state and not from the file, which may have changed since.
    workflow = session.store.read_now(
        lambda snapshot: kept_workflow(snapshot, request.run, session.seal)
    )
    if has_changed(workflow, session.users) and not options.json:
        err(
            f"{workflow.file} is not as it was; this run goes on by the steps that it began with"
        )
    steps = StepRuns(runs, view, answers)
    with _hints(session, request.run, options):
        result = await resume_workflow(runs, request, steps.run_step, view.show)
    if not options.json:
        if result.text and not steps.is_used:
            # The last step came to its end before, in a process that could not say so.
            out(result.text)
        _report_end(workflow, result, options)
    return result.termination


@contextmanager
def _hints(session: "Session", run: str, options: argparse.Namespace) -> Iterator[None]:
    """Say what to do about a step that is refused, and how a workflow that had begun goes on after that."""
    try:
        yield
    except RefusedStep as refused:
        if isinstance(refused.reason, ResolveError):
            refused.hint = refused.hint or HINTS.get(type(refused.reason), "")
        row = None
        # Looking for the row must not make a state where none is.
        if session.has_state:
            row = session.store.read_now(lambda snapshot: snapshot.get(RUNS, run))
        # A workflow that was refused before its first step is not kept, and cannot go
        # on.
        if row is not None and row.status not in FINISHED:
            then = f"then {go_on_command(run, options)}"
            refused.hint = (
                f"{refused.hint}; {then}" if refused.hint else f"correct that; {then}"
            )
        raise


# What is printed ----------------------------------------------------------------------


def _title_of(workflow: WorkflowSteps) -> str:
    return workflow.title or Path(workflow.file).name


def _print_steps(workflow: WorkflowSteps, options: argparse.Namespace) -> None:
    steps = workflow.steps
    if options.json:
        listed = [
            {
                "step": each.number,
                "heading": each.heading,
                "agent": each.agent,
                "line": each.line,
            }
            for each in steps
        ]
        out_json(
            {
                "success": True,
                "workflow": options.workflow,
                "title": workflow.title,
                "steps": listed,
            }
        )
        return
    out(f"✓ {_title_of(workflow)}: {counted(len(steps), 'step')}")
    for step in steps:
        out(f"  {step.number}. {step.heading} ({step.agent})")


def _report_end(
    workflow: WorkflowSteps, result: WorkflowResult, options: argparse.Namespace
) -> None:
    termination = result.termination
    used = describe_use(result.rounds, result.usage, result.cost, result.uncertain)
    count = len(workflow.steps)
    if termination.is_planned:
        if termination.code == "length":  # The text looks whole, and is not.
            # The words go to stderr, as stdout holds the result of the last step.
            err(f"warning: {termination.message}")
        err(f"✓ {_title_of(workflow)}: {counted(count, 'step')}, {used}")
        return
    step = result.step
    report_stop(
        f"Step {step.number} of {count}, {step.heading} ({step.agent})",
        termination,
        used,
        result.pending,
    )
    # A cancelled workflow is over, so there is nothing to go on with.
    if termination.reason != "cancelled":
        err(f"hint: {_hint_at_going_on(result, options)}")


def _hint_at_going_on(result: WorkflowResult, options: argparse.Namespace) -> str:
    """A hint: the step to take so that the workflow gets further, and the command that lets it go on."""
    go_on = go_on_command(result.run, options)
    pending = result.pending
    code = result.termination.code
    if pending is not None:
        return f"{answer_command(pending.type, pending.id) or pending.message}; then {go_on}"
    if code == TOKEN_EXPIRED:
        return f"{go_on} with a new token"
    if code.startswith("budget_"):
        return hint_at_larger_budget(result.run, code, options)
    return f"correct that; then {go_on} takes the step again"
