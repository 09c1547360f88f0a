"""Two reports compared: the requests that changed, by name."""

import pytest
from msgspec import structs

from agent_resolver.core import AnswerChangeKind, compare_reports, describe_answer
from agent_resolver.schema import AnsweredStep, EvalAnswer, Expectation
from tests.core.evaluation.sample import report, result

RIGHT = EvalAnswer(
    kind="BLUEPRINT",
    tools=("tickets.open",),
    steps=(AnsweredStep(tool="tickets.open", wave=1, from_request={"title": "VPN"}),),
)
LOST = EvalAnswer(kind="CAPABILITY", missing=1)
UNPLANNED = EvalAnswer(kind="BLUEPRINT", tools=("tickets.open",))
ASKING = EvalAnswer(kind="BLUEPRINT", tools=("tickets.open",), asks=("input.title",))


def test_equal_reports_have_no_difference() -> None:
    found = compare_reports(report([result("a", RIGHT)]), report([result("a", RIGHT)]))

    assert found is not None
    assert (found.changes, found.same_tools, found.plan.change) == ((), True, 0.0)


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        (RIGHT, LOST, AnswerChangeKind.WORSE),
        (RIGHT, UNPLANNED, AnswerChangeKind.WORSE),
        (LOST, RIGHT, AnswerChangeKind.BETTER),
        (LOST, UNPLANNED, AnswerChangeKind.BETTER),
        (UNPLANNED, ASKING, AnswerChangeKind.OTHER),
    ],
)
def test_a_changed_answer_is_named(before: EvalAnswer, after: EvalAnswer, kind: AnswerChangeKind) -> None:
    found = compare_reports(report([result("a", before)]), report([result("a", after)]))

    assert found is not None
    (change,) = found.of_kind(kind)
    assert (change.id, change.request) == ("a", "Request a")
    assert (change.before, change.after) == (describe_answer(before), describe_answer(after))


def test_the_worst_comes_first_and_the_scores_are_compared() -> None:
    earlier = report([result("a", LOST), result("b", RIGHT), result("gone", RIGHT)])
    later = report([result("a", RIGHT), result("b", LOST), result("new", RIGHT)], planner="model", tools="sha256-x")

    found = compare_reports(earlier, later)

    assert found is not None
    assert [(change.kind, change.id) for change in found.changes] == [
        ("worse", "b"),
        ("better", "a"),
        ("added", "new"),
        ("removed", "gone"),
    ]
    assert (found.before, found.after, found.same_tools) == ("offline", "model", False)
    assert (found.routing.change, found.changes[2].before, found.changes[3].after) == (0.0, "", "")


def test_a_case_that_was_edited_is_not_compared() -> None:
    edited = Expectation(kind="CAPABILITY", missing=1)

    found = compare_reports(report([result("a", LOST)]), report([result("a", LOST, expect=edited)]))

    assert found is not None
    assert [change.kind for change in found.changes] == ["edited"]


def test_reports_of_two_sets_cannot_be_compared() -> None:
    assert compare_reports(report([result("a", RIGHT)]), report([result("b", RIGHT)])) is None


def test_an_answer_is_described_in_one_line() -> None:
    assert describe_answer(EvalAnswer(asks=("request",))) == "no kind; asks request"
    assert describe_answer(structs.replace(RIGHT, kind="BOTH", missing=2, faults=("bad",))) == (
        "BOTH; tickets.open; 2 missing tools; 1 fault"
    )
