"""What `agent run` does."""

import argparse
import asyncio
import gc
import shlex
import signal
import sys
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
from agent_resolver.runtime.message import user_message
from agent_resolver.runtime.run import RunRequest, RunResult, RunState
from agent_resolver.schema.walker import suggestion
from agent_resolver.storage.file import Batch, read_bounded

if TYPE_CHECKING:
    from agent_resolver.catalog.catalog import Catalog
    from agent_resolver.project.session import Session

_MAX_PROMPT_BYTES: Final = 4 * 1024 * 1024
_MAX_STATE_BYTES: Final = 64 * 1024 * 1024
_INTERRUPTED: Final = 128 + signal.SIGINT
_ENDS_WELL: Final = {"natural_end", "behavior_requested"}


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
            return 128 + signal.SIGTERM
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
        result = await _run_and_answer(runs, asked, view, options, CallContext.for_caller(caller))
    _save_state(result, options)
    if not options.json:
        _report_end(result, options)
    if result.termination.reason == "cancelled":
        return _INTERRUPTED
    return 0 if result.termination.reason in _ENDS_WELL else 1


async def _run_and_answer(
    runs: ProjectRuns, asked: Asked, view: View, options: argparse.Namespace, context: CallContext
) -> RunResult:
    """Run, and go on each time that the person here has answered what the run waits for."""
    can_ask = is_at_terminal() and not (options.no_input or options.json)
    request = RunRequest(
        agent_id=asked.agent,
        messages=(user_message(asked.prompt),) if asked.prompt else (),
        budget=_budget_of(options),
        streams=view.streams,
        resume=asked.resume,
        with_changes=options.with_changes,
    )
    while True:
        with view.starting():
            result = await runs.run(request, view.show)
        if result.pending is None or not can_ask or not await ask_person(runs.inbox, result.pending.id, context):
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
        return Asked(agent=state.agent_id, prompt=_read_prompt(prompt) if prompt else "", resume=state)
    if agent is None and prompt in names:
        raise Usage(f"Say what {prompt} shall do", f'such as `agent run {prompt} "Say what you can do"`')
    if agent is None and len(names) != 1:
        raise Usage(
            f"Say which agent: the project has {counted(len(names), 'agent')}", "`agent catalog list` lists them"
        )
    return Asked(agent=agent or names[0], prompt=_read_prompt(prompt))


def _read_prompt(text: str) -> str:
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


def _budget_of(options: argparse.Namespace) -> RunBudget:
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
    usage = result.usage
    cost = "cost unknown" if result.cost is None else f"${result.cost:.4f}"
    used = f"{counted(result.rounds, 'round')}, {usage.input_tokens:,} tokens in, {usage.output_tokens:,} out, {cost}"
    if termination.reason in _ENDS_WELL:
        if termination.code == "length":  # The text looks whole, and is not.
            err(f"warning: {termination.message}")
        err(f"✓ {result.agent_id}: {used}")
        return
    code = f" ({termination.code})" if termination.code else ""
    words = f": {termination.message}" if termination.message else ""
    err(f"✗ {result.agent_id}: {termination.reason}{code}{words}")
    err(f"  {used}")
    if result.pending is not None:
        until = f", until {result.pending.expires_at}" if result.pending.expires_at else ""
        err(f"  Waiting for {result.pending.type} {result.pending.id}{until}")
    if hint := _hint_at_going_on(result, options):
        err(f"hint: {hint}")


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
