"""JSON is read strictly, every value has its place, and a syntax fault is found where it is."""

import json
import math
import re
from typing import Any

import pytest
from hypothesis import given, strategies as st

from agent_resolver.schema import Item, Mapping, Scalar, Sequence, Unreadable, parse_json, plain
from tests.schema.sample import shown
from tests.strategies import MANY, edited


def refusal(text: str) -> str:
    """The one fault that stops the parser."""
    with pytest.raises(Unreadable) as caught:
        parse_json(text)
    return shown([caught.value.issue])[0]


def test_every_value_has_its_place() -> None:
    tree = parse_json('{\n  "a": [1, "x"],\r\n  "b" :{"c": null} }')

    numbers = Sequence((Scalar(1, 2, 9, source="1"), Scalar("x", 2, 12)), 2, 8)
    inner = Mapping((Item("c", 3, 9, Scalar(None, 3, 14, source="null")),), 3, 8)
    assert tree == Mapping((Item("a", 2, 3, numbers), Item("b", 3, 3, inner)), 1, 1)


def test_a_key_said_twice_stays_in_the_tree_twice() -> None:
    tree = parse_json('{"a": 1, "a": 2}')

    assert isinstance(tree, Mapping)
    assert [item.key for item in tree.items] == ["a", "a"]
    assert plain(tree) == {"a": 2}


@pytest.mark.parametrize("text", ["[]", "{}", " [ ] ", "{\n}", "[[], {}]", "true", "false", "null", '"a"', "-0.5e+3"])
def test_any_value_may_be_the_whole_text(text: str) -> None:
    assert plain(parse_json(text)) == json.loads(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "1:1 (file): Expected a value, found the end of the file"),
        (" \n\t", "2:2 (file): Expected a value, found the end of the file"),
        ("[1,\n  2,\n]", "3:1 (file): Expected a value (remove the comma before it)"),
        ('{"a": 1,}', "1:9 (file): Expected a key in double quotes (remove the comma before it)"),
        ("{a: 1}", "1:2 (file): Expected a key in double quotes"),
        ("{'a': 1}", "1:2 (file): Expected a key in double quotes"),
        ("{,}", "1:2 (file): Expected a key in double quotes"),
        ("{1: 2}", "1:2 (file): Expected a key in double quotes"),
        ('{"a" 1}', "1:6 (file): Expected `:` after the key"),
        ('{"a"', "1:5 (file): Expected `:` after the key"),
        ('{"a":', "1:6 (file): Expected a value, found the end of the file"),
        ('{"a": 1 "b": 2}', "1:9 (file): Expected `,` or `}`"),
        ('{"a": 1', "1:8 (file): Expected `,` or `}`"),
        ("[1 2]", "1:4 (file): Expected `,` or `]`"),
        ("[1", "1:3 (file): Expected `,` or `]`"),
        ("[", "1:2 (file): Expected a value, found the end of the file"),
        ("[,]", "1:2 (file): Expected a value, found ','"),
        ("[1,,2]", "1:4 (file): Expected a value, found ','"),
        ("[1}", "1:3 (file): Expected `,` or `]`"),
        ("// no\n[]", "1:1 (file): Expected a value, found '/'"),
        ("[] []", "1:4 (file): Expected the end of the file (remove what follows the first value)"),
        ("{}\n}", "2:1 (file): Expected the end of the file (remove what follows the first value)"),
        ("NaN", "1:1 (file): `NaN` is not JSON (use a number, or leave the key out)"),
        ("[-Infinity]", "1:2 (file): `-Infinity` is not JSON (use a number, or leave the key out)"),
        ("Infinity", "1:1 (file): `Infinity` is not JSON (use a number, or leave the key out)"),
        ("True", "1:1 (file): Expected a value, found 'T'"),
        ("nul", "1:1 (file): Expected a value, found 'n'"),
        ("nullx", "1:1 (file): Expected a value, found 'n'"),
        ("'a'", '1:1 (file): Expected a value, found "\'"'),
        ("\ufeff[]", "1:1 (file): Expected a value, found '\\ufeff'"),
        ("-", "1:1 (file): Expected a value, found '-'"),
        (".5", "1:1 (file): Expected a value, found '.'"),
        ("+1", "1:1 (file): Expected a value, found '+'"),
        ("[01]", "1:2 (file): Invalid number"),
        ("1.", "1:1 (file): Invalid number"),
        ("1e", "1:1 (file): Invalid number"),
        ("0x1F", "1:1 (file): Invalid number"),
        ("1_000", "1:1 (file): Invalid number"),
        ("1.2.3", "1:1 (file): Invalid number"),
        ('["a', "1:2 (file): The string is not closed (add a double quote)"),
        ('["a\\', "1:2 (file): The string is not closed (add a double quote)"),
        ('["a\\"]', "1:2 (file): The string is not closed (add a double quote)"),
        ('{"a: 1}', "1:2 (file): The string is not closed (add a double quote)"),
        ('["ab\\qc"]', "1:5 (file): Invalid escape in a string"),
        ('["a\\x41"]', "1:4 (file): Invalid escape in a string"),
        ('["a\\u12g4"]', "1:5 (file): Invalid escape in a string"),
        ('["a\\u12"]', "1:5 (file): Invalid escape in a string"),
        ('["\n"]', "1:3 (file): A string holds the control character U+000A (escape it)"),
        ('["a\tb"]', "1:4 (file): A string holds the control character U+0009 (escape it)"),
        ('{"\x1f": 1}', "1:3 (file): A string holds the control character U+001F (escape it)"),
    ],
)
def test_a_syntax_fault_is_found_where_it_is(text: str, expected: str) -> None:
    assert refusal(text) == expected


