"""Which fields lack a description or an example, wherever in a schema they are."""

from typing import Any

import pytest

from agent_resolver.capability import lacking_notes

NOTED = {"type": "string", "description": "A text", "examples": ["x"]}
BARE = {"type": "string"}


def thing(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "description": "A thing", "properties": fields}


def lacking(schema: dict[str, Any], *, needs_examples: bool = True) -> list[str]:
    return [f"{path}: {what}" for path, what in lacking_notes(schema, needs_examples=needs_examples)]


@pytest.mark.parametrize(
    "field",
    [
        NOTED,
        {"const": "a"},
        {"enum": ["a"]},
        thing(a=NOTED),
        {"$ref": "#/$defs/Noted"},
        {"$ref": "#/$defs/Thing"},
        {"anyOf": [NOTED, {"type": "null"}]},
        {"anyOf": [{"$ref": "#/$defs/Thing"}, {"type": "null"}], "default": None},
        {"oneOf": [thing(a=NOTED), thing(b=NOTED)], "description": "Either"},
        {"type": "array", "items": thing(a=NOTED), "description": "Things"},
        {"type": "array", "prefixItems": [thing(a=NOTED)], "items": False, "description": "Things"},
    ],
)
def test_a_field_is_described_there_or_where_it_leads(field: dict[str, Any]) -> None:
    schema = {**thing(field=field), "$defs": {"Noted": NOTED, "Thing": thing(a=NOTED)}}

    assert lacking(schema) == []


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        (True, ["$.field: it has no description", "$.field: it has no examples"]),
        (BARE, ["$.field: it has no description", "$.field: it has no examples"]),
        ({**BARE, "description": "A text"}, ["$.field: it has no examples"]),
        ({"anyOf": [NOTED, {"type": "integer"}]}, ["$.field: it has no description", "$.field: it has no examples"]),
        (thing(a=BARE), ["$.field.a: it has no description", "$.field.a: it has no examples"]),
        (
            {"type": "object", "additionalProperties": thing(a=NOTED), "description": "D"},
            ["$.field: it has no examples"],
        ),
        ({**NOTED, "items": thing(a={"examples": [1]})}, ["$.field[*].a: it has no description"]),
        ({**NOTED, "prefixItems": [thing(a={"examples": [1]})]}, ["$.field[0].a: it has no description"]),
        ({**NOTED, "additionalProperties": thing(a={"examples": [1]})}, ["$.field.*.a: it has no description"]),
        ({**NOTED, "anyOf": [thing(a={"examples": [1]})]}, ["$.field.a: it has no description"]),
    ],
)
def test_a_field_that_lacks_a_note_is_named(field: Any, expected: list[str]) -> None:
    assert lacking(thing(field=field)) == expected


def test_what_comes_out_needs_no_examples() -> None:
    assert lacking(thing(field=BARE), needs_examples=False) == ["$.field: it has no description"]


def test_what_refers_to_itself_is_gone_through_once() -> None:
    tree = {"type": "array", "description": "A tree", "items": {"$ref": "#/$defs/Tree"}}
    schema = {**thing(tree={"$ref": "#/$defs/Tree"}, next={"$ref": "#"}), "$defs": {"Tree": tree}}

    assert lacking(schema) == []
