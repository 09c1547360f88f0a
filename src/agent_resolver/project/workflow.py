"""Runs a workflow: one step after the other, each as the agent that it mentions, with that agent's definition alone."""

import inspect
import secrets as randomness
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final
from urllib.parse import quote

from msgspec import Struct, field

from agent_resolver.catalog.errors import MalformedUri, UnknownAgent
from agent_resolver.catalog.mention import Mentioned, follow_mention
from agent_resolver.catalog.uri import AgentUri
from agent_resolver.core.constraint import RunLimits
from agent_resolver.project.errors import RefusedStep
from agent_resolver.project.plan import agent_id_of
from agent_resolver.project.workflow_event import WorkflowEvent, WorkflowSink, WorkflowStepEnded, WorkflowStepStarted
from agent_resolver.runtime.agent_runtime import AgentRuntime
from agent_resolver.runtime.budget import RunBudget
from agent_resolver.runtime.errors import InvalidSpec
from agent_resolver.runtime.inference import Usage
from agent_resolver.runtime.loop.spending import budget_after
from agent_resolver.runtime.message import user_message
from agent_resolver.runtime.plan import ResolvedRunPlan
from agent_resolver.runtime.registry_set import AgentSpecs
from agent_resolver.runtime.run import RunRequest, RunResult, Termination, spent
from agent_resolver.schema.errors import InvalidWorkflow, ResolverError
from agent_resolver.schema.issue import Issue, IssueCode
from agent_resolver.schema.mention import without_mentions
from agent_resolver.schema.outcome import Pending
from agent_resolver.schema.walker import suggestion
from agent_resolver.schema.workflow import SectionMention, Workflow, WorkflowSection

_MOST_SUGGESTIONS: Final = 10
_MOST_OF_A_RESULT: Final = 20_000
_MOST_OF_ALL_RESULTS: Final = 200_000
"""How many characters of earlier steps a step is given."""

RunStep = Callable[[RunRequest], Awaitable[RunResult]]
"""Runs one step to its end; what it waits for may be answered meanwhile."""


class WorkflowStep(Struct, frozen=True, kw_only=True):
    """One step: what is to do, and the agent that does it."""

    number: int
    heading: str
    text: str
    """The text below the heading; here and in the heading, mentions are plain names."""
    agent: str
    """The agent's id; where the mention asks for a version, its address with that."""
    line: int


class StepResult(Struct, frozen=True):
    """What came of a step that is done."""

    step: WorkflowStep
    run: str
    text: str


class WorkflowRequest(Struct, frozen=True, kw_only=True):
    """What is asked of a workflow."""

    prompt: str = ""
    """What the user says; every step is given it."""
    budget: RunBudget = RunBudget()
    """The most that all steps may use together; it narrows the budget of each agent."""
    streams: bool = False
    """True to send the text of answers as it comes."""
    run_id: str = field(default_factory=lambda: randomness.token_hex(16))
    trace_id: str = field(default_factory=lambda: randomness.token_hex(16))
    """The trace of all its runs."""

    def step_run(self, step: WorkflowStep) -> str:
        """The id of the run that takes a step: the same whenever the workflow is asked for under the same id."""
        return f"{self.run_id}.{step.number}"


class WorkflowResult(Struct, kw_only=True):
    """How a workflow ended."""

    run: str
    step: WorkflowStep
    """The step that it came to."""
    termination: Termination
    """How the run of that step ended."""
    done: list[StepResult] = field(default_factory=list)
    """The steps that came to their end, in order."""
    pending: Pending | None = None
    """What that step waits for."""
    rounds: int = 0
    usage: Usage = Usage()
    cost: float | None = 0.0
    """In US dollars; None once an answer came whose price is not known."""

    @property
    def text(self) -> str:
        """The last text of the last step, if the workflow came to its end."""
        return self.done[-1].text if self.done and self.termination.is_planned else ""


# The steps ------------------------------------------------------------------------------------------------------------


