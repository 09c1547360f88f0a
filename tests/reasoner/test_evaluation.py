"""Evals: the offline planner on the whole set of `examples/evals`, and what a report says of other planners."""

import asyncio
from collections import Counter
from random import Random

import pytest
from msgspec import structs

from agent_resolver.core import AnswerChangeKind, compare_reports, passes_gate
from agent_resolver.reasoner import OfflinePlanner, evaluate_planner
from agent_resolver.schema import Descriptor, EvalReport, EvalSet, ResolverError, encode_eval_report, parse_eval_report
from agent_resolver.schema.planning import Classified, Drafted, PlanRequest
from tests.reasoner.evals import EVALS, FOLDER
from tests.reasoner.planner.manifest import TOOLS

GATE = 0.8
FEW = structs.replace(EVALS, cases=EVALS.cases[:4])
REMEDY = "look at each, then run `agent eval run --save baseline.json` in examples/evals"


def evaluated(planner: OfflinePlanner, evals: EvalSet = FEW, tools: tuple[Descriptor, ...] = TOOLS) -> EvalReport:
    return asyncio.run(evaluate_planner(planner, evals, tools, name="offline"))


@pytest.fixture(scope="module")
def report() -> EvalReport:
    """The report of the offline planner on the whole set."""
    return evaluated(OfflinePlanner(), EVALS)


def test_the_set_is_large_and_of_every_sort(report: EvalReport) -> None:
    sorts = Counter(case.sort for case in EVALS.cases)

    assert len(report.cases) >= 60
    assert report.covered >= 25
    assert sorts.keys() >= {"single", "multi-step", "parallel", "ambiguous", "missing-argument", "missing-tool"}
    assert sum(case.unseen for case in EVALS.cases) >= 15


def test_the_offline_planner_reaches_the_gate(report: EvalReport) -> None:
    wrong = {result.id: result.wrong for result in report.cases if result.wrong}

    assert passes_gate(report, GATE), wrong


def test_the_offline_planner_answers_as_the_committed_baseline_says(report: EvalReport) -> None:
    """A change of the planner that changes an answer fails here, and names the requests."""
    committed = (FOLDER / "baseline.json").read_bytes()
    difference = compare_reports(parse_eval_report(committed), report)

    assert difference is not None
    assert [f"{change.kind}: {change.id}: {change.request}" for change in difference.changes] == [], REMEDY
    assert encode_eval_report(report) == committed, REMEDY


def test_every_plan_of_the_offline_planner_keeps_the_rules_of_ops(report: EvalReport) -> None:
    assert [result.id for result in report.cases if result.answer.faults] == []


def test_the_order_of_the_tools_does_not_reach_the_report() -> None:
    shuffled = [*TOOLS]
    Random(7).shuffle(shuffled)

    assert evaluated(OfflinePlanner(), tools=tuple(shuffled)) == evaluated(OfflinePlanner())


# Other planners -------------------------------------------------------------------------------------------------------


class Forgetful(OfflinePlanner):
    """Finds no tool for requests that close something, and counts tokens as a model would."""

    async def classify(self, request: PlanRequest) -> Classified:
        found = await super().classify(request)
        if request.intent.startswith("Close"):
            found = Classified(kind="CAPABILITY", missing=(request.intent,))
        return structs.replace(found, tokens=10)

    async def build(self, request: PlanRequest) -> Drafted:
        return structs.replace(await super().build(request), tokens=5)


class Careless(OfflinePlanner):
    """Drafts a plan that does not fit what it calls."""

    def __init__(self, *, tool: str) -> None:
        self._tool = tool

    async def build(self, request: PlanRequest) -> Drafted:
        drafted = await super().build(request)
        if drafted.blueprint is None:
            return drafted
        dag = drafted.blueprint.dag
        first = structs.replace(dag.steps[0], capability=self._tool or dag.steps[0].capability)
        changed = structs.replace(drafted.blueprint, dag=structs.replace(dag, steps=(first, *dag.steps[1:])))
        return structs.replace(drafted, blueprint=changed, arguments={} if not self._tool else drafted.arguments)


class Absent(OfflinePlanner):
    """Has no model to ask."""

    async def classify(self, request: PlanRequest) -> Classified:  # noqa: ARG002 - the port has it
        raise ResolverError("There is no such model")


def test_a_planner_that_got_worse_has_its_requests_named() -> None:
    difference = compare_reports(evaluated(OfflinePlanner()), evaluated(Forgetful()))

    assert difference is not None
    worse = [change.request for change in difference.of_kind(AnswerChangeKind.WORSE)]
    assert worse == ["Close ticket #12", "Close the ticket"]
    assert difference.routing.change == -0.5


def test_tokens_of_classifier_and_builder_are_counted() -> None:
    assert evaluated(Forgetful()).tokens == 4 * (10 + 5)


@pytest.mark.parametrize(
    ("planner", "fault"),
    [(Careless(tool="no.such_tool"), "OPS-TOOL-001"), (Careless(tool=""), "(arguments)")],
)
def test_a_plan_that_would_be_refused_is_wrong(planner: OfflinePlanner, fault: str) -> None:
    first = evaluated(planner).cases[0]

    assert (first.routing, first.plan) == (True, False)
    assert first.answer.faults[0].startswith(fault)


def test_a_planner_that_cannot_answer_has_no_score() -> None:
    with pytest.raises(ResolverError, match="There is no such model"):
        evaluated(Absent())


def test_each_case_that_is_done_is_reported() -> None:
    done: list[int] = []

    asyncio.run(evaluate_planner(OfflinePlanner(), FEW, TOOLS, name="offline", watch=done.append))

    assert done == [1, 2, 3, 4]
