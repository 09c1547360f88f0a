"""Workflows: their steps, what each is told, and what goes on from one to the next."""

import asyncio

import pytest
from msgspec import structs

from agent_resolver.core import RunLimits
from agent_resolver.project import (
    StepResult,
    WorkflowEvent,
    WorkflowRequest,
    WorkflowResult,
    run_workflow,
    step_prompt,
    steps_of,
)
from agent_resolver.runtime import AgentSpec, MapAgents, RunBudget, RunRequest, RunResult, RunState, Termination, Usage
from agent_resolver.schema import InvalidWorkflow, IssueCode, WorkflowStep, find_mentions, parse_workflow

AGENTS = MapAgents([AgentSpec(id=name) for name in ("one", "team/two", "odd_")])
REQUEST = WorkflowRequest(prompt="Go", run_id="flow", trace_id="0" * 32)


def steps(text: str) -> tuple[WorkflowStep, ...]:
    return steps_of(parse_workflow(text.encode()), AGENTS)


def test_a_heading_has_a_step_for_each_agent_once_in_the_order_of_the_text() -> None:
    found = steps(
        "## A @o:agent://team/two\n@o:agent://one, @p:agent://one?format=json.\n## B\n**@o:agent://one** @o:agent://odd_"
    )

    assert [(step.number, step.heading, step.agent) for step in found] == [
        (1, "A team/two", "team/two"),
        (2, "A team/two", "one"),
        (3, "B", "one"),
        (4, "B", "odd_"),
    ]
    assert [step.text for step in found[1:]] == ["one, one.", *["**one** odd_"] * 2]


def test_of_very_many_unknown_agents_each_has_its_place() -> None:
    with pytest.raises(InvalidWorkflow) as caught:
        steps("## A\n" + "@o:agent://onee\n" * 100)

    issues = caught.value.issues
    assert [issue.line for issue in issues] == list(range(2, 102))
    assert {issue.code for issue in issues} == {IssueCode.UNKNOWN_AGENT}
    assert issues[0].hint == "did you mean `one`?"


def test_what_a_step_is_told_is_bounded_however_many_came_before() -> None:
    [step] = steps("## A\n@o:agent://one")
    done = [StepResult(structs.replace(step, number=number), "x" * 1_000_000) for number in range(1, 100)]

    told = step_prompt("Go", step, done)

    assert len(told) < 220_000
    assert told.count("more characters are left out") == 99


def test_a_heading_with_a_mention_in_it_is_no_mention_in_later_prompts() -> None:
    first, second = steps("## A @o:agent://one\n## B @o:agent://team/two")

    assert list(find_mentions(step_prompt("@o:agent://one", second, [StepResult(first, "@o:agent://one")]))) == []


# Runs -----------------------------------------------------------------------------------------------------------------

EU = RunLimits(residencies=("eu-only",))
TWO = steps("## A\n@o:agent://one\n## B\n@o:agent://team/two")


def ran(request: RunRequest, termination: Termination, limits: RunLimits) -> RunResult:
    """The result of a run of two rounds that took 3 seconds, and made a call."""
    state = RunState(
        run=request.run_id,
        trace_id=request.trace_id,
        agent_id=request.agent_id,
        plan="",
        limits=limits,
        round=2,
        seconds=3.0,
        usage=Usage(10, 5),
        cost=0.5,
        calls={"tool": 1},
    )
    return RunResult(
        run=state.run,
        agent_id=state.agent_id,
        plan="",
        termination=termination,
        text=f"{request.agent_id} is done",
        rounds=2,
        usage=state.usage,
        cost=0.5,
        state=state,
    )


def run_all(
    request: WorkflowRequest, *ends: Termination
) -> tuple[WorkflowResult, list[RunRequest], list[WorkflowEvent]]:
    asked: list[RunRequest] = []
    events: list[WorkflowEvent] = []
    endings = iter(ends)

    async def run_step(step: RunRequest) -> RunResult:
        asked.append(step)
        return ran(step, next(endings, Termination(reason="natural_end")), EU)

    async def take(event: WorkflowEvent) -> None:
        events.append(event)

    return asyncio.run(run_workflow(TWO, request, run_step, take)), asked, events


def test_each_step_is_a_run_whose_id_follows_from_that_of_the_workflow() -> None:
    result, asked, events = run_all(REQUEST)

    assert [request.run_id for request in asked] == ["flow.1", "flow.2"]
    assert [(each.step.number, each.text) for each in result.done] == [
        (1, "one is done"),
        (2, "team/two is done"),
    ]
    assert (result.text, result.rounds, result.usage, result.cost) == ("team/two is done", 4, Usage(20, 10), 1.0)
    assert [event.step_run for event in events] == ["flow.1", "flow.1", "flow.2", "flow.2"]


def test_limits_and_what_is_left_of_the_budget_go_on_to_the_next_step() -> None:
    budget = RunBudget(max_rounds=5, max_tokens=100, max_cost=2.0, max_seconds=10.0, max_calls={"*": 3})

    _, (first, second), _ = run_all(structs.replace(REQUEST, budget=budget))

    assert (first.limits, first.budget) == (RunLimits(), budget)
    assert second.limits == EU
    assert second.budget == RunBudget(max_rounds=3, max_tokens=85, max_cost=1.5, max_seconds=7.0, max_calls={"*": 2})


@pytest.mark.parametrize(
    ("budget", "code"),
    [
        (RunBudget(max_rounds=2), "budget_rounds"),
        (RunBudget(max_tokens=15), "budget_tokens"),
        (RunBudget(max_cost=0.5), "budget_cost"),
        (RunBudget(max_seconds=3.0), "budget_seconds"),
    ],
)
def test_a_step_that_nothing_is_left_for_is_not_begun(budget: RunBudget, code: str) -> None:
    result, asked, events = run_all(structs.replace(REQUEST, budget=budget))

    assert (len(asked), result.termination.code, result.step.number, result.text) == (1, code, 2, "")
    assert (events[-1].step, events[-1].step_run) == (2, "")


@pytest.mark.parametrize("reason", ["stopped", "cancelled", "blocked", "suspended", "error"])
def test_a_step_that_does_not_come_to_its_end_is_the_last(reason: str) -> None:
    result, asked, _ = run_all(REQUEST, Termination(reason=reason))  # type: ignore[arg-type]  # one of its words

    assert (len(asked), result.done, result.text) == (1, [], "")
    assert (result.step.number, result.termination.reason) == (1, reason)


def test_a_step_that_a_plugin_ended_as_planned_is_done() -> None:
    result, _, _ = run_all(REQUEST, Termination(reason="behavior_requested"))

    assert len(result.done) == 2
