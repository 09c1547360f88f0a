"""Patterns of permission rules, as expressions that take time in proportion to the text."""

import re
from typing import Final

_ANY: Final = re.compile(r"\*+")


def matches_anything(pattern: str) -> bool:
    """True for a pattern of stars alone."""
    return _ANY.fullmatch(pattern) is not None


def compile_glob(pattern: str) -> re.Pattern[str]:
    """An expression for a pattern that `parse_rule` took; it is for `fullmatch`.

    A star stands for any characters, `/` and line ends among them. Each piece between two stars is taken where it first
    fits and never looked for again, which is right for patterns and keeps a hostile text from taking long.
    """
    first, *others = _pieces(pattern)
    if not others:
        return re.compile(first, re.DOTALL)
    *inner, last = others
    # An atomic group keeps the first place that fits, so the engine never goes back
    # into it.
    searched = "".join(f"(?>.*?{piece})" for piece in inner if piece)
    return re.compile(f"{first}{searched}.*{last}", re.DOTALL)


def _pieces(pattern: str) -> list[str]:
    """The expressions of what is before, between and after the stars."""
    pieces = [""]
    place = 0
    while place < len(pattern):
        character = pattern[place]
        if character == "*":
            pieces.append("")
        elif character == "?":
            pieces[-1] += "."
        elif character == "[":
            expression, place = _class_at(pattern, place)
            pieces[-1] += expression
        else:
            # Behind a backslash, the next character stands for itself.
            place += character == "\\"
            pieces[-1] += re.escape(pattern[place])
        place += 1
    return pieces


def _class_at(pattern: str, opening: int) -> tuple[str, int]:
    """The expression of a class of characters, and the place of the bracket that closes it."""
    start = opening + 1
    is_negated = pattern[start] in "!^"
    start += is_negated
    # A bracket right at the start is one of the characters, as in shells.
    closing = pattern.index("]", start + 1)
    members: list[str] = []
    place = start
    while place < closing:
        first = re.escape(pattern[place])
        # A hyphen right before the closing bracket is one of the characters.
        is_range = pattern[place + 1] == "-" and place + 2 < closing
        if is_range:
            last = re.escape(pattern[place + 2])
            members.append(f"{first}-{last}")
            place += 3
        else:
            members.append(first)
            place += 1
    sign = "^" if is_negated else ""
    return f"[{sign}{''.join(members)}]", closing
