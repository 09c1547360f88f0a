"""YAML is read with the core schema of YAML 1.2, every value has its place, and nothing in it is executed."""

import math
from typing import Any

import pytest
import yaml
from hypothesis import given, strategies as st

from agent_resolver.schema import Item, Mapping, Scalar, Sequence, Unreadable, parse_yaml, plain
from tests.schema.sample import shown
from tests.strategies import FEW


def refusal(text: str) -> str:
    """The one fault that stops the parser."""
    with pytest.raises(Unreadable) as caught:
        parse_yaml(text)
    return shown([caught.value.issue])[0]


def test_every_value_has_its_place() -> None:
    tree = parse_yaml("a:\n  - 1\n  - x\nb: {c: ~}\n")

    numbers = Sequence((Scalar(1, 2, 5, source="1"), Scalar("x", 3, 5)), 2, 3)
    inner = Mapping((Item("c", 4, 5, Scalar(None, 4, 8, source="~")),), 4, 4)
    assert tree == Mapping((Item("a", 1, 1, numbers), Item("b", 4, 1, inner)), 1, 1)


def test_places_count_from_the_line_the_text_starts_on() -> None:
    assert parse_yaml("a", line=7) == Scalar("a", 7, 1)
    assert parse_yaml("\n\n a", line=7) == Scalar("a", 9, 2)


@pytest.mark.parametrize("text", ["", "\n", "# only this", "&a", "!!null"])
def test_nothing_is_an_empty_mapping(text: str) -> None:
    assert parse_yaml(text, line=2) == Mapping((), 2, 1)


@pytest.mark.parametrize("ending", ["\r\n", "\r"])
def test_line_endings_move_nothing(ending: str) -> None:
    text = "a: |\n  x\n  y\nb:\n  - 'c\n  d'\n  - e\n"

    assert parse_yaml(text.replace("\n", ending)) == parse_yaml(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("~", None), ("null", None), ("Null", None), ("NULL", None)),
        *(("true", True), ("True", True), ("TRUE", True), ("false", False), ("FALSE", False)),
        *(("0", 0), ("-1", -1), ("+12", 12), ("010", 10), ("0o17", 15), ("0x1F", 31), ("0xff", 255)),
        *(("1.0", 1.0), (".5", 0.5), ("5.", 5.0), ("-1e3", -1000.0), ("1E-2", 0.01), ("+.5e1", 5.0)),
        *((".inf", math.inf), ("-.INF", -math.inf), ("+.Inf", math.inf)),
    ],
)
def test_a_plain_word_of_the_core_schema_is_a_value_and_keeps_its_spelling(text: str, value: object) -> None:
    assert parse_yaml(f"[{text}]") == Sequence((Scalar(value, 1, 2, source=text),), 1, 1)  # type: ignore[arg-type]


def test_not_a_number_is_a_number_that_is_not_itself() -> None:
    assert math.isnan(plain(parse_yaml(".nan")))


@pytest.mark.parametrize(
    "text",
    [
        *("yes", "no", "on", "off", "y", "n", "Yes", "NO", "tRUE", "nULL"),
        *("2024-01-01", "2001-12-14t21:59:43.10-05:00", "1:30", "190:20:30", "1_000", "0b1", "0o8", "0x", "-0x1", "1e"),
        *("=", "<<", ".", "-.", ".Nan", "\u0661"),
    ],
)
def test_any_other_plain_word_is_a_string(text: str) -> None:
    assert parse_yaml(text) == Scalar(text, 1, 1)


@pytest.mark.parametrize(
    "text", ["'1'", '"1"', "!!str 1", "! 1", "|-\n  1", ">-\n  1", "!!str '1'", '!<tag:yaml.org,2002:str> "1"']
)
def test_what_is_quoted_or_tagged_so_is_a_string(text: str) -> None:
    assert plain(parse_yaml(text)) == "1"


