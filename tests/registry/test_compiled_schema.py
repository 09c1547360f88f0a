"""Schemas of tools: which ones can be used, and that nothing is fetched for them."""

from typing import Any

import pytest

from agent_resolver.registry import compile_schema, schema_faults
from tests.registry.sample import MemoryTool, holding

CANARY = "canary-5d07"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/schema.json"}}},
        {"$id": "http://127.0.0.1:9/schema.json", "$ref": "other.json"},
    ],
)
def test_a_schema_that_refers_elsewhere_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="nothing is fetched"):
        compile_schema(schema)


def test_a_file_is_not_read_either() -> None:
    with pytest.raises(ValueError, match="nothing is fetched"):
        compile_schema({"$ref": "file:///etc/passwd"})


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
        compile_schema(schema)
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
    shape = compile_schema(tree)

    assert schema_faults(shape, {"child": {"child": {"size": 1}}}, "arguments") == ()
    assert schema_faults(shape, {"child": {"child": {"size": "1"}}}, "arguments") == (
        'child.child.size: the value is not of type "integer"',
    )


@pytest.mark.parametrize("schema", [{"$ref": "#"}, {"allOf": [{"$ref": "#"}]}, {"not": {"not": {"$ref": "#"}}}])
def test_a_schema_that_runs_in_circles_ends_all_the_same(schema: dict[str, Any]) -> None:
    shape = compile_schema(schema)

    assert shape.is_valid({"a": {}}) in {True, False}


def test_a_schema_is_read_in_the_dialect_that_it_names() -> None:
    pair = {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]}
    shape = compile_schema({"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"pair": pair}})

    assert shape.is_valid({"pair": ["a", 1]})
    assert not shape.is_valid({"pair": [1, "a"]})
    with pytest.raises(ValueError, match=r"\S"):
        compile_schema({"properties": {"pair": pair}})


def test_a_pattern_that_could_go_back_for_ever_is_checked_at_once() -> None:
    for pattern in ("^(a+)+$", r"^(a+)+\1$", "^(?=(a+)+$)a*b"):
        shape = compile_schema({"properties": {"text": {"pattern": pattern}}})

        assert not shape.is_valid({"text": "a" * 64 + "!"})


FORMATS = {
    "date": (["2024-02-29"], ["2023-02-29", "2024-1-1", "2024-01-01T00:00:00", "soon"]),
    "date-time": (
        ["2024-01-01T10:00:00Z", "2024-01-01T10:00:00.5+05:30", "2024-01-01T10:00:00"],
        ["2024-01-01", "2024-01-01T25:00:00Z", "2024-01-01T10:00:00ZZ", "soon"],
    ),
    "time": (["10:00:00Z", "10:00:00.000001-01:00", "10:00:00"], ["10:00", "25:00:00", "10:00:00ZZ", "soon"]),
    "duration": (
        ["PT1H", "P1W", "P1Y35DT1H", "-P399DT86399.5S", "PT0.000001S", "PT61S"],
        ["P", "PT", "P1DT", "PT1.5H", "P-1D", "1:00:00", "PT\u0661S", "P1D\n", "soon"],
    ),
    "uuid": (["7f31830c-e122-11f1-afbf-02fc00000001"], ["7f31830c", "soon"]),
    "decimal": (["1.50", "-1E+9", "0"], ["1,5", "", "soon"]),
    "email": (["ada@example.com"], ["ada"]),
    "of-nobody": (["anything"], []),
}


@pytest.mark.parametrize(("name", "follow", "do_not"), [(name, *texts) for name, texts in FORMATS.items()])
def test_a_text_must_follow_its_format(name: str, follow: list[str], do_not: list[str]) -> None:
    shape = compile_schema({"properties": {"text": {"format": name}}})

    assert [text for text in follow if not shape.is_valid({"text": text})] == []
    assert [text for text in do_not if shape.is_valid({"text": text})] == []
    assert shape.is_valid({"text": 5})


def test_every_text_that_breaks_its_format_is_told() -> None:
    shape = compile_schema({"properties": {"day": {"format": "date"}, "long": {"format": "duration"}}})

    assert schema_faults(shape, {"day": "x", "long": "y"}, "arguments") == (
        'day: the value is not a "date"',
        'long: the value is not a "duration"',
    )


def test_deep_values_are_a_fault_and_no_crash() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}

    (fault,) = schema_faults(compile_schema({"properties": {"a": {"$ref": "#"}}}), deep, "arguments")

    assert fault.startswith("(arguments): it is no JSON: ")


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "integer"}, CANARY),
        ({"enum": ["a"]}, CANARY),
        ({"const": "a"}, CANARY),
        ({"pattern": "^z$"}, CANARY),
        ({"format": "date"}, CANARY),
        ({"format": "duration"}, CANARY),
        ({"minLength": 99}, CANARY),
        ({"maxLength": 1}, CANARY),
        ({"not": {}}, CANARY),
        ({"multipleOf": 7}, 7_301_992_455),
        ({"maximum": 7}, 7_301_992_455),
        ({"exclusiveMinimum": 8_000_000_000}, 7_301_992_455),
        ({"anyOf": [{"type": "integer"}, {"const": 1}]}, CANARY),
        ({"oneOf": [{"type": "string"}, {"minLength": 1}]}, CANARY),
        ({"if": {"type": "string"}, "then": {"type": "integer"}}, CANARY),
        ({"uniqueItems": True}, [CANARY, CANARY]),
        ({"contains": {"type": "integer"}}, [CANARY]),
        ({"maxItems": 1}, [CANARY, CANARY]),
        ({"minItems": 9}, [CANARY]),
        ({"items": {"type": "integer"}}, [CANARY]),
        ({"prefixItems": [False]}, [CANARY]),
        ({"unevaluatedItems": False}, [CANARY]),
        ({"maxProperties": 0}, {"a": CANARY}),
        ({"minProperties": 9}, {"a": CANARY}),
        ({"additionalProperties": False}, {"a": CANARY}),
        ({"unevaluatedProperties": False}, {"a": CANARY}),
        ({"dependentRequired": {"a": ["b"]}}, {"a": CANARY}),
        ({"properties": {"a": False}}, {"a": CANARY}),
    ],
)
def test_no_fault_tells_the_value(schema: dict[str, Any], value: Any) -> None:
    for nested, whole in (
        (schema, value),
        ({"properties": {"in": {"properties": {"side": schema}}}}, {"in": {"side": value}}),
    ):
        faults = schema_faults(compile_schema(nested), whole, "arguments")

        assert faults
        assert not any(CANARY in fault or "992" in fault for fault in faults)


@pytest.mark.parametrize("value", [object(), {5: CANARY}, f"{CANARY} \ud800", {CANARY: object()}, [{"a": object()}]])
def test_what_is_no_json_is_a_fault_that_does_not_tell_it_either(value: object) -> None:
    (fault,) = schema_faults(compile_schema({"type": "object"}), {"a": value}, "arguments")

    assert fault.startswith("(arguments): it is no JSON: ")
    assert CANARY not in fault


def test_without_a_schema_anything_that_is_json_will_do() -> None:
    assert schema_faults(None, {"a": [1, None, "é", 2**70]}, "result") == ()
    assert schema_faults(None, object(), "result") == (
        "(result): it is no JSON: Encoding objects of type object is unsupported",
    )
