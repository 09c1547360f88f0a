"""Runs `agent run`."""

import argparse
import asyncio
import gc
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from agent_resolver.catalog.query import Query
from agent_resolver.cli.catalog.execution import open_catalog_of
from agent_resolver.cli.errors import Usage
from agent_resolver.cli.input import AGENT_FILE
from agent_resolver.cli.option import session_of
from agent_resolver.cli.plan.execution import HINTS
from agent_resolver.cli.run.ending import exit_code_of, report_end, report_interruption
from agent_resolver.cli.run.question import ask_person, is_at_terminal
from agent_resolver.cli.run.view import JsonView, TextView, View
from agent_resolver.cli.tools.execution import end_on_sigterm
from agent_resolver.core.count import counted
from agent_resolver.project.identity import caller_of
from agent_resolver.project.run import ProjectRuns, ToolUse, open_runs
from agent_resolver.registry.tool import CallContext
from agent_resolver.runtime.budget import RunBudget
from agent_resolver.runtime.errors import AgentNotFound, ResolveError
from agent_resolver.runtime.message import user_message
from agent_resolver.runtime.run import ResumeRequest, RunRequest, RunResult
from agent_resolver.schema.walker import suggestion

if TYPE_CHECKING:
    from agent_resolver.catalog.catalog import Catalog
    from agent_resolver.project.session import Session

_MAX_PROMPT_BYTES: Final = 4 * 1024 * 1024
# As shells have it, a process that a signal ended exits with 128 and the number of the
# signal.
_INTERRUPTED: Final = 128 + signal.SIGINT
TERMINATED: Final = 128 + signal.SIGTERM


class Asked(Struct, frozen=True, kw_only=True):
    """The agent and the prompt that the command line gives."""

    agent: str
    prompt: str


def run(options: argparse.Namespace) -> int:
    """Run an agent to its end, or until it has to wait for a person who is not here."""
    gc.enable()  # Other commands live for moments, and do without.
    options.agents = AGENT_FILE
    with session_of(options) as session:
        catalog = open_catalog_of(session, options)
        asked = _asked_for(options, catalog)
        view = view_of(options)
        try:
            # The run is driven inside of the session, which closes the state once the
            # run has ended.
            return run_in_loop(
                _run_to_end(session, catalog, asked, view, options),
                session,
                view,
                options,
            )
        except ResolveError as error:
            add_hint(error, asked.agent, catalog)
            raise


def run_in_loop(
    work: Coroutine[Any, Any, int],
    session: "Session",
    view: View,
    options: argparse.Namespace,
) -> int:
    """Do the work; a signal that ends it interrupts the run, and a hint shows the command that goes on."""
    try:
        return asyncio.run(work)
    except asyncio.CancelledError:
        # SIGTERM cancels the main task, Ctrl-C raises in it: both leave a run that can
        # go on.
        code = TERMINATED
    except KeyboardInterrupt:
        code = _INTERRUPTED
    report_interruption(session, view.run, options)
    return code


def add_hint(error: ResolveError, agent: str, catalog: "Catalog") -> None:
    """Say what to do about an agent without a plan."""
    if isinstance(error, AgentNotFound):
        names = [found.name for found in catalog.search(Query(), None)]
        # A misspelled name gets the nearest one; the general hint is for a name that is
        # like none.
        error.hint = suggestion(agent, names) or HINTS[AgentNotFound]
    error.hint = error.hint or HINTS.get(type(error), "")


def view_of(options: argparse.Namespace) -> View:
    """The view that shows the run."""
    return JsonView() if options.json else TextView()


async def _run_to_end(
    session: "Session",
    catalog: "Catalog",
    asked: Asked,
    view: View,
    options: argparse.Namespace,
) -> int:
    end_on_sigterm()
    caller = await caller_of(session, options.token_file, session.environment)
    request = RunRequest(
        agent_id=asked.agent,
        messages=(user_message(asked.prompt),),
        thread=options.thread or "",
        # These limits only narrow the budget of the agent, and never widen it.
        budget=budget_of(options),
        streams=view.streams,
    )
    # The option replaces the model of the agent that was asked for, not those of the
    # agents that it delegates to.
    models = {asked.agent: options.model} if options.model else {}
    async with open_runs(
        session, catalog, caller=caller, use=tool_use_of(options), models=models
    ) as runs:
        answers = answers_of(runs, options, CallContext.for_caller(caller))
        result = await run_and_answer(runs, request, view, answers)
    if not options.json:
        report_end(result, options)
    return exit_code_of(result.termination)


