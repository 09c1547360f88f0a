"""Says how a run ended, and how it can go on."""

import argparse
import shlex
from typing import TYPE_CHECKING

from agent_resolver.cli.output import err
from agent_resolver.core.count import counted, plural
from agent_resolver.runtime.inference import Usage as TokenUsage
from agent_resolver.runtime.run import TOKEN_EXPIRED, RunResult, Termination
from agent_resolver.schema.outcome import Pending
from agent_resolver.schema.state import FINISHED, RUNS

if TYPE_CHECKING:
    from agent_resolver.project.session import Session


def exit_code_of(termination: Termination) -> int:
    """0 for an agent that came to its end, 1 for every other end."""
    # A planned end is that of the agent, or of a plugin that ended it on purpose; a
    # limit, a rule or a wait is not planned.
    return 0 if termination.is_planned else 1


def report_end(result: RunResult, options: argparse.Namespace) -> None:
    """Say how a run ended, what it used, and what it waits for."""
    termination = result.termination
    used = describe_use(
        result.rounds, result.usage, result.cost, result.state.uncertain
    )
    if termination.is_planned:
        if termination.code == "length":  # The text looks whole, and is not.
            err(f"warning: {termination.message}")
        err(f"✓ {result.agent_id}: {used}")
        return
    report_stop(result.agent_id, termination, used, result.pending)
    err(f"  Kept as run {result.run}")
    if hint := _hint_at_going_on(result, options):
        err(f"hint: {hint}")


def describe_use(
    rounds: int, usage: TokenUsage, cost: float | None, uncertain: int = 0
) -> str:
    """The rounds, tokens and cost of a run, in words."""
    price = cost_text(cost, uncertain)
    return f"{counted(rounds, 'round')}, {usage.input_tokens:,} tokens in, {usage.output_tokens:,} out, {price}"


def report_stop(
    what: str, termination: Termination, used: str, pending: Pending | None
) -> None:
    """Say why something did not come to its end, what it used, and what it waits for."""
    err(f"✗ {what}: {termination.description}")
    # What was used is shown also for a run that failed, as it was paid for.
    err(f"  {used}")
    if pending is not None:
        until = f", until {pending.expires_at}" if pending.expires_at else ""
        err(f"  Waiting for {pending.type} {pending.id}{until}")


def cost_text(cost: float | None, uncertain: int) -> str:
    """The cost of a run, marked as uncertain if a question may have been paid whose answer was lost."""
    known = "cost unknown" if cost is None else f"${cost:.4f}"
    if not uncertain:
        return known
    # A question whose answer was lost may have been paid, so the sum is a lower bound.
    sign = "" if cost is None else "~"
    return f"{sign}{known} ({uncertain_text(uncertain)})"


def uncertain_text(uncertain: int) -> str:
    """The questions whose answer was lost, in words."""
    return f"{uncertain} {plural(uncertain, 'question')} may have been paid without an answer here"


def answer_command(kind: str, action_id: str) -> str:
    """The command that answers what a run waits for; empty where it is answered by being there."""
    commands = {
        "APPROVAL": f"`agent inbox approve {action_id}`, or `reject`",
        "CLARIFICATION": f"`agent inbox answer {action_id} TEXT`",
    }
    return commands.get(kind, "")


def go_on_command(run: str, options: argparse.Namespace, *more: str) -> str:
    """The command that lets a run go on, with the options that decide what its agent is made of."""
    words = ["agent", "runs", "resume", run]
    if model := getattr(options, "model", None):
        words += ["--model", model]
    if index := getattr(options, "index", None):
        words += ["--index", index]
    for root in getattr(options, "roots", ()):
        words += ["--root", root]
    for setting in options.settings:
        words += ["--config", setting]
    words += more
    # Names and settings may hold spaces or quotes: the line must be safe to paste into
    # a shell.
    return f"`{shlex.join(words)}`"


def _hint_at_going_on(result: RunResult, options: argparse.Namespace) -> str:
    """The commands that answer what a run waits for and go on with it."""
    if not result.is_resumable:
        return ""
    go_on = go_on_command(result.run, options)
    # An expired token needs a new one: no answer in the inbox would help.
    if result.termination.code == TOKEN_EXPIRED:
        return f"{go_on} with a new token"
    if result.pending is None:
        return hint_at_larger_budget(result.run, result.termination.code, options)
    command = answer_command(result.pending.type, result.pending.id)
    return f"{command or result.pending.message}; then {go_on}"


def hint_at_larger_budget(run: str, code: str, options: argparse.Namespace) -> str:
    """The command that goes on with a run under a larger budget: under the same one it would stop at once."""
    # The code of such an end names the budget, and the option for it has the same name.
    kind = code.removeprefix("budget_")
    # A limit that no option gave comes from the agent file, and a changed file takes
    # `--with-changes`.
    if getattr(options, f"max_{kind}", None) is None:
        go_on = go_on_command(run, options, "--with-changes")
        return f"allow more in the budget of the agent file; then {go_on}"
    return f"{go_on_command(run, options, f'--max-{kind}')} with more than before"


def report_interruption(
    session: "Session", run: str, options: argparse.Namespace
) -> None:
    """Say how a run goes on that was interrupted; nothing of one that had not begun, or has ended."""
    if options.json or not (run and session.has_state):
        return
    row = session.store.read_now(lambda snapshot: snapshot.get(RUNS, run))
    if row is not None and row.parent:
        # A step goes on with its workflow.
        parent = row.parent
        row = session.store.read_now(lambda snapshot: snapshot.get(RUNS, parent))
    if row is not None and row.status not in FINISHED:
        err(f"interrupted: {go_on_command(row.id, options)} goes on")
