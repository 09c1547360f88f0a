"""A text that matches a regular expression, for the common ones that schemas have: identifiers and codes."""

import re
from typing import Final

_CLASSES: Final = {"d": "0", "w": "a", "s": " ", "D": "a", "W": "-", "S": "a"}
_LETTERS: Final = "a0A-_. "
_QUANTIFIER = re.compile(r"\{(\d+)(?:,\d*)?\}|[?*+]")
_MAX_LENGTH: Final = 400


class UnreadablePattern(Exception):
    """The expression has something that is not read here."""


def text_matching(pattern: str) -> str | None:
    """The shortest text that an expression describes, or None if the expression cannot be read.

    Python does not match with it: a pattern comes with a tool, and may be made to take for ever.
    """
    if len(pattern) > _MAX_LENGTH:
        return None
    try:
        found = _PatternReader(pattern).whole()
    except (UnreadablePattern, RecursionError):
        return None
    return found if len(found) <= _MAX_LENGTH else None


class _PatternReader:
    """Reads an expression from left to right; of alternatives the first one counts, of repetitions the fewest."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._place = 0

    def whole(self) -> str:
        """Reads the whole expression, and returns a text that it describes."""
        found = self._alternatives()
        if self._next():
            raise UnreadablePattern
        return found

    def _alternatives(self) -> str:
        """Reads up to the end of the expression or of its group, and returns the text of the first alternative."""
        first = self._sequence()
        while self._next() == "|":
            self._place += 1
            # The other alternatives are read only to find the place where the
            # expression goes on.
            self._sequence()
        return first

    def _next(self) -> str:
        return self._pattern[self._place : self._place + 1]

    def _sequence(self) -> str:
        found = ""
        while self._next() not in {"", "|", ")"}:
            atom = self._atom()
            # A pattern may ask for a billion repetitions: one more than the limit is
            # enough to be refused.
            found += atom * min(self._times(), _MAX_LENGTH + 1)
        return found

    def _atom(self) -> str:
        sign = self._next()
        self._place += 1
        # Anchors match no letter, and the text that is made here is the whole match in
        # any case.
        if sign in "^$":
            return ""
        if sign == "(":
            return self._group()
        if sign == "[":
            return self._class()
        if sign == "\\":
            return self._escape()
        return "a" if sign == "." else sign

    def _group(self) -> str:
        if self._next() == "?":
            # Of the extended groups only `(?:…)` is read: the others look around, set
            # flags or name a group.
            if not self._pattern.startswith("?:", self._place):
                raise UnreadablePattern
            self._place += 2
        found = self._alternatives()
        if self._next() != ")":
            raise UnreadablePattern
        self._place += 1
        return found

    def _class(self) -> str:
        is_negated = self._next() == "^"
        self._place += is_negated
        members: list[tuple[str, str]] = []
        # A `]` that comes first is a member of the class, as in Python.
        while self._next() != "]" or not members:
            members.append(self._range())
        self._place += 1
        # A member of the class itself fits a plain class; common letters are there for
        # a negated one.
        letters = [*(first for first, _ in members), *_LETTERS]
        fitting: list[str] = [
            letter for letter in letters if _is_in(letter, members) != is_negated
        ]
        if not fitting:
            raise UnreadablePattern
        return fitting[0]

    def _range(self) -> tuple[str, str]:
        """The first and the last letter of a part of a class."""
        first = self._letter()
        is_range = self._next() == "-" and self._pattern[
            self._place + 1 : self._place + 2
        ] not in {"", "]"}
        if not is_range:
            return first, first
        self._place += 1
        return first, self._letter()

    def _letter(self) -> str:
        sign = self._next()
        self._place += 1
        if not sign:
            raise UnreadablePattern
        return self._escape() if sign == "\\" else sign

    def _escape(self) -> str:
        sign = self._next()
        self._place += 1
        # References to groups, word boundaries and properties of Unicode have no fixed
        # letter that could stand for them.
        if not sign or sign.isdigit() or sign in "AbBZzpPuxk":
            raise UnreadablePattern
        return _CLASSES.get(sign, sign)

    def _times(self) -> int:
        found = _QUANTIFIER.match(self._pattern, self._place)
        if found is None:
            return 1
        self._place = found.end()
        # A lazy or possessive mark does not change the fewest repetitions.
        if self._next() in {"?", "+"}:
            self._place += 1
        if found[1] is not None:
            return int(found[1])
        return 1 if found[0] == "+" else 0


def _is_in(letter: str, members: list[tuple[str, str]]) -> bool:
    return any(first <= letter <= last for first, last in members)
