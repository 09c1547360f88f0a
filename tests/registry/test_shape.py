"""Schemas of tools: which ones can be used, and that nothing is fetched for them."""

from typing import Any

import pytest

from agent_resolver.registry.shape import compiled, faults_of
from tests.registry.sample import MemoryTool, holding


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/schema.json"}}},
        {"$id": "http://127.0.0.1:9/schema.json", "$ref": "other.json"},
    ],
)
def test_a_schema_that_refers_elsewhere_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="nothing is fetched"):
        compiled(schema)


def test_a_file_is_not_read_either() -> None:
    with pytest.raises(ValueError, match="nothing is fetched"):
        compiled({"$ref": "file:///etc/passwd"})


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "nonsense"},
        {"properties": 5},
        {"pattern": "("},
        {"$ref": "#/$defs/nowhere"},
        {"$schema": "https://example.com/my-own-dialect"},
        {"required": "name"},
    ],
)
def test_what_is_no_schema_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        compiled(schema)
    with pytest.raises(ValueError, match=r"\S"):
        holding(MemoryTool(input_schema=schema))
    with pytest.raises(ValueError, match=r"\S"):
        holding(MemoryTool(output_schema=schema))


def test_a_schema_may_refer_to_itself() -> None:
    tree = {
        "type": "object",
        "properties": {"child": {"$ref": "#"}, "size": {"$ref": "#/$defs/size"}},
        "additionalProperties": False,
        "$defs": {"size": {"type": "integer"}},
    }
    shape = compiled(tree)

    assert faults_of(shape, {"child": {"child": {"size": 1}}}, "arguments", for_record=True) == ()
    assert faults_of(shape, {"child": {"child": {"size": "1"}}}, "arguments", for_record=True) == (
        'child.child.size: "1" is not of type "integer"',
    )


@pytest.mark.parametrize("schema", [{"$ref": "#"}, {"allOf": [{"$ref": "#"}]}, {"not": {"not": {"$ref": "#"}}}])
def test_a_schema_that_runs_in_circles_ends_all_the_same(schema: dict[str, Any]) -> None:
    shape = compiled(schema)

    assert shape.is_valid({"a": {}}) in {True, False}


def test_a_schema_is_read_in_the_dialect_that_it_names() -> None:
    pair = {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]}
    shape = compiled({"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"pair": pair}})

    assert shape.is_valid({"pair": ["a", 1]})
    assert not shape.is_valid({"pair": [1, "a"]})
    with pytest.raises(ValueError, match=r"\S"):
        compiled({"properties": {"pair": pair}})


def test_a_pattern_that_could_go_back_for_ever_is_checked_at_once() -> None:
    for pattern in ("^(a+)+$", r"^(a+)+\1$", "^(?=(a+)+$)a*b"):
        shape = compiled({"properties": {"text": {"pattern": pattern}}})

        assert not shape.is_valid({"text": "a" * 64 + "!"})


def test_deep_values_are_a_fault_and_no_crash() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}

    (fault,) = faults_of(compiled({"properties": {"a": {"$ref": "#"}}}), deep, "arguments", for_record=True)

    assert fault.startswith("(arguments): it is no JSON: ")
