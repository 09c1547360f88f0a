"""A text with its literals covered: what is quoted, addresses and numbers are values, and never instructions."""

import re
from typing import Final

from msgspec import Struct

# Single quotes count only around words: the apostrophe of "don't" opens nothing.
QUOTED = re.compile(
    r"""\"[^"]*\"|“[^”]*”|„[^“”]*[“”]|«[^»]*»|\u2018[^\u2019]*\u2019(?!\w)|`[^`]*`|(?<!\w)'[^'\n]+'(?!\w)"""
)
EMAIL = re.compile(r"[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+")
URL = re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://[^\s<>\"',;]+[^\s<>\"',;.!?)]")
# Quoted text comes first: an address inside of it is a part of that text.
_LITERALS: Final = (QUOTED, URL, EMAIL)
FILLER: Final = "\ufffc"
"""Stands for each character of a literal, so that places in the text stay what they are."""


class MaskedText(Struct, frozen=True):
    """A text, and the same text with its literals covered."""

    text: str
    mask: str

    def part(self, start: int, end: int) -> "MaskedText":
        """The part between two places, without the blanks around it."""
        inside = self.text[start:end]
        start += len(inside) - len(inside.lstrip())
        end = max(start, end - (len(inside) - len(inside.rstrip())))
        return MaskedText(self.text[start:end], self.mask[start:end])


def mask_text(text: str) -> MaskedText:
    """Cover the literals of a text."""
    # A request that has the filler itself could else make its own words look like a
    # literal.
    mask = text.replace(FILLER, " ")
    for literal in _LITERALS:
        mask = literal.sub(lambda found: FILLER * len(found[0]), mask)
    return MaskedText(text.replace(FILLER, " "), mask)


def unquoted(text: str) -> str:
    """A literal without its quotes."""
    return text[1:-1] if QUOTED.fullmatch(text) else text
