"""JSON with comments and trailing commas, as editors write it."""

import re
from typing import Final

_TOKEN: Final = re.compile(
    r'"(?:[^"\\\n]|\\.)*"?|//[^\n]*|/\*.*?(?:\*/|\Z)|,(?=\s*[}\]])', re.DOTALL
)
_NOT_NEWLINE: Final = re.compile(r"[^\n]")


def strict_json(text: str) -> str:
    """The text without comments and trailing commas; every other character keeps its line and column."""
    if "//" not in text and "/*" not in text and not re.search(r",\s*[}\]]", text):
        return text
    # A comment may stand between a comma and a bracket, so comments go first.
    return _blank(_blank(text))


def _blank(text: str) -> str:
    return _TOKEN.sub(lambda found: _blanked(found[0]), text)


def _blanked(token: str) -> str:
    if token.startswith('"'):
        return token
    return _NOT_NEWLINE.sub(" ", token)
