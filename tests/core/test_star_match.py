"""Literal parts with anything between them, against one text and against many."""

import re

import pytest
from hypothesis import given, strategies as st

from agent_resolver.core import LiteralParts, matching_texts, parts_match
from tests.strategies import law

TEXTS = ["", "a", "a.b", "a.b.c", "ab", "aba", "abab", "b", "b.a", "é"]

parts = st.lists(st.text("ab", max_size=2), min_size=1, max_size=4).map(tuple)
texts = st.lists(st.text("ab\U0010ffff", max_size=5)).map(sorted)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (("a",), ["a"]),
        (("x",), []),
        (("",), [""]),
        (("", ""), TEXTS),
        (("a", ""), ["a", "a.b", "a.b.c", "ab", "aba", "abab"]),
        (("x", ""), []),
        (("", "a"), ["a", "aba", "b.a"]),
        (("a", "b"), ["a.b", "ab", "abab"]),
        (("a", "a"), ["aba"]),
        (("", ".", ""), ["a.b", "a.b.c", "b.a"]),
        (("", "b", "b"), ["abab"]),
        (("a", ".", ".", ""), ["a.b.c"]),
        (("a", "b", "b", ""), ["abab"]),
        (("é", ""), ["é"]),
        (("a", "b", ""), ["a.b", "a.b.c", "ab", "aba", "abab"]),
        (("a", "a", ""), ["aba", "abab"]),
    ],
)
def test_those_that_fit_are_found(wanted: LiteralParts, expected: list[str]) -> None:
    assert list(matching_texts(wanted, TEXTS)) == expected
    assert [text for text in TEXTS if parts_match(wanted, text)] == expected


@law(300)
@given(parts, texts)
def test_many_are_looked_at_as_each_by_itself(wanted: LiteralParts, among: list[str]) -> None:
    expected = [text for text in among if as_expression(wanted, text)]

    assert list(matching_texts(wanted, among)) == expected
    assert [text for text in among if parts_match(wanted, text)] == expected


def as_expression(wanted: LiteralParts, text: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, wanted)), text, re.DOTALL) is not None
