"""Expressions: what they give, and what is said of a text that is not one."""

from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from agent_resolver.core import ExpressionFault, is_true, parse_expression, value_of
from tests.core.blueprint.expressions import EXPRESSIONS, JSON, SCOPES
from tests.strategies import FEW, MANY

SCOPE: dict[str, Any] = {
    "input": {
        "name": "Ada",
        "größe": 180,
        "content-type": "text/plain",
        "any name": 1,
        "__class__": "a plain member",
        "true": "also a member",
        "tags": ["a", "b", "c"],
        "owner": None,
        "urgent": True,
        "count": 3,
        "half": 0.5,
        "one": 1.0,
    },
    "steps": {"reserve": {"order": {"id": 7}}, "notify-all": [1, 2]},
    "item": {"id": 1},
    "index": 4,
    "run": {"id": "r1"},
    "result": "done",
}

VALUES: dict[str, Any] = {
    # Literals.
    "12": 12,
    "-1.5e1": -15.0,
    "'single'": "single",
    '"double"': "double",
    r"'it\'s \"so\" \\ \n\r\t'": 'it\'s "so" \\ \n\r\t',
    "true": True,
    "false": False,
    "null": None,
    "'}'": "}",
    "''": "",
    # Paths.
    "input.name": "Ada",
    " input . name ": "Ada",
    "input.größe": 180,
    "input.content-type": "text/plain",
    'input["any name"]': 1,
    "input['name']": "Ada",
    "input.__class__": "a plain member",
    "input.true": "also a member",
    "input.tags[0]": "a",
    "input.tags[-1]": "c",
    "steps.reserve.order.id": 7,
    'steps["reserve"]["order"]': {"id": 7},
    "steps.notify-all[1]": 2,
    "item.id": 1,
    "index": 4,
    "run.id": "r1",
    "result": "done",
    # What is not there.
    "input.missing": None,
    "input.missing.deeper[0]": None,
    "input.name.length": None,
    "input.name[0]": None,
    "input.tags.a": None,
    "input.tags[3]": None,
    "input.tags[-4]": None,
    "input.tags[9223372036854775807]": None,
    "input[0]": None,
    "input.owner.name": None,
    "steps.unknown": None,
    "input.__dict__": None,
    "input.tags.__class__": None,
    "run.started_at": None,
    # Comparisons.
    "1 == 1.0": True,
    "true == 1": False,
    "0 == false": False,
    "null == false": False,
    "'1' == 1": False,
    "input.tags == input.tags": True,
    "input.tags == input": False,
    "input.tags == steps.notify-all": False,
    "input == item": False,
    "item == steps.reserve.order": False,
    "input.one == 1": True,
    "input.owner == null": True,
    "1 != 2": True,
    "1 < 2": True,
    "2 <= 2.0": True,
    "2 > 1": True,
    "1 >= 2": False,
    "'a' < 'b'": True,
    "'a' <= 'a'": True,
    "'Z' < 'a'": True,
    "'a' < 1": False,
    "1 < 'a'": False,
    "'a' >= 1": False,
    "null <= null": False,
    "null < 1": False,
    "true > false": False,
    "input.tags <= input.tags": False,
    # Only `true` is true.
    "!true": False,
    "!1": True,
    "!null": True,
    "!!input.urgent": True,
    "true && true": True,
    "true && 1": False,
    "'yes' || false": False,
    "false || input.urgent": True,
    "input.urgent ? 'now' : 'later'": "now",
    "1 ? 'now' : 'later'": "later",
    "false ? 1 : false ? 2 : 3": 3,
    "true ? false ? 1 : 2 : 3": 2,
    # Fallbacks.
    "input.owner ?? 'none'": "none",
    "input.owner ?? input.missing ?? 2": 2,
    "null ?? null": None,
    "false ?? 1": False,
    # Which sign binds how.
    "input.owner ?? 5 > 3": True,
    "1 == input.owner ?? 1": True,
    "true || true && false": True,
    "(true || true) && false": False,
    "!false && false": False,
    "1 < 2 ? 'yes' : 'no'": "yes",
    "true && 1 < 2 || false": True,
    "(1 < 2) == true": True,
    # Functions.
    "length(input.tags)": 3,
    "length('größe')": 5,
    "length(item)": 1,
    "length(5)": None,
    "length(null)": None,
    "text(5)": "5",
    "text('a')": "a",
    "text(null)": "",
    "text(true)": "true",
    "text(input.half)": "0.5",
    "text(steps.reserve.order)": '{"id":7}',
    "text(input.tags)": '["a","b","c"]',
    "has(input.owner)": False,
    "has(input.count)": True,
    "has(false)": True,
    "unchecked(input.count)": 3,
    # The name of a function is a plain member elsewhere.
    "input.length": None,
}


