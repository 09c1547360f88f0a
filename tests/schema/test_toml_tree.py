"""TOML text to a positioned tree: every key where it stands, every fault where it is."""

import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, strategies as st

from agent_resolver.schema import (
    EMPTY,
    MAX_DEPTH,
    MAX_INTEGER_DIGITS,
    Issue,
    IssueCode,
    Item,
    Lines,
    Mapping,
    Node,
    Scalar,
    Sequence,
    Unreadable,
    parse_toml,
    plain,
    tree_of,
)
from tests.strategies import law


def keys(node: Node, path: tuple[str | int, ...] = ()) -> Iterator[str]:
    """Each key as `3:1 a.b`, in the order of the tree."""
    match node:
        case Mapping():
            for item in node.items:
                yield f"{item.line}:{item.column} {'.'.join(map(str, (*path, item.key)))}"
                yield from keys(item.value, (*path, item.key))
        case Sequence():
            for position, child in enumerate(node.items):
                yield from keys(child, (*path, position))


def stopped(text: str) -> str:
    with pytest.raises(Unreadable) as caught:
        parse_toml(text)
    issue = caught.value.issue
    return f"{issue.line}:{issue.column} {issue.code}: {issue.message}" + (f" ({issue.hint})" if issue.hint else "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("a = 1", ["1:1 a"]),
        ("  a=1\n\tb = 2", ["1:3 a", "2:2 b"]),
        ("[t]\nx = 1\n[u]\nx = 2", ["1:2 t", "2:1 t.x", "3:2 u", "4:1 u.x"]),
        ("[ t . u ] # one\nx = 1", ["1:3 t", "1:3 t.u", "2:1 t.u.x"]),
        ("[t.u]\nx = 1\n[t]\ny = 2", ["1:2 t", "1:2 t.u", "2:1 t.u.x", "4:1 t.y"]),
        ("a.b = 1\na . c = 2", ["1:1 a", "1:1 a.b", "2:1 a.c"]),
        (
            '[servers."acme.com"]\n"token env" = 1',
            ["1:2 servers", "1:2 servers.acme.com", "2:1 servers.acme.com.token env"],
        ),
        ('\'a.b\' = 1\n"c\\"\\u00e9" = 2', ["1:1 a.b", '2:1 c"é']),
        ("'' = 1", ["1:1 "]),
        ("a = { b = 1, c = { d = 2 } }", ["1:1 a", "1:1 a.b", "1:1 a.c", "1:1 a.c.d"]),
        ("# a\n\n\na = 1 # b = 2\n# [c]\nd = 3", ["4:1 a", "6:1 d"]),
        ("a = 1\r\n[t]\r\nb = 2\r\n", ["1:1 a", "2:2 t", "3:1 t.b"]),
        ("\ufeffa = 1\nb = 2", ["1:1 a", "2:1 b"]),
    ],
)
def test_a_key_is_found_where_it_stands(text: str, expected: list[str]) -> None:
    assert list(keys(parse_toml(text))) == expected


def test_each_element_of_an_array_of_tables_is_found_where_it_stands() -> None:
    text = """\
[[a]]
x = 1
[[a.b]]
y = 2
[[a.b]]
y = 3
[a.b.c]
z = 4

[[a]]
x = 5
[[a.b]]
y = 6
"""
    assert list(keys(parse_toml(text))) == [
        "1:3 a",
        "2:1 a.0.x",
        "3:3 a.0.b",
        "4:1 a.0.b.0.y",
        "6:1 a.0.b.1.y",
        "7:2 a.0.b.1.c",
        "8:1 a.0.b.1.c.z",
        "11:1 a.1.x",
        "12:3 a.1.b",
        "13:1 a.1.b.0.y",
    ]


