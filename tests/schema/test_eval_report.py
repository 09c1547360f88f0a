"""Kept reports of evals: they are read back as they were written, and everything else is refused."""

import json

import pytest

from agent_resolver.schema import (
    AnsweredStep,
    CaseResult,
    EvalAnswer,
    EvalReport,
    InvalidEvalReport,
    Score,
    SortScore,
    encode_eval_report,
    parse_eval_report,
)

RIGHT = Score(1, 1, 1.0)
ANSWER = EvalAnswer(
    kind="BLUEPRINT",
    tools=("tickets.open",),
    steps=(AnsweredStep(tool="tickets.open", wave=1, from_request={"title": "<b>"}),),
)
RESULT = CaseResult(
    id="a",
    request="Open a ticket\ntitled <b>",
    sort="single",
    unseen=False,
    case="sha256-1",
    routing=True,
    plan=None,
    answer=ANSWER,
)
REPORT = EvalReport(
    planner="offline",
    set="sha256-2",
    tools="sha256-3",
    covered=1,
    tokens=0,
    routing=RIGHT,
    plan=RIGHT,
    unseen=SortScore(sort="unseen", routing=RIGHT, plan=RIGHT),
    sorts=(SortScore(sort="single", routing=RIGHT, plan=RIGHT),),
    cases=(RESULT,),
)


def test_a_report_is_read_back_as_it_was_written() -> None:
    assert parse_eval_report(encode_eval_report(REPORT)) == REPORT


def test_the_questions_of_an_answer_are_parted() -> None:
    answer = EvalAnswer(asks=("choice.1", "input.title"))

    assert (answer.routing_asks, answer.plan_asks) == (("choice.1",), ("input.title",))


def test_a_truncated_report_is_refused_with_what_to_do() -> None:
    with pytest.raises(InvalidEvalReport) as caught:
        parse_eval_report(encode_eval_report(REPORT)[:-40])

    assert caught.value.issues[0].hint == "write it again with `agent eval run --save`"


def test_a_report_with_a_key_that_is_not_ours_is_refused() -> None:
    document = {**json.loads(encode_eval_report(REPORT)), "more": 1}

    with pytest.raises(InvalidEvalReport) as caught:
        parse_eval_report(json.dumps(document).encode())
    assert [str(issue) for issue in caught.value.issues] == ["more: Unknown key"]


def test_a_hint_of_the_reader_is_kept() -> None:
    document = {**json.loads(encode_eval_report(REPORT)), "version": 1}

    with pytest.raises(InvalidEvalReport) as caught:
        parse_eval_report(json.dumps({**document, "planner": 1}).encode())
    assert {issue.hint for issue in caught.value.issues} >= {'quote it: "1"'}
