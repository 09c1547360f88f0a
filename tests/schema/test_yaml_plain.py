"""What the reader of plain YAML reads, it reads as the library does; it leaves everything else to the library."""

import subprocess
import sys
from typing import Final

import pytest
from hypothesis import given, strategies as st

from agent_resolver.schema import Unreadable
from agent_resolver.schema.tree import Item, Mapping, Scalar, Sequence
from agent_resolver.schema.yaml_library import parse_any_yaml
from agent_resolver.schema.yaml_plain import parse_plain_yaml

MOST: Final = 100_000

KEYS = st.sampled_from(
    ["a", "key", "x-y", "_z", "true", "null", "k" * 100, "k" * 101, "k 1", '"q"', "1", "?", "<<", ""]
)
VALUES = st.sampled_from(
    [
        *("x", "1", "1.0.0", "1.0", "true", "~", "null", "a b", "a: b", "a #c", "a#b", "read:x", "x:", "::", "a: "),
        *('"q q"', "'q'", "''", '""', "'it''s'", r'"a\tb"', '"a" b', "'a' #c", '"a"#c', "'a", "a\"b'c"),
        *("[a, b]", "[]", "[ a:b ,1 ]", "[a, b] #c", "[a]#c", "[a] b", "[a,]", "[a,,b]", "[a:, b]", "[a: b]", "[*a]"),
        *("[a*, -b]", "[[a]]", "[é]", "[null, 1, true]", "{a: b}", "*x", "&x y", "!x", "- x", "-1", "? x", "|", ">-"),
        *(
            "0x1F",
            "0o7",
            ".5",
            "+.inf",
            "1e3",
            "no",
            "=",
            "<<",
            "@x",
            "%x",
            "`x",
            "é — x",
            "\u2028",
            "\x7f",
            "\t",
            "x\ty",
        ),
        *(
            "\ufeff",
            "http://a.example/b?c=d#e",
            "a, b",
            "(a)",
            "$x",
            "~x",
            "a [b] {c}",
            "1:30",
            "2024-01-01",
            "...",
            "---",
        ),
    ]
)
ENDINGS = st.sampled_from(["", "", "", "", " ", "  # comment", " #", "#c"])
LINES = st.one_of(
    st.builds("{}: {}{}".format, KEYS, VALUES, ENDINGS),
    st.builds("{}:{}".format, KEYS, ENDINGS),
    st.builds("- {}{}".format, VALUES, ENDINGS),
    st.builds("-   {}: {}".format, KEYS, VALUES),
    st.builds("- {}:".format, KEYS),
    st.sampled_from(["", "  ", "# comment", "-", "- - x", "...", "---", "x", "a:b", "a :"]),
)
STEPS = st.sampled_from([0, 0, 0, 0, 2, 2, -2, -2, -4, 1, -1, 4])
BREAKS = st.sampled_from(["\n", "\n", "\n", "\r\n", "\r"])


@st.composite
def nearly_plain(draw: st.DrawFn) -> str:
    """Lines of many forms whose indentation goes in and out, as in front matter, and at times as it must not."""
    indent = 0
    lines = []
    for step, line in draw(st.lists(st.tuples(STEPS, LINES), max_size=9)):
        indent = max(0, indent + step)
        lines.append(" " * indent + line)
    return draw(BREAKS).join(lines)


@given(text=nearly_plain(), line=st.integers(1, 9))
def test_plain_texts_are_read_as_by_the_library(text: str, line: int) -> None:
    tree = parse_plain_yaml(text, line, MOST)

    if tree is not None:
        assert tree == parse_any_yaml(text, line, MOST)


@given(text=st.text(alphabet="ab:-# \n[],'\"1.\r\t~?|>&*!%@{}é\u2028", max_size=30))
def test_texts_of_any_signs_are_read_as_by_the_library(text: str) -> None:
    tree = parse_plain_yaml(text, 1, MOST)

    if tree is not None:
        assert tree == parse_any_yaml(text, 1, MOST)


