"""The schema of what a template gives: sound for every value, and good enough to judge mappings between tools."""

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import assume, example, given, strategies as st

from agent_resolver.core import (
    Document,
    bare,
    evaluate,
    gaps,
    is_unknown,
    known_part,
    parse_template,
    schema_of,
)
from tests.core.blueprint.expressions import PATHS, TEMPLATES
from tests.core.schemas import DOCUMENTS, VALUES
from tests.strategies import law

INTEGER = {"type": "integer"}
STRING = {"type": "string"}
NULL = {"type": "null"}
BOOLEAN = {"type": "boolean"}


def record(**properties: Any) -> dict[str, Any]:
    """The schema of an object that has all these members, and maybe others."""
    return {"type": "object", "properties": properties, "required": [*properties]}


def nullable(schema: Any) -> dict[str, Any]:
    return {"anyOf": [schema, NULL]}


PERSON = {**record(name=STRING), "properties": {"name": STRING, "boss": nullable({"$ref": "#/$defs/Person"})}}
INPUT: dict[str, Any] = {
    "$id": "https://example.com/input",
    "type": "object",
    "description": "What is asked for",
    "properties": {
        "name": STRING,
        "note": {**STRING, "description": "Not required"},
        "maybe": {"type": ["string", "null"]},
        "tags": {"type": "array", "items": STRING},
        "pair": {"type": "array", "prefixItems": [STRING, INTEGER], "items": False, "minItems": 2},
        "open_pair": {"type": "array", "prefixItems": [STRING], "minItems": 1},
        "level": {"enum": ["low", "high"]},
        "choice": {"enum": ["low", None]},
        "who": {"$ref": "#/$defs/Person"},
        "boss": nullable({"$ref": "#/$defs/Person"}),
        "any": {},
        "closed": {**record(a=INTEGER), "additionalProperties": False},
        "map": {"type": "object", "additionalProperties": INTEGER},
        "patterns": {"type": "object", "patternProperties": {"^a": STRING}, "additionalProperties": INTEGER},
        "fixed": {"const": {"a": 1, "b": [True, {}], "c": None}},
        "some": {"oneOf": [record(a=INTEGER), record(a=STRING, b=STRING), NULL]},
        "both": {"allOf": [{"properties": {"a": INTEGER}}, {"type": "object", "required": ["a"]}]},
        "two": {"allOf": [record(a={"minimum": 1}), record(a=INTEGER)]},
        "clash": {"allOf": [record(a=STRING), record(a=INTEGER)]},
        "never": False,
        "null": NULL,
    },
    "$defs": {"Person": PERSON},
}
INPUT["required"] = [name for name in INPUT["properties"] if name not in {"note", "never"}]
SCOPES: dict[str, Any] = {
    "input": INPUT,
    "index": {**INTEGER, "minimum": 0},
    "steps": {"create": record(id=INTEGER, url=STRING), "anything": True},
}

