"""What `agent run --workflow` does."""

import argparse
import asyncio
import gc
import shlex
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct, structs

from agent_resolver.catalog.query import Query
from agent_resolver.cli.catalog.execution import open_catalog_of
from agent_resolver.cli.errors import InvalidFile, InvalidFiles, Usage
from agent_resolver.cli.input import AGENT_FILE
from agent_resolver.cli.option import session_of
from agent_resolver.cli.output import err, out, out_json
from agent_resolver.cli.plan.execution import HINTS
from agent_resolver.cli.run.execution import (
    TERMINATED,
    answers_of,
    budget_of,
    describe_use,
    exit_code_of,
    read_prompt,
    report_stop,
)
from agent_resolver.cli.run.view import JsonView, TextView, View
from agent_resolver.cli.tools.execution import end_on_sigterm
from agent_resolver.core.count import counted
from agent_resolver.project.errors import RefusedStep
from agent_resolver.project.identity import caller_of
from agent_resolver.project.plan import agents_of
from agent_resolver.project.run import ProjectRuns, ToolUse, open_journal, open_runs
from agent_resolver.project.workflow import content_digest, plan_steps, steps_of
from agent_resolver.project.workflow_request import WorkflowRequest, WorkflowResult
from agent_resolver.project.workflow_run import RunStep, has_changed, kept_workflow, resume_workflow, start_workflow
from agent_resolver.registry.tool import CallContext
from agent_resolver.runtime.errors import ResolveError
from agent_resolver.runtime.run import ResumeRequest, RunRequest, RunResult
from agent_resolver.schema.errors import InvalidWorkflow
from agent_resolver.schema.limit import MAX_WORKFLOW_BYTES
from agent_resolver.schema.state import FINISHED, RUNS
from agent_resolver.schema.workflow import WorkflowSteps, parse_workflow
from agent_resolver.storage.file import read_bounded

if TYPE_CHECKING:
    from agent_resolver.catalog.catalog import Catalog
    from agent_resolver.project.session import Session

_INTERRUPTED: Final = 128 + signal.SIGINT


def run(options: argparse.Namespace) -> int:
    """Take the steps of a workflow to its end, or show them."""
    gc.enable()  # Other commands live for moments, and do without.
    options.agents = AGENT_FILE
    with session_of(options) as session:
        catalog = open_catalog_of(session, options)
        try:
            workflow = _read_workflow(session, catalog, options)
        except InvalidWorkflow as error:
            raise InvalidFiles([InvalidFile("workflow", options.workflow, error.issues)]) from None
        prompt = _prompt_of(options, catalog)
        view: View = JsonView() if options.json else TextView()
        request = WorkflowRequest(prompt=prompt, budget=budget_of(options), streams=view.streams)

        async def start(runs: ProjectRuns, run_step: RunStep) -> WorkflowResult | None:
            if options.check:
                plan_steps(runs.runtime, workflow.steps)
                return None
            return await start_workflow(runs, workflow, request, run_step, view.show)

        return _run_in(session, catalog, Taking(workflow, request.run_id, start), view, options)


def resume(session: "Session", catalog: "Catalog", run_id: str, options: argparse.Namespace) -> int:
    """Go on with a workflow to its end: what `agent runs resume` does with one."""
    workflow, budget = asyncio.run(kept_workflow(open_journal(session), run_id))
    if has_changed(workflow, session.users) and not options.json:
        err(f"{workflow.file} is not as it was when this run began, which goes on by the steps of then")
    view: View = JsonView() if options.json else TextView()
    given = {name: value for name, value in structs.asdict(budget_of(options)).items() if value}
    request = ResumeRequest(
        run=run_id,
        budget=structs.replace(budget, **given),
        streams=view.streams,
        with_changes=options.with_changes,
    )

    async def go_on(runs: ProjectRuns, run_step: RunStep) -> WorkflowResult:
        return await resume_workflow(runs, request, run_step, view.show)

    return _run_in(session, catalog, Taking(workflow, run_id, go_on), view, options)


class Taking(Struct, frozen=True):
    """A workflow whose steps are about to be taken."""

    workflow: WorkflowSteps
    run: str
    work: Callable[[ProjectRuns, RunStep], Awaitable[WorkflowResult | None]]
    """Takes the steps; None if they are only looked at."""


def _run_in(session: "Session", catalog: "Catalog", taking: Taking, view: View, options: argparse.Namespace) -> int:
    try:
        return asyncio.run(_run_to_end(session, catalog, taking, view, options))
    except asyncio.CancelledError:
        _report_interruption(session, taking.run, options)
        return TERMINATED
    except KeyboardInterrupt:
        _report_interruption(session, taking.run, options)
        return _INTERRUPTED
    except RefusedStep as refused:
        if isinstance(refused.reason, ResolveError):
            refused.hint = refused.hint or HINTS.get(type(refused.reason), "")
        if _is_unfinished(session, taking.run):
            refused.hint = "; then ".join(part for part in (refused.hint, _go_on(taking.run, options)) if part)
        raise


