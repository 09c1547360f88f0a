"""What `agent run --workflow` does."""

import argparse
import asyncio
import gc
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from agent_resolver.catalog.query import Query
from agent_resolver.cli.catalog.execution import open_catalog_of
from agent_resolver.cli.errors import InvalidFile, InvalidFiles, Usage
from agent_resolver.cli.input import AGENT_FILE
from agent_resolver.cli.option import session_of
from agent_resolver.cli.output import err, out, out_json
from agent_resolver.cli.plan.execution import HINTS
from agent_resolver.cli.run.ending import describe_use, exit_code_of, report_stop
from agent_resolver.cli.run.execution import TERMINATED, answers_of, budget_of, read_prompt, run_and_answer
from agent_resolver.cli.run.view import JsonView, TextView, View
from agent_resolver.cli.tools.execution import end_on_sigterm
from agent_resolver.core.count import counted
from agent_resolver.project.errors import RefusedStep
from agent_resolver.project.identity import caller_of
from agent_resolver.project.plan import agents_of
from agent_resolver.project.run import ProjectRuns, ToolUse, open_runs
from agent_resolver.project.workflow import (
    WorkflowRequest,
    WorkflowResult,
    WorkflowStep,
    plan_steps,
    run_workflow,
    steps_of,
)
from agent_resolver.registry.tool import CallContext
from agent_resolver.runtime.errors import ResolveError
from agent_resolver.schema.caller import Caller
from agent_resolver.schema.errors import InvalidWorkflow
from agent_resolver.schema.limit import MAX_WORKFLOW_BYTES
from agent_resolver.schema.workflow import Workflow, parse_workflow
from agent_resolver.storage.file import read_bounded

if TYPE_CHECKING:
    from agent_resolver.catalog.catalog import Catalog
    from agent_resolver.project.session import Session


def run(options: argparse.Namespace) -> int:
    """Take the steps of a workflow to its end, or show them."""
    gc.enable()  # Other commands live for moments, and do without.
    options.agents = AGENT_FILE
    with session_of(options) as session:
        try:
            # It says which agents act, and what they do: a file of another user must not.
            workflow = parse_workflow(read_bounded(options.workflow, MAX_WORKFLOW_BYTES, session.users))
            return _run_in(session, workflow, options)
        except InvalidWorkflow as error:
            raise InvalidFiles([InvalidFile("workflow", options.workflow, error.issues)]) from None
        except RefusedStep as refused:
            if isinstance(refused.reason, ResolveError):
                refused.hint = refused.hint or HINTS.get(type(refused.reason), "")
            raise


def _run_in(session: "Session", workflow: Workflow, options: argparse.Namespace) -> int:
    catalog = open_catalog_of(session, options)
    prompt = _prompt_of(options, catalog)
    try:
        return asyncio.run(_run_to_end(session, catalog, workflow, prompt, options))
    except asyncio.CancelledError:
        return TERMINATED


def _prompt_of(options: argparse.Namespace, catalog: "Catalog") -> str:
    given: str | None = options.agent
    if given is None:
        return ""
    if given in {agent.name for agent in catalog.search(Query(), None)}:
        raise Usage(f"A workflow names its agents itself, and `{given}` is one", "leave it out, or give a prompt")
    return read_prompt(given)


async def _run_to_end(
    session: "Session", catalog: "Catalog", workflow: Workflow, prompt: str, options: argparse.Namespace
) -> int:
    end_on_sigterm()
    steps = steps_of(workflow, agents_of(session, catalog))
    caller = await caller_of(session, options.token_file, session.environment)
    use = ToolUse(seconds=options.timeout, verbose=options.verbose)
    models = {step.agent: options.model for step in steps if options.model}
    async with open_runs(session, catalog, caller=caller, use=use, models=models) as runs:
        # What is wrong with any step is said before the first one is paid for.
        plans = plan_steps(runs.runtime, steps)
        if options.check:
            _print_steps(workflow, steps, options)
            return 0
        for plan in plans:
            await runs.prepare(plan)
        result = await _run_steps(runs, steps, prompt, caller, options)
    if not options.json:
        _report_end(workflow, steps, result, options)
    return exit_code_of(result.termination)


async def _run_steps(
    runs: ProjectRuns, steps: Sequence[WorkflowStep], prompt: str, caller: Caller, options: argparse.Namespace
) -> WorkflowResult:
    view: View = JsonView() if options.json else TextView()
    answers = answers_of(runs, options, CallContext.for_caller(caller))
    request = WorkflowRequest(prompt=prompt, budget=budget_of(options), streams=view.streams)
    run_step = partial(run_and_answer, runs, view=view, answers=answers)
    return await run_workflow(steps, request, run_step, view.show)


# What is printed ------------------------------------------------------------------------------------------------------


def _title_of(workflow: Workflow, options: argparse.Namespace) -> str:
    title: str = workflow.title or options.workflow
    return title


def _print_steps(workflow: Workflow, steps: Sequence[WorkflowStep], options: argparse.Namespace) -> None:
    if options.json:
        listed = [
            {"step": each.number, "heading": each.heading, "agent": each.agent, "line": each.line} for each in steps
        ]
        out_json({"success": True, "workflow": options.workflow, "title": workflow.title, "steps": listed})
        return
    out(f"✓ {_title_of(workflow, options)}: {counted(len(steps), 'step')}")
    for step in steps:
        out(f"  {step.number}. {step.heading} ({step.agent})")


def _report_end(
    workflow: Workflow, steps: Sequence[WorkflowStep], result: WorkflowResult, options: argparse.Namespace
) -> None:
    termination = result.termination
    used = describe_use(result.rounds, result.usage, result.cost)
    if termination.is_planned:
        if termination.code == "length":  # The text looks whole, and is not.
            err(f"warning: {termination.message}")
        err(f"✓ {_title_of(workflow, options)}: {counted(len(steps), 'step')}, {used}")
        return
    step = result.step
    report_stop(f"Step {step.number} of {len(steps)}, {step.heading} ({step.agent})", termination, used, result.pending)
    err(f"hint: {_hint_at_going_on(result)}")


def _hint_at_going_on(result: WorkflowResult) -> str:
    """What to do so that the workflow gets further when it is run again."""
    kept = "; the steps before it are done again" if result.done else ""
    if result.pending is not None:
        return f"run the workflow at a terminal, where you are asked and it goes on at once{kept}"
    if result.termination.code.startswith("budget_"):
        return f"raise the budget, by options such as `--max-rounds` or in the agent file, and run it again{kept}"
    return f"correct that, and run the workflow again{kept}"
