"""Eval sets: what is read, and every fault with its wording and its place."""

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, strategies as st

from agent_resolver.schema import (
    EvalSet,
    Expectation,
    InvalidEvalSet,
    json_schema,
    parse_eval_set,
    read_eval_set,
    require_known_tools,
)
from agent_resolver.schema.issue import only_errors
from agent_resolver.schema.limit import MAX_EVAL_CASES, MAX_EVAL_SET_BYTES
from agent_resolver.schema.tree import plain
from agent_resolver.schema.yaml_tree import parse_yaml
from tests.schema.sample import shown
from tests.strategies import MANY, disturbed, written

WHOLE = b"""\
version: "1"
tools: tools.manifest.json
cases:
  - id: open-and-assign
    request: |
      Open a ticket titled "Login fails",
      and assign it to team "devices"
    sort: multi-step
    unseen: true
    answers: {input.team: devices}
    expect:
      kind: BLUEPRINT
      tools: [tickets.open, tickets.assign]
      steps:
        - tool: tickets.open
          wave: 1
          for_each: false
          undo: tickets.close
          from_request: {title: Login fails, tags: [a, 1.5, null]}
        - tool: tickets.assign
          wave: 2
          from_step: {id: tickets.open}
  - id: unclear
    request: ""
    sort: ambiguous
    expect: {asks: [request]}
"""


def case(**changes: Any) -> dict[str, Any]:
    """A right case with other values."""
    expect = {"kind": "BLUEPRINT", "tools": ["tickets.open"]}
    return {"id": "a", "request": "Open a ticket", "sort": "single", "expect": expect, **changes}


def raw(*cases: dict[str, Any]) -> bytes:
    return json.dumps({"version": "1", "cases": cases}).encode()


def faults(*cases: dict[str, Any]) -> list[str]:
    """The faults of a set without their places."""
    with pytest.raises(InvalidEvalSet) as caught:
        parse_eval_set(raw(*cases), is_json=True)
    return [str(issue) for issue in caught.value.issues]


def test_every_key_is_read() -> None:
    found = parse_eval_set(WHOLE, is_json=False).value

    assert found is not None
    first, second = found.cases
    assert found.tools == "tools.manifest.json"
    assert (first.id, first.sort, first.unseen, first.answers) == (
        "open-and-assign",
        "multi-step",
        True,
        {"input.team": "devices"},
    )
    opened, assigned = first.expect.steps
    assert (opened.wave, opened.for_each, opened.undo) == (1, False, "tickets.close")
    assert opened.from_request == {"title": "Login fails", "tags": ["a", 1.5, None]}
    assert assigned.from_step == {"id": "tickets.open"}
    assert second.expect.asks == ("request",)


def test_a_set_may_be_json_and_follows_its_schema() -> None:
    validator = jsonschema_rs.Draft202012Validator(json_schema("eval"))
    document = json.loads(raw(case()))

    assert validator.is_valid(document)
    assert not validator.is_valid({**document, "tool": "x"})
    assert parse_eval_set(raw(case()), is_json=True).value == parse_eval_set(raw(case()), is_json=False).value


def test_questions_are_parted_by_what_they_are_about() -> None:
    expect = Expectation(kind="BLUEPRINT", tools=("a.b",), asks=("input.title", "choice.1"))

    assert (expect.routing_asks, expect.plan_asks) == (("choice.1",), ("input.title",))
    assert expect.wants_plan
    assert not Expectation(kind="CAPABILITY", missing=1).wants_plan


def test_all_faults_arrive_together_with_their_places() -> None:
    text = b"""\
version: "2"
cases:
  - id: "<b>"
    request: {}
    sort: Single
    expects: {}
"""

    assert shown(read_eval_set(text, is_json=False).issues) == [
        "1:1 version: Invalid enum value. Expected '1', received '2'",
        "3:5 cases.0.expect: Required",
        "3:5 cases.0.id: Must be 1 to 80 small letters, digits, `.`, `_` and `-`, with a letter or a digit first",
        "4:5 cases.0.request: Expected string, received object",
        "5:5 cases.0.sort: Must be 1 to 40 small letters, digits and `-`, with a letter first",
        "6:5 cases.0.expects: Unknown key (did you mean `expect`?)",
    ]


def test_an_unknown_key_that_is_like_no_other_is_refused_with_a_hint() -> None:
    found = read_eval_set(raw(case(zzz=1)), is_json=True)

    assert found.value is None
    assert found.issues[0].hint == "`agent schema eval` has every key"


def test_a_second_case_of_one_id_is_refused() -> None:
    assert faults(case(), case(request="Close it")) == ["cases.1.id: Duplicate id: case 1 has it already"]


