"""Runs `agent inbox`."""

import argparse
import asyncio
import shlex
import sys
from collections.abc import Awaitable, Callable
from typing import Final

from msgspec import structs

from agent_resolver.cli.audit import existing_store
from agent_resolver.cli.errors import Refusal, Usage
from agent_resolver.cli.option import session_of
from agent_resolver.cli.output import err, out, out_json, safe
from agent_resolver.core.approval import Verdict
from agent_resolver.project.identity import caller_of
from agent_resolver.project.session import Session
from agent_resolver.project.tools import inbox_of
from agent_resolver.registry.errors import AnswerRefused
from agent_resolver.registry.inbox import MAX_WORDS, Inbox
from agent_resolver.registry.tool import CallContext
from agent_resolver.schema.caller import Caller
from agent_resolver.schema.pending import PendingAction
from agent_resolver.schema.state import RUNS, Run

Work = Callable[[Inbox, CallContext], Awaitable[None]]

_MOST_BYTES: Final = 4
"""How many bytes of UTF-8 a character has at most."""
_FACTS: Final = (
    ("Waits", "subject"),
    ("Asked by", "requester"),
    ("Made by", "via"),
    ("Asked at", "asked_at"),
    ("Expires at", "expires_at"),
    ("Classification", "classification"),
    ("Takes the role", "role"),
    ("Effects", "effects"),
    ("Agent", "agent"),
    ("Lock", "lock"),
    ("Code", "code"),
    ("Digest of the arguments", "arguments"),
    ("Trace", "trace_id"),
    ("Answer", "answer"),
    ("Reason", "reason"),
    ("Answered by", "answered_by"),
    ("Answered at", "answered_at"),
    ("Used at", "used_at"),
)


def run_list(options: argparse.Namespace) -> int:
    """Print what waits."""

    async def work(inbox: Inbox, context: CallContext) -> None:
        actions = await inbox.list(context, is_everything=options.all)
        if options.json:
            # The arguments are for `show`: a long list of them would not help to
            # decide.
            out_json(
                [
                    inbox.document(
                        structs.replace(action, content=None), context.caller
                    )
                    for action in actions
                ]
            )
            return
        for action in actions:
            # Message and subject may hold words of a model, so each line is made safe
            # for a terminal.
            out(
                safe(
                    f"{action.id} {inbox.state(action)} {action.type} {action.subject}: {action.message}"
                )
            )
        if not actions:
            err("Nothing waits")

    with session_of(options) as session:
        is_project = bool(session.config_path) or session.has_agent
        # Where no call was made yet, there is no state, and nothing in it can wait.
        if is_project and not session.has_state:
            if options.json:
                out_json([])
            else:
                err("Nothing waits")
            return 0
    return _with_inbox(options, work)


def run_show(options: argparse.Namespace) -> int:
    """Print one action."""

    async def work(inbox: Inbox, context: CallContext) -> None:
        _print_action(
            await inbox.show(options.id, context), inbox, context.caller, options
        )

    return _with_inbox(options, work)


def run_approve(options: argparse.Namespace) -> int:
    """Approve a call."""
    return _decide_action(options, "approved")


def run_reject(options: argparse.Namespace) -> int:
    """Reject a call."""
    return _decide_action(options, "rejected")


def run_answer(options: argparse.Namespace) -> int:
    """Answer a question."""
    # The answer is checked before anything is opened, so a mistake in the command line
    # touches no state.
    words = _check_length(
        _from_stdin() if options.text == "-" else options.text, "answer"
    )

    async def work(inbox: Inbox, context: CallContext) -> None:
        _print_answered(
            await inbox.answer(options.id, words, context),
            inbox,
            context.caller,
            options,
        )

    return _with_inbox(options, work, hints_at_runs=not options.json)


def _decide_action(options: argparse.Namespace, verdict: Verdict) -> int:
    reason = None if options.reason is None else _check_length(options.reason, "reason")

    async def work(inbox: Inbox, context: CallContext) -> None:
        _print_answered(
            await inbox.decide(options.id, verdict, context, reason),
            inbox,
            context.caller,
            options,
        )

    return _with_inbox(options, work, hints_at_runs=not options.json)