@pytest.mark.parametrize("text", VALUES)
def test_an_expression_gives_its_value(text: str) -> None:
    found = value_of(parse_expression(text), SCOPE)

    assert (found, type(found)) == (VALUES[text], type(VALUES[text]))


FAULTS: dict[str, tuple[int, str]] = {
    "": (0, "a value is missing here: the expression ends"),
    "   ": (3, "a value is missing here: the expression ends"),
    "len(input)": (0, "unknown function 'len': did you mean 'length'?"),
    "count(input)": (0, "unknown function 'count': known are length, text, has, unchecked"),
    "length": (0, "`length` is a function: write `length(…)`"),
    "inptu.a": (0, "unknown root 'inptu': did you mean 'input'?"),
    "reserve.id": (0, "unknown root 'reserve': known are input, steps, item, index, run, result"),
    "True": (0, "unknown root 'True': known are input, steps, item, index, run, result"),
    "__class__": (0, "unknown root '__class__': known are input, steps, item, index, run, result"),
    "steps": (0, "`steps` needs the id of a step: `steps.the_step`"),
    "1 < length(steps)": (11, "`steps` needs the id of a step: `steps.the_step`"),
    "steps[0]": (0, "`steps` needs the id of a step: `steps.the_step`"),
    "run.stated_at": (0, "unknown member of `run` 'stated_at': did you mean 'started_at'?"),
    "run[0]": (0, "unknown member of `run` '0': known are id, blueprint, version, cost_center, started_at"),
    "input.": (6, 'a name follows a dot: the expression ends; write other names as `["the name"]`'),
    "input.1": (6, 'a name follows a dot: found `1`; write other names as `["the name"]`'),
    "input[": (6, "a bracket holds a quoted name or a whole number, such as `[0]`"),
    "input[index]": (6, "a bracket holds a quoted name or a whole number, such as `[0]`"),
    "input[1.0]": (6, "a bracket holds a quoted name or a whole number, such as `[0]`"),
    "input[0": (7, "the bracket is not closed: expected `]`, the expression ends"),
    "(input": (6, "the parenthesis is not closed: expected `)`, the expression ends"),
    "length()": (7, "a value is missing here: found `)`"),
    "length(input item)": (13, "`length` takes one value: expected `)`, found `item`"),
    "true ? 1": (8, "`a ? b : c` needs its third part: expected `:`, the expression ends"),
    "1 < 2 < 3": (6, "a comparison has two sides: join comparisons with `&&`, or put one in parentheses"),
    "input item": (
        6,
        "the expression should end here: found `item`; is a sign such as `==` or `&&` missing?",
    ),
    "(input).name": (
        7,
        "the expression should end here: found `.`; is a sign such as `==` or `&&` missing?",
    ),
    "input = 1": (6, "unexpected '=': did you mean '=='?"),
    "input & item": (6, "unexpected '&': did you mean '&&'?"),
    "input + 1": (6, "unexpected '+': expressions have no arithmetic; let a step compute the value"),
    "{}": (0, "unexpected '{': remove it, or quote it if it is part of a text"),
    "'open": (0, "the text that begins here is not closed: end it with '"),
    '"it\\"': (0, 'the text that begins here is not closed: end it with "'),
    r"'a\d'": (2, r"unknown escape '\\d': known are \\ \' \" \n \r \t"),
    "9223372036854775808": (0, "the number is too large: quote it to make it a text"),
    "1e999": (0, "the number is too large: quote it to make it a text"),
    "01": (1, "the expression should end here: found `1`; is a sign such as `==` or `&&` missing?"),
    "input == == 1": (9, "a value is missing here: found `==`"),
}