@pytest.mark.parametrize("escape", ["\\ud800", "\\udfff", "\\ude00\\ud83d", "\\ud83dx", "\\uD83D\\u0041"])
def test_half_a_surrogate_pair_is_refused_in_a_value_and_in_a_key(escape: str) -> None:
    expected = (
        "A string escapes half a surrogate pair, which is not a character (write the character itself, or both halves)"
    )

    assert refusal(f'[1, "{escape}"]') == f"1:5 (file): {expected}"
    assert refusal(f'{{"{escape}": 1}}') == f"1:2 (file): {expected}"


def test_a_whole_surrogate_pair_is_one_character() -> None:
    assert plain(parse_json('"\\ud83d\\ude00"')) == "😀"


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_values_nest_up_to_a_limit(opening: str, closing: str) -> None:
    assert plain(parse_json(opening * 63 + "1" + closing * 63))
    assert refusal(opening * 64 + "1" + closing * 64) == (
        f"1:{64 * len(opening) + 1} (file): Values nest deeper than 64 levels"
    )
    assert refusal(opening * 100_000).endswith("Values nest deeper than 64 levels")


def test_an_integer_is_exact_unless_it_is_absurdly_long() -> None:
    assert plain(parse_json("1" * 250)) == int("1" * 250)
    assert plain(parse_json("-" + "9" * 100_000)) == -math.inf


# Against the standard library -----------------------------------------------------------------------------------------

DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
SURROGATE = re.compile("[\ud800-\udfff]")


def standard(text: str) -> Any:
    """What the standard library reads when it is held to the standard.

    Raises:
        ValueError: The text is not JSON, or a string in it is not Unicode.
    """

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    value = json.loads(text, parse_constant=refuse)
    if SURROGATE.search(json.dumps(value, ensure_ascii=False)):
        raise ValueError(text)
    return value


@MANY
@given(document=DOCUMENTS, indent=st.sampled_from([None, 0, 2, "\t"]), ascii_only=st.booleans())
def test_what_the_standard_library_writes_is_read_back(document: Any, indent: Any, ascii_only: bool) -> None:  # noqa: FBT001
    text = json.dumps(document, indent=indent, ensure_ascii=ascii_only)

    assert plain(parse_json(text)) == document


@MANY
@given(raw=edited(DOCUMENTS.map(lambda document: json.dumps(document).encode())))
def test_both_refuse_the_same_texts_and_read_the_same_values(raw: bytes) -> None:
    text = raw.decode(errors="replace")
    try:
        expected = standard(text)
    except ValueError:
        refusal(text)
    else:
        assert plain(parse_json(text)) == expected