SCHEMAS: dict[str, Any] = {
    # Paths.
    "input.name": STRING,
    "input.note": nullable(STRING),
    "input.name.deeper": NULL,
    "input.tags[0]": nullable(STRING),
    "input.tags.name": NULL,
    "input.pair[0]": STRING,
    "input.pair[1]": INTEGER,
    "input.pair[2]": NULL,
    "input.pair[-1]": {"anyOf": [STRING, INTEGER]},
    "input.pair[-3]": {"anyOf": [STRING, INTEGER, NULL]},
    "input.open_pair[-1]": {},
    "input.closed.a": INTEGER,
    "input.closed.b": NULL,
    "input.map.a": nullable(INTEGER),
    "input.patterns.a": {},
    "input.any": {},
    "input.any.deeper": {},
    "input.undeclared": {},
    "input.who.name": STRING,
    "input.who.boss.name": nullable(STRING),
    "input.boss.boss.boss.name": nullable(STRING),
    "index": {**INTEGER, "minimum": 0},
    "steps.create.id": INTEGER,
    "steps.anything": {},
    "steps.other.id": {},
    "run.id": {},
    # Values that are listed.
    "input.level": {"enum": ["low", "high"]},
    "input.fixed.a": {"const": 1},
    "input.fixed.b[0]": {"const": True},
    "input.fixed.b[1]": {"type": "object", "additionalProperties": False},
    "input.fixed.b[-1]": {"anyOf": [{"const": True}, {"type": "object", "additionalProperties": False}]},
    "input.fixed.b[2]": NULL,
    "input.fixed.c": NULL,
    "input.fixed.d": NULL,
    "input.fixed[0]": NULL,
    # Alternatives and conjunctions.
    "input.some.a": {"anyOf": [INTEGER, STRING, NULL]},
    "input.both.a": INTEGER,
    "input.two.a": {"allOf": [{"minimum": 1}, INTEGER]},
    "input.clash.a": {},
    "input.never": NULL,
    # Fallbacks drop null, and end at what is never null.
    "input.note ?? ''": {"anyOf": [STRING, {"const": ""}]},
    "input.maybe ?? 1": {"anyOf": [STRING, {"const": 1}]},
    "input.choice ?? 1": {"anyOf": [{"enum": ["low"]}, {"const": 1}]},
    "input.name ?? 1": STRING,
    "input.note ?? input.map.a ?? true": {"anyOf": [STRING, INTEGER, {"const": True}]},
    "input.null ?? 1": {"const": 1},
    "null ?? 1": {"const": 1},
    "input.fixed.c ?? input.fixed.a": {"const": 1},
    "input.any ?? 1": {},
    "1 ?? 2": {"const": 1},
    # The rest.
    "input.name == 'a' ? 1 : 'b'": {"anyOf": [{"const": 1}, {"const": "b"}]},
    "true ? 1 : 1.0": {"const": 1.0},
    "true ? 1 : true": {"anyOf": [{"const": 1}, {"const": True}]},
    "true ? input.name : input.name": STRING,
    "input.name == 'a'": BOOLEAN,
    "!input.name": BOOLEAN,
    "true && true": BOOLEAN,
    "false || true": BOOLEAN,
    "has(input.any)": BOOLEAN,
    "unchecked(input.name)": {},
    "length(input.name)": {**INTEGER, "minimum": 0},
    "length(input.note)": {"type": ["integer", "null"], "minimum": 0},
    "length(index)": NULL,
    "text(input.level)": {"enum": ["low", "high"]},
    "text(input.note)": STRING,
    "text(index)": STRING,
}


@pytest.mark.parametrize("text", SCHEMAS)
def test_an_expression_has_its_schema(text: str) -> None:
    assert schema_of(parse_template(f"${{{text}}}"), SCOPES) == SCHEMAS[text]


def test_the_schema_of_a_template_has_the_shape_of_the_template() -> None:
    template = parse_template(
        {
            "id": "${steps.create.id}",
            "text": "no ${index}",
            "empty": "${index}${index}",
            "list": ["${index}", {}],
            "fixed": [[], [1, 1]],
            "any": "${input.any}",
        }
    )

    def listed(*items: Any) -> dict[str, Any]:
        return {"type": "array", "prefixItems": [*items], "items": False, "minItems": len(items)}

    empty = {"type": "object", "additionalProperties": False}
    members = {
        "id": INTEGER,
        "text": {**STRING, "minLength": 3},
        "empty": STRING,
        "list": listed({**INTEGER, "minimum": 0}, empty),
        "fixed": {
            **listed({"type": "array", "maxItems": 0, "uniqueItems": True}, listed({"const": 1}, {"const": 1})),
            "uniqueItems": True,
        },
        "any": {},
    }
    assert schema_of(template, SCOPES) == {**record(**members), "additionalProperties": False}


def test_only_a_schema_that_says_nothing_is_unknown() -> None:
    schemas: list[Any] = [{}, True, False, NULL]

    assert list(map(is_unknown, schemas)) == [True, True, False, False]


# One document ---------------------------------------------------------------------------------------------------------


