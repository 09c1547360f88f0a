"""Whether one schema takes all that another takes, keyword by keyword."""

from typing import Any

import pytest

from agent_resolver.core import Document, bare, below, gaps, schema_inclusion as module
from agent_resolver.core.schema_document import exclude_each_other


def obstacles(narrow: Any, wide: Any) -> list[str]:
    """The gaps between two schemas, as words."""
    found = gaps(Document(bare(narrow)), Document(bare(wide)))
    return [f"{gap.reason} {gap.path} {gap.keyword}".rstrip() for gap in found]


STRING = {"type": "string"}
INTEGER = {"type": "integer"}
NUMBER = {"type": "number"}
NULL = {"type": "null"}


def closed(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def tagged(tag: str, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"t": {"const": tag}, **more}, "required": ["t"]}


INCLUDED: list[tuple[Any, Any]] = [
    # Types.
    (INTEGER, NUMBER),
    (STRING, {}),
    (STRING, True),
    (False, STRING),
    (STRING, {"type": ["string", "null"]}),
    ({"enum": [1.0, "a"]}, {"type": ["integer", "string"]}),
    # Values.
    ({"const": 1}, {"enum": [1.0, 2]}),
    ({"enum": ["a", "b"], "const": "a"}, {"const": "a"}),
    ({"enum": ["a", 1], "type": "string"}, {"enum": ["a"]}),
    (NULL, {"enum": [None]}),
    ({"const": {"a": [1.0]}}, {"const": {"a": [1]}}),
    # Numbers.
    ({**NUMBER, "minimum": 1}, {**NUMBER, "exclusiveMinimum": 0}),
    ({**NUMBER, "exclusiveMinimum": 1}, {**NUMBER, "minimum": 1}),
    ({**NUMBER, "exclusiveMaximum": 2, "maximum": 1}, {**NUMBER, "maximum": 1}),
    ({**INTEGER, "exclusiveMaximum": 2}, {**INTEGER, "maximum": 1}),
    ({**INTEGER, "minimum": 0.5}, {**INTEGER, "minimum": 1}),
    ({"enum": [1, 5]}, {**NUMBER, "minimum": 1, "maximum": 5}),
    ({**INTEGER, "multipleOf": 4}, {**INTEGER, "multipleOf": 2}),
    ({**NUMBER, "multipleOf": 0.5}, {**NUMBER, "multipleOf": 0.5}),
    ({"enum": [2, 4]}, {"multipleOf": 2}),
    (STRING, {"minimum": 5, "multipleOf": 2}),
    # Texts and lengths.
    ({**STRING, "minLength": 2, "maxLength": 3}, {**STRING, "minLength": 1, "maxLength": 4}),
    ({"enum": ["a", "abc"]}, {**STRING, "minLength": 1, "maxLength": 3}),
    ({**STRING, "pattern": "^a", "format": "uri"}, {**STRING, "pattern": "^a"}),
    (INTEGER, {"minLength": 1, "pattern": "a"}),
    # Arrays.
    ({"type": "array", "items": INTEGER, "uniqueItems": True}, {"type": "array", "items": NUMBER}),
    ({"type": "array", "maxItems": 1}, {"type": "array", "uniqueItems": True}),
    ({"type": "array", "prefixItems": [STRING], "items": False}, {"type": "array", "items": STRING, "maxItems": 1}),
    ({"type": "array", "maxItems": 1}, {"type": "array", "prefixItems": [{}, STRING]}),
    ({"type": "array", "prefixItems": [STRING, INTEGER]}, {"type": "array", "prefixItems": [STRING]}),
    ({"type": "array", "items": False}, {"type": "array", "prefixItems": [STRING]}),
    ({"type": "array", "items": False}, {"type": "array", "items": False}),
    # Objects.
    (closed(a=STRING), closed(a=STRING, b=INTEGER)),
    (closed(a=STRING), {"type": "object"}),
    (closed(a=False), closed()),
    ({"type": "object", "properties": {"a": STRING}}, {"type": "object", "properties": {"a": STRING, "b": True}}),
    ({"type": "object", "required": ["a", "b"]}, {"type": "object", "required": ["b"], "minProperties": 2}),
    ({"type": "object", "additionalProperties": INTEGER}, {"type": "object", "properties": {"a": NUMBER}}),
    (
        {"type": "object", "propertyNames": {"enum": ["a"]}},
        {"type": "object", "propertyNames": {"enum": ["a", "b"]}},
    ),
    ({"type": "object"}, {"type": "object", "propertyNames": {"minLength": 0}}),
    (
        {"type": "object", "patternProperties": {"^a": STRING}, "properties": {"b": INTEGER}},
        {"type": "object", "patternProperties": {"^a": STRING}, "properties": {"b": NUMBER}},
    ),
    # References and combinations.
    ({"$ref": "#/$defs/A", "$defs": {"A": INTEGER}}, {"$ref": "#/$defs/B", "$defs": {"B": NUMBER}}),
    ({"$ref": "#/$defs/A", "minimum": 1, "$defs": {"A": INTEGER}}, INTEGER),
    ({"allOf": [STRING, {"minLength": 2}]}, {"minLength": 1}),
    (STRING, {"allOf": [STRING, {}]}),
    ({"anyOf": [INTEGER, NULL]}, {"anyOf": [NULL, NUMBER]}),
    ({"oneOf": [INTEGER, STRING]}, {"anyOf": [NUMBER, STRING]}),
    ({"anyOf": [INTEGER, STRING]}, {"oneOf": [STRING, NUMBER, NULL]}),
    ({"anyOf": [INTEGER, {"const": 1.5}]}, NUMBER),
    ({"type": ["integer", "null"]}, {"anyOf": [INTEGER, NULL]}),
    ({"type": ["number", "null"], "minimum": 1}, {"anyOf": [{**NUMBER, "minimum": 0}, NULL]}),
    ({"enum": ["a", 1]}, {"anyOf": [{"const": "a"}, INTEGER]}),
    ({"const": "a"}, {"oneOf": [{"const": "a"}, {"const": "b"}]}),
    ({"anyOf": [tagged("a"), tagged("b")]}, {"oneOf": [tagged("b"), tagged("a")]}),
    ({"oneOf": [STRING, {"minLength": 1}]}, {"oneOf": [STRING, {"minLength": 1}]}),
    (
        {"$ref": "#/$defs/U", "$defs": {"U": {"anyOf": [INTEGER, NULL]}}},
        {"anyOf": [NUMBER, {"$ref": "#/$defs/N"}], "$defs": {"N": NULL}},
    ),
    ({"anyOf": [False, STRING, NULL]}, {"anyOf": [STRING, NULL]}),
    # What is only compared as it stands.
    ({**STRING, "not": {"const": "a"}, "minLength": 1}, {**STRING, "not": {"const": "a"}}),
    ({"contains": STRING, "minContains": 2, "minItems": 2}, {"contains": STRING, "minContains": 2}),
    ({"type": "object", "unevaluatedProperties": False}, {"type": "object", "unevaluatedProperties": False}),
    ({"type": "object", "unevaluatedProperties": False}, {"type": "object"}),
    ({**STRING, "odd": {"$ref": "#/$defs/A"}, "$defs": {"A": STRING}},) * 2,
]

