"""Judging answers: what is right, and every fault in a sentence."""

from typing import Any

import pytest
from msgspec import structs

from agent_resolver.core import judge_case
from agent_resolver.schema import AnsweredStep, EvalAnswer, Expectation, ExpectedStep
from tests.core.evaluation.sample import case

TWO = Expectation(
    kind="BLUEPRINT",
    tools=("tickets.open", "tickets.assign"),
    steps=(
        ExpectedStep(tool="tickets.open", wave=1, for_each=False, undo="tickets.close", from_request={"priority": 2}),
        ExpectedStep(tool="tickets.assign", from_step={"id": "tickets.open"}),
    ),
)
OPEN = AnsweredStep(tool="tickets.open", wave=1, undo="tickets.close", from_request={"priority": 2.0})
ASSIGN = AnsweredStep(tool="tickets.assign", wave=2, from_step={"id": "tickets.open"})
RIGHT = EvalAnswer(kind="BLUEPRINT", tools=("tickets.open", "tickets.assign"), steps=(OPEN, ASSIGN))


def wrong(expect: Expectation, answer: EvalAnswer) -> list[str]:
    return list(judge_case(case(expect=expect), answer).wrong)


def test_an_answer_that_meets_the_expectation_is_right() -> None:
    judged = judge_case(case(expect=TWO), RIGHT)

    assert (judged.routing, judged.plan, judged.wrong) == (True, True, ())


@pytest.mark.parametrize(
    ("first", "fault"),
    [
        ({"wave": 2}, "expected in wave 1, and it is in 2"),
        ({"for_each": True}, "expected once, and it is taken once for each item"),
        ({"undo": ""}, "expected to be taken back by `tickets.close`, and it is by nothing"),
        ({"from_request": {"priority": 3}}, "expected `priority` to be `2`, and it is `3`"),
        ({"from_request": {}}, "expected `priority` to be `2`, and it is left out"),
        ({"from_request": {}, "from_step": {"priority": "a.b"}}, "expected `priority` to be `2`, and it is from `a.b`"),
    ],
)
def test_each_part_of_a_step_is_compared(first: dict[str, Any], fault: str) -> None:
    answer = structs.replace(RIGHT, steps=(structs.replace(OPEN, **first), ASSIGN))

    assert wrong(TWO, answer) == [f"plan: step 1, `tickets.open`: {fault}"]


def test_an_argument_must_come_from_the_step_that_is_expected() -> None:
    answer = structs.replace(RIGHT, steps=(OPEN, structs.replace(ASSIGN, from_step={}, from_request={"id": 7})))

    assert wrong(TWO, answer) == [
        "plan: step 2, `tickets.assign`: expected `id` from `tickets.open`, and it is `7`",
    ]


def test_a_step_may_be_expected_for_each_item() -> None:
    expect = structs.replace(TWO, steps=(structs.replace(TWO.steps[0], for_each=True), TWO.steps[1]))

    assert wrong(expect, RIGHT) == [
        "plan: step 1, `tickets.open`: expected once for each item, and it is taken once",
    ]


def test_without_steps_each_tool_is_called_once_in_order() -> None:
    expect = structs.replace(TWO, steps=())

    assert wrong(expect, RIGHT) == []
    assert wrong(expect, structs.replace(RIGHT, steps=(ASSIGN, OPEN))) == [
        "plan: expected the steps tickets.open, tickets.assign, and it has tickets.assign, tickets.open"
    ]


def test_faults_of_the_audit_make_a_plan_wrong() -> None:
    assert wrong(TWO, structs.replace(RIGHT, faults=("OPS-FMT-001: bad",))) == ["plan: OPS-FMT-001: bad"]


def test_another_kind_other_tools_and_other_gaps_are_wrong_routing() -> None:
    answer = EvalAnswer(kind="CAPABILITY", missing=1)

    assert wrong(TWO, answer) == [
        "routing: expected BLUEPRINT, and it is CAPABILITY",
        "routing: expected tickets.open, tickets.assign, and it takes no tool",
        "routing: expected 0 missing tools, and it finds 1 missing",
        "plan: there is none",
    ]


def test_a_planner_that_answers_nothing_is_wrong() -> None:
    assert wrong(Expectation(kind="CAPABILITY", missing=1), EvalAnswer()) == [
        "routing: expected CAPABILITY, and it is nothing",
        "routing: expected 1 missing tool, and it finds 0 missing",
    ]


def test_a_question_is_right_where_it_is_expected() -> None:
    judged = judge_case(case(expect=Expectation(asks=("request",))), EvalAnswer(asks=("request",)))

    assert (judged.routing, judged.plan) == (True, None)


def test_a_guess_in_place_of_a_question_is_wrong() -> None:
    assert wrong(Expectation(asks=("choice.1",)), RIGHT) == [
        "routing: expected the questions choice.1, and it asks nothing"
    ]


def test_a_question_in_place_of_a_plan_is_wrong_twice() -> None:
    assert wrong(TWO, EvalAnswer(asks=("choice.1",))) == [
        "routing: expected no question, and it asks choice.1",
        "plan: there is none",
    ]


def test_questions_of_the_plan_are_compared_whatever_their_order() -> None:
    expect = structs.replace(TWO, steps=(), asks=("input.b", "input.a"))
    asked = structs.replace(RIGHT, steps=(), asks=("input.a", "input.b"))

    assert wrong(expect, asked) == []
    assert wrong(expect, RIGHT) == ["plan: expected the questions input.a, input.b, and it asks nothing"]
    assert wrong(TWO, asked) == ["plan: expected no question, and it asks input.a, input.b"]
