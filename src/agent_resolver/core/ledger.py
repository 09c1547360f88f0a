"""Decides whether a call may start, from what the ledger keeps under its key."""

from agent_resolver.core.approval import is_usable
from agent_resolver.schema.ledger import Begun, LedgerEntry, Start
from agent_resolver.schema.pending import PendingAction


def judge_start(
    kept: LedgerEntry | None,
    start: Start,
    answer: PendingAction | None,
    *,
    is_interrupted: bool,
) -> Begun:
    """Decide if a call may start.

    Args:
        kept: What the ledger has under the key of the call.
        start: The call.
        answer: The approval or answer that `start.uses` names.
        is_interrupted: True if the process that started `kept` is gone, lost its run, or could not write its end.
    """
    if kept is not None and (
        refusal := _refuse_again(kept, start, is_interrupted=is_interrupted)
    ):
        return refusal
    # A call that was interrupted goes on under the approval that it used when it
    # started.
    goes_on = kept is not None and not start.is_new_attempt
    if start.uses is None or goes_on or is_usable(answer):
        return Begun("started")
    return Begun("refused")


def _refuse_again(
    kept: LedgerEntry,
    start: Start,
    *,
    is_interrupted: bool,
) -> Begun | None:
    """Return the reason why a call may not start a second time, or None if it may."""
    # A key names one call for ever: to answer with the result of another would be
    # wrong.
    if (kept.tool, kept.arguments) != (start.tool, start.arguments):
        return Begun("reused")
    if kept.state in {"done", "failed"}:
        return Begun(kept.state, kept.result)
    if kept.state == "started" and not is_interrupted:
        return Begun("running")
    # Both what ran and what would run now must be safe to do twice: the tool may have
    # changed in between.
    is_repeatable = start.is_idempotent and kept.is_idempotent
    if is_repeatable or start.is_new_attempt:
        return None
    return Begun("unknown")
