"""Filters that the templates of a report need: they show what a value holds, and set off what a sentence quotes."""

import re
from collections.abc import Callable
from typing import Any, Final

from markupsafe import Markup

from agent_resolver.core.count import counted, plural

_INVISIBLE: Final = re.compile(
    "([\x00-\x1f\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f\u205f-\u206f"
    "\u2800\u3000\u3164\ud800-\udfff\ufeff\uffa0\ufff0-\uffff\U0001d173-\U0001d17a\U000e0000-\U000e0fff])"
)
"""What shows nothing, or steers the text around it. A fixed list: that of Python grows with its version."""

_BACKTICKS: Final = re.compile("`([^`]+)`")
_HIDDEN: Final = Markup('<span class="hidden-character">{}</span>')
_CODE: Final = Markup("<code>{}</code>")


def visible(value: str) -> str:
    """A value as plain text, each character in it that one could not see named by its code point."""
    # The brackets are mathematical ones, which names hardly ever contain, so that a
    # replacement is recognized.
    return _INVISIBLE.sub(lambda found: f"\u27e8{_code_point(found[0])}\u27e9", value)


def mark_hidden(value: str) -> Markup:
    """A value as markup, each character in it that one could not see named by its code point."""
    # `split` with a group keeps what it found: text and hidden characters alternate.
    return _mark_every_second(
        _INVISIBLE.split(value), lambda hidden: _HIDDEN.format(_code_point(hidden))
    )


def mark_code(value: str) -> Markup:
    """A message as markup, what it has in backticks set as code."""
    # The pieces are escaped before the code is marked, so that no piece brings markup
    # of its own.
    pieces = map(mark_hidden, _BACKTICKS.split(value))
    return _mark_every_second(list(pieces), _CODE.format)


def break_words(value: str) -> Markup:
    """A constant such as `MISSING_SCOPE`, which may break after each of its words."""
    # `Markup.join` escapes the words, and only the separator is trusted.
    return Markup("_<wbr>").join(value.split("_"))


def grouped(number: int) -> str:
    """A number with a comma before every three digits."""
    return f"{number:,}"


def short(number: float) -> str:
    """A number without needless digits."""
    return f"{number:g}"


# The name of a function is the name of its filter in the templates.
FILTERS: Final[dict[str, Callable[..., Any]]] = {
    each.__name__: each
    for each in (
        visible,
        mark_hidden,
        mark_code,
        break_words,
        counted,
        plural,
        grouped,
        short,
    )
}


def _mark_every_second(pieces: list[str], mark: Callable[[str], Markup]) -> Markup:
    """Join what `re.split` left of a text; what the pattern found stands at every second place."""
    marked = list(pieces)
    marked[1::2] = map(mark, pieces[1::2])
    return Markup().join(marked)


def _code_point(character: str) -> str:
    return f"U+{ord(character):04X}"
