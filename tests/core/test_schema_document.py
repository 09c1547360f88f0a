"""Schemas as values: equality, references, types, and what cannot be understood."""

from typing import Any

import pytest

from agent_resolver.core import (
    ALL_TYPES,
    DIALECT,
    Document,
    TooLarge,
    bare,
    declared_types,
    same,
    token,
    type_of,
    types_of,
    values_of,
)


@pytest.mark.parametrize(
    ("first", "second", "is_same"),
    [
        (1, 1.0, True),
        (1, True, False),
        (0, False, False),
        (1.5, 1.5, True),
        ([1, 2.0], [1.0, 2], True),
        ([1, 2], [2, 1], False),
        ((1,), [1], True),
        ({"a": 1, "b": [2.0]}, {"b": [2], "a": 1.0}, True),
        ("1", 1, False),
        (None, False, False),
        (10**200, 10**200, True),
    ],
)
def test_values_share_a_token_when_json_schema_takes_them_for_equal(first: Any, second: Any, *, is_same: bool) -> None:
    assert (token(first) == token(second)) is is_same


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "null"),
        (True, "boolean"),
        ("a", "string"),
        ({}, "object"),
        ([], "array"),
        (3, "integer"),
        (3.0, "integer"),
        (3.5, "fraction"),
    ],
)
def test_every_value_has_one_type(value: Any, expected: str) -> None:
    assert type_of(value) == expected
    assert expected in ALL_TYPES


def test_types_come_from_what_is_declared_and_from_the_values_that_are_left() -> None:
    assert declared_types({}) == ALL_TYPES
    assert types_of({"type": ["number", "null"]}) == {"fraction", "integer", "null"}
    assert types_of({"enum": ["a", 1.0]}) == {"string", "integer"}
    assert types_of({"type": "string", "enum": ["a", 1]}) == {"string"}


def test_values_are_listed_where_they_can_be() -> None:
    assert values_of({"type": "string"}) is None
    assert values_of({"enum": ["a", "b"], "const": "b"}) == {'"b"': "b"}
    assert values_of({"type": ["boolean", "null"]}) == {"null": None, "false": False, "true": True}


def test_annotations_go_and_what_only_looks_like_one_stays() -> None:
    schema = {
        "title": "T",
        "description": "D",
        "properties": {"title": {"type": "string", "examples": ["x"]}, "default": True},
        "items": {"deprecated": True, "const": {"title": "kept"}},
        "anyOf": [{"default": 1}, {"$comment": "c", "enum": [{"description": "kept"}]}],
        "required": ["title"],
        "$defs": "odd",
        "allOf": "odd",
    }

    assert bare(schema) == {
        "properties": {"title": {"type": "string"}, "default": True},
        "items": {"const": {"title": "kept"}},
        "anyOf": [{}, {"enum": [{"description": "kept"}]}],
        "required": ["title"],
        "$defs": "odd",
        "allOf": "odd",
    }


ROOT: dict[str, Any] = {
    "$defs": {"A": {"type": "string"}, "a/b~c": {"type": "null"}, "ä": True},
    "anyOf": [{"const": 1}, {"const": {"type": "string"}}],
}


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("#", ROOT),
        ("#/$defs/A", {"type": "string"}),
        ("#/$defs/a~1b~0c", {"type": "null"}),
        ("#/$defs/%C3%A4", True),
        ("#/anyOf/0", {"const": 1}),
        ("#/anyOf/2", None),
        ("#/anyOf/-1", None),
        ("#/anyOf/\u0660", None),
        ("#/anyOf/99999999999999999999", None),
        ("#/anyOf/1/const", None),
        ("#/$defs/B", None),
        ("#/$defs/A/type", None),
        ("#A", None),
        ("https://elsewhere.example/schema", None),
        ("", None),
    ],
)
def test_a_reference_leads_to_a_schema_of_the_document_or_nowhere(reference: str, expected: Any) -> None:
    assert Document(ROOT).target(reference) == expected


@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        (True, None),
        ({"$schema": DIALECT, "$id": "urn:x", "type": "string"}, None),
        ({"properties": {"$id": {"type": "string"}, "required": {"type": "null"}}}, None),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, "$schema"),
        ({"properties": {"a": {"$id": "urn:y"}}}, "$id"),
        ({"$anchor": "here"}, "$anchor"),
        ({"$dynamicRef": "#x"}, "$dynamicRef"),
        ({"$ref": "#/$defs/B"}, "$ref"),
        ({"$ref": 5}, "$ref"),
        ({"type": "text"}, "type"),
        ({"type": []}, "type"),
        ({"type": [["string"]]}, "type"),
        ({"enum": "a"}, "enum"),
        ({"required": "a"}, "required"),
        ({"required": [1]}, "required"),
        ({"properties": []}, "properties"),
        ({"properties": {"a": 1}}, "properties"),
        ({"items": [{}]}, "items"),
        ({"anyOf": []}, "anyOf"),
        ({"oneOf": [1]}, "oneOf"),
        ({"allOf": {}}, "allOf"),
        ({"minimum": "1"}, "minimum"),
        ({"exclusiveMinimum": True}, "exclusiveMinimum"),
        ({"multipleOf": 0}, "multipleOf"),
        ({"maxLength": -1}, "maxLength"),
        ({"maxLength": 1.5}, "maxLength"),
        ({"maxLength": 2.0}, None),
        ({"uniqueItems": 1}, "uniqueItems"),
        ({"additionalProperties": {"items": {"not": {"type": "text"}}}}, "type"),
        ({"$ref": "#"}, "$ref"),
        ({"anyOf": [{"$ref": "#/$defs/A"}], "$defs": {"A": {"allOf": [{"$ref": "#"}]}}}, "$ref"),
        ({"properties": {"next": {"$ref": "#"}}}, None),
    ],
)
def test_what_keeps_a_document_from_being_understood_is_named(schema: Any, fault: str | None) -> None:
    assert Document(schema).fault == fault


def test_parts_are_the_same_ones_each_time() -> None:
    document = Document({"type": "string", "allOf": [True]})
    parts = document.parts(document.root)  # type: ignore[arg-type]

    assert parts.own == {"type": "string"}
    assert document.parts(document.root) is parts  # type: ignore[arg-type]


def sameness(first: Any, second: Any) -> bool:
    return same(first, second, (Document(first), Document(second)))


def test_the_same_words_are_the_same_when_what_they_refer_to_is() -> None:
    def schema(leaf: Any) -> dict[str, Any]:
        return {"not": {"$ref": "#/$defs/A"}, "$defs": {"A": {"anyOf": [{"const": leaf}, {"$ref": "#/$defs/A"}]}}}

    assert sameness(schema(1), schema(1.0))
    assert not sameness(schema(1), schema(2))
    assert not same(schema(1)["not"], schema(2)["not"], (Document(schema(1)), Document(schema(2))))


def test_what_nests_too_deep_is_not_compared() -> None:
    value: Any = 1
    for _ in range(200):
        value = [value]

    with pytest.raises(TooLarge):
        same(value, value, (Document(True), Document(True)))  # noqa: FBT003 - a schema
