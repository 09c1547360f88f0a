"""What `agent run` does."""

import argparse
import asyncio
import gc
import shlex
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct, structs

from agent_resolver.catalog.query import Query
from agent_resolver.cli.catalog.execution import open_catalog_of
from agent_resolver.cli.errors import Refusal, Usage
from agent_resolver.cli.input import AGENT_FILE
from agent_resolver.cli.option import session_of
from agent_resolver.cli.output import err
from agent_resolver.cli.plan.execution import HINTS
from agent_resolver.cli.run.question import ask_person, is_at_terminal
from agent_resolver.cli.run.view import JsonView, TextView, View
from agent_resolver.cli.tools.execution import end_on_sigterm
from agent_resolver.core.count import counted
from agent_resolver.project.identity import caller_of
from agent_resolver.project.run import ProjectRuns, ToolUse, open_runs
from agent_resolver.registry.tool import CallContext
from agent_resolver.runtime.budget import RunBudget
from agent_resolver.runtime.errors import AgentNotFound, ResolveError
from agent_resolver.runtime.inference import Usage as TokenUsage
from agent_resolver.runtime.message import user_message
from agent_resolver.runtime.run import RunRequest, RunResult, RunState, Termination
from agent_resolver.schema.outcome import Pending
from agent_resolver.schema.walker import suggestion
from agent_resolver.storage.file import Batch, read_bounded

if TYPE_CHECKING:
    from agent_resolver.catalog.catalog import Catalog
    from agent_resolver.project.session import Session

_MAX_PROMPT_BYTES: Final = 4 * 1024 * 1024
_MAX_STATE_BYTES: Final = 64 * 1024 * 1024
_INTERRUPTED: Final = 128 + signal.SIGINT
TERMINATED: Final = 128 + signal.SIGTERM


class Asked(Struct, frozen=True, kw_only=True):
    """What the command line asks for."""

    agent: str
    prompt: str
    resume: RunState | None = None


def run(options: argparse.Namespace) -> int:
    """Run an agent to its end, or until it has to wait for a person who is not here."""
    gc.enable()  # Other commands live for moments, and do without.
    options.agents = AGENT_FILE
    with session_of(options) as session:
        catalog = open_catalog_of(session, options)
        asked = _asked_for(options, catalog, session.users)
        try:
            return asyncio.run(_run_to_end(session, catalog, asked, options))
        except asyncio.CancelledError:
            return TERMINATED
        except AgentNotFound as error:
            names = [agent.name for agent in catalog.search(Query(), None)]
            error.hint = suggestion(asked.agent, names) or HINTS[AgentNotFound]
            raise
        except ResolveError as error:
            error.hint = error.hint or HINTS.get(type(error), "")
            raise


async def _run_to_end(session: "Session", catalog: "Catalog", asked: Asked, options: argparse.Namespace) -> int:
    end_on_sigterm()
    caller = await caller_of(session, options.token_file, session.environment)
    view: View = JsonView() if options.json else TextView()
    use = ToolUse(seconds=options.timeout, verbose=options.verbose)
    models = {asked.agent: options.model} if options.model else {}
    async with open_runs(session, catalog, caller=caller, use=use, models=models) as runs:
        answers = answers_of(runs, options, CallContext.for_caller(caller))
        result = await run_and_answer(runs, _request_of(asked, view, options), view, answers)
    _save_state(result, options)
    if not options.json:
        _report_end(result, options)
    return exit_code_of(result.termination)


def exit_code_of(termination: Termination) -> int:
    """The exit code for a run that ended so."""
    if termination.reason == "cancelled":
        return _INTERRUPTED
    return 0 if termination.is_planned else 1


Answers = Callable[[str], Awaitable[bool]]
"""Has a pending action answered, by its id; False if it is left open."""


def answers_of(runs: ProjectRuns, options: argparse.Namespace, context: CallContext) -> Answers:
    """Asks the person at the terminal what a run waits for; leaves it open where there is none to ask."""
    can_ask = is_at_terminal() and not (options.no_input or options.json)

    async def answer(action_id: str) -> bool:
        return can_ask and await ask_person(runs.inbox, action_id, context)

    return answer


def _request_of(asked: Asked, view: View, options: argparse.Namespace) -> RunRequest:
    return RunRequest(
        agent_id=asked.agent,
        messages=(user_message(asked.prompt),) if asked.prompt else (),
        budget=budget_of(options),
        streams=view.streams,
        resume=asked.resume,
        with_changes=options.with_changes,
    )


async def run_and_answer(runs: ProjectRuns, request: RunRequest, view: View, answers: Answers) -> RunResult:
    """Run, and go on each time that what the run waits for was answered."""
    while True:
        with view.starting():
            result = await runs.run(request, view.show)
        if result.pending is None or not await answers(result.pending.id):
            return result
        request = structs.replace(request, messages=(), resume=result.state)


