"""The things that a run holds while it runs."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from agent_resolver.core.wire_name import to_wire_name
from agent_resolver.registry.tool import CallContext
from agent_resolver.registry.worker_identity import WorkerIdentity
from agent_resolver.runtime.budget import RunBudget
from agent_resolver.runtime.inference import ToolOffer, Usage
from agent_resolver.runtime.journal.journal import RunJournal
from agent_resolver.runtime.loop.call_port import CallPort
from agent_resolver.runtime.loop.emitter import Emitter
from agent_resolver.runtime.mention import Definitions
from agent_resolver.runtime.message import Message, system_message
from agent_resolver.runtime.patience import Patience
from agent_resolver.runtime.plan import ResolvedAgent
from agent_resolver.runtime.run import RunRequest, RunState
from agent_resolver.runtime.run_telemetry import RunTelemetry
from agent_resolver.runtime.spec import AgentSpec
from agent_resolver.runtime.state_key import KeyValues
from agent_resolver.runtime.stop_rule import HISTORY
from agent_resolver.runtime.summary import Summary
from agent_resolver.schema.classification import CLASSIFICATION_OF

if TYPE_CHECKING:
    from agent_resolver.schema.outcome import Pending


_DIGITS = 4
"""Of seconds: more of them would be kept with every step, and mean nothing."""


class LiveRun:
    """A run while it runs. Code of plugins is given `facts` in its place."""

    __slots__ = (
        "_clock",
        "_seconds_before",
        "_started",
        "agent",
        "budget",
        "budgets_said",
        "classification",
        "context",
        "definitions",
        "emitter",
        "has_budget",
        "is_cancelled",
        "is_interrupted",
        "is_journal_lost",
        "journal",
        "offers",
        "patience",
        "pending",
        "registry",
        "request",
        "state",
        "system",
        "telemetry",
        "values",
        "worker",
    )
    """Thousands of runs may wait at once, so that what each holds counts."""

    def __init__(  # noqa: PLR0913 - each is one part of a run
        self,
        *,
        agent: ResolvedAgent,
        request: RunRequest,
        state: RunState,
        registry: CallPort,
        context: CallContext,
        emitter: Emitter,
        patience: Patience,
        journal: RunJournal | None,
        clock: Callable[[], float],
        worker: WorkerIdentity | None = None,
        definitions: Definitions | None = None,
    ) -> None:
        self.agent = agent
        self.request = request
        self.state = state
        self.registry = registry
        self.context = context
        """What every call of the run has in common."""
        self.worker = worker
        """The identity that acts for the caller once their token has expired."""
        self.emitter = emitter
        self.patience = patience
        self.journal = journal
        """The journal of each step; None for a run that lives in memory alone."""
        self.definitions = definitions
        """Looks up agents that the user mentions; None where mentions are only text."""
        self.telemetry = _run_telemetry(registry)
        sensitivity = agent.limits.sensitivity
        self.classification = (
            CLASSIFICATION_OF[sensitivity] if sensitivity else "INTERNAL"
        )
        """How sensitive the data of the run is, for those who watch it."""
        # A run that goes on begins with the values it kept; a key that is new to the
        # agent begins with its default.
        self.values = KeyValues(
            agent.env.key_registrations, state.values, agent.env.key_defaults
        )
        # The request may only narrow the budget of the spec: a caller cannot grant an
        # agent more than its author did.
        self.budget: RunBudget = agent.spec.budget.narrowed_by(request.budget)
        # Compared once, because the budget is looked at before every question and most
        # runs have none.
        self.has_budget = self.budget != RunBudget()
        self.pending: Pending | None = None
        """What the run waits for, once it is suspended."""
        self.is_cancelled = False
        """True once it was asked to end; code of others may have caught the exception that should have ended it."""
        self.is_interrupted = False
        """True once it was asked to stop here and to be taken up again later."""
        self.is_journal_lost = False
        """True once a step could not be written down: another process has the run, or the state cannot be used."""
        self.budgets_said: tuple[str, ...] = ()
        """The budgets that were said to be nearly used up."""
        self.system = _system_messages(agent.spec.system_prompt)
        self.offers = _offers_of(agent)
        """The tools that the model is shown, by id."""
        self._clock = clock
        # Earlier stretches count: the run may have been taken up again after a wait or
        # a crash.
        self._seconds_before = state.seconds
        self._started = clock()

    @property
    def id(self) -> str:
        """The run's id."""
        return self.state.run

    @property
    def spec(self) -> AgentSpec:
        """The agent that runs."""
        return self.agent.spec

    @property
    def facts(self) -> "LiveFacts":
        """The facts of the run for plugins. They are not kept: a run that refers to itself would outlive its end."""
        return LiveFacts(self)

    @property
    def round(self) -> int:
        """The number of the present round, from 1; 0 before the first."""
        return self.state.round

    @property
    def seconds(self) -> float:
        """The time that the run has run, without the time that it waited for people."""
        return round(self._seconds_before + self._clock() - self._started, _DIGITS)

    def snapshot(self) -> Mapping[str, Any]:
        """The values of state keys as they are now."""
        return self.values.current

    def save(self) -> RunState:
        """The state of the run, with all that is kept elsewhere while it runs."""
        self.state.seconds = round(self.seconds, 3)
        self.state.values = dict(self.values.current)
        return self.state


