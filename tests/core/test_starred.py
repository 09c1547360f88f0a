"""Literal parts with anything between them, against one text and against many."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_resolver.core.starred import Parts, fits, fitting
from tests.core.strategies import LAW

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
    ],
)
def test_those_that_fit_are_found(wanted: Parts, expected: list[str]) -> None:
    assert list(fitting(wanted, TEXTS)) == expected
    assert [text for text in TEXTS if fits(wanted, text)] == expected


@settings(LAW, max_examples=300)
@given(parts, texts)
def test_many_are_looked_at_as_each_by_itself(wanted: Parts, among: list[str]) -> None:
    expected = [text for text in among if as_expression(wanted, text)]

    assert list(fitting(wanted, among)) == expected
    assert [text for text in among if fits(wanted, text)] == expected


def as_expression(wanted: Parts, text: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, wanted)), text, re.DOTALL) is not None
