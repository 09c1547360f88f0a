"""Names that MCP clients and models accept, and the way back to the ids that they stand for.

Clients and model providers take names of 1 to 64 letters, digits, underscores and hyphens. Ids have dots and slashes,
may be longer, and may hold any character that can be printed. A name depends on its own id alone, so that it stays the
same whatever else is served.

- A plain id has letters, digits, hyphens and, between or beside them, single underscores, dots and slashes. Its name
  has `__` for a dot and `____` for a slash: `tickets.search` is `tickets__search`. Each run of underscores in it has a
  length of one, two or four, and reads back in one way.
- Every other id, and one whose name would be too long, gets the start of its text, `___` and a digest. A run of three
  underscores is in no name of a plain id, so that the two kinds never meet.
"""

import re
from base64 import b32encode
from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha256
from typing import Final

MAX_WIRE_NAME: Final = 64
_NAME: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{MAX_WIRE_NAME}}}")
_PLAIN_ID: Final = re.compile(r"(?:[A-Za-z0-9-]|(?<![._/])[._/](?![._/]))+")
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]")
_DIGEST_LENGTH: Final = 26
"""In base 32: 130 bits, so that no two ids can be found that share them."""
_SEPARATOR: Final = "___"
_MAX_START: Final = MAX_WIRE_NAME - len(_SEPARATOR) - _DIGEST_LENGTH


@lru_cache(8192)
def to_wire_name(text: str) -> str:
    """The name under which clients and models see the tool or prompt with this id."""
    name = text.replace(".", "__").replace("/", "____")
    if _PLAIN_ID.fullmatch(text) and len(name) <= MAX_WIRE_NAME:
        return name
    # The separator must stay three underscores long, whatever is before it.
    start = _NOT_IN_NAMES.sub("_", name)[:_MAX_START].rstrip("_")
    # Text that is not valid Unicode has a name too, though no tool or prompt may be
    # called so.
    digest = sha256(text.encode(errors="surrogatepass")).digest()
    return f"{start}{_SEPARATOR}{b32encode(digest).decode()[:_DIGEST_LENGTH].lower()}"


def from_wire_name(name: str, known: Iterable[str]) -> str | None:
    """The id that a client means by `name`, which may be a served name or an id.

    Text that cannot be a served name, such as one with a dot, is an id. All other text is a served name and never an
    id, also where a tool of that id exists: to which tool it leads must not depend on which tools there are.

    Args:
        name: What the client says.
        known: The ids that a name with a digest may stand for.

    Returns:
        The id, which need not exist; None for a name with a digest that belongs to none of the known ids.
    """
    if not _NAME.fullmatch(name):
        return name
    # Of several ids that could be read from a name, only the one with this very name
    # counts.
    plain = name.replace("____", "/").replace("__", ".")
    if to_wire_name(plain) == name:
        return plain
    # A digest cannot be turned back, so the names of the known ids are compared; these
    # are cached.
    return next((text for text in known if to_wire_name(text) == name), None)
