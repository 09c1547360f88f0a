"""Makes the calls that an answer of the model asks for, one after the other."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, Struct, structs

from agent_resolver.core.wire_name import from_wire_name
from agent_resolver.registry.secret import Secret, redacted
from agent_resolver.registry.tool import CallContext
from agent_resolver.runtime.call_key import call_key
from agent_resolver.runtime.errors import StateFailure
from agent_resolver.runtime.event import ToolEnded, ToolProgressed, ToolStarted
from agent_resolver.runtime.hook import Block, End, PlannedCall, SetResult, Suspend
from agent_resolver.runtime.journal.fold import DamagedJournal
from agent_resolver.runtime.loop.acting import renew_caller
from agent_resolver.runtime.loop.emitter import SinkFailed
from agent_resolver.runtime.loop.journaling import (
    LEASE_LOST,
    TAKEN_OVER,
    broken_journal,
    keep_steps,
    lost_lease,
)
from agent_resolver.runtime.loop.live_run import LiveRun
from agent_resolver.runtime.loop.phase import run_phase
from agent_resolver.runtime.loop.spending import check_calls
from agent_resolver.runtime.message import ToolCall, tool_message
from agent_resolver.runtime.result_text import bounded, text_of, text_of_result
from agent_resolver.runtime.run import Termination
from agent_resolver.schema.frozen import freeze
from agent_resolver.schema.outcome import Done, Failed, FailureCode, Outcome, Pending
from agent_resolver.storage.errors import LeaseLost

_FIRST_LOOK_SECONDS: Final = 0.01
_MOST_LOOK_SECONDS: Final = 1.0
"""The shortest and the longest time between two looks at a call that is under way in another process."""
INTERRUPTED: Final = "interrupted"
"""The code of a run that stopped here, and can be taken up again from its journal."""
INTERRUPTED_HERE: Final = Termination(
    reason="cancelled", code=INTERRUPTED, message="The run was interrupted"
)
_NO_REASON: Final = "a plugin asks before this call"
GIVEN_BACK: Final = (
    "The arguments do not follow the schema: ",
    ". Make the call again with arguments that do.",
)
"""The text that a model reads before and after the faults of its arguments."""
PERSON_SAYS: Final = "A person was asked about this call, and says: "
_UNKNOWN: Final = (
    "The run was interrupted while this call was on its way: it may have been done. "
    "Look before you repeat it."
)

CallEnding = Literal["done", "failed", "pending", "blocked", "set", "interrupted"]


class BadCall(Struct, frozen=True):
    """A call whose arguments do not fit, as the model wrote them."""

    tool: str
    arguments: dict[str, Any]
    """As far as they could be read."""
    faults: tuple[str, ...]


class OpenedCall(Struct, frozen=True, gc=False):
    """A call that passed the gate. All in it are JSON values, which refer to nothing that could refer to it."""

    call: PlannedCall
    arguments: dict[str, Any]
    """As the tool is given them; hooks see a copy."""
    reason: str
    """Why a person must approve it; empty where none needs to."""


async def make_calls(run: LiveRun) -> Termination | None:
    """Make the open calls of the run, one after the other; the end of the run, where one of them ends it.

    A call that waits for a person stays open, and so do those after it: when the run goes on, they are made.
    """
    while run.state.open_calls:
        # If neither the caller nor a worker has a valid token, the registry refuses the
        # call and records that.
        await renew_caller(run)
        # Two steps, and not one within the other: thousands of runs may wait in the
        # second.
        end = cancelled(run)
        opened = end or await _open_call(run, run.state.open_calls[0])
        end = (
            await _execute_call(run, opened)
            if isinstance(opened, OpenedCall)
            else opened
        )
        if end:
            return end
    return None


def cancelled(run: LiveRun) -> Termination | None:
    """The end of a run that was cancelled while code of others caught the exception that should have ended it."""
    if not run.is_cancelled:
        return None
    if run.is_journal_lost:
        return Termination(reason="error", code=LEASE_LOST, message=TAKEN_OVER)
    if run.is_interrupted:
        return INTERRUPTED_HERE
    return Termination(reason="cancelled", message="The run was cancelled")


async def _open_call(run: LiveRun, asked: ToolCall) -> OpenedCall | Termination | None:
    """The call that may be made; else the end of the run, or None for a call that has its result without its tool.

    1. Arguments that are not a JSON object are given back to the model.
    2. The gate: hooks may block the call, which ends the run, give its result, or have a person approve it.
    3. The budget must have room for it.
    """
    tool_id = _tool_id_of(run, asked.name)
    arguments = _arguments_of(asked)
    # A tuple in place of an object holds what is wrong with the text.
    if isinstance(arguments, tuple):
        return await _give_back(run, asked, BadCall(tool_id, {}, arguments))
    try:
        # Hooks are shown a copy that cannot be changed: what they judge is what the
        # tool is given.
        call = PlannedCall(asked.id, tool_id, freeze(arguments))
    except RecursionError:
        return await _give_back(
            run, asked, BadCall(tool_id, {}, ("arguments: nested too deeply",))
        )
    # The gate comes before the budget: a call that a hook blocks or answers uses up
    # none of it.
    gated = await run_phase(run, "tool_gate", call=call)
    if isinstance(gated.gate, Block):
        return await _block(run, call, gated.gate)
    if isinstance(gated.gate, SetResult):
        await _set_result(run, call, gated.gate)
        return ended(gated.end)
    # Hooks may end the run in this phase without blocking the call, which then stays
    # open and is not made.
    if gated.end:
        return ended(gated.end)
    # A plugin that gives no reason asks all the same: without words the call would
    # pass.
    reason = ""
    if isinstance(gated.gate, Suspend):
        reason = gated.gate.reason or _NO_REASON
    return await check_calls(run, tool_id) or OpenedCall(call, arguments, reason)


async def _execute_call(run: LiveRun, opened: OpenedCall) -> Termination | None:
    """Call the tool.

    1. The registry calls it: there is no other way to a tool.
    2. A call that waits for a person suspends the run.
    3. Arguments that do not fit the schema are given back to the model.
    4. Every other outcome is for the model to read.
    """
    call = opened.call
    # The budget was checked before: a call that it refuses never reaches the hooks of
    # this phase.
    before = await run_phase(run, "before_tool_execute", call=call)
    if before.end:
        return ended(before.end)
    if run.emitter.is_heard:
        await _send_start(run, call)
    context = _context_of(run, call, opened.reason)
    # Counted before its end, so that failed calls count; it is taken back where the
    # call will be made again.
    run.state.calls[call.tool] = run.state.calls.get(call.tool, 0) + 1
    outcome = await _outcome_of(run, opened, context)
    await _send_outcome(run, opened, outcome)
    if isinstance(outcome, Pending):
        # It was not made yet: once it is approved, it is made and counted.
        run.state.calls[call.tool] -= 1
        return await _suspend(run, call.id, call.tool, outcome)
    if isinstance(outcome, Failed) and _is_about_arguments(outcome):
        return await _give_back(
            run,
            run.state.open_calls[0],
            BadCall(call.tool, opened.arguments, outcome.details),
        )
    # A call that fits clears the mark: the next one that does not fit goes to the model
    # first, not to a person.
    run.state.repairs.pop(call.tool, None)
    if run.journal is not None and isinstance(outcome, Done):
        # The ledger has the result: the journal refers to it in place of a copy.
        run.journal.note_result(len(run.state.messages), call.tool)
    _answer_call(run, text_of(outcome))
    after = await run_phase(run, "after_tool_execute", call=call, outcome=outcome)
    return ended(after.end)


def ended(end: End | None) -> Termination | None:
    """The end of a run that a hook asked for."""
    return (
        Termination(reason=end.reason, code=end.code, message=end.message)
        if end
        else None
    )


# The call -----------------------------------------------------------------------------


def _tool_id_of(run: LiveRun, name: str) -> str:
    """The id of the tool that the model means; a name that no tool of the plan has leads to none of the run."""
    return from_wire_name(name, run.agent.tools) or name


def _arguments_of(asked: ToolCall) -> dict[str, Any] | tuple[str, ...]:
    """The arguments that the model wrote, or what is wrong with them. They are never completed by a guess."""
    try:
        # An empty text means an empty object: a call of a tool without parameters may
        # have no arguments.
        arguments = (
            msgspec.json.decode(asked.arguments) if asked.arguments.strip() else {}
        )
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return (f"arguments: not JSON: {error}",)
    return (
        arguments if isinstance(arguments, dict) else ("arguments: not a JSON object",)
    )


async def _outcome_of(
    run: LiveRun, opened: OpenedCall, context: CallContext
) -> Outcome:
    """The outcome that the registry gives; an interruption and a broken journal are for the run to report."""
    call = opened.call
    try:
        outcome = await run.registry.start_call(call.tool, opened.arguments, context)
        # The failure may only mean that another process has made, or still makes, this
        # call under the same key.
        if isinstance(outcome, Failed):
            outcome = await _settled_outcome(run, opened, context, outcome)
    except asyncio.CancelledError:
        _note_interruption(run, call)
        raise
    except LeaseLost as error:
        raise lost_lease(run) from error
    except DamagedJournal as error:
        # What the run had put off was to be written with the start of the call.
        raise broken_journal(run, error) from error
    return outcome


async def _settled_outcome(
    run: LiveRun, opened: OpenedCall, context: CallContext, outcome: Outcome
) -> Outcome:
    """The outcome of a call that was made before the run was interrupted.

    One that was on its way then may still be: its outcome is waited for. One that only a person knows the end of waits
    for that person.
    """
    seconds = _FIRST_LOOK_SECONDS
    call = opened.call
    arguments = opened.arguments
    # The ledger says that another process makes this call and has not ended it.
    while isinstance(outcome, Failed) and outcome.code is FailureCode.ALREADY_RUNNING:
        is_over = False
        # The wait may take long, and steps that were put off must not stay off the disk
        # for all of it.
        await keep_steps(run)
        while not is_over:
            await asyncio.sleep(seconds)
            # The pause doubles up to a bound: a call that is almost done is seen soon,
            # and a long one costs few looks.
            seconds = min(seconds * 2, _MOST_LOOK_SECONDS)
            # Each call is recorded, and a look is not.
            is_over = not await run.registry.is_under_way(call.tool, context)
        # Under the same key, the registry returns what the call came to, or asks for a
        # person who knows.
        outcome = await run.registry.call(call.tool, arguments, context)
    if isinstance(outcome, Failed) and outcome.question is not UNSET:
        return _waits_for_answer(outcome, outcome.question)
    return outcome


def _waits_for_answer(outcome: Failed, question: str) -> Pending:
    return Pending(
        trace_id=outcome.trace_id,
        id=question,
        type="CLARIFICATION",
        code=outcome.code.value,
        message=outcome.message,
        remedy=outcome.remedy,
    )


async def _send_outcome(run: LiveRun, opened: OpenedCall, outcome: Outcome) -> None:
    """Send how a call ended, unless that is said elsewhere: when it waits for a person, or is given back."""
    call = opened.call
    if isinstance(outcome, Done):
        await _send_end(run, call.id, call.tool, "done")
    elif isinstance(outcome, Failed) and not _is_about_arguments(outcome):
        words = _without_secret_fields(
            run, call.tool, opened.arguments, outcome.message
        )
        await _send_end(run, call.id, call.tool, "failed", outcome.code.value, words)


def _without_secret_fields(
    run: LiveRun, tool_id: str, arguments: Mapping[str, Any], words: str
) -> str:
    """Words about a call without the values of its secret fields: a tool may repeat them."""
    values = run.registry.secret_arguments_of(tool_id).values_in(arguments)
    (told,) = redacted([words], tuple(Secret("", value) for value in values))
    return str(told)


async def _send_start(run: LiveRun, call: PlannedCall) -> None:
    shown = run.registry.secret_arguments_of(call.tool).mask(call.arguments)
    await run.emitter.send(
        ToolStarted, run.round, call=call.id, tool=call.tool, arguments=shown
    )


def _note_interruption(run: LiveRun, call: PlannedCall) -> None:
    """Let a run that goes on later not make the call again, which goes on by itself.

    A registry with a ledger knows the call by its key, and returns what it came to. Without one the outcome stays
    unknown, and the model reads so.
    """
    if run.journal is not None:
        # The call ends by itself, and the run may have ended before.
        run.journal.writes.stop_putting_off()
    if run.registry.is_recorded:
        run.state.calls[call.tool] -= 1
    else:
        _answer_call(run, _UNKNOWN)


def _context_of(run: LiveRun, call: PlannedCall, reason: str) -> CallContext:
    changes: dict[str, Any] = {}
    if run.journal is not None:
        changes["lease"] = run.journal.lease
    # The key counts the calls that are open, so that a run which goes on finds the call
    # it made before.
    if run.registry.is_recorded:
        changes["key"] = call_key(run.state, len(run.state.open_calls), call.id)
    if reason:
        changes["approval_reason"] = reason
    if run.emitter.is_heard:
        changes["progress"] = CallProgress(run, call, run.state.open_calls[0])
    return structs.replace(run.context, **changes) if changes else run.context


class CallProgress(Struct, frozen=True):
    """Sends how far a call is, while it is open."""

    run: LiveRun
    call: PlannedCall
    asked: ToolCall

    async def __call__(
        self, done: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Send it."""
        run = self.run
        call = self.call
        open_calls = self.run.state.open_calls
        if not open_calls or open_calls[0] is not self.asked:
            return  # The call has ended, and something of its tool still runs.
        told = (
            _without_secret_fields(run, call.tool, call.arguments, message)
            if message
            else message
        )
        # The tool is not to blame for a sink that fails: the loop finds out at its next
        # event.
        with suppress(SinkFailed):
            await run.emitter.send(
                ToolProgressed,
                run.round,
                call=call.id,
                tool=call.tool,
                done=done,
                total=total,
                message=told,
            )


