"""Asks the person at the terminal what a run waits for, through the one inbox."""

import asyncio
import os
import sys
from typing import TYPE_CHECKING

from agent_resolver.cli.output import err
from agent_resolver.registry.errors import AnswerRefused
from agent_resolver.registry.inbox import MAX_WORDS, Inbox
from agent_resolver.registry.tool import CallContext
from agent_resolver.schema.pending import PendingAction

if TYPE_CHECKING:
    from agent_resolver.core.approval import Verdict


def is_at_terminal() -> bool:
    """True if a person can be asked, and can answer."""
    return sys.stdin.isatty() and sys.stderr.isatty()


async def ask_person(inbox: Inbox, action_id: str, context: CallContext) -> bool:
    """Show what a run waits for and take the answer; True if the run can go on.

    The person answers as the caller of the command, by the rules of `agent inbox`. A question that is left open
    stays in the inbox.
    """
    # The state may change while the question is on the screen, and the inbox refuses an
    # answer that comes too late.
    try:
        action = await inbox.show(action_id, context)
        if (
            not action.is_open
        ):  # Another person answered it meanwhile, or the secret is there.
            return True
        _show_action(action, inbox, context)
        match action.type:
            case "APPROVAL":
                return await _decide(inbox, action, context)
            case "CLARIFICATION":
                return await _answer(inbox, action, context)
            case _:
                return await _wait_until_ready(inbox, action, context)
    except AnswerRefused as refused:
        # A refusal does not end the run: the question stays open for a person who may
        # answer it.
        err(f"✗ {refused.refusal.code}: {refused.refusal.message}")
        err(f"  hint: {refused.refusal.remedy}")
        return False


def _show_action(action: PendingAction, inbox: Inbox, context: CallContext) -> None:
    err(f"? {action.message}")
    if arguments := inbox.arguments_of(action, context.caller):
        err(f"  Arguments: {arguments}")
    # The effects say what an approval lets happen, so they are shown before the
    # question.
    if action.effects:
        err(f"  Effects: {action.effects}")


async def _decide(inbox: Inbox, action: PendingAction, context: CallContext) -> bool:
    _forget_typed()
    words = await _read_line("Let this call happen, once? [y/N] ")
    if words is None:
        return False
    # The default is no: an empty line or any other word must never let a call happen.
    verdict: Verdict = "approved" if words.lower() in {"y", "yes"} else "rejected"
    await inbox.decide(action.id, verdict, context)
    return True


def _forget_typed() -> None:
    """Drop what was typed before the question was seen: the text of a model may have asked for a `y`."""
    try:
        import termios
    except ImportError:  # Windows has none.
        return
    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


async def _answer(inbox: Inbox, action: PendingAction, context: CallContext) -> bool:
    words = await _read_line("Answer (empty to leave it open): ")
    if not words:
        return False
    await inbox.answer(action.id, words, context)
    return True


async def _wait_until_ready(
    inbox: Inbox, action: PendingAction, context: CallContext
) -> bool:
    """Wait for what is answered by being there, such as a secret, which is never typed in here."""
    # A secret is set elsewhere, so Enter only asks the inbox to look again.
    while (
        await _read_line("Press Enter once it is there, Ctrl-D to leave it: ")
        is not None
    ):
        if not (await inbox.show(action.id, context)).is_open:
            return True
        err("It is not there yet")
    return False


async def _read_line(question: str) -> str | None:
    """The line that the person types; None at the end of the input.

    The event loop waits for it, so that Ctrl-C cancels this like everything else.
    """
    sys.stderr.write(question)
    sys.stderr.flush()
    is_typed = asyncio.Event()
    loop = asyncio.get_running_loop()
    terminal = sys.stdin.fileno()
    # The terminal is watched by the loop, because a blocking read in a thread could not
    # be cancelled.
    loop.add_reader(terminal, is_typed.set)
    try:
        await is_typed.wait()
    finally:
        loop.remove_reader(terminal)
    # A terminal hands over one line at a time.
    line = os.read(terminal, MAX_WORDS)
    # No bytes mean the end of the input, as after Ctrl-D.
    if not line:
        err()
        return None
    return line.decode(errors="replace").strip()
