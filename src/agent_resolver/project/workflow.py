"""Steps of a workflow: each is taken by the agent that it mentions, which is given the results of the earlier ones."""

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import Final
from urllib.parse import quote

from msgspec import Struct

from agent_resolver.catalog.errors import MalformedUri, UnknownAgent
from agent_resolver.catalog.mention import Mentioned, follow_mention
from agent_resolver.catalog.uri import AgentUri
from agent_resolver.core.constraint import RunLimits
from agent_resolver.project.errors import RefusedStep
from agent_resolver.project.plan import agent_id_of
from agent_resolver.runtime.agent_runtime import AgentRuntime
from agent_resolver.runtime.errors import InvalidSpec
from agent_resolver.runtime.plan import ResolvedRunPlan
from agent_resolver.runtime.registry_set import AgentSpecs
from agent_resolver.schema.errors import InvalidWorkflow, ResolverError
from agent_resolver.schema.issue import Issue, IssueCode
from agent_resolver.schema.mention import without_mentions
from agent_resolver.schema.walker import suggestion
from agent_resolver.schema.workflow import (
    SectionMention,
    Workflow,
    WorkflowSection,
    WorkflowStep,
)

_MOST_SUGGESTIONS: Final = 10
_MOST_OF_A_RESULT: Final = 20_000
_MOST_OF_ALL_RESULTS: Final = 200_000
"""The number of characters of earlier steps that a step is given."""

_NO_LIMITS: Final = RunLimits()


class StepResult(Struct, frozen=True):
    """The outcome of a step that is done."""

    step: WorkflowStep
    text: str


# The steps ----------------------------------------------------------------------------


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
    """The id of an agent in the runtime; only an address can ask for a version."""
    if uri.version is None:
        return agent_id_of(uri.name)
    # The version may hold characters that mean something in an address, so it is
    # quoted.
    return f"{uri.name}?version={quote(uri.version, safe='')}"


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
        # Of very many mentions, each would be compared with very many names.
        near = (
            suggestion(agent_id_of(address), known)
            if is_unknown and place < _MOST_SUGGESTIONS
            else ""
        )
        code = IssueCode.UNKNOWN_AGENT if is_unknown else IssueCode.SYNTAX
        yield Issue(
            at=each.section.at,
            code=code,
            message=str(each.reason),
            hint=near or "`agent catalog list` lists the agents",
            line=each.mention.line,
            column=each.mention.column,
        )


def _steps_of_section(
    section: WorkflowSection, mentioned: Sequence[Mentioned], first: int
) -> Iterator[WorkflowStep]:
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


def content_digest(content: bytes) -> str:
    """The digest of the content of a workflow's file."""
    return f"sha256-{sha256(content).hexdigest()}"


def plan_steps(
    runtime: AgentRuntime, steps: Sequence[WorkflowStep], limits: RunLimits = _NO_LIMITS
) -> list[ResolvedRunPlan]:
    """The plan of each step, under the limits of all steps before it: it is given their results.

    Args:
        runtime: What the agents are made of.
        steps: The steps that are to be taken.
        limits: Those of the steps that came to their end before.

    Raises:
        RefusedStep: One has no plan, for instance because its model may not see the data of an earlier step.
    """
    plans: list[ResolvedRunPlan] = []
    for step in steps:
        try:
            plan = runtime.resolve(step.agent, callers=limits, is_dry_run=True)
        except ResolverError as error:
            raise RefusedStep(step.number, step.heading, error) from error
        plans.append(plan)
        limits = plan.execution.limits
    return plans


# The message to a step ----------------------------------------------------------------


def step_prompt(prompt: str, step: WorkflowStep, done: Sequence[StepResult]) -> str:
    """The message to the agent of a step: the user's prompt, its own step, and the last texts of the earlier ones.

    No mention is left in it: one in the answer of a model must not bring in another agent. Results are quoted line by
    line, so that none can pretend to be the next part of the message.
    """
    task = ["# Task", prompt] if prompt else []
    results = ["# Results of earlier steps", *_quoted_results(done)] if done else []
    parts = [*task, f"# Your step: {step.heading}", step.text, *results]
    return without_mentions("\n\n".join(part for part in parts if part), {})


def _quoted_results(done: Sequence[StepResult]) -> Iterator[str]:
    # All results share the room alike, so that the request of a late step stays
    # bounded.
    most = min(_MOST_OF_A_RESULT, _MOST_OF_ALL_RESULTS // len(done))
    for each in done:
        yield f"## {each.step.heading} ({each.step.agent})"
        left_out = len(each.text) - most
        cut = f"\n[{left_out:,} more characters are left out]" if left_out > 0 else ""
        shown = f"{each.text[:most]}{cut}"
        # `splitlines` also splits at rarer separators, which a model may take for the
        # end of a line.
        yield "\n".join(f"> {line}" for line in shown.splitlines())
