"""Estimates how many tokens a text takes, for budgets that are kept before any model is asked."""

from typing import Final

BYTES_PER_TOKEN: Final = 4
"""About how many bytes of UTF-8 make a token. Tokenizers differ, and a budget must not depend on one of them."""


def estimate_text(text: str) -> int:
    """About how many tokens a text takes: one for every four bytes, and for the rest of them."""
    return -(-size_of_text(text) // BYTES_PER_TOKEN)


def size_of_text(text: str) -> int:
    """The bytes of a text in UTF-8, whatever it holds: a document may be damaged."""
    return len(text.encode("utf-8", "surrogatepass"))