def _system_messages(prompt: str) -> tuple[Message, ...]:
    """The system prompt as a message; nothing for an agent without one."""
    return (system_message(prompt),) if prompt else ()


def _offers_of(agent: ResolvedAgent) -> dict[str, ToolOffer]:
    """The tools that the model is shown, by id. Of a server that is not connected, nothing is known to show."""
    offers = {}
    for tool_id, tool in agent.tools.items():
        descriptor = tool.descriptor
        # A hidden tool is denied whatever its arguments are: offering it would lead to
        # a call that ends the run.
        if descriptor is not None and tool_id not in agent.hidden:
            offers[tool_id] = ToolOffer(
                to_wire_name(tool_id), descriptor.description, descriptor.input_schema
            )
    return offers


class LiveFacts:
    """The `RunFacts` of a run: what plugins may know of it, and nothing that they could change or call."""

    __slots__ = ("_run",)

    def __init__(self, run: LiveRun) -> None:
        self._run = run

    @property
    def id(self) -> str:
        """The run's id."""
        return self._run.state.run

    @property
    def spec(self) -> AgentSpec:
        """The agent that runs."""
        return self._run.agent.spec

    @property
    def round(self) -> int:
        """The number of the present round, from 1; 0 before the first."""
        return self._run.state.round

    @property
    def messages(self) -> Sequence[Message]:
        """The conversation so far, without the system prompt."""
        return tuple(self._run.state.messages)

    @property
    def summary(self) -> Summary | None:
        """The summary that requests hold in place of the oldest messages; None where nothing was summed up."""
        return self._run.state.summary

    @property
    def usage(self) -> Usage:
        """The tokens of the run so far."""
        return self._run.state.usage

    @property
    def seconds(self) -> float:
        """The time that the run has run, without the time that it waited for people."""
        return self._run.seconds

    @property
    def recent_texts(self) -> Sequence[str]:
        """The texts of the newest answers since the user said something, the newest last; 64 at most."""
        texts: list[str] = []
        # Backwards, so that the cost is bounded by the history and not by the length of
        # the conversation.
        for message in reversed(self._run.state.messages):
            # Words of the user begin a new exchange: equal answers before and after
            # them are not a loop.
            if message.role == "user" or len(texts) == HISTORY:
                break
            if message.role == "assistant":
                texts.append(message.text)
        return tuple(reversed(texts))

    @property
    def consecutive_errors(self) -> int:
        """The number of inferences in a row that have failed."""
        return self._run.state.consecutive_errors


def _run_telemetry(registry: CallPort) -> RunTelemetry | None:
    """The telemetry of the run: that of its calls, if it knows of runs."""
    telemetry: object = registry.telemetry
    return cast("RunTelemetry", telemetry) if hasattr(telemetry, "begin_run") else None
