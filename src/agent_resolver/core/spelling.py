"""Recognises a word that was meant to be another: strict for scopes, since another scope opens other things."""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

_SEPARATOR = re.compile(r"([\s:._/-]+|\d+)")
_NEAR_CATEGORY: Final = 0.75
_MOST_COMPARED: Final = 2_000
"""Among more words a slip is not looked for: it would take longer than the resolution."""
_MOST_SIMILAR: Final = 3
_SHORTEST_WORD: Final = 5
"""In a shorter word another letter is another word: `get` and `set`, `ro` and `rw`."""


def is_slip(written: str, meant: str) -> bool:
    """True if `written` is `meant` with other capitals, other separators, or one slip of a finger in one long word.

    `read` is not `send`, `get` is not `set`, and `v1` is not `v2`: a digit is never a slip. The same letters in another
    Unicode form are.
    """
    if written == meant:
        return False
    ours = _pieces_of(written)
    theirs = _pieces_of(meant)
    # The words and digits are equal, so only capitals, separators or Unicode forms
    # differ.
    if _join_pieces(ours) == _join_pieces(theirs):
        return True
    if len(ours) != len(theirs):
        return False
    # The pieces are words, and between them separators or digits in turn.
    words = zip(ours[::2], theirs[::2], strict=True)
    between = zip(ours[1::2], theirs[1::2], strict=True)
    if any(one != other and (one + other).isalnum() for one, other in between):
        return False
    differing = [(one, other) for one, other in words if one != other]
    return len(differing) == 1 and _one_apart(*differing[0])


# The same few words are held against each other for many servers.
@lru_cache(4096)
def _pieces_of(word: str) -> list[str]:
    return _SEPARATOR.split(_folded(word))


def _join_pieces(pieces: list[str]) -> str:
    """The words and the digits without the separators, which stand at every second place with the digits."""
    return "".join(
        piece for place, piece in enumerate(pieces) if place % 2 == 0 or piece.isalnum()
    )


def near_categories(written: str, known: Iterable[str]) -> list[str]:
    """The categories that `written` may have been meant to be, the nearest first."""
    from difflib import get_close_matches  # Slow to import, and rarely needed.

    categories = sorted(known)
    twins = [category for category in categories if are_twins(written, category)]
    # A twin looks the same on a screen, so it is what was meant.
    if twins or len(categories) > _MOST_COMPARED:
        return twins
    return get_close_matches(written, categories, n=3, cutoff=_NEAR_CATEGORY)


def similar_scopes(written: str, known: Iterable[str]) -> list[str]:
    """The scopes that look like `written`, the most alike first; to show, and not to decide by."""
    from difflib import get_close_matches  # Slow to import, and rarely needed.

    folded: dict[str, list[str]] = {}
    for scope in sorted(known):
        folded.setdefault(_folded(scope), []).append(scope)
    if len(folded) > _MOST_COMPARED:
        return []
    near = get_close_matches(_folded(written), folded, n=_MOST_SIMILAR)
    return [scope for word in near for scope in folded[word]][:_MOST_SIMILAR]


def are_twins(one: str, other: str) -> bool:
    """True if two different words are the same letters in two Unicode forms, which look alike on a screen."""
    return one != other and _composed(one) == _composed(other)


def _folded(word: str) -> str:
    return _composed(word).casefold()


def _composed(word: str) -> str:
    if word.isascii():
        return word
    from unicodedata import normalize  # Slow to import, and rarely needed.

    return normalize("NFC", word)


def _one_apart(one: str, other: str) -> bool:
    """True if two neighbours changed places, or in a long word one letter is wrong, missing or too much."""
    short, long = sorted((one, other), key=len)
    # `start` is the first place where the two differ; one of them may end there.
    start = 0
    while start < len(short) and short[start] == long[start]:
        start += 1
    rest = short[start:]
    longer = long[start:]
    if len(short) == len(long) and _are_swapped(rest, longer):
        return True
    if len(short) < _SHORTEST_WORD:
        return False
    # One letter is missing in the shorter word; or, in words of one length, one letter
    # is another.
    if len(short) < len(long):
        return rest == longer[1:]
    return rest[1:] == longer[1:]


def _are_swapped(one: str, other: str) -> bool:
    """True if two texts that differ in their first letter have their first two letters changed round."""
    return one[:2] == other[1::-1] and one[2:] == other[2:]