def _read_workflow(session: "Session", catalog: "Catalog", options: argparse.Namespace) -> WorkflowSteps:
    # It says which agents act, and what they do: a file of another user must not.
    content = read_bounded(options.workflow, MAX_WORKFLOW_BYTES, session.users)
    workflow = parse_workflow(content)
    return WorkflowSteps(
        title=workflow.title,
        file=str(Path(options.workflow).absolute()),
        digest=content_digest(content),
        steps=steps_of(workflow, agents_of(session, catalog)),
    )


def _prompt_of(options: argparse.Namespace, catalog: "Catalog") -> str:
    given: str | None = options.agent
    if given is None:
        return ""
    if given in {agent.name for agent in catalog.search(Query(), None)}:
        raise Usage(f"A workflow names its agents itself, and `{given}` is one", "leave it out, or give a prompt")
    return read_prompt(given)


async def _run_to_end(
    session: "Session", catalog: "Catalog", taking: Taking, view: View, options: argparse.Namespace
) -> int:
    end_on_sigterm()
    caller = await caller_of(session, options.token_file, session.environment)
    use = ToolUse(seconds=options.timeout, verbose=options.verbose)
    workflow = taking.workflow
    models = {step.agent: options.model for step in workflow.steps if options.model}
    taken: list[str] = []
    async with open_runs(session, catalog, caller=caller, use=use, models=models) as runs:
        answers = answers_of(runs, options, CallContext.for_caller(caller))

        async def run_step(request: RunRequest) -> RunResult:
            taken.append(request.run_id)
            while True:
                with view.starting():
                    ran = await runs.take_step(request, view.show)
                if ran.pending is None or not await answers(ran.pending.id):
                    return ran

        result = await taking.work(runs, run_step)
    if result is None:
        _print_steps(workflow, options)
        return 0
    if not options.json:
        if not taken and result.text:
            # The last step came to its end before, in a process that could not say so.
            out(result.text)
        _report_end(workflow, result, options)
    return exit_code_of(result.termination)


# What is printed ------------------------------------------------------------------------------------------------------


def _title_of(workflow: WorkflowSteps) -> str:
    return workflow.title or Path(workflow.file).name


def _print_steps(workflow: WorkflowSteps, options: argparse.Namespace) -> None:
    steps = workflow.steps
    if options.json:
        listed = [
            {"step": each.number, "heading": each.heading, "agent": each.agent, "line": each.line} for each in steps
        ]
        out_json({"success": True, "workflow": options.workflow, "title": workflow.title, "steps": listed})
        return
    out(f"✓ {_title_of(workflow)}: {counted(len(steps), 'step')}")
    for step in steps:
        out(f"  {step.number}. {step.heading} ({step.agent})")


def _report_end(workflow: WorkflowSteps, result: WorkflowResult, options: argparse.Namespace) -> None:
    termination = result.termination
    used = describe_use(result.rounds, result.usage, result.cost)
    count = len(workflow.steps)
    if termination.is_planned:
        if termination.code == "length":  # The text looks whole, and is not.
            err(f"warning: {termination.message}")
        err(f"✓ {_title_of(workflow)}: {counted(count, 'step')}, {used}")
        return
    step = result.step
    report_stop(f"Step {step.number} of {count}, {step.heading} ({step.agent})", termination, used, result.pending)
    if termination.reason != "cancelled":
        err(f"hint: {_hint_at_going_on(result, options)}")


def _hint_at_going_on(result: WorkflowResult, options: argparse.Namespace) -> str:
    """What to do so that the workflow gets further, and the command that lets it go on."""
    go_on = _go_on(result.run, options)
    pending, code = result.pending, result.termination.code
    if pending is not None:
        commands = {
            "APPROVAL": f"`agent inbox approve {pending.id}`, or `reject`",
            "CLARIFICATION": f"`agent inbox answer {pending.id} TEXT`",
        }
        return f"{commands.get(pending.type, pending.message)}; then {go_on}"
    kind = code.removeprefix("budget_")
    if kind == code:
        return f"correct that; then {go_on} takes the step again"
    if getattr(options, f"max_{kind}", None) is None:
        return f"allow more in the budget of the agent file; then {_go_on(result.run, options, '--with-changes')}"
    return f"{_go_on(result.run, options, f'--max-{kind}')} with more than before"


def _go_on(run: str, options: argparse.Namespace, *more: str) -> str:
    model = ["--model", options.model] if options.model else []
    return f"`{shlex.join(['agent', 'runs', 'resume', run, *model, *more])}`"


def _report_interruption(session: "Session", run: str, options: argparse.Namespace) -> None:
    """Say how a workflow goes on that was interrupted; nothing of one that had not begun, or has ended."""
    if not options.json and _is_unfinished(session, run):
        err(f"interrupted: {_go_on(run, options)} goes on")


def _is_unfinished(session: "Session", run: str) -> bool:
    if not session.has_state:
        return False
    row = session.store.read_now(lambda snapshot: snapshot.get(RUNS, run))
    return row is not None and row.status not in FINISHED
