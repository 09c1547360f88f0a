"""Schemas of tools in one form, whatever made them."""

from typing import Any

import pytest

from agent_resolver.capability import DIALECT, UnsafeCode, is_json, meta_fault, normalised, unsafe_schema

OBJECT = {"type": "object", "properties": {"b": {"$ref": "#/$defs/B"}}, "required": ["b"]}
NUMBER = {"title": "B", "type": "integer", "minimum": 1}


def test_the_root_is_inline_and_only_what_is_used_is_defined() -> None:
    raw = {"$ref": "#/$defs/A", "$defs": {"Z": {"type": "null"}, "B": NUMBER, "A": {"title": "A", **OBJECT}}}

    assert normalised(raw, is_closed=True) == {
        "$schema": DIALECT,
        "type": "object",
        "properties": {"b": {"$ref": "#/$defs/B"}},
        "required": ["b"],
        "additionalProperties": False,
        "$defs": {"B": {"type": "integer", "minimum": 1}},
    }


def test_what_is_said_beside_a_reference_goes_first() -> None:
    raw = {"$ref": "#/$defs/A", "description": "Here.", "$defs": {"A": {"description": "There.", "type": "object"}}}

    assert normalised(raw, is_closed=False) == {"$schema": DIALECT, "description": "Here.", "type": "object"}


def test_definitions_that_others_use_are_kept() -> None:
    raw = {
        "type": "object",
        "properties": {"a": {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]}},
        "$defs": {"A": {"type": "array", "items": {"$ref": "#/$defs/B"}}, "B": NUMBER, "C": NUMBER},
    }

    assert sorted(normalised(raw, is_closed=True)["$defs"]) == ["A", "B"]


def test_keys_stand_in_one_order() -> None:
    raw = {"required": ["b"], "properties": {"b": {"examples": [1], "minimum": 1, "type": "integer"}}, "type": "object"}
    schema = normalised(raw, is_closed=True)

    assert list(schema) == ["$schema", "type", "properties", "required", "additionalProperties"]
    assert list(schema["properties"]["b"]) == ["type", "minimum", "examples"]


def test_titles_of_fields_are_kept_and_names_of_classes_are_not() -> None:
    raw = {"title": "Request", "type": "object", "properties": {"b": {"title": "Said on purpose"}}, "required": []}

    assert normalised(raw, is_closed=False) == {
        "$schema": DIALECT,
        "type": "object",
        "properties": {"b": {"title": "Said on purpose"}},
    }


@pytest.mark.parametrize("key", ["exclusiveMinimum", "exclusiveMaximum"])
def test_bounds_that_are_booleans_are_none_of_this_dialect(key: str) -> None:
    schema = {"$schema": DIALECT, "type": "object", "properties": {"number": {"type": "integer", key: True}}}

    assert meta_fault(schema) == f'properties.number.{key}: true is not of type "number"'
    assert [each.code for each in unsafe_schema(schema, ())] == [UnsafeCode.INVALID_SCHEMA]


def field(**keywords: Any) -> dict[str, Any]:
    return {"$schema": DIALECT, "type": "object", "properties": {"a": {"type": "string", **keywords}}}


@pytest.mark.parametrize("keyword", ["gt", "nullable", "maxDigits"])
def test_a_keyword_that_nobody_knows_is_refused_at_its_place(keyword: str) -> None:
    found = list(unsafe_schema(field(**{keyword: 3}), ("request",)))

    assert [(each.path, each.code) for each in found] == [("request.a", UnsafeCode.INVALID_SCHEMA)]
    assert f"`{keyword}`" in found[0].message


def test_keywords_that_only_say_more_may_be_there() -> None:
    assert list(unsafe_schema(field(title="A", readOnly=True, **{"x-order": 1, "$comment": "c"}), ())) == []


@pytest.mark.parametrize(
    "pattern",
    [
        "(?P<a>x)",
        "(?P<a>x)(?P=a)",
        "(?i)^a$",
        "(?i:a)",
        "(?#why)a",
        "(?>a)",
        "(?(1)a|b)",
        "a++b",
        "a{2,3}+",
        "[a](?s).",
    ],
)
def test_a_pattern_that_ecma_262_does_not_know_is_refused_at_its_place(pattern: str) -> None:
    found = [(each.path, each.code) for each in unsafe_schema(field(pattern=pattern), ("request",))]

    assert found[0] == ("request.a", UnsafeCode.INVALID_SCHEMA)


@pytest.mark.parametrize(
    "pattern",
    [
        "^(?:a|b)$",
        "^(?=a)(?!b).",
        "(?<=a)b",
        "(?<!a)b",
        "(?<year>[0-9]{4})",
        r"\(\?P",
        "[(?P]",
        r"[\](?P]",
        r"\++",
        "[*+]+",
    ],
)
def test_a_pattern_of_ecma_262_is_one(pattern: str) -> None:
    assert list(unsafe_schema(field(pattern=pattern), ())) == []


@pytest.mark.parametrize(("name", "example"), [("date", "2024-02-30"), ("uuid", "x"), ("duration", "1 h")])
def test_an_example_or_a_default_must_follow_the_format(name: str, example: str) -> None:
    found = list(unsafe_schema(field(format=name, examples=[example], default=example), ()))

    assert [each.code for each in found] == [UnsafeCode.INVALID_EXAMPLE, UnsafeCode.INVALID_DEFAULT]


def test_a_schema_is_never_fetched() -> None:
    schema = {"$schema": DIALECT, "type": "object", "properties": {"a": {"$ref": "https://example.com/schema"}}}

    assert [each.code for each in unsafe_schema(schema, ())] == [UnsafeCode.INVALID_SCHEMA]


@pytest.mark.parametrize("value", [None, True, 1, 1.5, "x", [1, [2]], {"a": {"b": ()}}])
def test_what_json_can_say_is_json(value: Any) -> None:
    assert is_json(value)


@pytest.mark.parametrize("value", [float("nan"), float("-inf"), b"x", {1: 2}, {"a": {2}}, [object()]])
def test_what_json_cannot_say_is_none(value: Any) -> None:
    assert not is_json(value)


def test_values_nested_without_end_are_no_json() -> None:
    nested: list[Any] = []
    nested.append(nested)

    assert not is_json(nested)