@pytest.mark.parametrize("text", FAULTS)
def test_a_fault_says_where_it_is_and_what_to_do(text: str) -> None:
    with pytest.raises(ExpressionFault) as caught:
        parse_expression(text)

    assert (caught.value.offset, caught.value.message) == FAULTS[text]
    assert str(caught.value).endswith(f"(at character {caught.value.offset + 1})")


def test_a_text_of_a_thousand_characters_is_the_longest() -> None:
    longest = f"'{'x' * 998}'"

    assert value_of(parse_expression(longest), {}) == "x" * 998
    with pytest.raises(ExpressionFault, match="1,001 characters: 1,000 are allowed"):
        parse_expression(longest + " ")


@pytest.mark.parametrize(
    ("opening", "inside", "closing"),
    [("(", "1", ")"), ("!", "true", ""), ("text(", "1", ")"), ("true ? ", "1", " : 0"), ("false ? 0 : ", "1", "")],
)
def test_twenty_levels_are_the_deepest(opening: str, inside: str, closing: str) -> None:
    parse_expression(opening * 20 + inside + closing * 20)

    with pytest.raises(ExpressionFault, match="nests deeper than 20 levels: let a step compute a part of it"):
        parse_expression(opening * 21 + inside + closing * 21)


def test_many_operands_in_a_row_do_not_nest() -> None:
    row = " && ".join(["true"] * 120)

    assert value_of(parse_expression(row), {}) is True


def test_a_condition_holds_only_where_it_is_true() -> None:
    assert is_true(parse_expression("input"), {"input": True})
    others: tuple[Any, ...] = (1, "true", None, [True], {})
    assert not any(is_true(parse_expression("input"), {"input": value}) for value in others)


def test_values_are_compared_however_deep_they_are() -> None:
    """Deeper than Python's own stack."""
    one: Any = 1
    other: Any = 1
    for _ in range(5_000):
        one, other = [one], {"a": other}

    scope = {"input": one, "item": other, "result": [one]}
    assert value_of(parse_expression("input == input"), scope) is True
    assert value_of(parse_expression("item == item"), scope) is True
    assert value_of(parse_expression("input == item"), scope) is False
    assert value_of(parse_expression("input == result"), scope) is False


@MANY
@given(text=st.text(max_size=30) | st.text("input.steps[0]'\"\\ ()!?:&|=<>-1", max_size=40))
@example(text="'\\")
@example(text="steps[''")
@example(text="!" * 1_000)
@example(text="(" * 1_000)
@example(text="input" + "[0]" * 331)
@example(text="input" + "?input:" * 140)
@example(text="1" * 1_000)
@example(text="\ud800")
@example(text="input.\u00b2")
def test_any_text_is_an_expression_or_has_a_fault(text: str) -> None:
    offset = 0
    try:
        parse_expression(text)
    except ExpressionFault as fault:
        offset = fault.offset

    assert 0 <= offset <= len(text)


@MANY
@given(text=EXPRESSIONS, scope=SCOPES)
def test_every_expression_has_a_value_in_every_scope(text: str, scope: dict[str, Any]) -> None:
    expression = parse_expression(text)

    assert is_true(expression, scope) is (value_of(expression, scope) is True)


@FEW
@given(one=JSON, other=JSON)
@example(one=[1], other=[1, 2])
@example(one={"a": [1]}, other={"a": [2]})
def test_values_are_equal_or_not_and_ordered_one_way_at_most(one: Any, other: Any) -> None:
    def holds(text: str) -> bool:
        return is_true(parse_expression(text), {"input": one, "item": other})

    assert holds("input == input")
    assert holds("input == item") is holds("item == input") is not holds("input != item")
    assert not (holds("input < item") and holds("input >= item"))
    assert holds("input < item") is holds("item > input")
    assert holds("input <= item") is holds("item >= input")
    if holds("input <= item") and holds("input >= item"):
        assert holds("input == item")