@pytest.mark.parametrize(
    ("text", "value"),
    [("!!int 1", 1), ("!!bool true", True), ("!!float 1.5", 1.5), ("!!map {a: b}", {"a": "b"}), ("!!seq [a]", ["a"])],
)
def test_a_tag_may_say_what_a_value_is_anyway(text: str, value: object) -> None:
    assert plain(parse_yaml(text)) == value


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ("!!python/object/apply:os.system [ls]", "!!python/object/apply:os.system"),
        ("!!python/object:os.path.join {}", "!!python/object:os.path.join"),
        ("!!python/name:os.system", "!!python/name:os.system"),
        ("!!python/name:os.system ''", "!!python/name:os.system"),
        *(("!!int x", "!!int"), ("!!int '1'", "!!int"), ("!!float 1", "!!float"), ("!!bool yes", "!!bool")),
        *(("!!null x", "!!null"), ("!!map []", "!!map"), ("!!seq {}", "!!seq"), ("!!set {a}", "!!set")),
        *(("!!binary aGk=", "!!binary"), ("!!timestamp 2001-01-01", "!!timestamp"), ("!a b", "!a")),
        ("%TAG ! tag:x.example,2000:\n---\n!a b", "tag:x.example,2000:a"),
    ],
)
def test_any_other_tag_is_refused(text: str, tag: str) -> None:
    assert refusal(text).endswith(f"(file): Tag `{tag}` is not allowed here (remove the tag)")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1: a\ntrue: b\n~: c\n1.0: d", {"1": "a", "true": "b", "~": "c", "1.0": "d"}),
        ("? a\n: b", {"a": "b"}),
        ("{a, b: }", {"a": None, "b": None}),
        ("&k a: 1\nb: *k", {"a": 1, "b": "a"}),
        ("[&k a, {*k : 1}]", ["a", {"a": 1}]),
        ("<<: {a: 1}\nb: 2", {"<<": {"a": 1}, "b": 2}),
    ],
)
def test_a_key_is_its_spelling(text: str, value: object) -> None:
    assert plain(parse_yaml(text)) == value


@pytest.mark.parametrize(("text", "place"), [("? [a]\n: b", "1:3"), ("x:\n  {a: b}: c", "2:3"), ("&a [x]: *a", "1:1")])
def test_a_key_that_is_no_word_is_refused(text: str, place: str) -> None:
    assert refusal(text) == f"{place} (file): A key must be a plain word"


ENDS_A_LINE = (
    "is not allowed: it ends a line for some readers and not for others (remove it, or escape it in double quotes)"
)
QUOTE_COLON = "put quotes round a value that holds `: `"
CANNOT_START = "Invalid YAML: found character that cannot start any token while scanning for the next token"
TABS = "indent with spaces, not tabs; put quotes round a value that starts with `@`, `` ` `` or `%`"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: b: c", f"1:5 (file): Invalid YAML: mapping values are not allowed in this context ({QUOTE_COLON})"),
        ("a: 1\nb: @x", f"2:4 (file): {CANNOT_START} ({TABS})"),
        ("a:\n\tb: c", f"2:1 (file): {CANNOT_START} ({TABS})"),
        (
            "a: 'b",
            "1:6 (file): Invalid YAML: found unexpected end of stream while scanning a quoted scalar (close the quote)",
        ),
        ("- a\nb: c", "2:1 (file): Invalid YAML: did not find expected '-' indicator while parsing a block collection"),
        ("[a", "1:3 (file): Invalid YAML: did not find expected ',' or ']' while parsing a flow sequence"),
        ("'a' 'b'", "1:5 (file): Invalid YAML: did not find expected <document start>"),
        ("%YAML 3.0\n---\na", "1:1 (file): Invalid YAML: found incompatible YAML document"),
        ("a\n---\nb", "2:1 (file): Invalid YAML: a second document starts here"),
        ("a\n...\n--- b", "3:1 (file): Invalid YAML: a second document starts here"),
        ("a: *b", "1:4 (file): Alias `*b` stands for nothing, or for something that holds it"),
        ("a: &b [*b]", "1:8 (file): Alias `*b` stands for nothing, or for something that holds it"),
        ("a: b\r\nc: \x1b", "2:4 (file): Control character U+001B is not allowed (remove it)"),
        ("# \x7f", "1:3 (file): Control character U+007F is not allowed (remove it)"),
        ("a\x9f", "1:2 (file): Control character U+009F is not allowed (remove it)"),
        ("- \uffff", "1:3 (file): Control character U+FFFF is not allowed (remove it)"),
        ("a: b\n'\u2028'", f"2:2 (file): U+2028 {ENDS_A_LINE}"),
        ("# \x85\x1b", f"1:3 (file): U+0085 {ENDS_A_LINE}"),
    ],
)
def test_a_syntax_fault_is_found_where_it_is(text: str, expected: str) -> None:
    assert refusal(text) == expected


