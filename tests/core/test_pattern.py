"""The pattern language of `forbid` against two slower readings of it."""

from hypothesis import given, strategies as st

from agent_resolver.core import matches
from tests.core import oracle
from tests.core.strategies import LAW
from tests.strategies import law

small = st.text("ab*", max_size=7)


@law(1000)
@given(pattern=small, text=st.text("ab", max_size=9) | small)
def test_a_pattern_fits_exactly_when_the_regular_expression_does(pattern: str, text: str) -> None:
    assert matches(pattern, text) is oracle.fits(pattern, text)


@law(300)
@given(pattern=small, text=small)
def test_a_pattern_fits_exactly_when_some_expansion_of_its_stars_does(pattern: str, text: str) -> None:
    assert matches(pattern, text) is expands(pattern, text)


def expands(pattern: str, text: str) -> bool:
    """The definition itself: a star is nothing, or one character and the same star again."""
    if not pattern:
        return not text
    if pattern[0] == "*":
        return expands(pattern[1:], text) or (bool(text) and expands(pattern, text[1:]))
    return text[:1] == pattern[0] and expands(pattern[1:], text[1:])


@LAW
@given(st.text())
def test_text_without_a_star_fits_itself_alone(text: str) -> None:
    literal = text.replace("*", "")

    assert matches(literal, literal)
    assert not matches(literal, literal + "x")
    assert not matches(literal + "x", literal)


def test_many_stars_against_a_long_text_take_no_time() -> None:
    """A backtracking matcher would not come back from this."""
    assert not matches("a*" * 1000 + "b", "a" * 100_000)
    assert matches("*a" * 1000 + "*", "a" * 100_000)
