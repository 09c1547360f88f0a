"""A text takes about one token for every four of its bytes."""

import pytest

from agent_resolver.core import BYTES_PER_TOKEN, estimate_text, size_of_text


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("üü", 1), ("…", 1), ("\U0001f600\U0001f600", 2), ("\ud800", 1)],
)
def test_a_text_takes_a_token_for_every_four_bytes_begun(text: str, tokens: int) -> None:
    assert estimate_text(text) == tokens
    assert size_of_text(text) <= tokens * BYTES_PER_TOKEN
