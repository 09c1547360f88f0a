"""Text for lists and tables, where there is room for its beginning alone."""

from typing import Final

_ELLIPSIS: Final = "…"


def shorten(text: str, limit: int) -> str:
    """The text on one line: whole if it fits into `limit` characters, else cut after a word and ended with `…`.

    A first word that does not fit is cut itself. The limit is at least 1.
    """
    line = " ".join(text.split())
    if len(line) <= limit:
        return line
    room = limit - len(_ELLIPSIS)
    # The character after the room says whether the last word in it is whole.
    words, _, _ = line[: room + 1].rpartition(" ")
    return (words or line[:room]) + _ELLIPSIS