async def _send_end(  # noqa: PLR0913, PLR0917 - the fields of one event
    run: LiveRun,
    call_id: str,
    tool_id: str,
    outcome: CallEnding,
    code: str = "",
    message: str = "",
) -> None:
    await run.emitter.send(
        ToolEnded,
        run.round,
        call=call_id,
        tool=tool_id,
        outcome=outcome,
        code=code,
        message=message,
    )


def _answer_call(run: LiveRun, text: str) -> None:
    """Give the model the result of the first open call, which is then no longer open."""
    call = run.state.open_calls.pop(0)
    run.state.messages.append(tool_message(call.id, text))


# Calls that do not end with a result --------------------------------------------------


async def _block(run: LiveRun, call: PlannedCall, gate: Block) -> Termination:
    """The call is not made, which is recorded, and the run ends."""
    # The record comes before the event: a sink that fails must not keep the denial out
    # of the audit.
    await run.registry.deny(call.tool, gate.reason, run.context)
    await _send_end(run, call.id, call.tool, "blocked", "blocked", gate.reason)
    # Even a blocked call gets a result: its conversation may go on, and no model takes
    # a call without one.
    _answer_call(run, gate.reason)
    return Termination(reason="blocked", code="blocked", message=gate.reason)


async def _set_result(run: LiveRun, call: PlannedCall, gate: SetResult) -> None:
    """The call is not made: a hook gives its result."""
    try:
        text = text_of_result(gate.result)
        # A lone surrogate would fail later, when the step is written into the journal.
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        message = f"A hook gave {call.tool} a result that is not a JSON value"
        raise StateFailure("hook_failed", message) from error
    await _send_end(run, call.id, call.tool, "set")
    _answer_call(run, text)


