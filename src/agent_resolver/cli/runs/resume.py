"""The command `agent runs resume`."""

import argparse
import gc
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from msgspec import Struct, structs

from agent_resolver.cli.audit import existing_store
from agent_resolver.cli.catalog.execution import open_catalog_of
from agent_resolver.cli.errors import Refusal
from agent_resolver.cli.input import AGENT_FILE
from agent_resolver.cli.option import session_of
from agent_resolver.cli.run.ending import (
    answer_command,
    exit_code_of,
    go_on_command,
    report_end,
)
from agent_resolver.cli.run.execution import (
    add_hint,
    answers_of,
    budget_of,
    read_prompt,
    run_and_answer,
    run_in_loop,
    tool_use_of,
    view_of,
)
from agent_resolver.cli.run.view import View
from agent_resolver.cli.run.workflow import models_of, resume_steps
from agent_resolver.cli.runs.chosen_run import find_run
from agent_resolver.cli.tools.execution import end_on_sigterm
from agent_resolver.project.identity import caller_or_worker
from agent_resolver.project.run import ProjectRuns, open_journal, open_runs
from agent_resolver.project.workflow_progress import kept_workflow
from agent_resolver.registry.tool import CallContext
from agent_resolver.runtime.budget import RunBudget
from agent_resolver.runtime.errors import ResolveError
from agent_resolver.runtime.journal.journal import Journal
from agent_resolver.runtime.message import user_message
from agent_resolver.runtime.run import ResumeRequest, Termination
from agent_resolver.schema.state import RUNS
from agent_resolver.storage.run_listing import ListedRun, look_at_run

if TYPE_CHECKING:
    from agent_resolver.catalog.catalog import Catalog
    from agent_resolver.project.session import Session

_TAKES_AN_ANSWER: Final = {"APPROVAL", "CLARIFICATION"}
"""Actions that only a person can answer. The others end once a thing is there, which the call finds out itself."""


class Resuming(Struct, frozen=True, kw_only=True):
    """All that is open for the runs which one command goes on with."""

    session: "Session"
    runs: ProjectRuns
    journal: Journal
    view: View
    options: argparse.Namespace
    context: CallContext


def run(options: argparse.Namespace) -> int:
    """Go on with one run, or with all that can."""
    gc.enable()  # Other commands live for moments, and do without.
    options.agents = AGENT_FILE
    with session_of(options) as session:
        # Without a state there is no run to go on with, and opening it must not make
        # one.
        store = existing_store(session)
        is_one = not (options.ready or options.watch)
        # Looked for before the catalog: the run of a blueprint is refused also where
        # there are no agents.
        chosen = (
            store.read_now(lambda snapshot: find_run(snapshot, options.chosen))
            if is_one
            else ""
        )
        catalog = open_catalog_of(session, options)
        view = view_of(options)
        if not is_one:
            from agent_resolver.cli.runs.resume_all import resume_ready

            return run_in_loop(
                _opened(session, catalog, {}, view, options, resume_ready),
                session,
                view,
                options,
            )
        return _resume_one(session, chosen, catalog, view, options)


def _resume_one(
    session: "Session",
    chosen: str,
    catalog: "Catalog",
    view: View,
    options: argparse.Namespace,
) -> int:
    row = session.store.read_now(lambda snapshot: snapshot.get(RUNS, chosen))
    agent = "" if row is None else row.agent
    # The prompt is read before the run is taken up, since stdin may be slow or empty.
    prompt = "" if options.prompt is None else read_prompt(options.prompt)

    async def work(resuming: Resuming) -> int:
        # The run is looked at once more inside of the loop: its state may have changed
        # while servers were connected.
        listed = await look_at_run(session.store, resuming.journal.seconds(), chosen)
        if listed is None:
            raise Refusal(f"Run {chosen} was removed a moment ago", "`agent runs list`")
        require_ready(listed, prompt, resuming)
        return exit_code_of(await resume_run(listed, prompt, resuming))

    # The model stands in for that of this agent alone.
    models = {agent: options.model} if options.model else {}
    # In a workflow the agents are those of its steps, and the run itself has none.
    if models and row is not None and row.kind == "workflow":
        workflow = session.store.read_now(
            lambda snapshot: kept_workflow(snapshot, chosen, session.seal)
        )
        models = models_of(workflow, options.model)
    try:
        return run_in_loop(
            _opened(session, catalog, models, view, options, work),
            session,
            view,
            options,
        )
    except ResolveError as error:
        add_hint(error, agent, catalog)
        raise


async def _opened(  # noqa: PLR0913, PLR0917 - what a command has opened so far
    session: "Session",
    catalog: "Catalog",
    models: dict[str, str],
    view: View,
    options: argparse.Namespace,
    work: Callable[[Resuming], Awaitable[int]],
) -> int:
    end_on_sigterm()
    # Without a token the project's worker may act; it never gets more rights than the
    # starter of the run had.
    caller = await caller_or_worker(session, options.token_file, session.environment)
    async with open_runs(
        session, catalog, caller=caller, use=tool_use_of(options), models=models
    ) as runs:
        return await work(
            Resuming(
                session=session,
                runs=runs,
                journal=open_journal(session),
                view=view,
                options=options,
                context=CallContext.for_caller(caller),
            )
        )


def require_ready(listed: ListedRun, prompt: str, resuming: Resuming) -> None:
    """Refuse a run that would only wait again, or that goes on with another one.

    Raises:
        Refusal: It cannot go on like this.
    """
    row = listed.row
    action = listed.action
    # A part goes on only with its parent, which waits for its result.
    if row.parent:
        go_on = go_on_command(row.parent, resuming.options)
        raise Refusal(
            f"Run {row.id} is a part of run {row.parent}, and goes on with it", go_on
        )
    is_open = (
        action is not None and action.state(resuming.journal.clock.now()) == "open"
    )
    # What the user says now takes the place of the call that waits.
    if action is None or not is_open or prompt or action.type not in _TAKES_AN_ANSWER:
        return
    message = (
        f"Run {row.id} still waits for {action.type} {action.id}: {action.message}"
    )
    raise Refusal(message, answer_command(action.type, action.id), "STILL_WAITING")


async def resume_run(listed: ListedRun, prompt: str, resuming: Resuming) -> Termination:
    """Let one run go on to its end, or until it waits again, and say how it ended."""
    options = resuming.options
    view = resuming.view
    request = ResumeRequest(
        run=listed.row.id,
        messages=(user_message(prompt),) if prompt else (),
        budget=await _budget(listed.row.id, resuming),
        streams=view.streams,
        with_changes=options.with_changes,
    )
    answers = answers_of(resuming.runs, options, resuming.context)
    if listed.row.kind == "workflow":
        # A workflow goes on step by step, and each step is a run that may wait on its
        # own.
        return await resume_steps(
            resuming.session,
            resuming.runs,
            request,
            view=view,
            answers=answers,
            options=options,
        )
    result = await run_and_answer(resuming.runs, request, view, answers)
    if not options.json:
        report_end(result, options)
    return result.termination


async def _budget(run: str, resuming: Resuming) -> RunBudget | None:
    """The budget that the run began with, with what the command line says in place of it; None to leave it."""
    # Only limits that were given count; the others stay as the run began with them.
    given = {
        name: value
        for name, value in structs.asdict(budget_of(resuming.options)).items()
        if value
    }
    if not given:
        return None
    folded = await resuming.journal.look_up(run)
    if folded is None:
        # It was removed a moment ago: taking it up says so.
        return RunBudget()
    return structs.replace(folded.beginning.budget, **given)
