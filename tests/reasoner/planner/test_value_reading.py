from typing import Any

import pytest

from agent_resolver.reasoner.planner.input_field import InputField
from agent_resolver.reasoner.planner.value_reading import read_value


def read(words: str, schema: dict[str, Any]) -> Any:
    found = read_value(words, InputField(name="field", schema=schema, is_required=True))
    return found.value if found.is_valid else ValueError(found.fault)


@pytest.mark.parametrize(
    ("words", "schema", "value"),
    [
        ("12", {"type": "integer", "minimum": 1}, 12),
        (" 12 ", {"type": "integer"}, 12),
        ("12", {"type": "string"}, "12"),
        ("1.5", {"type": "number"}, 1.5),
        ("yes", {"type": "boolean"}, True),
        ("Off", {"type": "boolean"}, False),
        ("HIGH", {"enum": ["low", "high"]}, "high"),
        ("in progress", {"enum": ["in_progress", "done"]}, "in_progress"),
        ('"quoted"', {"type": "string"}, "quoted"),
        ("a, b and c", {"type": "array", "items": {"type": "string"}}, ["a", "b", "c"]),
        ("1,2", {"type": "array", "items": {"type": "integer"}}, [1, 2]),
        ("[1, 2]", {"type": "array", "items": {"type": "integer"}}, [1, 2]),
        ('{"a": 1}', {"type": "object"}, {"a": 1}),
        ("12", {"anyOf": [{"type": "integer"}, {"type": "null"}]}, 12),
        ("anything", {}, "anything"),
        ("ada@example.com", {"type": "string", "format": "email"}, "ada@example.com"),
    ],
)
def test_words_become_a_value_of_the_type_of_the_field(words: str, schema: dict[str, Any], value: Any) -> None:
    found = read(words, schema)

    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("words", "schema"),
    [
        ("", {"type": "string"}),
        ("twelve", {"type": "integer"}),
        ("0", {"type": "integer", "minimum": 1}),
        ("1.5", {"type": "integer"}),
        ("maybe", {"type": "boolean"}),
        ("urgent", {"enum": ["low", "high"]}),
        ("x" * 11, {"type": "string", "maxLength": 10}),
        ("abc", {"type": "string", "pattern": "^[0-9]+$"}),
        ("ada", {"type": "string", "format": "email"}),
        ("{", {"type": "object"}),
        ("9" * 400, {"type": "integer"}),
    ],
)
def test_words_that_do_not_fit_are_refused_with_a_reason(words: str, schema: dict[str, Any]) -> None:
    found = read(words, schema)

    assert isinstance(found, ValueError)
    assert str(found)


def test_the_reason_does_not_repeat_the_value() -> None:
    assert "hunter2" not in str(read("hunter2", {"type": "string", "maxLength": 3}))