async def _suspend(
    run: LiveRun, call_id: str, tool_id: str, pending: Pending
) -> Termination:
    if run.is_interrupted:
        # The process that takes the run up makes the call again, and waits then. An
        # agent that this one delegates to was interrupted with it, and waits for no
        # person.
        return INTERRUPTED_HERE
    run.pending = pending
    await _send_end(run, call_id, tool_id, "pending", pending.code, pending.message)
    return Termination(reason="suspended", code=pending.code, message=pending.message)


def _is_about_arguments(outcome: Failed) -> bool:
    """True if the arguments break the schema: a key that is refused has the same code, and no details."""
    return outcome.code is FailureCode.INPUT_VALIDATION_FAILED and bool(outcome.details)


async def _give_back(run: LiveRun, asked: ToolCall, bad: BadCall) -> Termination | None:
    """Let the model mend a call whose arguments do not fit, once; then ask a person, and never guess."""
    faults = "; ".join(bad.faults)
    # The event hides secret fields; the model reads the faults as they are, since it
    # wrote the arguments itself.
    told = _without_secret_fields(run, bad.tool, bad.arguments, faults)
    if _may_repair(run, bad.tool):
        # `join` puts the faults between the two halves of the text.
        message = faults.join(GIVEN_BACK)
        await _send_end(
            run,
            asked.id,
            bad.tool,
            "failed",
            FailureCode.INPUT_VALIDATION_FAILED.value,
            told,
        )
        _answer_call(run, bounded(message))
        return None
    question = f"The model cannot fill in the arguments of {bad.tool}: {faults}. What should it do?"
    # A person must not be asked about an answer that a crash could still take back.
    await keep_steps(run)
    words = await run.registry.clarify(bad.tool, bad.arguments, question, run.context)
    if isinstance(words, Pending):
        return await _suspend(run, asked.id, bad.tool, words)
    # A person has answered, so the next call that does not fit goes to the model first
    # again.
    run.state.repairs.pop(bad.tool, None)
    text = text_of(words) if isinstance(words, Failed) else f"{PERSON_SAYS}{words}"
    await _send_end(
        run,
        asked.id,
        bad.tool,
        "failed",
        FailureCode.INPUT_VALIDATION_FAILED.value,
        told,
    )
    _answer_call(run, text)
    return None


def _may_repair(run: LiveRun, tool_id: str) -> bool:
    """True if the model was not yet told that its last call of the tool does not fit; then it counts as told.

    Calls of one answer count as one: the model has seen what is wrong with none of them.
    """
    told_in = run.state.repairs.setdefault(tool_id, run.round)
    # No person is asked about a tool that is denied whatever its arguments are.
    return told_in == run.round or tool_id in run.agent.hidden
