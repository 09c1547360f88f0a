"""The pattern language of an agent's tool catalog: `*` is any run of characters, a backslash makes the next literal.

It is not the language of `forbid`, which has no escape, nor that of permission rules.
"""

from functools import lru_cache
from typing import Final

from agent_resolver.core.star_match import LiteralParts

MAX_PATTERN: Final = 256
"""How many characters a pattern may have."""


class BadPattern(ValueError):
    """A text that is not a pattern."""


def check_pattern(pattern: str) -> str | None:
    """Return the reason why a text is not a pattern, or None when it is one."""
    try:
        parts_of(pattern)
    except BadPattern as error:
        return str(error)
    return None


@lru_cache(1024)
def parts_of(pattern: str) -> LiteralParts:
    """The literal parts before, between and after the stars.

    Raises:
        BadPattern: The text is not a pattern.
    """
    if not pattern:
        raise BadPattern("empty pattern")
    if len(pattern) > MAX_PATTERN:
        raise BadPattern(f"longer than {MAX_PATTERN} characters")
    parts = [""]
    characters = iter(pattern)
    for character in characters:
        if character == "*":
            parts.append("")
        elif character == "\\":
            escaped = next(characters, None)
            if escaped is None:
                raise BadPattern("dangling escape")
            parts[-1] += escaped
        else:
            parts[-1] += character
    return tuple(parts)
