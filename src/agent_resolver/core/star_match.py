"""Literal parts with anything between them: what every pattern of ours comes down to, however it is written."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

LiteralParts = tuple[str, ...]
"""What stands before, between and after the stars; one part alone has no star beside it."""


def parts_match(parts: LiteralParts, text: str) -> bool:
    """True if the parts are all of `text`; takes time linear in practice and never exponential."""
    first, *rest = parts
    if not rest:
        return text == first
    *middle, last = rest
    # The first and the last part must not overlap: `ab*bc` does not match `abc`.
    if len(text) < len(first) + len(last) or not (
        text.startswith(first) and text.endswith(last)
    ):
        return False
    start = len(first)
    end = len(text) - len(last)
    # The leftmost place for each part leaves the most room for the parts after it, so
    # nothing is tried twice.
    for part in middle:
        found = text.find(part, start, end)
        if found < 0:
            return False
        start = found + len(part)
    return True


def matching_texts(parts: LiteralParts, texts: Sequence[str]) -> Sequence[str]:
    """Those of `texts` that the parts fit, in order. The texts must be in order as well.

    What starts alike stands side by side, and few texts hold the longest part: only those are looked at in full.
    """
    first, *rest = parts
    if not rest:
        place = bisect_left(texts, first)
        return texts[place : bisect_right(texts, first, place)]
    near = _texts_starting_with(first, texts)
    start = len(first)
    others = [part for part in rest if part]
    if not others:
        return near
    if len(others) > 1:
        longest = max(others, key=len)
        return [text for text in near if longest in text and parts_match(parts, text)]
    # The one part that is left is the end of the text, or is anywhere between two
    # stars.
    (other,) = others
    if rest[-1]:
        return [text for text in near if text.endswith(other, start)]
    return _texts_with(other, start, near)


def _texts_with(part: str, start: int, texts: Sequence[str]) -> Sequence[str]:
    """The texts that have the part behind their first `start` characters."""
    # Without a start, `in` is the faster search.
    if not start:
        return [text for text in texts if part in text]
    return [text for text in texts if text.find(part, start) >= 0]


def _texts_starting_with(start: str, texts: Sequence[str]) -> Sequence[str]:
    if not start:
        return texts
    length = len(start)
    # Texts are compared by as many characters as the start has, so all that begin with
    # it count as equal.
    end = bisect_right(texts, start, key=lambda text: text[:length])
    return texts[bisect_left(texts, start, hi=end) : end]
