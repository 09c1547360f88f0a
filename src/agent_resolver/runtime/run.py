"""What a run starts from, what it keeps while it runs, and how it ends."""

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct, field

from agent_resolver.core.constraint import RunLimits
from agent_resolver.runtime.budget import RunBudget
from agent_resolver.runtime.inference import InferenceOverride, Usage
from agent_resolver.runtime.message import Message, ToolCall, tool_message
from agent_resolver.runtime.summary import Summary
from agent_resolver.schema.caller import Caller
from agent_resolver.schema.outcome import Pending

TerminationReason = Literal[
    "natural_end",
    "behavior_requested",
    "stopped",
    "cancelled",
    "blocked",
    "suspended",
    "error",
]
RunStatus = Literal["created", "running", "waiting", "done"]
TOKEN_EXPIRED: Final = "token_expired"  # noqa: S105 - a code
"""The code of a run whose caller's token expired, and for which no worker could act."""
_Count = Annotated[int, Meta(ge=0)]
"""A state comes back from a file: less than nothing would give back what a budget has counted."""
_Amount = Annotated[float, Meta(ge=0)]
NOT_MADE: Final = "The run ended or went on without this call: it was not made, or was cut off and may have been done."
"""The text that a model reads of such a call. A call that was under way when its run was cancelled goes on."""


