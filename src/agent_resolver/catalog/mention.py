"""Mentions of agents in other texts: `@server:agent://name`."""

import re
from collections.abc import Callable, Iterator

from msgspec import Struct

from agent_resolver.catalog.errors import MalformedUri
from agent_resolver.catalog.uri import AgentUri, parse_uri
from agent_resolver.schema.source import Lines

_MENTION = re.compile(r"@[\w.-]+:(agent://[^\s<>\"'`)\]}|]*)")
_TRAILING = ".,;:!?"
_EMPHASIS = f"{_TRAILING}*_~"


class Dangling(Struct, frozen=True):
    """A mention of an agent that is not there."""

    uri: str
    line: int
    column: int
    message: str


def dangling_mentions(text: str, has: Callable[[AgentUri], bool]) -> Iterator[Dangling]:
    """Every mention of an agent that does not exist, or not at that version, in the order of the text."""
    lines = Lines(text)
    for found in _MENTION.finditer(text):
        uri = found.group(1).rstrip(_TRAILING)
        # What ends emphasis may end a name too, so the name comes first.
        plainer = uri.rstrip(_EMPHASIS)
        if _reason_against(uri, has) and (reason := _reason_against(plainer, has)):
            yield Dangling(plainer, *lines.place(found.start()), reason)


def _reason_against(uri: str, has: Callable[[AgentUri], bool]) -> str:
    """Why a mention leads nowhere, or nothing."""
    try:
        return "" if has(parse_uri(uri)) else f"No agent `{uri}`"
    except MalformedUri as error:
        return str(error)