def test_an_id_that_is_like_another_may_follow_it() -> None:
    found = parse_eval_set(raw(case(), case(id="b")), is_json=True).value

    assert isinstance(found, EvalSet)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"request": "x" * 4_001}, "cases.0.request: Longer than the limit of 4,000 characters"),
        (
            {"answers": {"input.a": "x" * 2_001}},
            "cases.0.answers.input.a: Longer than the limit of 2,000 characters",
        ),
        ({"sort": "unseen"}, "cases.0.sort: `unseen` is a line of every report: choose another word"),
        (
            {"expect": {}},
            "cases.0.expect.kind: Required, unless `asks` has a question other than `input.…`",
        ),
        (
            {"expect": {"asks": ["request"], "missing": 1}},
            "cases.0.expect.missing: Cannot be: nothing is settled while `request` is asked",
        ),
        (
            {"expect": {"kind": "BLUEPRINT"}},
            "cases.0.expect.tools: Cannot be: BLUEPRINT takes at least one tool",
        ),
        (
            {"expect": {"kind": "CAPABILITY", "missing": 1, "tools": ["a.b"]}},
            "cases.0.expect.tools: Cannot be: CAPABILITY has none",
        ),
        (
            {"expect": {"kind": "BLUEPRINT", "tools": ["a.b"], "missing": 1}},
            "cases.0.expect.missing: Cannot be: BLUEPRINT has nothing missing",
        ),
        (
            {"expect": {"kind": "BOTH", "tools": ["a.b"]}},
            "cases.0.expect.missing: Cannot be: BOTH has at least one thing missing",
        ),
        (
            {"expect": {"kind": "BLUEPRINT", "tools": ["a.b"], "asks": ["input.x"], "steps": [{"tool": "a.b"}]}},
            "cases.0.expect.steps: Cannot be: there is no plan while a question is open",
        ),
        (
            {"expect": {"kind": "CAPABILITY", "missing": 1, "steps": [{"tool": "a.b"}]}},
            "cases.0.expect.steps: Cannot be: there is no plan for a tool that is missing",
        ),
        (
            {"expect": {"kind": "BLUEPRINT", "tools": ["a.b"], "steps": [{"tool": "a.b", "wave": 0}]}},
            "cases.0.expect.steps.0.wave: Must be from 1 to 200",
        ),
    ],
)
def test_an_expectation_that_no_answer_could_meet_is_refused(changes: dict[str, Any], fault: str) -> None:
    assert faults(case(**changes)) == [fault]


def test_more_cases_than_the_limit_are_refused() -> None:
    many = [case(id=f"c{number}") for number in range(MAX_EVAL_CASES + 1)]

    assert faults(*many) == ["cases: Array must contain at most 1000 element(s)"]


def test_a_set_without_cases_is_refused() -> None:
    assert faults() == ["cases: Array must contain at least 1 element(s)"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b" " * (MAX_EVAL_SET_BYTES + 1), "(file): Larger than the limit of 4,194,304 bytes"),
        (b"\xff", "(file): Byte 0xff is not valid UTF-8"),
        (b"<<<<<<< ours\nversion: 1\n=======\nversion: 2\n>>>>>>> theirs\n", "(file): A merge conflict between"),
    ],
)
def test_a_file_that_cannot_be_read_has_one_fault(content: bytes, message: str) -> None:
    (issue,) = read_eval_set(content, is_json=False).issues

    assert str(issue).startswith(message)


@MANY
@given(document=disturbed(st.just(plain(parse_yaml(WHOLE.decode())))))
def test_whatever_a_set_holds_it_is_read_or_has_a_fault(document: Any) -> None:
    """What the walker accepts can be decoded, in JSON and in YAML."""
    text = written(document).encode()

    for is_json in (True, False):
        reading = read_eval_set(text, is_json=is_json)
        assert (reading.value is None) is bool(only_errors(reading.issues))


def test_a_number_that_no_program_agrees_on_is_refused() -> None:
    text = b"version: '1'\ncases:\n  - id: a\n    request: x\n    sort: s\n    expect: {kind: BLUEPRINT, tools: [a.b], "
    steps = b"steps: [{tool: a.b, wave: .inf, from_request: {x: .inf}}]}\n"

    found = [str(issue) for issue in read_eval_set(text + steps, is_json=False).issues]

    assert found == [
        "cases.0.expect.steps.0.wave: Expected integer, received float",
        "cases.0.expect.steps.0.from_request.x: Number out of range",
    ]


def test_every_tool_that_is_not_there_is_named_with_its_place() -> None:
    reading = parse_eval_set(WHOLE, is_json=False)

    require_known_tools(reading, ["tickets.open", "tickets.assign", "tickets.close"])
    with pytest.raises(InvalidEvalSet) as caught:
        require_known_tools(reading, ["mail.send"])
    assert {issue.hint for issue in caught.value.issues} == {"correct the id, or add the tool"}
    assert [f"{issue.line}:{issue.column} {issue}" for issue in caught.value.issues] == [
        "13:15 cases.0.expect.tools.0: There is no tool `tickets.open`",
        "13:29 cases.0.expect.tools.1: There is no tool `tickets.assign`",
        "15:11 cases.0.expect.steps.0.tool: There is no tool `tickets.open`",
        "18:11 cases.0.expect.steps.0.undo: There is no tool `tickets.close`",
        "20:11 cases.0.expect.steps.1.tool: There is no tool `tickets.assign`",
        "22:23 cases.0.expect.steps.1.from_step.id: There is no tool `tickets.open`",
    ]


def test_a_misspelt_tool_is_suggested_in_its_right_spelling() -> None:
    with pytest.raises(InvalidEvalSet) as caught:
        require_known_tools(parse_eval_set(raw(case()), is_json=True), ["tickets.opens"])

    assert caught.value.issues[0].hint == "did you mean `tickets.opens`?"