def test_references_are_followed_into_one_document() -> None:
    """Definitions of the same name in two schemas stay apart."""
    scopes = {
        "input": {**record(a={"$ref": "#/$defs/T"}), "$defs": {"T": record(next={"$ref": "#/$defs/T"})}},
        "item": {**record(a={"$ref": "#/definitions/T"}), "definitions": {"T": STRING, "unused": NULL}},
        "result": {**record(a={"$ref": "#/$defs/odd%20~1name"}), "$defs": {"odd /name": True}},
    }
    template = parse_template({"x": "${input.a}", "y": "${item.a}", "z": ["${result}"], "w": "${input.a.next}"})

    schema = schema_of(template, scopes)

    assert schema["properties"] == {
        "x": {"$ref": "#/$defs/T"},
        "y": {"$ref": "#/$defs/T2"},
        "z": {
            "type": "array",
            "prefixItems": [record(a={"$ref": "#/$defs/value"})],
            "items": False,
            "minItems": 1,
        },
        "w": {"$ref": "#/$defs/T"},
    }
    assert schema["$defs"] == {"T": record(next={"$ref": "#/$defs/T"}), "T2": STRING, "value": True}
    jsonschema_rs.meta.validate(schema)


def test_a_schema_that_refers_to_its_root_is_followed() -> None:
    tree = record(children={"type": "array", "items": {"$ref": "#"}})

    schema = schema_of(parse_template("${input.children[0]}"), {"input": tree})

    assert schema["anyOf"] == [{"$ref": "#/$defs/r0"}, NULL]
    assert schema["$defs"] == {"r0": record(children={"type": "array", "items": {"$ref": "#/$defs/r0"}})}


def test_what_only_looks_like_a_reference_stays_as_it_is() -> None:
    odd = {"const": {"$ref": "#/nowhere", "$defs": 1}}

    assert schema_of(parse_template("${input}"), {"input": odd}) == odd


@pytest.mark.parametrize(
    "schema",
    [
        5,
        None,
        {"type": "text"},
        {"$ref": "#/$defs/missing"},
        {"$ref": "https://example.com/other"},
        {"$ref": "#"},
        {"$schema": "http://json-schema.org/draft-07/schema#", "type": "string"},
        {"properties": {"a": {"$id": "https://example.com/a", "type": "string"}}},
        {"$anchor": "here", "type": "string"},
        {"enum": ["x" * 1_000_000]},
        False,
    ],
    ids=str,
)
def test_a_schema_that_is_not_understood_is_anything(schema: Any) -> None:
    assert schema_of(parse_template("${input}"), {"input": schema}) == {}
    assert schema_of(parse_template("${steps.a.b ?? 1}"), {"steps": {"a": schema}}) in ({}, {"const": 1})


def test_keywords_that_look_at_those_beside_them_stay_beside_them_without_null() -> None:
    members = {"properties": {"a": INTEGER}}
    schema = {"type": ["object", "null"], "unevaluatedProperties": False, "allOf": [members]}

    assert schema_of(parse_template("${input ?? 1}"), {"input": schema}) == {
        "anyOf": [{**schema, "type": "object"}, {"const": 1}]
    }


def test_a_schema_that_nests_too_deep_is_anything() -> None:
    schema: Any = STRING
    for _ in range(5_000):
        schema = {"items": schema}

    assert schema_of(parse_template("${input[0]}"), {"input": schema}) == {}


def test_schemas_with_more_paths_than_can_be_followed_are_anything() -> None:
    """Each definition refers twice to the next: 2 to the power of 40 paths."""
    definitions: dict[str, Any] = {
        f"d{number}": {"allOf": [{"$ref": f"#/$defs/d{number + 1}"}, {"$ref": f"#/$defs/d{number + 1}"}]}
        for number in range(40)
    }
    scopes = {"input": {"$ref": "#/$defs/d0", "$defs": {**definitions, "d40": nullable(record(a=STRING))}}}

    assert is_unknown(schema_of(parse_template("${input.a}"), scopes))
    # No validator could follow them either, so that the schema is not tried out here.
    assert "anyOf" in schema_of(parse_template("${input ?? length(input)}"), scopes)


