"""The one context that every hook is given, and the command that it may answer with."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct

from agent_resolver.runtime.inference import ChatAnswer, ChatRequest, Usage
from agent_resolver.runtime.message import Message
from agent_resolver.runtime.spec import AgentSpec
from agent_resolver.runtime.summary import Summary
from agent_resolver.schema.outcome import Outcome

Phase = Literal[
    "run_start",
    "step_start",
    "before_inference",
    "after_inference",
    "tool_gate",
    "before_tool_execute",
    "after_tool_execute",
    "step_end",
    "run_end",
]


class PlannedCall(Struct, frozen=True, gc=False):
    """A call that the model asks for, as the run understood it."""

    id: str
    tool: str
    """The id of the tool."""
    arguments: dict[str, Any]


class ScheduledAction(Struct, frozen=True):
    """Something that the run shall do before its phase ends, by the handler registered under the name."""

    name: str
    payload: Any = None


class Effect(Struct, frozen=True):
    """Something that shall happen outside of the run, by the handler registered under the name."""

    name: str
    payload: Any = None


class Block(Struct, frozen=True):
    """The call is not made, and the run ends."""

    reason: str


class Suspend(Struct, frozen=True):
    """The call waits until a person approves it."""

    reason: str


class SetResult(Struct, frozen=True):
    """The call is not made: this is its result."""

    result: Any


Gate = Block | Suspend | SetResult
"""What the gate says of a call. Where hooks disagree, `Block` wins over `Suspend`, and that over `SetResult`; among
equals the first."""


class End(Struct, frozen=True, kw_only=True):
    """The run shall end after this phase."""

    reason: Literal["behavior_requested", "stopped"] = "behavior_requested"
    code: str = ""
    """For machines, such as `max_rounds`."""
    message: str = ""


class Command(Struct, frozen=True, kw_only=True):
    """What a hook or a handler wants done."""

    updates: Mapping[str, Any] = {}
    """Updates of state keys, each merged by the rule of its key."""
    actions: tuple[ScheduledAction, ...] = ()
    effects: tuple[Effect, ...] = ()
    gate: Gate | None = None
    """Counts in the phase `tool_gate` alone."""
    end: End | None = None


class RunFacts(Protocol):
    """What a run knows of itself, for those that it calls."""

    @property
    def id(self) -> str:
        """The run's id."""
        ...

    @property
    def spec(self) -> AgentSpec:
        """The agent that runs."""
        ...

    @property
    def round(self) -> int:
        """The number of the present round, from 1; 0 before the first."""
        ...

    @property
    def messages(self) -> Sequence[Message]:
        """The conversation so far, without the system prompt."""
        ...

    @property
    def summary(self) -> Summary | None:
        """The summary that requests hold in place of the oldest messages; None where nothing was summed up."""
        ...

    @property
    def usage(self) -> Usage:
        """The tokens of the run so far."""
        ...

    @property
    def seconds(self) -> float:
        """The time that the run has run, without the time that it waited for people."""
        ...

    @property
    def recent_texts(self) -> Sequence[str]:
        """The texts of the newest answers since the user said something, the newest last; 64 at most."""
        ...

    @property
    def consecutive_errors(self) -> int:
        """The number of inferences in a row that have failed."""
        ...


class PhaseContext(Struct, frozen=True, kw_only=True):
    """The facts that a hook, a handler or a transform is given: the same for those of the runtime and of plugins."""

    phase: Phase
    run: RunFacts
    state: Mapping[str, Any] = {}
    """The values of state keys as they were when the phase began."""
    answer: ChatAnswer | None = None
    """In `after_inference`: what the model said."""
    call: PlannedCall | None = None
    """In `tool_gate`, `before_tool_execute` and `after_tool_execute`: the call."""
    outcome: Outcome | None = None
    """In `after_tool_execute`: how the call ended."""


Hook = Callable[[PhaseContext], "Command | Awaitable[Command | None] | None"]
"""Called in its phase. It is pure: a phase may call it twice, where two hooks update one exclusive key."""
Handler = Callable[[PhaseContext, Any], "Command | Awaitable[Command | None] | None"]
"""Carries out actions or effects of one name; the second argument is the payload."""
Transform = Callable[[ChatRequest, PhaseContext], ChatRequest]
"""Changes what a model is asked."""
