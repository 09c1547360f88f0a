"""Templates: what they evaluate to, what they read, and all their faults at once."""

import json
import tracemalloc
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, strategies as st

from agent_resolver.core import (
    ExpressionFault,
    Reference,
    ResultTooLarge,
    TemplateFault,
    evaluate,
    is_true,
    parse_condition,
    parse_template,
    references,
)
from tests.core.blueprint.expressions import JSON, SCOPES, TEMPLATES
from tests.strategies import FEW, MANY

SCOPE: dict[str, Any] = {
    "input": {"name": "Ada", "count": 3, "owner": None, "tags": ["a", "ü"], "${x}": 1},
    "steps": {"reserve": {"id": 7}},
}

RESULTS: list[tuple[Any, Any]] = [
    # A text that is one expression gives the value itself.
    ("${input.count}", 3),
    ("${ input.tags }", ["a", "ü"]),
    ("${input.owner}", None),
    ("${'}'}", "}"),
    ('${"${"}', "${"),
    ("${input['${x}']}", 1),
    # Inside of other text it becomes text.
    ("for ${input.name}", "for Ada"),
    (" ${input.count}", " 3"),
    ("${input.name}${input.count}", "Ada3"),
    ("[${input.owner}]", "[]"),
    ("tags: ${input.tags}", 'tags: ["a","ü"]'),
    ("${steps.reserve}!", '{"id":7}!'),
    # The characters themselves.
    ("$${input.name}", "${input.name}"),
    ("$$${", "$${"),
    ("$${${input.name}}", "${Ada}"),
    ("costs $5 {each}", "costs $5 {each}"),
    ("$", "$"),
    ("}", "}"),
    # Literals.
    (1.5, 1.5),
    (None, None),
    ([], []),
    ({}, {}),
    ({"a": [1, {"b": "c"}]}, {"a": [1, {"b": "c"}]}),
    # Lists and objects; names of members are never expressions.
    ([1, "${input.count}"], [1, 3]),
    ({"a": {"id": "${steps.reserve.id}"}, "b": "plain"}, {"a": {"id": 7}, "b": "plain"}),
    ({"${input.name}": "${input.name}"}, {"${input.name}": "Ada"}),
]


@pytest.mark.parametrize(("value", "expected"), RESULTS, ids=str)
def test_a_template_evaluates_to_its_value(value: Any, expected: Any) -> None:
    assert evaluate(parse_template(value), SCOPE) == expected


def test_every_fault_of_a_template_has_its_place() -> None:
    deep: Any = "x"
    for _ in range(65):
        deep = [deep]
    value = {
        "a": "${len(input)} and ${inptu.b}",
        "b": ["${", "right ${input.name}", "${1 +}"],
        "c": {"deeper": float("nan"), "time": 1j},
        5: True,
        "deep": deep,
    }

    with pytest.raises(TemplateFault) as caught:
        parse_template(value)

    unclosed = "`${` is not closed: add `}` after the expression, or write `$${` for the characters themselves"
    assert caught.value.faults == (
        (("a",), "unknown function 'len': did you mean 'length'? (at character 1 of `len(input)`)"),
        (("a",), "unknown root 'inptu': did you mean 'input'? (at character 1 of `inptu.b`)"),
        (("b", 0), unclosed),
        (
            ("b", 2),
            "unexpected '+': expressions have no arithmetic; let a step compute the value (at character 3 of `1 +`)",
        ),
        (("c", "deeper"), "the number is not finite: JSON has no such number"),
        (("c", "time"), "a value of the type complex is not JSON: quote it to make it a text"),
        ((), "the name 5 of a member is not a text: quote it"),
        (("deep", *(0,) * 64), "lists and objects nest deeper than 64 levels: make it flatter"),
    )
    assert str(caught.value).splitlines()[2] == f"b.0: {unclosed}"
    assert "value: the name 5" in str(caught.value)


@pytest.mark.parametrize("text", ["input.a == 1", "${input.a == 1}", " ${ input.a == 1 } ", "${input.a == 1 }"])
def test_a_condition_may_stand_inside_of_a_mark(text: str) -> None:
    assert is_true(parse_condition(text), {"input": {"a": 1}})


@pytest.mark.parametrize("text", ["${true} && ${true}", "$${true}", "${", "", "${}"])
def test_a_condition_is_one_expression(text: str) -> None:
    with pytest.raises(ExpressionFault):
        parse_condition(text)


def test_the_references_of_a_template_are_what_it_reads() -> None:
    template = parse_template(
        {
            "a": "${steps.reserve.id ?? steps['other step']}",
            "b": ["${input.x == index ? run.id : !item.y}", "text ${length(result)} ${1}"],
            "c": "plain",
        }
    )

    assert references(template) == {
        Reference("steps", "reserve"),
        Reference("steps", "other step"),
        Reference("input"),
        Reference("index"),
        Reference("run"),
        Reference("item"),
        Reference("result"),
    }
    assert references(parse_condition("steps.a && true")) == {Reference("steps", "a")}
    assert references(parse_template("${1}")) == frozenset()


def test_a_fault_of_a_condition_has_its_place_in_the_text() -> None:
    with pytest.raises(ExpressionFault) as caught:
        parse_condition(" ${ len(input) }")

    assert caught.value.offset == 4