NOT_SHOWN: list[tuple[Any, Any, list[str]]] = [
    # Types and values.
    (NUMBER, INTEGER, ["type $ type"]),
    ({}, STRING, ["type $ type"]),
    (True, STRING, ["type $ type"]),
    (STRING, False, ["refused $"]),
    ({"type": ["string", "null"]}, {**STRING, "minLength": 1}, ["type $ type", "bound $ minLength"]),
    (STRING, {"enum": ["a"]}, ["values $ enum"]),
    ({"enum": [1, True]}, {"enum": [1]}, ["values $ enum"]),
    ({"enum": ["a", 1]}, {"type": "string", "enum": ["a"]}, ["type $ type"]),
    ({"enum": ["a", "b"]}, {"const": "a"}, ["values $ const"]),
    # Numbers.
    ({**NUMBER, "minimum": 0}, {**NUMBER, "exclusiveMinimum": 0}, ["bound $ exclusiveMinimum"]),
    ({**INTEGER, "maximum": 5}, {**INTEGER, "maximum": 4}, ["bound $ maximum"]),
    ({"enum": [1, 6]}, {"maximum": 5}, ["bound $ maximum"]),
    (INTEGER, {"multipleOf": 2}, ["bound $ multipleOf"]),
    ({**NUMBER, "multipleOf": 1}, {**NUMBER, "multipleOf": 0.5}, ["bound $ multipleOf"]),
    ({"enum": [2, 3]}, {"multipleOf": 2}, ["bound $ multipleOf"]),
    # Texts and lengths.
    ({"enum": ["a", "abc"]}, {**STRING, "minLength": 2, "maxLength": 2}, ["bound $ minLength", "bound $ maxLength"]),
    (STRING, {**STRING, "pattern": "^a"}, ["text $ pattern"]),
    ({**STRING, "format": "uri"}, {**STRING, "format": "date"}, ["text $ format"]),
    (INTEGER, {**INTEGER, "format": "int32"}, ["text $ format"]),
    # Arrays.
    ({"type": "array"}, {"type": "array", "uniqueItems": True}, ["unique $ uniqueItems"]),
    ({"type": "array", "items": NUMBER}, {"type": "array", "items": INTEGER}, ["type $[*] type"]),
    ({"type": "array", "items": STRING}, {"type": "array", "items": False}, ["closed $ items"]),
    ({"type": "array", "items": STRING}, {"type": "array", "prefixItems": [INTEGER]}, ["type $[0] type"]),
    ({"type": "array", "prefixItems": [{}]}, {"type": "array", "items": STRING}, ["type $[0] type", "type $[*] type"]),
    ({"type": "array"}, {"type": "array", "minItems": 1, "maxItems": 2}, ["bound $ minItems", "bound $ maxItems"]),
    # Objects.
    (closed(a=STRING), closed(), ["closed $.a properties"]),
    ({"type": "object"}, closed(), ["closed $ additionalProperties"]),
    ({"type": "object"}, {"type": "object", "properties": {"a": STRING}}, ["open $.a properties"]),
    ({"type": "object"}, {"type": "object", "required": ["b", "a"]}, ["required $ required"] * 2),
    ({"type": "object"}, {"type": "object", "minProperties": 1}, ["bound $ minProperties"]),
    ({"type": "object"}, {"type": "object", "propertyNames": {"maxLength": 1}}, ["bound $ (names) maxLength"]),
    ({"type": "object"}, {"type": "object", "additionalProperties": STRING}, ["type $.* type"]),
    ({"type": "object"}, {"type": "object", "patternProperties": {"a": STRING}}, ["unjudged $ patternProperties"]),
    (
        {"type": "object", "patternProperties": {"a": STRING}},
        {"type": "object", "patternProperties": {"a": STRING}, "properties": {"a": {}}},
        ["unjudged $ patternProperties"],
    ),
    # References and combinations.
    ({"$ref": "#/$defs/A", "$defs": {"A": NUMBER}}, INTEGER, ["type $ type"]),
    ({"allOf": [{"minLength": 1}, {}], "type": "string"}, {"minLength": 2}, ["bound $ minLength"]),
    (STRING, {"allOf": [STRING, {"minLength": 1}]}, ["bound $ minLength"]),
    ({"anyOf": [INTEGER, NULL]}, INTEGER, ["alternative $ anyOf"]),
    (
        {"anyOf": [{**INTEGER, "minimum": 0}, NULL]},
        {**INTEGER, "minimum": 1},
        ["bound $ minimum", "alternative $ anyOf"],
    ),
    ({"anyOf": [INTEGER, NULL]}, {"anyOf": [INTEGER, STRING]}, ["alternative $ anyOf"]),
    ({"anyOf": [tagged("a", x=NUMBER)]}, {"anyOf": [tagged("b"), tagged("a", x=INTEGER)]}, ["type $.x type"]),
    ({"anyOf": [tagged("c")]}, {"anyOf": [tagged("b"), tagged("a")]}, ["alternative $ anyOf"]),
    (STRING, {"anyOf": [{**STRING, "minLength": 1}, {**STRING, "maxLength": 0}]}, ["alternative $ anyOf"]),
    (STRING, {"oneOf": [STRING, {"minLength": 1}]}, ["unjudged $ oneOf"]),
    ({"oneOf": [STRING, {"minLength": 2}]}, {"oneOf": [STRING, {"minLength": 1}]}, ["unjudged $ oneOf"]),
    ({"oneOf": [STRING, {"anyOf": [NULL]}]}, {"oneOf": [STRING, {"anyOf": [INTEGER]}]}, ["unjudged $ oneOf"]),
    (STRING, {"oneOf": [True, STRING]}, ["unjudged $ oneOf"]),
    (tagged("a"), {"oneOf": [tagged("a"), {**tagged("b"), "required": []}]}, []),
    (tagged("a"), {"oneOf": [tagged("a"), {"type": "object", "properties": {"t": STRING}}]}, ["unjudged $ oneOf"]),
    (tagged("a"), {"oneOf": [{**tagged(tag), "required": []} for tag in "ab"]}, ["unjudged $ oneOf"]),
    (
        tagged("a"),
        {"oneOf": [{"properties": tagged(tag)["properties"], "required": ["t"]} for tag in "ab"]},
        ["unjudged $ oneOf"],
    ),
    (True, {"anyOf": [STRING]}, ["type $ type"]),
    # What is only compared as it stands.
    (STRING, {**STRING, "not": {"const": "a"}}, ["unjudged $ not"]),
    ({"contains": STRING}, {"contains": STRING, "minContains": 0}, ["unjudged $ contains"]),
    ({"if": STRING, "then": {"minLength": 1}}, {"if": STRING, "then": {"minLength": 2}}, ["unjudged $ if"]),
    ({"type": "object"}, {"type": "object", "unevaluatedProperties": False}, ["unjudged $ unevaluatedProperties"]),
    (
        {"allOf": [closed(a=STRING)], "unevaluatedProperties": False},
        {"allOf": [closed(b=STRING)], "unevaluatedProperties": False},
        ["unjudged $ unevaluatedProperties"],
    ),
    (STRING, {**STRING, "odd": 1}, ["unknown-keyword $ odd"]),
    (
        {**STRING, "odd": {"$ref": "#/$defs/A"}, "$defs": {"A": STRING}},
        {**STRING, "odd": {"$ref": "#/$defs/A"}, "$defs": {"A": NULL}},
        ["unknown-keyword $ odd"],
    ),
    ({**STRING, "odd": {"$ref": "x"}}, {**STRING, "odd": {"$ref": "x"}}, ["unknown-keyword $ odd"]),
    ({**STRING, "odd": {"$ref": "#"}}, {**STRING, "odd": {"$ref": 1}}, ["unknown-keyword $ odd"]),
    ({**STRING, "odd": [1, 2]}, {**STRING, "odd": [1]}, ["unknown-keyword $ odd"]),
    (INTEGER, {"anyOf": [STRING, False]}, ["alternative $ anyOf"]),
]