def test_what_looks_like_a_key_inside_a_value_is_none() -> None:
    text = '''\
[t]
text = """
[other]
wrong = 1
"quotes" and \\""" inside""""
raw = \'\'\'
[other]
wrong = 1\'\'\'
short = "" # [other]
list = [
  ["other"],
  # "]
  ['wrong'],
  [1]
]
brackets = "[{" # it's "quoted
table = { list = [
  "]",
], x = '}' }
last = "é\\"\u2028\u0085" # \u2028 is no line end
end = true
[other]
right = 1'''

    assert list(keys(parse_toml(text))) == [
        "1:2 t",
        "2:1 t.text",
        "6:1 t.raw",
        "9:1 t.short",
        "10:1 t.list",
        "16:1 t.brackets",
        "17:1 t.table",
        "17:1 t.table.list",
        "17:1 t.table.x",
        "20:1 t.last",
        "21:1 t.end",
        "22:2 other",
        "23:1 other.right",
    ]


def test_values_and_elements_stand_at_their_key() -> None:
    elements = Sequence((Scalar("x", 2, 1), Sequence((Scalar(2, 2, 1, source="2"),), 2, 1)), 2, 1)

    assert parse_toml('\na = [\n  "x",\n  [2]\n]') == Mapping((Item("a", 2, 1, elements),), 1, 1)


@pytest.mark.parametrize(
    ("text", "value", "source"),
    [
        ("a = 'x'", "x", ""),
        ("a = true", True, "true"),
        ("a = false", False, "false"),
        ("a = -7", -7, "-7"),
        ("a = 1.5", 1.5, "1.5"),
        ("a = inf", float("inf"), "inf"),
    ],
)
def test_a_value_knows_how_it_is_spelled(text: str, value: object, source: str) -> None:
    tree = parse_toml(text)

    assert isinstance(tree, Mapping)
    assert tree.items[0].value == Scalar(value, 1, 1, source=source)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a = ", "1:5"),
        ("a = 1\nb = [1,\n", "3:1"),
        ("a = 1\r\n\r\n= 2", "3:1"),
        ("\ufeffa b", "1:3"),
        ('a = "x\ny"', "1:7"),
        ("a = 'é\x00'", "1:7"),
        ("x = 0\n  a = 2026-02-30", "2:7"),
    ],
)
def test_a_text_that_is_not_toml_is_refused_at_its_place(text: str, place: str) -> None:
    assert stopped(text).startswith(f"{place} syntax: Invalid TOML: ")


def test_the_words_of_the_standard_library_are_kept_without_its_place() -> None:
    assert stopped("[t]\n[t]\n") == "2:3 syntax: Invalid TOML: Cannot declare ('t',) twice"


@pytest.mark.parametrize("date", ["2026-01-31", "2026-01-31T10:00:00Z", "2026-01-31 10:00:00", "10:00:00"])
def test_a_date_is_refused_and_not_read_as_text(date: str) -> None:
    assert stopped(f"[t]\na = [\n {date}]") == "2:1 invalid-type: No key takes a date or time (write it in quotes)"


def test_a_long_number_is_refused_at_its_place() -> None:
    longest = "9" * MAX_INTEGER_DIGITS
    message = f"limit: A number has more than {MAX_INTEGER_DIGITS} digits"

    assert plain(parse_toml(f"a = -{longest}")) == {"a": -int(longest)}
    assert stopped(f"\na = {longest}9") == f"2:1 {message}"
    assert stopped(f"\na = 0x{'f' * MAX_INTEGER_DIGITS}") == f"2:1 {message}"
    # Python itself refuses these, and does not say where they are.
    assert stopped(f"\na = {longest * 20}") == f"2:5 {message}"
    assert stopped("\na = " + "1_" * 5000 + "1") == f"2:5 {message}"


