"""Scores: in total, by sort, and on unseen phrasings."""

import pytest

from agent_resolver.core import passes_gate
from agent_resolver.schema import AnsweredStep, EvalAnswer, Expectation, Score
from tests.core.evaluation.sample import report, result

RIGHT = EvalAnswer(
    kind="BLUEPRINT",
    tools=("tickets.open",),
    steps=(AnsweredStep(tool="tickets.open", wave=1, from_request={"title": "VPN"}),),
)
UNCLEAR = EvalAnswer(asks=("request",))
UNPLANNED = EvalAnswer(kind="BLUEPRINT", tools=("tickets.open",))


def test_routing_and_plans_are_scored_apart() -> None:
    found = report(
        [
            result("a", RIGHT),
            result("b", UNPLANNED, unseen=True),
            result("c", UNCLEAR, expect=Expectation(asks=("request",)), sort="ambiguous"),
        ],
        tokens=12,
    )

    assert (found.routing, found.plan) == (Score(3, 3, 1.0), Score(1, 2, 0.5))
    assert (found.unseen.routing, found.unseen.plan) == (Score(1, 1, 1.0), Score(0, 1, 0.0))
    assert [(each.sort, each.plan) for each in found.sorts] == [
        ("ambiguous", Score(0, 0, 1.0)),
        ("single", Score(1, 2, 0.5)),
    ]
    assert (found.covered, found.tokens, len(found.cases)) == (1, 12, 3)


def test_a_score_has_four_digits() -> None:
    found = report([result("a", RIGHT), result("b", RIGHT), result("c", UNPLANNED)])

    assert found.plan == Score(2, 3, 0.6667)


@pytest.mark.parametrize(("gate", "is_passed"), [(0.0, True), (0.5, True), (0.5001, False), (1.0, False)])
def test_both_scores_must_reach_the_gate(gate: float, is_passed: bool) -> None:  # noqa: FBT001 - a parameter
    assert passes_gate(report([result("a", RIGHT), result("b", UNPLANNED)]), gate) is is_passed


def test_a_score_that_is_rounded_up_does_not_pass() -> None:
    found = report([result("a", RIGHT), result("b", RIGHT), result("c", UNPLANNED)])

    assert not passes_gate(found, 0.6667)


def test_a_score_without_cases_passes() -> None:
    assert passes_gate(report([result("c", UNCLEAR, expect=Expectation(asks=("request",)))]), 1.0)
