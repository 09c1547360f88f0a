"""The words of an eval set for a planner's answer, whatever the planner drafted."""

from typing import Any

import pytest

from agent_resolver.core import answer_of
from agent_resolver.core.evaluation.answer import MAX_FAULTS, answered_steps
from agent_resolver.schema import AnsweredStep, EvalAnswer
from agent_resolver.schema.planning import Classified, Drafted, PlanQuestion
from tests.core.evaluation.sample import plan

SEARCH = {"id": "search", "capability": "tickets.search", "input_mapping": {"text": "${input.text}", "limit": 5}}
CLOSE = {
    "id": "close",
    "capability": "tickets.close",
    "input_mapping": {"id": "${item.id}", "note": "Ticket ${input.text}"},
    "for_each": {"items": "${steps.search.tickets}"},
    "compensation": {"capability": "tickets.reopen"},
}


def step_with(value: Any, **more: Any) -> AnsweredStep:
    """The only step of a plan whose argument `x` is this template."""
    (found,) = answered_steps(plan({"id": "a", "capability": "a.b", "input_mapping": {"x": value}, **more}), {"n": 3})
    return found


def test_arguments_are_followed_to_the_request_and_to_earlier_steps() -> None:
    first, second = answered_steps(plan(SEARCH, CLOSE), {"text": "printer"})

    assert first == AnsweredStep(
        tool="tickets.search", wave=1, from_request={"text": "printer", "limit": 5}, from_step={}
    )
    assert second == AnsweredStep(
        tool="tickets.close",
        wave=2,
        for_each=True,
        undo="tickets.reopen",
        from_request={"note": "Ticket printer"},
        from_step={"id": "tickets.search"},
    )


def test_parallel_steps_are_in_one_wave() -> None:
    steps = answered_steps(plan(*({"id": each, "capability": "a.b", "is_parallel": True} for each in "ab")), {})

    assert [step.wave for step in steps] == [1, 1]


def test_an_item_of_the_request_is_the_list_in_the_request() -> None:
    assert step_with("${item}", for_each={"items": "${input.n}"}).from_request == {"x": 3}


def test_a_step_that_waits_has_no_tool() -> None:
    (wait, call) = answered_steps(
        plan(
            {"id": "ask", "wait": {"kind": "person", "question": "Now?"}},
            {"id": "a", "capability": "a.b", "input_mapping": {"x": "${steps.ask}"}},
        ),
        {},
    )

    assert wait.tool == ""
    assert call.from_step == {"x": "ask"}


def test_a_fact_of_the_run_is_neither_from_the_request_nor_from_a_step() -> None:
    found = step_with("${run.id}")

    assert (found.from_request, found.from_step) == ({}, {})


def test_a_plan_that_cannot_be_read_is_answered_as_far_as_it_can_be() -> None:
    found = step_with("${input.")

    assert (found.tool, found.wave, found.from_request) == ("a.b", 0, {})


def test_a_long_value_is_kept_as_its_digest() -> None:
    assert step_with("x" * 3_000).from_request["x"].startswith("sha256-")


def test_a_value_that_grows_beyond_all_bounds_is_left_open() -> None:
    text = "${input.long}" * 200
    (found,) = answered_steps(
        plan({"id": "a", "capability": "a.b", "input_mapping": {"x": text}}), {"long": "y" * 10_000}
    )

    assert found.from_request == {"x": None}


def test_a_classifier_with_questions_has_settled_nothing() -> None:
    asked = Classified(kind="BLUEPRINT", tools=("a.b",), questions=(PlanQuestion(key="choice.1", text="Which?"),))

    assert answer_of(asked, Drafted()) == EvalAnswer(asks=("choice.1",))


def test_the_questions_of_the_builder_are_those_of_the_answer() -> None:
    questions = tuple(PlanQuestion(key=key, text="?") for key in ("input.b", "input.a"))

    found = answer_of(Classified(kind="BLUEPRINT", tools=("a.b",)), Drafted(questions=questions))

    assert found == EvalAnswer(kind="BLUEPRINT", tools=("a.b",), asks=("input.a", "input.b"))


def test_a_plan_is_answered_with_its_faults() -> None:
    drafted = Drafted(blueprint=plan(SEARCH), arguments={"text": "x"})
    found = answer_of(
        Classified(kind="BOTH", tools=("tickets.search",), missing=("fly",)), drafted, ("a fault",) * (MAX_FAULTS + 1)
    )

    assert (found.missing, len(found.steps), found.faults) == (1, 1, ("a fault",) * MAX_FAULTS)


@pytest.mark.parametrize(("text", "kept"), [("a\x1b[2Jb", "a [2Jb"), ("", "?"), ("x" * 300, "x" * 200)])
def test_words_of_a_planner_cannot_steer_a_terminal(text: str, kept: str) -> None:
    assert answer_of(Classified(kind="BLUEPRINT", tools=(text,)), Drafted()).tools == (kept,)