@pytest.mark.parametrize(
    ("opening", "inside", "closing"),
    [("[", "0", "]"), ("{a=", "0", "}"), ("a.", "a = 0", "")],
    ids=["lists", "tables", "dotted keys"],
)
def test_nesting_has_a_limit(opening: str, inside: str, closing: str) -> None:
    def nested(levels: int) -> str:
        return ("" if opening == "a." else "a = ") + opening * levels + inside + closing * levels

    # The document is a level, and so is the innermost value.
    assert plain(parse_toml(nested(MAX_DEPTH - 2)))
    assert stopped(nested(MAX_DEPTH - 1)) == f"1:1 limit: Values nest deeper than {MAX_DEPTH} levels"
    assert stopped(nested(2000)) == f"1:1 limit: Values nest deeper than {MAX_DEPTH} levels"


def test_a_value_that_stands_in_no_file_has_the_first_place() -> None:
    assert list(keys(tree_of({"state": {"url": "x"}, "list": ["y"]}))) == ["1:1 state", "1:1 state.url", "1:1 list"]


# Laws -----------------------------------------------------------------------------------------------------------------

names = st.text("ab.\"'\\é# =[]", max_size=3)
texts = st.text("ab\"'\\é# =[]{}\n\u2028", max_size=8)


def quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def spelled(draw: st.DrawFn, value: Any) -> str:
    """A value as TOML, one way or another."""
    if isinstance(value, list):
        comma = draw(st.sampled_from([",", ", ", ",\n  ", " , # ]\n"]))
        return f"[{comma.join(spelled(draw, member) for member in value)}\n]"
    if isinstance(value, str):
        ways = [quoted(value)]
        if "'" not in value:
            ways.append(f"'''\n{value}'''")
        if "\\" not in value and '"' not in value:
            ways.append(f'"""\n{value}"""')
        return draw(st.sampled_from(ways))
    return str(value).lower()


scalars = st.booleans() | st.integers(-99, 99) | texts
members = st.dictionaries(names, scalars | st.lists(scalars | st.lists(scalars, max_size=2), max_size=2), max_size=3)


@st.composite
def documents(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A text of tables, and where each of their keys must be found."""
    lines, expected = "", []
    for table in draw(st.lists(names, max_size=3, unique=True)):
        lines += draw(st.sampled_from(["", "\n", "# [x]\n", "#'\n"]))
        expected.append(f"{lines.count(chr(10)) + 1}:2 {table}")
        lines += f"[{quoted(table)}]\n"
        for key, value in draw(members).items():
            expected.append(f"{lines.count(chr(10)) + 1}:1 {table}.{key}")
            lines += f"{quoted(key)} = {spelled(draw, value)}\n"
    return lines, expected


@law(150)
@given(documents())
def test_every_key_is_found_whatever_stands_around_it(document: tuple[str, list[str]]) -> None:
    text, expected = document

    assert list(keys(parse_toml(text))) == expected


@law(150)
@given(documents(), st.booleans())
def test_the_tree_holds_what_the_standard_library_reads(document: tuple[str, list[str]], crlf: bool) -> None:  # noqa: FBT001
    text = document[0].replace("\n", "\r\n") if crlf else document[0]

    assert plain(parse_toml(text)) == tomllib.loads(text)
    assert list(keys(parse_toml(text))) == document[1]


@law(150)
@given(st.text("a1.-:_\"'\\#= []{}\n\r\té\u2028T", max_size=30))
def test_any_text_is_a_tree_or_one_located_fault(text: str) -> None:
    found: Issue | None = None
    tree: Node = EMPTY
    try:
        tree = parse_toml(text)
    except Unreadable as stop:
        found = stop.issue

    if found:
        assert found.code in {IssueCode.SYNTAX, IssueCode.INVALID_TYPE}
        assert (1, 1) <= (found.line, found.column) <= Lines(text).place(len(text))
    else:
        assert plain(tree) == tomllib.loads(text)


def test_a_value_that_stands_in_no_file_may_be_null_or_a_tuple() -> None:
    assert tree_of(None) == Scalar(None, 1, 1, source="null")
    assert plain(tree_of({"nothing": None, "both": ("a", 1)})) == {"nothing": None, "both": ["a", 1]}
