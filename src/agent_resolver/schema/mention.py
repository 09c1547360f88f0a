"""Mentions of agents in texts: `@server:agent://name`."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

_MENTION: Final = re.compile(r"@[\w.-]+:(?P<address>agent://[^\s<>\"'`)\]}|]*)")
_OPENING: Final = re.compile(r"@[\w.-]+:(?=agent://)")
_TRAILING: Final = ".,;:!?"
_EMPHASIS: Final = f"{_TRAILING}*_~"


class Mention(Struct, frozen=True):
    """One mention of an agent."""

    offset: int
    """Where it begins in its text."""
    address: str
    """The address without the punctuation that follows it in a sentence."""

    @property
    def spellings(self) -> tuple[str, str]:
        """The addresses that it may mean, in the order in which they are tried.

        What ends emphasis may end a name too, so the name comes first.
        """
        return self.address, self.address.rstrip(_EMPHASIS)


def find_mentions(text: str) -> Iterator[Mention]:
    """Every mention of a text, in its order."""
    for found in _MENTION.finditer(text):
        yield Mention(found.start(), found["address"].rstrip(_TRAILING))


def without_mentions(text: str, names: Mapping[str, str]) -> str:
    """The text without any mention, so that whatever reads it next brings in no agent.

    A mention of one of the addresses in `names` becomes the plain name that it is mapped to. Any other, such as one in
    the answer of a model, gets a space behind its colon.
    """

    def plain_name(found: re.Match[str]) -> str:
        address: str = found["address"]
        for spelling in Mention(0, address.rstrip(_TRAILING)).spellings:
            if spelling in names:
                return names[spelling] + address[len(spelling) :]
        return found[0]

    # The first pass could join two halves of a mention. The second leaves none: what it inserts separates each
    # `@server:` from the `agent://` behind it, and it removes nothing.
    return _OPENING.sub(r"\g<0> ", _MENTION.sub(plain_name, text))