class Spent(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The use of a run, with all that it delegated."""

    usage: Usage = Usage()
    cost: _Amount | None = 0.0
    rounds: _Count = 0
    calls: dict[str, _Count] = field(default_factory=dict)
    uncertain: _Count = 0
    """The questions that may have been answered, and so have cost something, though no answer came here."""


class RunState(Struct, kw_only=True, gc=False):
    """All that a run needs to go on later, elsewhere: plain values, nothing that lives in a process.

    Python's garbage collector need not look at it: what can be written as JSON never refers to itself.
    """

    run: str
    """The run's id."""
    trace_id: str
    agent_id: str
    plan: str
    """The digest of the plan that it ran by."""
    limits: RunLimits = RunLimits()
    """The limits that it ran under, its agent's own among them: they hold for what it said as well."""
    messages: list[Message] = field(default_factory=list)
    """The conversation, without the system prompt. It only ever grows."""
    summary: Summary | None = None
    """The summary that requests hold in place of the oldest messages."""
    summary_due: _Count = 0
    """The estimated tokens of a request below which nothing is summed up: the last attempt was of little use."""
    round: _Count = 0
    usage: Usage = Usage()
    """Of its own questions, like `cost` and `calls`; `spent` adds what it delegated."""
    cost: _Amount | None = 0.0
    """In US dollars; None once an answer came whose price is not known."""
    seconds: _Amount = 0.0
    """How long it has run, without the time that it waited for people."""
    calls: dict[str, _Count] = field(default_factory=dict)
    """How often each tool was called."""
    open_calls: list[ToolCall] = field(default_factory=list)
    """Calls of the last answer that were not made yet, the first of which may wait for a person."""
    delegate: "RunState | None" = None
    """The state of the agent that the first open call delegates to, if that agent waits for a person."""
    delegated: dict[str, Spent] = field(default_factory=dict)
    """The use of each run that it delegated to, by the id of that run. It is set, never added to: a run that waited
    and goes on counts once."""
    is_asked: bool = False
    """True while a question to the model has no answer: a run that goes on asks it again, in the same round."""
    pieces: list[Message] = field(default_factory=list)
    """The beginning of an answer that ran out of tokens, as long as the model is asked to go on with it."""
    uncertain: _Count = 0
    """The questions of its own that may have been answered, though no answer came here."""
    is_cut_off: bool = False
    """True if the newest answer ran out of tokens, also after it was continued."""
    is_judged: bool = True
    """False while the phase `after_inference` of the newest answer has not come to its end: stop rules are in it."""
    repairs: dict[str, int] = field(default_factory=dict)
    """The tools whose last call did not fit its schema, each with the round in which the model was told so."""
    consecutive_errors: _Count = 0
    values: dict[str, Any] = field(default_factory=dict)
    """The values of state keys."""


def spent(state: RunState, *, without: str = "") -> Spent:
    """The use of a run, with all that it delegated; `without` leaves out one of the runs that it delegated to."""
    own = Spent(
        usage=state.usage,
        cost=state.cost,
        rounds=state.round,
        calls=state.calls,
        uncertain=state.uncertain,
    )
    others = [each for run, each in state.delegated.items() if run != without]
    return _total(own, others) if others else own


def _total(own: Spent, others: list[Spent]) -> Spent:
    # A copy of the calls: the run goes on to count in its own dictionary.
    usage = own.usage
    cost = own.cost
    rounds = own.rounds
    calls = dict(own.calls)
    uncertain = own.uncertain
    for each in others:
        usage += each.usage
        # One unknown cost makes the sum unknown: a smaller number would pass for the
        # truth.
        cost = None if cost is None or each.cost is None else cost + each.cost
        rounds += each.rounds
        uncertain += each.uncertain
        for tool_id, count in each.calls.items():
            calls[tool_id] = calls.get(tool_id, 0) + count
    return Spent(
        usage=usage, cost=cost, rounds=rounds, calls=calls, uncertain=uncertain
    )


def close_calls(state: RunState, notes: Sequence[str] = ()) -> None:
    """Answer each open call with a note, so that the conversation has a result for every call it asked for.

    Args:
        state: The state of the run.
        notes: What is known of each open call, in their order; without it, they count as not made.
    """
    for place, call in enumerate(state.open_calls):
        note = notes[place] if place < len(notes) else NOT_MADE
        state.messages.append(tool_message(call.id, note))
    state.open_calls = []
    # Nothing is left of the open round: the next words of the user begin another one.
    state.delegate = None
    state.is_judged = True
    state.is_asked = False
    state.pieces = []


class Termination(Struct, frozen=True, kw_only=True, gc=False):
    """Why a run ended."""

    reason: TerminationReason
    code: str = ""
    """For machines: the stop rule, the budget or the error."""
    message: str = ""

    @property
    def status(self) -> RunStatus:
        """Only a suspended run waits; every other is done."""
        return "waiting" if self.reason == "suspended" else "done"

    @property
    def description(self) -> str:
        """The reason, the code and the message, on one line."""
        code = f" ({self.code})" if self.code else ""
        words = f": {self.message}" if self.message else ""
        return f"{self.reason}{code}{words}"

    @property
    def is_planned(self) -> bool:
        """True if the agent came to its end, or a plugin ended it as planned."""
        return self.reason in {"natural_end", "behavior_requested"}


def is_resumable(termination: Termination) -> bool:
    """True if a run that ended so can go on: it waits for a person or a valid token, or a budget was used up."""
    is_waiting = termination.reason == "suspended" or termination.code == TOKEN_EXPIRED
    # All budgets end a run with a code of this prefix.
    return is_waiting or termination.code.startswith("budget_")


class RunRequest(Struct, frozen=True, kw_only=True):
    """What shall run."""

    agent_id: str
    messages: tuple[Message, ...] = ()
    """What the user says; may be empty only where a run goes on."""
    limits: RunLimits = RunLimits()
    """The limits of the runs whose results the messages hold; they hold as the agent's own do."""
    caller: Caller | None = None
    """On whose behalf tools are called; None for the runtime's own caller."""
    run_id: str = ""
    """Left out, the run gets a random one."""
    part_of: str = ""
    """The id of the workflow that it is a step of."""
    thread: str = ""
    """The conversation that the run goes on with, of its caller; left out, it is one of its own."""
    trace_id: str = ""
    """32 hexadecimal digits; left out, the run gets a trace of its own."""
    parent: str | None = None
    """The `traceparent` of the caller."""
    connection: str = ""
    """The connection that asked for the run, which may never approve its calls."""
    budget: RunBudget = RunBudget()
    """Narrows the agent's own."""
    override: InferenceOverride = InferenceOverride()
    streams: bool = False
    """True to send the text of answers as it comes."""
    resume: RunState | None = None
    """The state of a run that ended resumable or waits: it goes on from there. Where runs have a journal, it is made of
    the journal: `AgentRuntime.resume`."""
    with_changes: bool = False
    """True to go on also where the agent's plan changed since."""

    @property
    def callers(self) -> RunLimits:
        """The limits that it begins with: those it is given, and those that the run to go on with ran under."""
        return self.limits.joined(self.resume.limits) if self.resume else self.limits


class ResumeRequest(Struct, frozen=True, kw_only=True):
    """Which run shall go on, and how."""

    run: str
    part_of: str = ""
    """The id of the workflow that it is a step of: a step goes on with its workflow alone."""
    messages: tuple[Message, ...] = ()
    """The new words of the user, which take the place of the calls that were open."""
    caller: Caller | None = None
    """The caller that lets it go on; None for the runtime's own caller."""
    parent: str | None = None
    connection: str = ""
    budget: RunBudget | None = None
    """In place of the one that the run began with."""
    streams: bool = False
    with_changes: bool = False
    """True to go on also where the agent's plan changed since."""


class RunResult(Struct, frozen=True, kw_only=True):
    """How a run ended."""

    run: str
    agent_id: str
    plan: str
    """The digest of the plan that it ran by."""
    termination: Termination
    text: str
    """The last text of the agent."""
    rounds: int
    usage: Usage
    cost: float | None
    """In US dollars; None where a price is not known."""
    pending: Pending | None = None
    """What a suspended run waits for."""
    state: RunState
    """To go on from here: `RunRequest(resume=…)`."""

    @property
    def status(self) -> RunStatus:
        """Where the run stands."""
        return self.termination.status

    @property
    def is_resumable(self) -> bool:
        """True if the run can go on: it waits for a person or a valid token, or a budget was used up."""
        return is_resumable(self.termination)