@pytest.mark.parametrize(("opening", "closing", "column"), [("[", "]", 65), ("{a: ", "}", 64 * 4 - 2)])
def test_values_nest_up_to_a_limit(opening: str, closing: str, column: int) -> None:
    assert plain(parse_yaml(opening * 63 + "x" + closing * 63))
    assert refusal(opening * 64 + "x" + closing * 64) == f"1:{column} (file): Values nest deeper than 64 levels"
    assert refusal(opening * 50_000).endswith("Values nest deeper than 64 levels")


def test_an_alias_is_as_deep_as_what_it_stands_for() -> None:
    deep = "[" * 40 + "x" + "]" * 40

    assert plain(parse_yaml(f"- &a {deep}\n- {'[' * 22}*a{']' * 22}"))
    assert refusal(f"- &a {deep}\n- {'[' * 23}*a{']' * 23}") == "2:26 (file): Values nest deeper than 64 levels"


def test_an_alias_inside_what_another_stands_for_counts_for_both() -> None:
    text = f"- &a {'[' * 30}x{']' * 30}\n- &b {'[' * 20}*a{']' * 20}\n- {'[' * 13}*b{']' * 13}"

    assert refusal(text) == "3:16 (file): Values nest deeper than 64 levels"
    assert plain(parse_yaml(text.replace("[" * 13 + "*b" + "]" * 13, "*b")))


def test_what_aliases_stand_for_is_counted() -> None:
    enough = f"- &a [{', '.join('x' * 999)}]\n" + "- *a\n" * 48

    assert len(plain(parse_yaml(enough))) == 49
    assert refusal(f"{enough}- *a\n") == "50:3 (file): More than 50000 values, aliases expanded (use fewer aliases)"


def test_values_are_counted_without_aliases_too() -> None:
    assert refusal("[" + "x," * 50_000 + "]") == (
        "1:100000 (file): More than 50000 values, aliases expanded (use fewer aliases)"
    )


@pytest.mark.parametrize("text", ["9" * 250, "0x" + "F" * 248])
def test_an_integer_is_exact_unless_it_is_absurdly_long(text: str) -> None:
    assert plain(parse_yaml(text)) == int(text, 0)
    assert plain(parse_yaml(text + text[-1])) == math.inf


# Against the library, where YAML 1.1 and YAML 1.2 agree ---------------------------------------------------------------

# Three characters end a line in only one of them, and a word that starts like a number may be one: `0o17`, `1:30`.
WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\x85\u2028\u2029"), max_size=8).filter(
    lambda word: not word.startswith((*"0123456789+-.",))
)
VALUES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | WORDS
FLOWS = st.sampled_from([None, False, True])
STYLES = st.sampled_from([None, '"', "'", "|", ">"])


def documents(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    inner = st.recursive(
        values, lambda nested: st.lists(nested, max_size=4) | st.dictionaries(WORDS, nested, max_size=4), max_leaves=8
    )
    return st.dictionaries(WORDS, inner, max_size=4)


@FEW
@given(document=documents(VALUES), flow=FLOWS)
def test_what_the_library_writes_is_read_as_the_library_reads_it(document: Any, flow: Any) -> None:
    text = yaml.safe_dump(document, default_flow_style=flow, sort_keys=False)

    assert plain(parse_yaml(text)) == yaml.safe_load(text) == document


@FEW
@given(document=documents(WORDS), flow=FLOWS, style=STYLES, width=st.sampled_from([4, 80]))
def test_strings_are_read_back_in_every_style(document: Any, flow: Any, style: Any, width: int) -> None:
    text = yaml.safe_dump(document, default_flow_style=flow, default_style=style, width=width, allow_unicode=True)

    assert plain(parse_yaml(text)) == yaml.safe_load(text)
