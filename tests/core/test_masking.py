"""Secret fields are hidden wherever a schema marks them, and what is shown is bounded."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from agent_resolver.core import MASK, MAX_EXCERPT_BYTES, SecretFields, excerpt, secret_fields

SECRET: dict[str, Any] = {"type": "string", "writeOnly": True}


def properties(**schemas: Any) -> dict[str, Any]:
    return {"type": "object", "properties": schemas}


@pytest.mark.parametrize(
    "marked",
    [
        SECRET,
        {"type": "string", "format": "password"},
        {"type": "array", "items": SECRET},
        {"type": "array", "prefixItems": [SECRET]},
        {"anyOf": [{"type": "null"}, SECRET]},
        {"type": "object", "additionalProperties": SECRET},
        {"type": "object", "patternProperties": {"^x": SECRET}},
        {"$ref": "#/$defs/Pin"},
        {"allOf": [{"$ref": "#/$defs/Loop"}, {"$ref": "#/$defs/Pin"}]},
    ],
)
def test_a_field_is_hidden_wherever_its_schema_has_the_mark(marked: dict[str, Any]) -> None:
    schema = properties(pin=marked, name={"type": "string"})
    schema["$defs"] = {"Pin": SECRET, "Loop": {"anyOf": [{"$ref": "#/$defs/Loop"}]}}

    fields = secret_fields(schema)

    assert fields.mask({"pin": ["1234"], "name": "Ada"}) == {"pin": MASK, "name": "Ada"}


def test_a_marked_field_is_hidden_at_any_depth() -> None:
    fields = secret_fields({"$defs": {"Card": properties(pin=SECRET)}, "type": "array"})

    assert fields.mask([{"cards": ({"pin": "1"}, 2)}]) == [{"cards": [{"pin": MASK}, 2]}]


def test_a_field_that_the_tool_declares_secret_is_hidden() -> None:
    assert secret_fields(None, ["iban"]).mask({"iban": "DE1"}) == {"iban": MASK}
    assert secret_fields(properties(), ["iban"]).mask({"iban": "DE1"}) == {"iban": MASK}


@pytest.mark.parametrize("name", ["password", "api_key", "API-Key", "clientSecret", "Authorization", "token"])
def test_a_field_with_the_usual_name_of_a_secret_is_hidden(name: str) -> None:
    assert SecretFields().mask({name: "x", "max_tokens": 5}) == {name: MASK, "max_tokens": 5}


@pytest.mark.parametrize("reference", ["#/$defs/None", "#/type/deeper", "https://elsewhere", "#"])
def test_a_reference_that_leads_nowhere_marks_nothing(reference: str) -> None:
    assert secret_fields(properties(a={"$ref": reference}, b=True)) == SecretFields()


@pytest.mark.parametrize("odd", [{"properties": []}, {"patternProperties": 1}, {"properties": {"properties": 3}}])
def test_a_schema_of_an_odd_shape_marks_nothing(odd: dict[str, Any]) -> None:
    assert secret_fields(odd) == SecretFields()


def test_a_mark_on_the_whole_value_hides_all_of_it() -> None:
    assert secret_fields(SECRET).mask("1234") == MASK


def test_a_value_that_is_nested_too_deeply_is_hidden() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]

    assert SecretFields().mask(deep) == MASK


def test_a_short_value_is_shown_whole() -> None:
    assert excerpt({"b": 1, "a": "ü"}) == '{"b":1,"a":"ü"}'


@given(st.text(), st.integers(3, 40))
def test_an_excerpt_keeps_its_limit_and_is_text(text: str, limit: int) -> None:
    shown = excerpt(text * 10, limit)

    assert len(shown.encode()) <= limit


def test_a_long_value_ends_in_an_ellipsis() -> None:
    assert len(excerpt("x" * 10_000).encode()) == MAX_EXCERPT_BYTES
    assert excerpt("x" * 10_000).endswith("x…")


def test_what_is_not_json_is_not_shown() -> None:
    assert excerpt(object()) == MASK


def test_hidden_fields_are_counted_at_any_depth() -> None:
    fields = SecretFields(frozenset({"pin"}))

    assert fields.count_in({"pin": {"password": 1}, "name": "ada", "list": [{"token": 2}, ({"PIN": 3},)]}) == 2
    assert fields.count_in("pin") == 0


def test_the_values_of_secret_fields_are_found_at_any_depth() -> None:
    fields = SecretFields(frozenset({"pin"}))
    value = {"pin": ["1234", {"a": 5, "b": [True, None, 2.5]}], "name": "ada", "list": [{"password": "hunter2"}]}

    assert fields.values_in(value) == {"1234", "5", "2.5", "hunter2"}
    assert SecretFields(is_whole=True).values_in({"a": ["x"], "b": 1}) == {"x", "1"}
    assert SecretFields().values_in({"a": "x"}) == frozenset()


def test_what_is_not_there_is_not_hidden() -> None:
    assert SecretFields().mask({"a": None, "list": [None, True]}) == {"a": None, "list": [None, True]}


def test_joined_fields_hide_what_either_hides() -> None:
    pin, code = SecretFields(frozenset({"pin"})), SecretFields(frozenset({"code"}))
    assert pin.joined(code).mask({"pin": 1, "code": 2, "n": 3}) == {"pin": MASK, "code": MASK, "n": 3}
    assert pin.joined(SecretFields(is_whole=True)).mask({"n": 3}) == MASK
