"""Whether a word was meant to be another: strict for scopes, since another scope opens other things."""

import re
from collections.abc import Iterable
from typing import Final

_SEPARATOR = re.compile(r"([\s:._/-]+|\d+)")
_NEAR_CATEGORY: Final = 0.75
_MOST_CATEGORIES: Final = 2_000
"""Among more of them a slip is not looked for: it would take longer than the resolution."""
_SHORTEST_WORD: Final = 5
"""In a shorter word another letter is another word: `get` and `set`, `ro` and `rw`."""


def is_slip(written: str, meant: str) -> bool:
    """Whether `written` is `meant` with other capitals, other separators, or one slip of a finger in one long word.

    `read` is not `send`, `get` is not `set`, and `v1` is not `v2`: a digit is never a slip.
    """
    if written == meant:
        return False
    ours, theirs = _SEPARATOR.split(written.casefold()), _SEPARATOR.split(meant.casefold())
    if _join_pieces(ours) == _join_pieces(theirs):
        return True
    if len(ours) != len(theirs):
        return False
    # The pieces are words, and between them separators or digits in turn.
    if any(one != other and (one + other).isalnum() for one, other in zip(ours[1::2], theirs[1::2], strict=True)):
        return False
    differing = [(one, other) for one, other in zip(ours[::2], theirs[::2], strict=True) if one != other]
    return len(differing) == 1 and _one_apart(*differing[0])


def _join_pieces(pieces: list[str]) -> str:
    return "".join(piece for piece in pieces if piece.isalnum())


def near_categories(written: str, known: Iterable[str]) -> list[str]:
    """The categories that `written` may have been meant to be, the nearest first."""
    from difflib import get_close_matches  # Slow to import, and rarely needed.

    categories = sorted(known)
    if len(categories) > _MOST_CATEGORIES:
        return []
    return get_close_matches(written, categories, n=3, cutoff=_NEAR_CATEGORY)


def _one_apart(one: str, other: str) -> bool:
    """Whether two neighbours changed places, or in a long word one letter is wrong, missing or too much."""
    short, long = sorted((one, other), key=len)
    start = next((at for at, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    rest, longer = short[start:], long[start:]
    if len(rest) > 1 and len(short) == len(long) and rest[:2] == longer[1::-1] and rest[2:] == longer[2:]:
        return True
    if len(short) < _SHORTEST_WORD:
        return False
    return rest == longer[1:] if len(short) < len(long) else rest[1:] == longer[1:]