def test_a_tag_tells_two_schemas_apart_only_if_both_list_its_values() -> None:
    assert exclude_each_other(tagged("a"), tagged("b"))
    assert not exclude_each_other(tagged("a"), tagged("a"))
    assert not exclude_each_other(tagged("a"), {"type": "object"})


@pytest.mark.parametrize(("narrow", "wide"), INCLUDED)
def test_what_takes_no_more_fits(narrow: Any, wide: Any) -> None:
    assert obstacles(narrow, wide) == []


@pytest.mark.parametrize(("narrow", "wide", "expected"), NOT_SHOWN)
def test_what_takes_more_or_cannot_be_told_is_a_gap(narrow: Any, wide: Any, expected: list[str]) -> None:
    assert obstacles(narrow, wide) == expected


def linked(value: Any, **more: Any) -> dict[str, Any]:
    """A list, as a schema that refers to itself."""
    node = closed(value=value, next={"anyOf": [{"$ref": "#/$defs/Node"}, NULL]})
    return {"$ref": "#/$defs/Node", "$defs": {"Node": {**node, **more}}}


def test_a_schema_that_refers_to_itself_fits_where_each_step_fits() -> None:
    assert obstacles(linked(INTEGER), linked(NUMBER)) == []
    assert obstacles(linked(NUMBER), linked(INTEGER)) == ["type $.value type"]
    assert obstacles({}, linked(INTEGER)) != []


