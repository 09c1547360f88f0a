"""Text for lists ends after a word."""

import pytest
from hypothesis import example, given, strategies as st

from agent_resolver.core.shorten import shorten
from tests.strategies import MANY


@pytest.mark.parametrize(
    ("text", "limit", "shown"),
    [
        ("Reviews code", 12, "Reviews code"),
        ("Reviews code", 11, "Reviews…"),
        ("Reviews code", 8, "Reviews…"),
        ("Reviews code", 7, "Review…"),
        ("Reviews code\n\n  and\ttests ", 40, "Reviews code and tests"),
        ("Reviews code\n\n  and\ttests ", 17, "Reviews code and…"),
        ("Supercalifragilistic", 1, "…"),
        ("", 1, ""),
    ],
)
def test_text_is_cut_after_the_last_word_that_fits(text: str, limit: int, shown: str) -> None:
    assert shorten(text, limit) == shown


@MANY
@given(st.text(st.sampled_from("ab \n"), max_size=40), st.integers(1, 50))
@example("a b", 2)
def test_it_is_never_longer_than_the_limit_and_loses_nothing_that_fits(text: str, limit: int) -> None:
    line = " ".join(text.split())
    shown = shorten(text, limit)

    assert len(shown) <= limit
    if len(line) <= limit:
        assert shown == line
    else:
        assert shown.endswith("…")
        kept = shown.removesuffix("…")
        assert line.startswith(kept)
        # Another word would not have fitted.
        next_word = line[len(kept) :].split(" ", 2)[:2]
        assert len(kept + " ".join(next_word)) + 1 > limit