def steps_of(workflow: Workflow, agents: AgentSpecs) -> tuple[WorkflowStep, ...]:
    """The steps of a workflow, in order: one for each agent that a section mentions, however often it does.

    Raises:
        InvalidWorkflow: With every mention that leads to no agent.
    """
    dangling: list[_Dangling] = []
    steps: list[WorkflowStep] = []
    for section in workflow.sections:
        mentioned: list[Mentioned] = []
        for mention in section.mentions:
            found = follow_mention(mention.mention, _looks_up(agents))
            if isinstance(found, Mentioned):
                mentioned.append(found)
            else:
                dangling.append(_Dangling(section, mention, found))
        steps += _steps_of_section(section, mentioned, first=len(steps) + 1)
    if dangling:
        raise InvalidWorkflow(list(_issues_of(dangling, agents)))
    return tuple(steps)


def _looks_up(agents: AgentSpecs) -> Callable[[AgentUri], bool]:
    def has(uri: AgentUri) -> bool:
        try:
            return agents.get(_agent_id(uri)) is not None
        except InvalidSpec:  # It is there; its plan says what is wrong with it.
            return True

    return has


def _agent_id(uri: AgentUri) -> str:
    """What the runtime calls an agent; only an address can ask for a version."""
    return agent_id_of(uri.name) if uri.version is None else f"{uri.name}?version={quote(uri.version, safe='')}"


class _Dangling(Struct, frozen=True):
    """A mention that leads nowhere."""

    section: WorkflowSection
    mention: SectionMention
    reason: MalformedUri | UnknownAgent


def _issues_of(dangling: Sequence[_Dangling], agents: AgentSpecs) -> Iterator[Issue]:
    known = agents.ids()
    for place, each in enumerate(dangling):
        is_unknown = isinstance(each.reason, UnknownAgent)
        address, _, _ = each.mention.mention.spellings[-1].partition("?")
        # Of very many mentions, each would be held against very many names.
        near = suggestion(agent_id_of(address), known) if is_unknown and place < _MOST_SUGGESTIONS else ""
        yield Issue(
            at=each.section.at,
            code=IssueCode.UNKNOWN_AGENT if is_unknown else IssueCode.SYNTAX,
            message=str(each.reason),
            hint=near or "`agent catalog list` lists the agents",
            line=each.mention.line,
            column=each.mention.column,
        )


def _steps_of_section(section: WorkflowSection, mentioned: Sequence[Mentioned], first: int) -> Iterator[WorkflowStep]:
    names = {each.address: agent_id_of(each.uri.name) for each in mentioned}
    agents = dict.fromkeys(_agent_id(each.uri) for each in mentioned)
    for number, agent in enumerate(agents, first):
        yield WorkflowStep(
            number=number,
            heading=without_mentions(section.heading, names),
            text=without_mentions(section.text, names),
            agent=agent,
            line=section.line,
        )


def plan_steps(runtime: AgentRuntime, steps: Sequence[WorkflowStep]) -> list[ResolvedRunPlan]:
    """The plan of each step, under the limits of all steps before it: it is given what they said.

    Raises:
        RefusedStep: One has no plan, for instance because its model may not see the data of an earlier step.
    """
    plans: list[ResolvedRunPlan] = []
    limits = RunLimits()
    for step in steps:
        try:
            plan = runtime.resolve(step.agent, callers=limits, is_dry_run=True)
        except ResolverError as error:
            raise RefusedStep(step.number, step.heading, error) from error
        plans.append(plan)
        limits = plan.execution.limits
    return plans


# The run --------------------------------------------------------------------------------------------------------------


