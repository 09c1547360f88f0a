"""The pattern language of tool catalogs: a fixture, and two slower readings that agree with it."""

import re

import pytest
from hypothesis import given, strategies as st

from agent_resolver.core import MAX_PATTERN, BadPattern, check_pattern, matching_texts, parts_match, parts_of
from tests.core.strategies import LAW
from tests.strategies import law

# Thirty cases that tell this language from those that look like it: a pattern, a name, and whether it parts_match.
FIXTURE = [
    # Anchored at both ends, and capitals count.
    ("read", "read", True),
    ("read", "read_file", False),
    ("read", "fread", False),
    ("read", "Read", False),
    ("read", "", False),
    # A star is any run of characters, also none, and crosses what other languages stop at.
    ("*", "anything", True),
    ("*", "", True),
    ("**", "x", True),
    ("read*", "read", True),
    ("read*", "read_file", True),
    ("*read", "fread", True),
    ("*read", "reader", False),
    ("a*b", "ab", True),
    ("a*b", "a", False),
    ("a*/b", "a/x/b", True),
    ("mcp:*", "mcp:acme:read", True),
    ("a*b*c", "axxbyyc", True),
    ("a*b*c", "acb", False),
    ("a*a", "a", False),
    ("*ab*ab*", "xabx", False),
    # All else stands for itself.
    ("a?c", "abc", False),
    ("a?c", "a?c", True),
    ("[abc]", "a", False),
    ("[abc]", "[abc]", True),
    ("{a,b}", "a", False),
    ("!a", "b", False),
    ("Bash(npm *)", "Bash", False),
    ("Bash(npm *)", "Bash(npm ci)", True),
    # A backslash makes the next character stand for itself.
    (r"a\*b", "a*b", True),
    (r"a\*b", "axb", False),
]

small = st.text("ab*\\", min_size=1, max_size=7).filter(lambda pattern: check_pattern(pattern) is None)
names = st.text("ab*\\", max_size=9)


def matches_catalog(pattern: str, name: str) -> bool:
    """Whether the pattern parts_match, as plans look for it among many names and one by one."""
    parts = parts_of(pattern)
    is_found = list(matching_texts(parts, [name])) == [name]
    assert parts_match(parts, name) is is_found
    return is_found


def test_there_are_thirty_cases() -> None:
    assert len(FIXTURE) == len(set(FIXTURE)) == 30


@pytest.mark.parametrize(("pattern", "name", "expected"), FIXTURE)
def test_a_pattern_fits_or_not(pattern: str, name: str, expected: bool) -> None:  # noqa: FBT001 - a column of the table
    assert matches_catalog(pattern, name) is expected
    assert fits_as_expression(pattern, name) is expected
    assert expands(pattern, name) is expected


@pytest.mark.parametrize(
    ("pattern", "fault"),
    [
        ("", "empty pattern"),
        ("\\", "dangling escape"),
        ("a*\\", "dangling escape"),
        ("a\\\\\\", "dangling escape"),
        ("x" * (MAX_PATTERN + 1), "longer than 256 characters"),
        ("a\\\\", None),
        ("\\x\\\\", None),
        ("x" * MAX_PATTERN, None),
    ],
)
def test_what_is_no_pattern_is_told_why(pattern: str, fault: str | None) -> None:
    assert check_pattern(pattern) == fault
    if fault:
        with pytest.raises(BadPattern, match=fault):
            matches_catalog(pattern, "a")


def test_an_escape_may_stand_before_anything() -> None:
    assert parts_of(r"\a\\*\*") == ("a\\", "*")
    assert matches_catalog(r"\a\\*\*", r"a\whatever*")
    assert not matches_catalog(r"\a\\*\*", r"a\whatever")


@law(500)
@given(pattern=small, name=names)
def test_a_pattern_fits_exactly_when_the_regular_expression_does(pattern: str, name: str) -> None:
    assert matches_catalog(pattern, name) is fits_as_expression(pattern, name)


@law(300)
@given(pattern=small, name=names)
def test_a_pattern_fits_exactly_when_some_expansion_of_its_stars_does(pattern: str, name: str) -> None:
    assert matches_catalog(pattern, name) is expands(pattern, name)


@LAW
@given(st.text(min_size=1, max_size=MAX_PATTERN // 2))
def test_any_text_fits_itself_alone_once_it_is_escaped(text: str) -> None:
    pattern = "".join(f"\\{character}" for character in text)

    assert matches_catalog(pattern, text)
    assert not matches_catalog(pattern, f"{text}x")


def test_many_stars_against_a_long_name_take_no_time() -> None:
    """A backtracking matcher would not come back from this."""
    assert not matches_catalog("a*" * 127 + "b", "a" * 100_000)
    assert matches_catalog("*a" * 127 + "*", "a" * 100_000)


def fits_as_expression(pattern: str, name: str) -> bool:
    """What a pattern means, by way of a regular expression."""
    tokens = re.findall(r"\\.|.", pattern, re.DOTALL)
    expression = "".join(".*" if token == "*" else re.escape(token[-1]) for token in tokens)
    return re.fullmatch(expression, name, re.DOTALL) is not None


def expands(pattern: str, name: str) -> bool:
    """The definition itself: a star is nothing, or one character and the same star again."""
    if not pattern:
        return not name
    if pattern[0] == "*":
        return expands(pattern[1:], name) or (bool(name) and expands(pattern, name[1:]))
    literal, rest = (pattern[1], pattern[2:]) if pattern[0] == "\\" else (pattern[0], pattern[1:])
    return name[:1] == literal and expands(rest, name[1:])
