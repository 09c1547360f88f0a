from typing import Any

import pytest
from hypothesis import given

from agent_resolver.reasoner.planner.pattern_sample import text_matching
from agent_resolver.reasoner.planner.schema_sample import sample_value
from agent_resolver.registry.compiled_schema import compile_schema
from tests.reasoner.planner.manifest import TOOLS
from tests.reasoner.planner.tools import schemas

SCHEMAS: list[dict[str, Any]] = [
    {"type": "string", "examples": ["x"]},
    {"type": "string", "minLength": 20},
    {"type": "string", "maxLength": 3},
    {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{4}$"},
    {"type": "string", "pattern": "^(ev|mt)-\\d+$"},
    {"type": "string", "pattern": "^sha256-[0-9a-f]{64}$"},
    {"type": "string", "format": "date-time"},
    {"type": "string", "format": "uuid"},
    {"type": "integer", "minimum": 10, "multipleOf": 7},
    {"type": "integer", "maximum": -3},
    {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    {"type": "array", "items": {"type": "integer", "minimum": 5}, "minItems": 2},
    {"type": "array", "maxItems": 0},
    {"anyOf": [{"type": "null"}, {"type": "integer", "minimum": 3}]},
    {"$ref": "#/$defs/a", "$defs": {"a": {"type": "object", "properties": {"b": {"const": 1}}, "required": ["b"]}}},
    {"enum": [3, 4]},
    {"type": ["string", "null"]},
    {"type": "boolean"},
    {},
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_a_sample_follows_its_schema(schema: dict[str, Any]) -> None:
    assert compile_schema(schema).is_valid(sample_value(schema))


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.id)
def test_every_tool_has_samples_of_what_it_takes_and_gives(tool: Any) -> None:
    for schema in (tool.input_schema, tool.output_schema or {}):
        assert compile_schema(schema).is_valid(sample_value(schema))


@given(schema=schemas())
def test_every_schema_has_a_sample(schema: dict[str, Any]) -> None:
    sample_value(schema)


def test_a_schema_that_refers_to_itself_ends() -> None:
    tree = {"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}, "required": ["left"]}

    assert isinstance(sample_value(tree), dict)


@pytest.mark.parametrize("pattern", ["(?=a)b", "[", "(a", r"(a)\1", "a{1000}"])
def test_an_expression_that_is_not_read_has_no_sample(pattern: str) -> None:
    assert text_matching(pattern) is None