def _with_inbox(
    options: argparse.Namespace, work: Work, *, hints_at_runs: bool = False
) -> int:
    try:
        with session_of(options) as session:
            store = existing_store(session)
            asyncio.run(_work_on_inbox(session, options.token_file, work))
            # Only a text answer gets the hints: the JSON of an answer is one document,
            # which nothing may follow.
            if hints_at_runs:
                _hint_at_runs(
                    store.read_now(
                        lambda snapshot: snapshot.find(RUNS, {"status": "waiting"})
                    ),
                    options.id,
                )
    except AnswerRefused as refused:
        # The refusal of the inbox carries its own remedy and code; both reach programs
        # under the same names.
        refusal = refused.refusal
        raise Refusal(
            f"{refusal.code}: {refusal.message}", refusal.remedy, refusal.code
        ) from None
    return 0


def _hint_at_runs(waiting: list[Run], action_id: str) -> None:
    """Say how the runs go on that waited for an action; a part of another run goes on with that one."""
    for row in waiting:
        # No command resumes the run of a blueprint by hand: workers take those from a
        # queue in the state.
        if row.waits_for == action_id and row.kind == "blueprint":
            out(
                safe(f"  Run {row.id} of {row.agent} goes on where `agent worker` runs")
            )
        elif row.waits_for == action_id and row.kind == "task":
            out(
                safe(
                    f"  Task {row.id} goes on with `agent task resume {shlex.quote(row.id)}`"
                )
            )
        elif row.waits_for == action_id and not row.parent:
            out(
                safe(
                    f"  Run {row.id} goes on with `agent runs resume {shlex.quote(row.id)}`"
                )
            )


async def _work_on_inbox(session: Session, token_file: str | None, work: Work) -> None:
    caller = await caller_of(session, token_file, session.environment)
    inbox = inbox_of(session)
    await work(inbox, CallContext.for_caller(caller))


def _from_stdin() -> str:
    # So many bytes hold more characters than are taken, whatever characters they are.
    content = sys.stdin.buffer.read(MAX_WORDS * _MOST_BYTES + 1)
    # Bytes that are not UTF-8 become surrogates here, which `_check_length` then
    # refuses with a message of its own.
    return content.decode(errors="surrogateescape").rstrip("\n")


def _check_length(text: str, what: str) -> str:
    if not text.strip() or len(text) > MAX_WORDS:
        raise Usage(f"The {what} must have 1 to {MAX_WORDS:,} characters")
    try:
        # Encoding fails for surrogates alone, which stand for bytes of the command line
        # or of stdin that are not UTF-8.
        text.encode()
    except UnicodeEncodeError:
        raise Usage(f"The {what} is no UTF-8") from None
    return text


def _print_answered(
    action: PendingAction, inbox: Inbox, reader: Caller, options: argparse.Namespace
) -> None:
    if options.json:
        out_json(inbox.document(action, reader))
        return
    out(safe(f"✓ {action.id} {inbox.state(action)} by {action.answered_by}"))
    # An approval is bound to the call and its trace, so the caller must repeat the call
    # under the same trace id.
    if action.type == "APPROVAL" and action.answer == "approved":
        out(
            safe(
                f"  The same call passes once, until {action.expires_at}: --trace-id {action.trace_id}"
            )
        )


def _print_action(
    action: PendingAction, inbox: Inbox, reader: Caller, options: argparse.Namespace
) -> None:
    if options.json:
        out_json(inbox.document(action, reader))
        return
    out(safe(f"{action.id} {inbox.state(action)} {action.type}"))
    out(safe(f"  {action.message}"))
    # None means that no arguments were kept; a reader who is not cleared for them gets
    # a sentence that says so.
    if arguments := inbox.arguments_of(action, reader):
        out(safe(f"  Arguments: {arguments}"))
    for label, field in _FACTS:
        # An action has only some of the facts: an open one has no answer yet, and a
        # question has no role.
        if value := getattr(action, field):
            out(safe(f"  {label}: {value}"))