# What is asked for ----------------------------------------------------------------------------------------------------


def _asked_for(options: argparse.Namespace, catalog: "Catalog", users: frozenset[int]) -> Asked:
    state = _read_state(options.resume, users) if options.resume else None
    # A single word is the prompt: the agent may be left out, the prompt may not.
    agent, prompt = (options.agent, options.prompt) if options.prompt is not None else (None, options.agent)
    names = [found.name for found in catalog.search(Query(), None)]
    if state is not None:
        if agent is not None and agent != state.agent_id:
            raise Usage(f"`{options.resume}` holds a run of {state.agent_id}", "leave the agent out")
        if not prompt and _has_ended(state):
            raise Usage(f"The run in `{options.resume}` has ended", "say what the agent shall do next")
        return Asked(agent=state.agent_id, prompt=read_prompt(prompt) if prompt else "", resume=state)
    if agent is None and prompt in names:
        raise Usage(f"Say what {prompt} shall do", f'such as `agent run {prompt} "Say what you can do"`')
    if agent is None and len(names) != 1:
        raise Usage(
            f"Say which agent: the project has {counted(len(names), 'agent')}", "`agent catalog list` lists them"
        )
    return Asked(agent=agent or names[0], prompt=read_prompt(prompt))


def read_prompt(text: str) -> str:
    """The prompt of the command line, or of stdin.

    Raises:
        Usage: It is empty, too long or not UTF-8.
    """
    given = text.encode(errors="surrogateescape")
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
    """The most that the command line lets a run use."""
    return RunBudget(
        max_rounds=options.max_rounds,
        max_tokens=options.max_tokens,
        max_cost=options.max_cost,
        max_seconds=options.max_seconds,
    )


# A run that goes on later ---------------------------------------------------------------------------------------------


def _read_state(path: str, users: frozenset[int]) -> RunState:
    try:
        # It says which calls are made next: a file of another user must not.
        return msgspec.json.decode(read_bounded(path, _MAX_STATE_BYTES, users), type=RunState)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refusal(f"`{path}` is not the state of a run: {error}", "`--save-state` writes one") from None


def _has_ended(state: RunState) -> bool:
    """True if the agent had nothing left to do: its last message asks for no call."""
    return not state.open_calls and bool(state.messages) and state.messages[-1].role == "assistant"


def _place_of_state(options: argparse.Namespace) -> str | None:
    """The file that the run is kept in: the one it came from, unless another is named."""
    place: str | None = options.save_state or options.resume
    return place


def _save_state(result: RunResult, options: argparse.Namespace) -> None:
    if path := _place_of_state(options):
        with Batch() as batch:
            # It holds the whole conversation, with what tools returned: only its owner may read it.
            batch.write(path, [msgspec.json.encode(result.state)], is_private=True)


# How it ended ---------------------------------------------------------------------------------------------------------


def _report_end(result: RunResult, options: argparse.Namespace) -> None:
    termination = result.termination
    used = describe_use(result.rounds, result.usage, result.cost)
    if termination.is_planned:
        if termination.code == "length":  # The text looks whole, and is not.
            err(f"warning: {termination.message}")
        err(f"✓ {result.agent_id}: {used}")
        return
    report_stop(result.agent_id, termination, used, result.pending)
    if hint := _hint_at_going_on(result, options):
        err(f"hint: {hint}")


def describe_use(rounds: int, usage: TokenUsage, cost: float | None) -> str:
    """What was used, in words."""
    price = "cost unknown" if cost is None else f"${cost:.4f}"
    return f"{counted(rounds, 'round')}, {usage.input_tokens:,} tokens in, {usage.output_tokens:,} out, {price}"


def report_stop(what: str, termination: Termination, used: str, pending: Pending | None) -> None:
    """Say why something did not come to its end, what it used, and what it waits for."""
    code = f" ({termination.code})" if termination.code else ""
    words = f": {termination.message}" if termination.message else ""
    err(f"✗ {what}: {termination.reason}{code}{words}")
    err(f"  {used}")
    if pending is not None:
        until = f", until {pending.expires_at}" if pending.expires_at else ""
        err(f"  Waiting for {pending.type} {pending.id}{until}")


def _hint_at_going_on(result: RunResult, options: argparse.Namespace) -> str:
    """How to answer what a run waits for, and to go on with it."""
    if not result.is_resumable:
        return ""
    path = _place_of_state(options)
    if path is None:
        # An answer would come too late: this run is gone, and another one asks again.
        return "this run was not kept; with `--save-state FILE` it could go on later"
    go_on = f"`agent run --resume {shlex.quote(path)}`"
    if result.pending is None:
        return go_on
    commands = {
        "APPROVAL": f"`agent inbox approve {result.pending.id}`, or `reject`",
        "CLARIFICATION": f"`agent inbox answer {result.pending.id} TEXT`",
    }
    return f"{commands.get(result.pending.type, result.pending.message)}; then {go_on}"
