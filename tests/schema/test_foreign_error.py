"""Exceptions of other code in words, whatever they do when they are asked for them."""

import pytest

from agent_resolver.schema import describe_exception


class Speechless(Exception):
    """An exception that raises another when it is asked for its words."""

    def __str__(self) -> str:
        raise ValueError


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("wrong"), "ValueError: wrong"),
        (KeyError(), "KeyError"),
        (Speechless(), "Speechless"),
        (ValueError("x" * 501), f"ValueError: {'x' * 500}…"),
    ],
)
def test_an_exception_is_described_by_its_type_and_a_bounded_message(error: Exception, words: str) -> None:
    assert describe_exception(error) == words