def tool_use_of(options: argparse.Namespace) -> ToolUse:
    """The way in which the tools of a run are used."""
    return ToolUse(seconds=options.timeout, verbose=options.verbose)


Answers = Callable[[str], Awaitable[bool]]
"""Has a pending action answered, by its id; False if it is left open."""


def answers_of(
    runs: ProjectRuns, options: argparse.Namespace, context: CallContext
) -> Answers:
    """Asks the person at the terminal what a run waits for; leaves it open if there is no terminal."""
    # A program reads JSON and cannot answer, even if it happens to run at a terminal.
    can_ask = is_at_terminal() and not (options.no_input or options.json)

    async def answer(action_id: str) -> bool:
        return can_ask and await ask_person(runs.inbox, action_id, context)

    return answer


async def run_and_answer(
    runs: ProjectRuns, request: RunRequest | ResumeRequest, view: View, answers: Answers
) -> RunResult:
    """Run, and go on each time that what the run waits for was answered."""
    while True:
        with view.starting():
            if isinstance(request, RunRequest):
                result = await runs.run(request, view.show)
            else:
                result = await runs.resume(request, view.show)
        # A question that stays open ends the command, not the run: the inbox keeps it.
        if result.pending is None or not await answers(result.pending.id):
            return result
        # It has its budget from its beginning; one that was given to `resume` holds on.
        budget = None if isinstance(request, RunRequest) else request.budget
        # The changes that the operator accepted are accepted for every stretch of this
        # command.
        request = ResumeRequest(
            run=result.run,
            budget=budget,
            streams=view.streams,
            with_changes=request.with_changes,
        )


# What is asked for --------------------------------------------------------------------


def _asked_for(options: argparse.Namespace, catalog: "Catalog") -> Asked:
    # A single word is the prompt: the agent may be left out, the prompt may not.
    agent, prompt = (
        (options.agent, options.prompt)
        if options.prompt is not None
        else (None, options.agent)
    )
    names = [found.name for found in catalog.search(Query(), None)]
    # A name alone is more likely an agent whose prompt was forgotten than a prompt.
    if agent is None and prompt in names:
        raise Usage(
            f"Say what {prompt} shall do",
            f'such as `agent run {prompt} "Say what you can do"`',
        )
    if agent is None and len(names) != 1:
        raise Usage(
            f"Say which agent: the project has {counted(len(names), 'agent')}",
            "`agent catalog list` lists them",
        )
    return Asked(agent=agent or names[0], prompt=read_prompt(prompt))


def read_prompt(text: str) -> str:
    """The prompt of the command line, or that on stdin."""
    # The bytes of an argument are kept as they came, so that the check below sees them
    # as it sees stdin.
    given = text.encode(errors="surrogateescape")
    # One byte more than is allowed shows that there is too much, without reading all of
    # it.
    content = sys.stdin.buffer.read(_MAX_PROMPT_BYTES + 1) if text == "-" else given
    if len(content) > _MAX_PROMPT_BYTES:
        raise Usage(f"The prompt is longer than {_MAX_PROMPT_BYTES:,} bytes")
    try:
        prompt = content.decode()
    except UnicodeDecodeError:
        raise Usage("The prompt is not UTF-8") from None
    if not prompt.strip():
        raise Usage("The prompt is empty", "say what the agent shall do")
    return prompt


def budget_of(options: argparse.Namespace) -> RunBudget:
    """The limits that the command line gives a run."""
    return RunBudget(
        max_rounds=options.max_rounds,
        max_tokens=options.max_tokens,
        max_cost=options.max_cost,
        max_seconds=options.max_seconds,
    )
