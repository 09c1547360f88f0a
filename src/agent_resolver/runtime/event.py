"""The typed events that a run sends while it runs, numbered in the order in which they happened."""

from collections.abc import Awaitable, Callable
from typing import Any, Literal

from msgspec import Struct

from agent_resolver.runtime.inference import Usage
from agent_resolver.runtime.mention import UnresolvedCode
from agent_resolver.runtime.run import Termination

BudgetKind = Literal["rounds", "tokens", "cost", "seconds", "calls"]


class _Event(
    Struct, frozen=True, kw_only=True, gc=False, tag_field="type", rename="camel"
):
    run: str
    number: int
    """From 1, without gaps, in the order in which events happened."""
    round: int
    """The round that it belongs to; 0 before the first."""


class RunStarted(_Event, frozen=True, kw_only=True, gc=False, tag="run.started"):
    """The run starts, or goes on."""

    agent: str
    plan: str
    """The digest of the plan."""
    lock: str
    """The digest of the agent's lock; empty for an agent without one."""
    model: str
    trace_id: str
    is_resumed: bool = False


class PlanWarned(_Event, frozen=True, kw_only=True, gc=False, tag="plan.warning"):
    """Something about the plan is probably not meant like this."""

    code: str
    subject: str
    message: str


class RoundStarted(_Event, frozen=True, kw_only=True, gc=False, tag="round.started"):
    """A round starts: the model is about to be asked."""


class RoundRestarted(
    _Event, frozen=True, kw_only=True, gc=False, tag="round.restarted"
):
    """A run that was interrupted asks its model again: text received since the last whole answer does not count."""


class TextReceived(_Event, frozen=True, kw_only=True, gc=False, tag="text.delta"):
    """A piece of the answer's text, for runs that stream."""

    attempt: int
    text: str


class AnswerRestarted(
    _Event, frozen=True, kw_only=True, gc=False, tag="answer.restarted"
):
    """The answer starts again: what was received of it in this round does not count."""

    attempt: int
    reason: str


class AnswerReceived(_Event, frozen=True, kw_only=True, gc=False, tag="answer.done"):
    """The model answered."""

    model: str
    text: str
    finish: str
    usage: Usage | None
    cost: float | None


class InferenceFailed(_Event, frozen=True, kw_only=True, gc=False, tag="answer.failed"):
    """The model did not answer."""

    kind: str
    message: str


class ContextCompacted(
    _Event, frozen=True, kw_only=True, gc=False, tag="context.compacted"
):
    """A summary takes the place of the oldest messages in requests."""

    model: str
    messages: int
    """The number of messages of the conversation that the summary covers."""
    tokens_before: int
    """The estimate of the next request without the summary, and with it."""
    tokens_after: int
    usage: Usage | None


class CompactionFailed(
    _Event, frozen=True, kw_only=True, gc=False, tag="compaction.failed"
):
    """The oldest messages were not summed up: what does not fit is left out of requests, and the run goes on."""

    code: str
    message: str


class MentionUnresolved(
    _Event, frozen=True, kw_only=True, gc=False, tag="mention.unresolved"
):
    """The user mentions an agent whose definition is not brought in; the words stay as they are."""

    mention: str
    code: UnresolvedCode
    message: str


class ToolStarted(_Event, frozen=True, kw_only=True, gc=False, tag="tool.started"):
    """A call starts."""

    call: str
    tool: str
    arguments: Any
    """With the tool's secret fields masked."""


class ToolProgressed(_Event, frozen=True, kw_only=True, gc=False, tag="tool.progress"):
    """How far a call is."""

    call: str
    tool: str
    done: float
    total: float | None
    message: str | None


class ToolEnded(_Event, frozen=True, kw_only=True, gc=False, tag="tool.done"):
    """A call ended, or was not made."""

    call: str
    tool: str
    outcome: Literal["done", "failed", "pending", "blocked", "set", "interrupted"]
    code: str = ""
    message: str = ""


class BudgetNear(_Event, frozen=True, kw_only=True, gc=False, tag="budget.near"):
    """Four fifths of a budget are used; said once for each budget."""

    kind: BudgetKind
    used: float
    limit: float
    tool: str = ""


class HandlerFailed(_Event, frozen=True, kw_only=True, gc=False, tag="handler.failed"):
    """An action or an effect of a plugin failed; it is not tried again, and the run goes on."""

    plugin: str
    handler: str
    message: str


class RunEnded(_Event, frozen=True, kw_only=True, gc=False, tag="run.ended"):
    """The run ended, or waits. No event follows."""

    status: Literal["waiting", "done"]
    termination: Termination
    text: str
    usage: Usage
    cost: float | None
    uncertain: int = 0
    """The questions to a model that may have cost something though no answer came."""
    pending: str = ""
    """The id of the pending action that a suspended run waits for."""


RunEvent = (
    RunStarted
    | PlanWarned
    | RoundStarted
    | RoundRestarted
    | TextReceived
    | AnswerRestarted
    | AnswerReceived
    | InferenceFailed
    | MentionUnresolved
    | ContextCompacted
    | CompactionFailed
    | ToolStarted
    | ToolProgressed
    | ToolEnded
    | BudgetNear
    | HandlerFailed
    | RunEnded
)

Sink = Callable[[RunEvent], "Awaitable[None] | None"]
"""Takes events one after the other. A sink that raises, or that takes longer than its patience for one event, ends the
run as cancelled, and is given no further event."""
