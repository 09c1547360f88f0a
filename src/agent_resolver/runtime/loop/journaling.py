"""Writes each step of a run into its journal, before the next step begins."""

from collections.abc import Awaitable
from typing import Final

from msgspec import structs

from agent_resolver.runtime.executor import InferenceFailure
from agent_resolver.runtime.inference import ChatAnswer, ChatRequest
from agent_resolver.runtime.journal.entry import Reply
from agent_resolver.runtime.journal.question_digest import question_of
from agent_resolver.runtime.loop.live_run import LiveRun
from agent_resolver.runtime.run import RunResult, spent
from agent_resolver.schema.errors import ResolverError
from agent_resolver.storage.errors import LeaseLost

LEASE_LOST: Final = "lease_lost"
STATE_UNAVAILABLE: Final = "state_unavailable"
TAKEN_OVER: Final = "Another process has taken this run up, and goes on with it"


class JournalFailed(Exception):
    """A step could not be written down, and so the run cannot go on here."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


async def note_question(run: LiveRun, request: ChatRequest) -> None:
    """Write down that the model is about to be asked.

    Raises:
        JournalFailed: It cannot be written.
    """
    journal = run.journal
    if journal is not None:
        run.state.seconds = round(run.seconds, 3)
        await _written(run, journal.ask(run.values.current, question_of(request)))


async def note_reply(run: LiveRun, answer: ChatAnswer, cost: float | None) -> None:
    """Write down what the model answered; the state of the run has the answer already.

    Raises:
        JournalFailed: It cannot be written.
    """
    journal = run.journal
    if journal is None:
        return
    state = run.state
    state.seconds = round(run.seconds, 3)
    # The conversation holds an answer to its question: whole, or in the pieces that it
    # has so far.
    is_held = bool(state.pieces) or not state.is_asked
    reply = Reply(
        model=answer.model_id or answer.model,
        finish=answer.finish,
        usage=answer.usage,
        cost=cost,
        text="" if is_held else answer.text,
    )
    # The row counts what delegates used as well.
    used = spent(state)
    row = structs.replace(
        journal.row,
        rounds=state.round,
        tokens=used.usage.total_tokens,
        cost=used.cost,
        uncertain=used.uncertain,
    )
    await _written(run, journal.answer(run.values.current, reply, row))


async def note_failure(run: LiveRun, failure: InferenceFailure) -> None:
    """Write down that the model did not answer.

    Raises:
        JournalFailed: It cannot be written.
    """
    journal = run.journal
    if journal is not None:
        run.state.seconds = round(run.seconds, 3)
        await _written(run, journal.fail(run.values.current, failure.kind))


async def keep_steps(run: LiveRun) -> None:
    """Write down what the run has put off, before it does or waits for something that is not a step of it.

    Raises:
        JournalFailed: It cannot be written.
    """
    if run.journal is not None:
        await _written(run, run.journal.writes.flush())


async def note_end(run: LiveRun, result: RunResult) -> None:
    """Write down how the run ended, or what it waits for.

    A run that another process has, or that was interrupted, has not ended: it goes on from its newest entry.

    Raises:
        JournalFailed: It cannot be written.
        TooManyQuestions: The run was to wait for a question that was put off, and that cannot be asked any longer.
        WriteStopped: It was to wait for such a question, and another process asked for its end.
    """
    journal = run.journal
    # Nothing is written once a step was lost: another process may add the entries, or
    # the state cannot be used.
    if journal is None or run.is_journal_lost:
        return
    # An interrupted run only gives up its lease: a journal without an end is one that
    # can be taken up.
    if run.is_interrupted:
        await _written(run, journal.release())
    else:
        await _written(run, journal.end(run.values.current, result, run.context.caller))


def lost_lease(run: LiveRun) -> JournalFailed:
    """The end of a run here that another process has taken up: nothing of it is written any longer."""
    run.is_journal_lost = True
    return JournalFailed(LEASE_LOST, TAKEN_OVER)


def broken_journal(run: LiveRun, error: Exception) -> JournalFailed:
    """The end of a run whose steps cannot be written down."""
    run.is_journal_lost = True
    message = (
        f"The run cannot be recorded, and so it does not go on: {type(error).__name__}"
    )
    return JournalFailed(STATE_UNAVAILABLE, message)


async def _written(run: LiveRun, writing: Awaitable[None]) -> None:
    try:
        await writing
    except LeaseLost as error:
        raise lost_lease(run) from error
    except (ResolverError, OSError) as error:
        raise broken_journal(run, error) from error
    # The write has read the row: another process may have asked there for the end of
    # the run.
    if run.journal is not None and run.journal.is_cancelling:
        run.is_cancelled = True
