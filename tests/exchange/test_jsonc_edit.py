"""Editing one value of a file with comments leaves every other byte as it is."""

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from agent_resolver.exchange import CannotEdit, NotJsonc, scan_jsonc, with_json_value, without_json_members

PATH = ("mcpServers", "agent-resolver")
ENTRY = {"command": "/bin/agent", "args": ["serve"]}

keys = st.sampled_from(["a", "b", "mcpServers", "servers", "agent-resolver", "é", 'q"uote', "sp ace"])
scalars = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=8)
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)
blanks = st.lists(
    st.sampled_from(["", " ", "\n", "\n  ", "\t", '/* a } " */', "// it's, {\n", "\r\n"]), min_size=1, max_size=3
).map("".join)


@st.composite
def jsonc(draw: st.DrawFn, value: Any) -> str:
    """The value as text, with blanks, comments and trailing commas anywhere."""
    if isinstance(value, dict):
        parts = [
            f"{draw(blanks)}{json.dumps(key)}{draw(blanks)}:{draw(blanks)}{draw(jsonc(item))}{draw(blanks)}"
            for key, item in value.items()
        ]
        trailing = draw(st.sampled_from(["", f",{draw(blanks)}"])) if parts else ""
        return f"{{{','.join(parts) or draw(blanks)}{trailing}}}"
    if isinstance(value, list):
        parts = [f"{draw(blanks)}{draw(jsonc(item))}{draw(blanks)}" for item in value]
        trailing = draw(st.sampled_from(["", f",{draw(blanks)}"])) if parts else ""
        return f"[{','.join(parts) or draw(blanks)}{trailing}]"
    return json.dumps(value, ensure_ascii=draw(st.booleans()))


texts = st.dictionaries(keys.filter(lambda key: key != "mcpServers"), documents, max_size=3)


@given(st.data(), documents)
def test_a_text_with_comments_is_read_as_the_value_that_it_holds(data: st.DataObject, value: Any) -> None:
    text = data.draw(blanks) + data.draw(jsonc(value)) + data.draw(blanks)

    assert scan_jsonc(text).plain() == value


@given(st.data(), texts, st.none() | st.dictionaries(keys, documents, max_size=3))
def test_an_edit_changes_one_value_and_no_other_byte(data: st.DataObject, rest: dict[str, Any], servers: Any) -> None:
    whole = rest if servers is None else {**rest, "mcpServers": servers}
    text = data.draw(blanks) + data.draw(jsonc(whole)) + data.draw(blanks)

    edited = with_json_value(text, PATH, ENTRY)

    expected = {**whole, "mcpServers": {**(servers or {}), "agent-resolver": ENTRY}}
    assert scan_jsonc(edited).plain() == expected
    assert with_json_value(edited, PATH, ENTRY) == edited
    was_there = servers is not None and "agent-resolver" in servers
    if was_there:
        node = scan_jsonc(text).value.named("mcpServers")[0].value.named("agent-resolver")[0]
        assert edited.startswith(text[: node.start])
        assert edited.endswith(text[node.end :])
    else:
        assert is_within(text, edited)


@given(st.data(), texts, st.dictionaries(keys, documents, max_size=4), st.sets(keys))
def test_members_are_removed_and_the_others_stay(
    data: st.DataObject, rest: dict[str, Any], servers: dict[str, Any], names: set[str]
) -> None:
    text = data.draw(blanks) + data.draw(jsonc({**rest, "mcpServers": servers})) + data.draw(blanks)

    edited = without_json_members(text, "mcpServers", names)

    kept = {key: value for key, value in servers.items() if key not in names}
    assert scan_jsonc(edited).plain() == {**rest, "mcpServers": kept}
    assert is_within(edited, text)
    assert without_json_members(edited, "mcpServers", names) == edited


def test_blanks_between_two_members_that_go_are_removed_once() -> None:
    text = '{"mcpServers": {\n  "a": 1, "b": 2,  "c": 3 // why\n}}'

    assert without_json_members(text, "mcpServers", {"b", "c"}) == '{"mcpServers": {\n  "a": 1  // why\n}}'


def is_within(text: str, edited: str) -> bool:
    """Whether the edit only put characters in: what was there is there in its order."""
    rest = iter(edited)
    return all(character in rest for character in text)


CASES = {
    "an empty file": ("", '{\n  "mcpServers": {\n    "x": 1\n  }\n}\n'),
    "an empty object": ("{}", '{\n  "mcpServers": {\n    "x": 1\n  }\n}'),
    "on one line": ('{"mcpServers": {"a": 2}}\n', '{"mcpServers": {"a": 2, "x": 1}}\n'),
    "a trailing comma": (
        '{\n\t"mcpServers": {\n\t\t"a": 2, // why\n\t},\n}\n',
        '{\n\t"mcpServers": {\n\t\t"a": 2, // why\n\t\t"x": 1,\n\t},\n}\n',
    ),
    "a comment behind the last": (
        '{\n    "mcpServers": {\n        "a": 2 // why\n    }\n}\n',
        '{\n    "mcpServers": {\n        "a": 2, // why\n        "x": 1\n    }\n}\n',
    ),
    "other newlines": ('{\r\n  "a": 1\r\n}\r\n', '{\r\n  "a": 1,\r\n  "mcpServers": {\r\n    "x": 1\r\n  }\r\n}\r\n'),
    "replaced": (
        '{ "mcpServers": { /*1*/ "x" /*2*/ : [2] /*3*/ } }',
        '{ "mcpServers": { /*1*/ "x" /*2*/ : 1 /*3*/ } }',
    ),
}


@pytest.mark.parametrize(("text", "expected"), CASES.values(), ids=CASES)
def test_the_format_of_a_file_is_followed(text: str, expected: str) -> None:
    assert with_json_value(text, ("mcpServers", "x"), 1) == expected


@pytest.mark.parametrize(
    "text",
    ["{", "[1", '{"a" 1}', '{"a": 1 "b": 2}', "{a: 1}", "{'a': 1}", "{} x", '{"a": 01}', '{"a": tru}', "// only",
     '{"a": "\n"}', "/* open", "{,}", "[,]", '{"a":,}', '{"a": "\\x"}', "[" * 1000, '{"a": NaN}'],
)  # fmt: skip
def test_what_is_not_json_with_comments_is_refused(text: str) -> None:
    with pytest.raises(NotJsonc, match="at line 1"):
        with_json_value(text, PATH, ENTRY)


@pytest.mark.parametrize(
    "text", ["[]", "1", '{"mcpServers": []}', '{"mcpServers": null}', '{"mcpServers": {}, "mcpServers": {}}']
)
def test_a_text_with_no_one_place_for_the_value_is_refused(text: str) -> None:
    with pytest.raises(CannotEdit):
        with_json_value(text, PATH, ENTRY)


def test_the_place_of_a_fault_is_named() -> None:
    with pytest.raises(NotJsonc, match="at line 3, column 3"):
        scan_jsonc('{\n  "a": 1,\n  b\n}')
