"""Mentions of agents in other texts: `@server:agent://name`."""

from collections.abc import Callable, Iterator

from msgspec import Struct

from agent_resolver.catalog.errors import MalformedUri
from agent_resolver.catalog.uri import SCHEME, AgentUri, parse_uri
from agent_resolver.core.mention import find_mentions
from agent_resolver.schema.source import Lines


class Dangling(Struct, frozen=True):
    """A mention of an agent that is not there."""

    uri: str
    line: int
    column: int
    message: str


def dangling_mentions(text: str, has: Callable[[AgentUri], bool]) -> Iterator[Dangling]:
    """Every mention of an agent that does not exist, or not at that version, in the order of the text."""
    lines = Lines(text)
    for mention in find_mentions(text):
        uris = [SCHEME + name for name in mention.names]
        reasons = [_reason_against(uri, has) for uri in uris]
        if all(reasons):
            yield Dangling(uris[-1], *lines.place(mention.start), reasons[-1])


def _reason_against(uri: str, has: Callable[[AgentUri], bool]) -> str:
    """Why a mention leads nowhere, or nothing."""
    try:
        return "" if has(parse_uri(uri)) else f"No agent `{uri}`"
    except MalformedUri as error:
        return str(error)