def test_more_alternatives_than_can_be_listed_are_anything() -> None:
    many = {"anyOf": [record(a={"const": number}) for number in range(65)]}
    pairs = {"allOf": [{"anyOf": [record(a={"minimum": number}) for number in range(9)]} for _ in range(2)]}

    assert schema_of(parse_template("${input.a}"), {"input": many}) == {}
    assert len(schema_of(parse_template("${input.a}"), {"input": pairs})["anyOf"]) == 9
    assert schema_of(parse_template("${input[0]}"), {"input": {"enum": [[number] for number in range(65)]}}) == {}


def test_a_large_schema_is_there_once_however_often_it_is_used() -> None:
    large = record(**{f"member{number}": STRING for number in range(1_000)})
    scopes = {"input": record(a=large)}
    template = parse_template([f"${{input.a ?? {number}}}" for number in range(500)] + ["${input}"])

    schema = schema_of(template, scopes)

    assert list(schema["$defs"]) == ["value", "value2"]
    assert len(json.dumps(schema)) < 3 * len(json.dumps(large))
    assert schema_of(parse_template("${input.a}"), scopes) == large


# Mappings between tools -----------------------------------------------------------------------------------------------

TICKET = {**record(ticket=INTEGER), "additionalProperties": False}
TEXT = record(text=STRING)
WORKER = {
    **record(person={"$ref": "#/$defs/W"}),
    "$defs": {"W": {**record(name=STRING), "properties": {"name": STRING, "boss": nullable({"$ref": "#/$defs/W"})}}},
}


def faults(template: Any, wanted: Any) -> list[str]:
    """Where the result of a template does not fit the arguments of a tool."""
    given_ = schema_of(parse_template(template), SCOPES)
    found = gaps(Document(known_part(given_)), Document(bare(wanted)))
    return [f"{gap.path} {gap.reason}: {gap.narrow}" for gap in found]


RIGHT: list[tuple[Any, Any]] = [
    ({"ticket": "${steps.create.id}"}, TICKET),
    ({"ticket": 5}, TICKET),
    ({"ticket": "${length(input.tags)}"}, TICKET),
    ({"ticket": "${length(input.note) ?? 0}"}, TICKET),
    ({"ticket": "${input.map.a ?? index}"}, TICKET),
    ("${input.closed}", record(a={"type": "number"})),
    ({"text": "${input.note ?? ''}"}, TEXT),
    ({"text": "${input.maybe ?? input.name}"}, TEXT),
    ({"text": "${input.who.boss.boss.name ?? 'none'}"}, TEXT),
    ({"text": "no ${steps.create.id}"}, record(text={**STRING, "minLength": 3})),
    ({"text": "${input.level}"}, record(text={"enum": ["high", "low", "other"]})),
    ({"text": "${input.tags == null ? 'a' : 'b'}"}, record(text={"enum": ["a", "b"]})),
    ({"text": "${input.note}"}, record(text={"type": ["string", "null"]})),
    ({"person": "${input.who}"}, WORKER),
    ({"list": ["${index}", 2]}, record(list={"type": "array", "items": INTEGER, "maxItems": 2})),
    ({"list": [1, 2]}, record(list={"type": "array", "items": INTEGER, "uniqueItems": True})),
    ({"list": []}, record(list={"type": "array", "items": INTEGER})),
    # What is unknown is left to the check when the call is made.
    ({"ticket": "${input.any}"}, TICKET),
    ({"ticket": "${unchecked(input.name)}"}, TICKET),
    ("${steps.anything}", TICKET),
    ({"list": ["${steps.anything}"]}, record(list={"type": "array", "items": INTEGER})),
    ("${steps.list}", record(list={"type": "array", "items": INTEGER})),
]
WRONG: list[tuple[Any, Any, list[str]]] = [
    ({"ticket": "${steps.create.url}"}, TICKET, ['$.ticket type: "string"']),
    ({"ticket": "5"}, TICKET, ['$.ticket type: "string"']),
    ({"ticket": "no ${index}"}, TICKET, ['$.ticket type: "string"']),
    ({"tikcet": "${index}"}, TICKET, ["$ required: None", '$.tikcet closed: {"type":"integer","minimum":0}']),
    ({"ticket": "${input.map.a}"}, TICKET, ['$.ticket alternative: {"type":"null"}']),
    ({"ticket": "${input.closed.b}"}, TICKET, ['$.ticket type: "null"']),
    ({"ticket": "${input.note ?? index}"}, TICKET, ['$.ticket alternative: {"type":"string"}']),
    ({"ticket": "${true ? 1 : 'a'}"}, TICKET, ['$.ticket alternative: {"const":"a"}']),
    ({"text": "${input.who}"}, TEXT, ['$.text type: "object"']),
    ({"text": "${input.level}"}, record(text={"enum": ["low"]}), ['$.text values: ["high"]']),
    ({"list": ["${index}", "x"]}, record(list={"type": "array", "items": INTEGER}), ['$.list[1] type: "string"']),
    ({"a": {"b": {"c": True}}}, record(a=record(b=record(c=STRING))), ['$.a.b.c type: "boolean"']),
    # One part that is unknown hides no other.
    ({"ticket": "${index}", "x": "${input.any}", "y": True}, record(ticket=STRING), ['$.ticket type: "integer"']),
]