async def run_workflow(
    steps: Sequence[WorkflowStep], request: WorkflowRequest, run_step: RunStep, sink: WorkflowSink | None = None
) -> WorkflowResult:
    """Take the steps one after the other, until one does not come to its end.

    Each is a run of its own, under its own id, so that nothing of a definition is left in the next request. What goes
    on from one to the next is the text of its result, with the limits that it was made under, and what is left of the
    budget.

    Raises:
        RefusedStep: A step cannot start.
    """
    events = _Events(request.run_id, len(steps), sink)
    result = WorkflowResult(run=request.run_id, step=steps[0], termination=Termination(reason="natural_end"))
    budget, limits = request.budget, RunLimits()
    for step in steps:
        result.step = step
        if end := _used_up(budget):
            result.termination = end
            await events.end(step, "", result)
            return result
        run_id = request.step_run(step)
        await events.start(step, run_id)
        step_request = RunRequest(
            agent_id=step.agent,
            messages=(user_message(step_prompt(request.prompt, step, result.done)),),
            limits=limits,
            run_id=run_id,
            trace_id=request.trace_id,
            budget=budget,
            streams=request.streams,
        )
        try:
            ran = await run_step(step_request)
        except ResolverError as error:
            raise RefusedStep(step.number, step.heading, error) from error
        _count(result, ran)
        await events.end(step, ran.run, result)
        if not ran.termination.is_planned:
            return result
        result.done.append(StepResult(step, ran.run, ran.text))
        budget = budget_after(budget, spent(ran.state), ran.state.seconds)
        limits = limits.joined(ran.state.limits)
    return result


def _used_up(budget: RunBudget) -> Termination | None:
    """The end of a workflow that has nothing left of a budget for its next step."""
    left = {
        "rounds": budget.max_rounds,
        "tokens": budget.max_tokens,
        "cost": budget.max_cost,
        "seconds": budget.max_seconds,
    }
    kind = next((kind for kind, amount in left.items() if amount == 0), "")
    if not kind:
        return None
    return Termination(reason="stopped", code=f"budget_{kind}", message="The budget of the workflow is used up")


def _count(result: WorkflowResult, ran: RunResult) -> None:
    result.termination, result.pending = ran.termination, ran.pending
    result.rounds += ran.rounds
    result.usage += ran.usage
    result.cost = None if result.cost is None or ran.cost is None else result.cost + ran.cost


def step_prompt(prompt: str, step: WorkflowStep, done: Sequence[StepResult]) -> str:
    """What the agent of a step is told: the user's prompt, its own step, and what the earlier ones said.

    No mention is left in it: one in the answer of a model must not bring in another agent. Results are quoted line by
    line, so that none can pretend to be the next part of the message.
    """
    task = ["# Task", prompt] if prompt else []
    results = ["# Results of earlier steps", *_quoted_results(done)] if done else []
    parts = [*task, f"# Your step: {step.heading}", step.text, *results]
    return without_mentions("\n\n".join(part for part in parts if part), {})


def _quoted_results(done: Sequence[StepResult]) -> Iterator[str]:
    most = min(_MOST_OF_A_RESULT, _MOST_OF_ALL_RESULTS // len(done))
    for each in done:
        yield f"## {each.step.heading} ({each.step.agent})"
        left_out = len(each.text) - most
        cut = f"\n[{left_out:,} more characters are left out]" if left_out > 0 else ""
        yield "\n".join(f"> {line}" for line in f"{each.text[:most]}{cut}".splitlines())


class _Events:
    """Sends the events of one workflow."""

    def __init__(self, run: str, steps: int, sink: WorkflowSink | None) -> None:
        self._run = run
        self._steps = steps
        self._sink = sink
        self._number = 0

    async def start(self, step: WorkflowStep, run_id: str) -> None:
        await self._send(
            WorkflowStepStarted(
                run=self._run,
                number=self._next_number(),
                step=step.number,
                steps=self._steps,
                step_run=run_id,
                heading=step.heading,
                agent=step.agent,
            )
        )

    async def end(self, step: WorkflowStep, run_id: str, so_far: WorkflowResult) -> None:
        await self._send(
            WorkflowStepEnded(
                run=self._run,
                number=self._next_number(),
                step=step.number,
                steps=self._steps,
                step_run=run_id,
                termination=so_far.termination,
                rounds=so_far.rounds,
                usage=so_far.usage,
                cost=so_far.cost,
            )
        )

    def _next_number(self) -> int:
        self._number += 1
        return self._number

    async def _send(self, event: WorkflowEvent) -> None:
        if self._sink is None:
            return
        taken = self._sink(event)
        if inspect.isawaitable(taken):
            await taken
