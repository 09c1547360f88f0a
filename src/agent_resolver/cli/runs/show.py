"""The command `agent runs show`."""

import argparse
import asyncio
import time
from typing import Any, Final

import msgspec

from agent_resolver.cli.audit import existing_store
from agent_resolver.cli.errors import Refusal
from agent_resolver.cli.option import session_of
from agent_resolver.cli.output import err, out, out_json, safe
from agent_resolver.cli.reader import readable_runs
from agent_resolver.cli.run.ending import (
    answer_command,
    cost_text,
    go_on_command,
    uncertain_text,
)
from agent_resolver.cli.runs.chosen_run import find_run
from agent_resolver.cli.runs.listing import run_document, waiting_text
from agent_resolver.core.count import counted
from agent_resolver.core.shorten import shorten
from agent_resolver.runtime.run import is_resumable, spent
from agent_resolver.runtime.run_history import (
    AskedModel,
    MadeCall,
    RunHistory,
    read_history,
)
from agent_resolver.storage.clock import SystemClock
from agent_resolver.storage.run_listing import ListedRun, look_at_run

_MOST_ARGUMENTS: Final = 100
_MOST_TEXT: Final = 2_000
"""The number of characters that are shown of arguments, and of the last text."""


def run(options: argparse.Namespace) -> int:
    """Print what happened in a run."""
    with session_of(options) as session:
        store = existing_store(session)
        may_read = readable_runs(session, options)
        chosen = store.read_now(
            lambda snapshot: find_run(snapshot, options.chosen, may_read)
        )
        listed = asyncio.run(look_at_run(store, time.time(), chosen))
        history = store.read_now(
            lambda snapshot: read_history(snapshot, chosen, session.seal)
        )
    # Another process may prune between the reads.
    if listed is None or history is None:
        raise Refusal(f"Run {chosen} was removed a moment ago", "`agent runs list`")
    if options.json:
        out_json(_document(listed, history))
    else:
        _print_history(listed, history, options)
    return 0


def _document(listed: ListedRun, history: RunHistory) -> dict[str, Any]:
    folded = history.folded
    return {
        **run_document(listed),
        "uncertain": folded.state.uncertain,
        "termination": folded.termination,
        "questions": history.questions,
        # A call may repeat what stands in a secret field of another, so the mask goes
        # over the whole list.
        "calls": history.mask.redact(msgspec.to_builtins(history.calls)),
        "delegates": [row.id for row in history.delegates],
        "text": history.text,
    }


def _print_history(
    listed: ListedRun, history: RunHistory, options: argparse.Namespace
) -> None:
    row = listed.row
    folded = history.folded
    # The use includes the runs that this one delegated to, which its own budget pays
    # for.
    used = spent(folded.state)
    out(safe(f"{row.id} {listed.status} {row.agent}"))
    thread = f"{row.thread}, after run {row.continues}" if row.continues else row.thread
    via = f", last by {folded.caller.via}" if folded.caller.via else ""
    cost = cost_text(used.cost, 0)
    # A workflow has no rounds of its own; its row counts those of its steps.
    rounds = max(row.rounds, folded.state.round)
    facts = (
        ("Started", row.started_at),
        ("Changed", row.changed_at),
        ("Caller", f"{row.caller}{via}"),
        ("Thread", thread),
        ("Part of", row.parent),
        ("Plan", row.plan),
        (
            "Used",
            f"{counted(rounds, 'round')}, {used.usage.total_tokens:,} tokens, {cost}",
        ),
        (
            "Uncertain",
            uncertain_text(folded.state.uncertain) if folded.state.uncertain else "",
        ),
        ("Ended", _ending_text(history)),
    )
    for label, value in facts:
        if value:
            out(safe(f"  {label}: {value}"))
    _print_rounds(history)
    part = "Step" if row.kind == "workflow" else "Delegate"
    for delegate in history.delegates:
        out(safe(f"  {part}: {delegate.id} {delegate.status} {delegate.agent}"))
    if history.text:
        out(safe(f"  Said: {shorten(history.text, _MOST_TEXT)}"))
    _print_what_next(listed, history, options)


def _ending_text(history: RunHistory) -> str:
    end = history.folded.termination
    # A suspended run has not ended; what it waits for comes further down.
    if end is None or end.reason == "suspended":
        return ""
    return end.description


def _print_rounds(history: RunHistory) -> None:
    """Each question to the model, and below it the calls of its answer."""
    # Calls are grouped by round, since the model asked for them in the answer of that
    # round.
    calls: dict[int, list[MadeCall]] = {}
    for call in history.calls:
        calls.setdefault(call.round, []).append(call)
    for question in history.questions:
        out(safe(f"  Round {question.round}: {_question_text(question)}"))
        # A question that was asked again has its calls below the answer.
        if question.outcome == "answered":
            for call in calls.pop(question.round, []):
                out(safe(f"    {_call_text(call, history)}"))


def _question_text(question: AskedModel) -> str:
    took = "" if question.seconds is None else f", {question.seconds:.1f} s"
    if question.outcome == "failed":
        return f"{question.model} failed: {question.failure}{took}"
    if question.outcome == "unanswered":
        return f"{question.model} was asked, and no answer came here"
    usage = question.usage
    tokens = (
        ""
        if usage is None
        else f", {usage.input_tokens:,} tokens in, {usage.output_tokens:,} out"
    )
    return f"{question.model}{tokens}, {cost_text(question.cost, 0)}{took}"


def _call_text(call: MadeCall, history: RunHistory) -> str:
    # The text is masked before it is cut: a secret cut in half would not be found any
    # more.
    shown = history.mask.redact(msgspec.json.encode(call.arguments).decode())
    code = f" {call.code}" if call.code else ""
    return f"{call.tool} {shorten(str(shown), _MOST_ARGUMENTS)} → {call.outcome}{code}"


def _print_what_next(
    listed: ListedRun, history: RunHistory, options: argparse.Namespace
) -> None:
    """Print the action that the run waits for, and the command that lets it go on."""
    row = listed.row
    end = history.folded.termination
    # A part of another run goes on with that one.
    go_on = go_on_command(row.parent or row.id, options)
    if listed.status == "waiting":
        now = SystemClock().now()
        out(safe(f"  {waiting_text(listed, now).capitalize()}"))
        action = listed.action
        is_open = action is not None and action.state(now) == "open"
        command = answer_command(action.type, action.id) if action and is_open else ""
        first = f"{command}; then " if command else ""
        err(f"hint: {first}{go_on}")
    elif listed.status == "interrupted" or (end is not None and is_resumable(end)):
        err(f"hint: {go_on}")