@pytest.mark.parametrize(("template", "wanted"), RIGHT, ids=str)
def test_a_right_mapping_has_no_gaps(template: Any, wanted: Any) -> None:
    assert faults(template, wanted) == []


@pytest.mark.parametrize(("template", "wanted", "expected"), WRONG, ids=str)
def test_a_wrong_mapping_has_a_gap_at_its_place(template: Any, wanted: Any, expected: list[str]) -> None:
    assert faults(template, wanted) == expected


# The law --------------------------------------------------------------------------------------------------------------


def valid_values(schema: Any) -> list[Any]:
    try:
        validator = jsonschema_rs.validator_for(schema, offline=True)
    except (ValueError, jsonschema_rs.ReferencingError):
        return []
    return [value for value in VALUES if validator.is_valid(value)]


@law(100)
@given(
    template=TEMPLATES | st.lists(PATHS.map(lambda path: f"${{{path} ?? length({path})}}"), max_size=4),
    input_=DOCUMENTS,
    step=DOCUMENTS,
    data=st.data(),
)
def test_every_value_of_a_template_is_valid_under_its_schema(
    template: Any, input_: dict[str, Any], step: dict[str, Any], data: st.DataObject
) -> None:
    inputs, results = valid_values(input_), valid_values(step)
    assume(inputs and results)
    parsed = parse_template(template)

    schema = schema_of(parsed, {"input": input_, "steps": {"a": step}, "result": step})

    assert Document(schema).fault is None
    validator = jsonschema_rs.validator_for(schema, offline=True)
    for _ in range(5):
        result = data.draw(st.sampled_from(results))
        scope = {"input": data.draw(st.sampled_from(inputs)), "steps": {"a": result}, "index": 1, "result": result}
        assert validator.is_valid(evaluate(parsed, scope))


@law(60)
@given(expressions=st.lists(PATHS | PATHS.map(lambda path: f"{path} ?? 1"), min_size=3, max_size=6), schema=DOCUMENTS)
@example(expressions=["input ?? 1"], schema={"enum": [None, True]})
def test_every_part_of_every_value_is_valid_under_the_schema_of_its_path(
    expressions: list[str], schema: dict[str, Any]
) -> None:
    scopes = {"input": schema, "item": schema, "result": schema, "steps": {"a": schema, "b": schema}}
    values = valid_values(schema)

    for text in expressions:
        template = parse_template(f"${{{text}}}")
        validator = jsonschema_rs.validator_for(schema_of(template, scopes), offline=True)
        for value in values:
            scope = {"input": value, "item": value, "result": value, "steps": {"a": value, "b": value}}
            assert validator.is_valid(evaluate(template, scope))
