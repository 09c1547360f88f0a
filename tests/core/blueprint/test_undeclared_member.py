"""Members that no schema declares: slips that would give null in every run."""

from typing import Any

import pytest
from hypothesis import given

from agent_resolver.core import parse_condition, parse_template, undeclared_members
from tests.core.blueprint.expressions import TEMPLATES
from tests.core.schemas import DOCUMENTS
from tests.strategies import FEW


def record(*names: str, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"type": "string"} for name in names}, **more}


NULL = {"type": "null"}
ORDER = record("id", "total")
TREE = {"type": "object", "properties": {"name": True, "child": {"anyOf": [{"$ref": "#"}, NULL]}}}
SCOPES: dict[str, Any] = {
    "input": {"type": "object", "properties": {"any name": ORDER, "lines": {"type": "array", "items": ORDER}}},
    "item": TREE,
    "result": {"type": "object"},
    "steps": {
        "open": record("id", additionalProperties=True),
        "map": record("id", additionalProperties={"type": "integer"}),
        "patterns": record("id", patternProperties={"^x": {}}),
        "closed": record("id", additionalProperties=False),
        "either": {"anyOf": [record("a"), record("b"), NULL]},
        "maybe": {"anyOf": [record("a"), {}]},
        "needs": {**record("a", "b"), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        "both": {"allOf": [record("a"), record("b")]},
        "part": {"allOf": [record("a"), {"type": "object"}]},
        "fixed": {"enum": [{"a": 1}, {"b": 1}, 5]},
        "text": {"type": "string"},
        "mixed": {"type": ["object", "string"], "properties": {"a": True}},
        "clash": {"allOf": [record("a"), {"type": "string"}]},
    },
}

DECLARED = [
    "input",
    'input["any name"].id',
    "input.lines[0].total",
    "item.child.child.name",
    "result.anything",
    "steps.open.other",
    "steps.map.other",
    "steps.patterns.other",
    "steps.either.a",
    "steps.either.b",
    "steps.maybe.other",
    "steps.maybe.a",
    "steps.needs.a",
    "steps.both.a",
    "steps.both.b",
    "steps.fixed.a",
    "steps.text.other",
    "steps.clash.a",
    "steps.unknown.other",
    "steps.closed[0]",
    "run.id",
    "unchecked(steps.closed.other)",
]
UNDECLARED = {
    "steps.closed.idd": "`steps.closed` declares no member 'idd': did you mean 'id'?",
    "input['any name'].price": "`input[\"any name\"]` declares no member 'price': declared are id, total",
    "input.lines[-1].totall.x": "`input.lines[-1]` declares no member 'totall': did you mean 'total'?",
    "item.child.child.nam": "`item.child.child` declares no member 'nam': did you mean 'name'?",
    "steps.either.c": "`steps.either` declares no member 'c': declared are a, b",
    "steps.needs.c": "`steps.needs` declares no member 'c': declared are a, b",
    "steps.both.c": "`steps.both` declares no member 'c': declared are a, b",
    "steps.part.c": "`steps.part` declares no member 'c': declared are a",
    "steps.fixed.c": "`steps.fixed` declares no member 'c': declared are a, b",
    "steps.mixed.c": "`steps.mixed` declares no member 'c': declared are a",
    "length(steps.closed.other)": "`steps.closed` declares no member 'other': declared are id",
}


@pytest.mark.parametrize("text", DECLARED)
def test_a_member_that_may_be_there_is_not_reported(text: str) -> None:
    assert undeclared_members(parse_condition(text), SCOPES) == ()


@pytest.mark.parametrize("text", UNDECLARED)
def test_a_member_that_no_schema_declares_is_reported(text: str) -> None:
    assert list(map(str, undeclared_members(parse_condition(text), SCOPES))) == [UNDECLARED[text]]


def test_every_undeclared_member_of_a_template_is_reported_once() -> None:
    template = parse_template(
        {"a": "${steps.closed.x} and ${steps.closed.y}", "b": ["${steps.closed.x}", "${steps.closed.id}"]}
    )

    assert [found.name for found in undeclared_members(template, SCOPES)] == ["x", "y"]


def test_a_schema_with_more_paths_than_can_be_followed_tells_nothing() -> None:
    """Each definition refers twice to the next: 2 to the power of 40 paths."""
    definitions: dict[str, Any] = {
        f"d{number}": {"allOf": [{"$ref": f"#/$defs/d{number + 1}"}, {"$ref": f"#/$defs/d{number + 1}"}]}
        for number in range(40)
    }
    schema = {"$ref": "#/$defs/d0", "$defs": {**definitions, "d40": record("a", additionalProperties=False)}}

    assert undeclared_members(parse_condition("input.b"), {"input": schema}) == ()


@FEW
@given(value=TEMPLATES, schema=DOCUMENTS)
def test_every_template_can_be_looked_at(value: Any, schema: dict[str, Any]) -> None:
    scopes = {"input": schema, "item": schema, "result": schema, "steps": {"a": schema}}

    for found in undeclared_members(parse_template(value), scopes):
        assert found.name not in found.declared
