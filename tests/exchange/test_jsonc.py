"""JSON with comments, read without moving anything."""

import json

import pytest
from hypothesis import given, strategies as st

from agent_resolver.exchange import strict_json


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, // one\n "b": [1, 2,],}',
        '{/* a\nlong one */"a": 1, "b": [1, 2 /* , */ ,\n // end\n ] }',
        '{"a": 1, "b": [1, 2]}',
    ],
)
def test_comments_and_trailing_commas_become_spaces(text: str) -> None:
    found = strict_json(text)

    assert json.loads(found) == {"a": 1, "b": [1, 2]}
    assert [len(line) for line in found.split("\n")] == [len(line) for line in text.split("\n")]


@pytest.mark.parametrize("value", ["https://x.example/*", "// no", 'a "quoted, ]" one', "back\\", ",}"])
def test_strings_are_left_alone(value: str) -> None:
    text = json.dumps({"a": value, "b": [value]})

    assert strict_json(text) == text


@given(
    st.recursive(st.none() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)
)
def test_strict_json_stays_as_it_is(value: object) -> None:
    text = json.dumps(value)

    assert strict_json(text) == text