def test_a_text_that_is_half_a_character_is_a_text_like_others() -> None:
    """JSON can escape a lone surrogate, which UTF-8 cannot write."""
    scope = {"input": ["\ud800"]}

    assert evaluate(parse_template("${input[0]}"), scope) == "\ud800"
    assert evaluate(parse_template("<${input}>"), scope) == '<["\ud800"]>'


# How large a result may be --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("template", "input_", "more"),
    [
        ("${input}", "x" * 999_998, "x" * 999_999),
        ("${input}", "ü" * 499_999, "ü" * 500_000),
        ("${input}", '"' * 499_999, '"' * 499_999 + "x"),
        (["${input}"], "x" * 999_996, "x" * 999_997),
        ({"ä": "${input}", "b": "${1}"}, "x" * 999_985, "x" * 999_986),
        (["y", "<${input}>"], "x" * 999_990, "x" * 999_991),
        ("${input}", [10**17] * 52_631 + [10**8], [10**17] * 52_631 + [10**9]),
        (["${input}", ["${1}"]], "x" * 999_992, "x" * 999_994),
        ("${input}", {"a": "x" * 999_992}, {"a": "x" * 999_993}),
        ("<${input}>", {"a": "x" * 999_984}, {"a": "x" * 999_985}),
        ("${text(input)}", {"a": "x" * 999_986}, {"a": "x" * 999_987}),
    ],
    ids=range(11),
)
def test_a_result_of_a_million_bytes_is_the_largest(template: Any, input_: Any, more: Any) -> None:
    found = evaluate(parse_template(template), {"input": input_})

    assert len(json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode()) == 1_000_000
    with pytest.raises(ResultTooLarge, match="more than 1,000,000 bytes"):
        evaluate(parse_template(template), {"input": more})


@pytest.mark.parametrize(
    "template",
    [
        ["${input}"] * 200,
        "${input}" * 200,
        {str(number): "<${input}>" for number in range(200)},
        "${text(input)}" * 200,
    ],
    ids=["list", "text", "object", "function"],
)
@pytest.mark.parametrize("input_", ["x" * 900_000, ["x" * 300_000] * 3], ids=["text", "list"])
def test_many_references_to_a_large_value_take_little_memory(template: Any, input_: Any) -> None:
    parsed = parse_template(template)

    tracemalloc.start()
    try:
        with pytest.raises(ResultTooLarge):
            evaluate(parsed, {"input": input_})
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert most < 8_000_000


def test_a_huge_value_is_refused_without_being_copied() -> None:
    huge = {"list": [0] * 5_000_000, "text": "x" * 50_000_000}

    tracemalloc.start()
    try:
        for text in ("${input.list}", "${input.text}", "<${input.list}>", "<${input.text}>", "${text(input)}"):
            with pytest.raises(ResultTooLarge):
                evaluate(parse_template(text), {"input": huge})
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert most < 1_000_000
    assert evaluate(parse_template("${length(input.list)}"), {"input": huge}) == 5_000_000


@pytest.mark.parametrize("text", ["${input}", "<${input}>", "${text(input)}"])
def test_a_result_nests_no_deeper_than_a_file_may(text: str) -> None:
    deepest: Any = 1
    for _ in range(64):
        deepest = [deepest]
    bottomless: Any = 1
    for _ in range(100_000):
        bottomless = [bottomless]

    evaluate(parse_template(text), {"input": deepest})
    for value in ([deepest], bottomless):
        with pytest.raises(ResultTooLarge, match="more than 64 levels"):
            evaluate(parse_template(text), {"input": value})


def test_the_levels_of_a_template_count_too() -> None:
    with pytest.raises(ResultTooLarge):
        evaluate(parse_template([["${input}"]]), {"input": json.loads("[" * 64 + "]" * 64)})


# Laws -----------------------------------------------------------------------------------------------------------------


@MANY
@given(value=TEMPLATES, scope=SCOPES)
def test_every_template_has_a_value_in_every_scope(value: Any, scope: dict[str, Any]) -> None:
    template = parse_template(value)

    found = evaluate(template, scope)

    assert json.loads(json.dumps(found)) == found
    # What is not referred to does not matter.
    roots = {reference.root for reference in references(template)}
    steps = {reference.name for reference in references(template)}
    narrowed: dict[str, Any] = {root: value for root, value in scope.items() if root in roots}
    if "steps" in narrowed:
        narrowed["steps"] = {name: result for name, result in narrowed["steps"].items() if name in steps}
    assert evaluate(template, narrowed) == found


@MANY
@given(value=st.text("${}'\"\\ input.a", max_size=20) | JSON)
def test_any_json_value_is_a_template_or_has_faults(value: Any) -> None:
    with suppress(TemplateFault):
        evaluate(parse_template(value), {})


def escaped(value: Any) -> Any:
    match value:
        case str():
            return value.replace("${", "$${")
        case list():
            return [escaped(item) for item in value]
        case dict():
            return {name: escaped(member) for name, member in value.items()}
    return value


@FEW
@given(value=JSON | st.text("${}", max_size=8))
def test_a_value_whose_marks_are_escaped_evaluates_to_itself(value: Any) -> None:
    assert evaluate(parse_template(escaped(value)), {}) == value