FRONT_MATTER = """\
# An agent
name: hello-agent
version: 1.0.0
title: "It's: quoted # not a comment"
words: [read, no, x]
requires:
  mcp:
    - category: audiences # the first
      permissions:
      - read:audiences
      - write:audiences

    -   category: reporting
        permissions: [read:reports]
rounds: 3
is_open: true
"""


def test_front_matter_as_people_write_it_is_plain() -> None:
    tree = parse_plain_yaml(FRONT_MATTER, 2, MOST)

    assert tree == parse_any_yaml(FRONT_MATTER, 2, MOST)
    assert tree is not None
    assert tree.items[0] == Item("name", 3, 1, Scalar("hello-agent", 3, 7))
    assert tree.items[3].value == Sequence((Scalar("read", 6, 9), Scalar("no", 6, 15), Scalar("x", 6, 19)), 6, 8)


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_a_sequence_may_begin_below_its_key(ending: str) -> None:
    text = ending.join(["a:", "- b: 1", "  c: ''", "- d", "e: f"])

    elements = (
        Mapping((Item("b", 2, 3, Scalar(1, 2, 6, source="1")), Item("c", 3, 3, Scalar("", 3, 6))), 2, 3),
        Scalar("d", 4, 3),
    )
    items = (Item("a", 1, 1, Sequence(elements, 2, 1)), Item("e", 5, 1, Scalar("f", 5, 4)))
    assert parse_plain_yaml(text, 1, MOST) == Mapping(items, 1, 1)


@pytest.mark.parametrize(
    "text",
    [
        *("", "# nothing", "a", "- a", " a: b", "a:", "a:\nb: c", "a: b\n  c", "a: b\n  c: d", "a:\n  b: c\n d: e"),
        *("a: |\n  b", "a: {b: c}", "a: &x b", "a: *x", "a: !x b", "a: b: c", "a: b:", "a: 'b", "a: 'b' c", "a: [b] c"),
        *(
            "a: [b, 'c']",
            "a: @b",
            "a:\tb",
            "a: b\u2028c",
            "a: b\x00",
            "\ufeffa: b",
            "a: b\rc: d",
            "---\na: b",
            "? a\n: b",
        ),
        *("a:\n  - - b", "a:\n  -\n  - b", "a:\n- b\n c: d", "a: b\n- c", "a: b\n...\nc: d", "a: ? b", "a: -b"),
    ],
)
def test_everything_else_is_left_to_the_library(text: str) -> None:
    assert parse_plain_yaml(text, 1, MOST) is None


def test_long_deep_and_large_texts_are_left_to_the_library() -> None:
    """The library has the limits, and words them."""
    deep = "\n".join(f"{' ' * depth}a:" for depth in range(20)) + " b"

    assert parse_plain_yaml(deep, 1, MOST) == parse_any_yaml(deep, 1, MOST)
    assert parse_plain_yaml(f"{deep[:-2]}\n{' ' * 20}a: b", 1, MOST) is None
    assert parse_plain_yaml(f"a: {'b' * 16_381}", 1, MOST) is not None
    assert parse_plain_yaml(f"a: {'b' * 16_382}", 1, MOST) is None
    assert parse_plain_yaml("a: b\nc: d", 1, 8) is not None
    assert parse_plain_yaml("a: b\nc: d", 1, 7) is None
    assert parse_plain_yaml("a: [b, c]", 1, 4) is None
    with pytest.raises(Unreadable, match="More than 2 values"):
        parse_any_yaml("a: [b, c]", 1, 2)


def test_plain_front_matter_does_not_load_the_library() -> None:
    program = f"""
import sys
from agent_resolver.schema.agent_file import parse_agent_file
parse_agent_file({f"---{chr(10)}{FRONT_MATTER}---{chr(10)}"!r})
sys.exit("yaml" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
