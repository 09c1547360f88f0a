"""A text that is too long for its place ends behind a word, with an ellipsis."""

import pytest
from hypothesis import given, strategies as st

from agent_resolver.core.shorten import shorten


@pytest.mark.parametrize(
    ("text", "limit", "shown"),
    [
        ("", 1, ""),
        ("Reads a note.", 13, "Reads a note."),
        ("Reads a note.", 12, "Reads a…"),
        ("Reads a note.", 8, "Reads a…"),
        ("Reads a note.", 7, "Reads…"),
        ("  Reads\n\ta   note. ", 13, "Reads a note."),
        ("Donaudampfschifffahrt", 6, "Donau…"),
        ("Donaudampfschifffahrt heute", 6, "Donau…"),
        ("ab", 1, "…"),
    ],
)
def test_a_long_text_is_cut_behind_a_word(text: str, limit: int, shown: str) -> None:
    assert shorten(text, limit) == shown


@given(st.text(alphabet="ab \n"), st.integers(min_value=1, max_value=20))
def test_a_shortened_text_fits_and_holds_whole_words_from_the_start(text: str, limit: int) -> None:
    words = text.split()

    shown = shorten(text, limit)

    assert len(shown) <= limit
    kept = shown.removesuffix("…").split()
    has_room_for_first_word = not words or len(words[0]) < limit
    if has_room_for_first_word:
        assert kept == words[: len(kept)]
    assert shown.endswith("…") == (len(" ".join(words)) > limit)