def test_an_attempt_that_fails_leaves_nothing_behind() -> None:
    """The first alternative holds the pair that decides, and is given up only after it was looked at."""
    inner = {"type": "object", "properties": {"a": {"$ref": "#/$defs/N"}}}
    narrow = {"type": "object", "properties": {"x": inner, "y": {"$ref": "#/$defs/N"}}, "$defs": {"N": NUMBER}}
    wide = {
        "type": "object",
        "properties": {
            "x": {"anyOf": [{**inner, "required": ["a"]}, {"type": "object", "properties": {"a": NUMBER}}]},
            "y": {"$ref": "#/$defs/N"},
        },
        "$defs": {"N": INTEGER},
    }

    assert obstacles(narrow, wide) == ["type $.y type"]


def test_alternatives_that_differ_in_one_place_are_told_by_that_place() -> None:
    narrow = {"anyOf": [linked(NUMBER)["$defs"]["Node"], NULL], "$defs": linked(NUMBER)["$defs"]}
    wide = {"anyOf": [linked(INTEGER)["$defs"]["Node"], NULL], "$defs": linked(INTEGER)["$defs"]}

    assert obstacles(narrow, wide) == ["type $.next.value type", "type $.value type"]


def test_too_many_alternatives_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_COMPARISONS", 10)
    values = [{"const": number} for number in range(20)]

    assert obstacles({"anyOf": values}, {"anyOf": values[::-1]}) == ["too-large $"]
    assert obstacles(STRING, {"oneOf": values}) == ["too-large $"]


def test_a_long_way_of_references_is_not_followed() -> None:
    chain = {f"D{number}": {"$ref": f"#/$defs/D{number + 1}"} for number in range(80)}
    union = {"$ref": "#/$defs/D0", "$defs": {**chain, "D80": {"anyOf": [INTEGER, NULL]}}}

    assert obstacles(union, {"anyOf": [STRING, NULL]}) == ["too-large $"]
    assert obstacles(STRING, {"oneOf": [union, STRING], "$defs": union["$defs"]}) == ["unjudged $ oneOf"]


def test_a_name_that_is_no_word_is_quoted_in_a_path() -> None:
    assert (below("$", "a_1"), below("$.a", 'odd "name"')) == ("$.a_1", '$.a["odd \\"name\\""]')
