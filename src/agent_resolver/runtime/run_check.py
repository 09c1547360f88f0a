"""Checks what a run is asked to start from, and makes its first state of it."""

import re
import secrets as randomness
import time
from collections.abc import Sequence
from typing import Final

import msgspec

from agent_resolver.runtime.errors import RunRefused
from agent_resolver.runtime.plan import ResolvedAgent
from agent_resolver.runtime.plan_digest import plan_digest
from agent_resolver.runtime.run import RunRequest, RunState, close_calls
from agent_resolver.runtime.summary import is_within

MAX_RUN_ID: Final = 64
MAX_THREAD: Final = 200
_TRACE_ID: Final = re.compile("[0-9a-f]{32}")


def new_run_id() -> str:
    """A random id of 32 hexadecimal digits that begins with the time: runs lie in the state as they came."""
    return f"{time.time_ns() // 1_000_000:012x}{randomness.token_hex(10)}"


def _copied_state(state: RunState) -> RunState:
    """The state of a run that goes on; that of its caller stays as it is, so that it can be resumed from there again.

    Raises:
        RunRefused: No run leaves such a state.
    """
    try:
        # The state may come from a file: the round trip checks all of its types, and
        # makes the copy.
        copied = msgspec.convert(msgspec.to_builtins(state), RunState)
    except (msgspec.ValidationError, RecursionError) as error:
        raise RunRefused(
            f"the state of run {state.run} is not one that a run leaves: {error}"
        ) from error
    # Approvals hold for a trace, so that every run here has one.
    if not copied.trace_id:
        raise RunRefused(
            f"the state of run {state.run} is not one that a run leaves: its trace is missing"
        )
    if copied.summary is not None and not is_within(copied.summary, copied.messages):
        raise RunRefused(
            f"the state of run {state.run} is not one that a run leaves: its summary covers half a call"
        )
    # The loop reads an answer that was not judged from the last message, which must
    # then be an answer.
    has_answer = bool(copied.messages) and copied.messages[-1].role == "assistant"
    if not (copied.is_judged or has_answer):
        raise RunRefused(
            f"the state of run {state.run} is not one that a run leaves: its last answer is missing"
        )
    return copied


def checked_id(request: RunRequest) -> str:
    """The id of the run.

    Raises:
        RunRefused: The request cannot be run.
    """
    _check_beginning(request)
    resumed = request.resume
    trace_id = resumed.trace_id if resumed else request.trace_id
    if trace_id and not _TRACE_ID.fullmatch(trace_id):
        raise RunRefused(
            "the trace id is not 32 hexadecimal digits",
            "leave it out, or give that of the caller",
        )
    run_id = resumed.run if resumed else request.run_id or new_run_id()
    if not run_id.isprintable() or not 0 < len(run_id) <= MAX_RUN_ID:
        raise RunRefused(
            f"the id of a run has 1 to {MAX_RUN_ID} printable characters",
            "leave it out",
        )
    if len(request.thread) > MAX_THREAD or not request.thread.isprintable():
        raise RunRefused(
            f"the name of a thread has at most {MAX_THREAD} printable characters",
            "give another name",
        )
    return run_id


def _check_beginning(request: RunRequest) -> None:
    """Refuse a request that says nothing, or that goes on with a run of another agent."""
    resumed = request.resume
    if resumed is not None and resumed.agent_id != request.agent_id:
        raise RunRefused(
            f"the run to go on with is one of agent {resumed.agent_id}, not {request.agent_id}"
        )
    has_words = any(message.content for message in request.messages)
    if resumed is None and not has_words:
        raise RunRefused(
            "there is nothing to run: the request has no message", "give a prompt"
        )


def state_of(
    agent: ResolvedAgent, request: RunRequest, run_id: str, notes: Sequence[str] = ()
) -> RunState:
    """The state that a run starts from: a new one, or that of a run that goes on.

    Args:
        agent: The agent as it is planned now.
        request: What shall run.
        run_id: The id of the run.
        notes: What is known of each call that the run left open.

    Raises:
        RunRefused: The agent changed since, or its cost has a budget and no price.
    """
    budget = agent.spec.budget.narrowed_by(request.budget)
    # Each seat may come to answer, so that one without a price is enough to leave the
    # budget blind.
    unpriced = [seat.model.id for seat in agent.seats if seat.model.cost(0, 0) is None]
    if budget.max_cost is not None and unpriced:
        hint = f"give it prices: `[models.{unpriced[0]}]` in agent.toml, or leave out the budget"
        raise RunRefused(
            f"the cost has a budget, and the price of model {unpriced[0]} is not known",
            hint,
        )
    digest = plan_digest(agent)
    state = request.resume
    if state is None:
        return RunState(
            run=run_id,
            trace_id=request.trace_id or randomness.token_hex(16),
            agent_id=request.agent_id,
            plan=digest,
            limits=agent.limits,
            messages=list(request.messages),
        )
    # A changed agent could have tools or limits that the earlier part of the run was
    # not judged by.
    if state.plan != digest and not request.with_changes:
        raise RunRefused(
            f"agent {request.agent_id} changed since run {state.run} began",
            "resume it with the settings and the model that it began with, or allow changes (`--with-changes`)",
        )
    copied = _copied_state(state)
    copied.plan = digest
    copied.limits = agent.limits
    if request.messages:
        # What the user says takes the place of the calls that were open.
        close_calls(copied, notes)
        copied.messages += request.messages
    return copied
