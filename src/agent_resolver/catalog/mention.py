"""The agents that texts mention, and mentions that lead nowhere."""

from collections.abc import Callable, Iterator

from msgspec import Struct

from agent_resolver.catalog.errors import MalformedUri, UnknownAgent
from agent_resolver.catalog.uri import AgentUri, parse_uri
from agent_resolver.schema.mention import Mention, find_mentions
from agent_resolver.schema.source import Lines


class Mentioned(Struct, frozen=True):
    """An agent that a mention leads to."""

    address: str
    """The address as the text spells it."""
    uri: AgentUri


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
        found = follow_mention(mention, has)
        if not isinstance(found, Mentioned):
            yield Dangling(
                mention.spellings[-1], *lines.place(mention.start), str(found)
            )


def follow_mention(
    mention: Mention, has: Callable[[AgentUri], bool]
) -> Mentioned | MalformedUri | UnknownAgent:
    """The agent that a mention leads to, or the reason why it leads nowhere."""
    tried = [_look_up(address, has) for address in mention.spellings]
    found = (each for each in tried if isinstance(each, Mentioned))
    return next(found, tried[-1])


def _look_up(
    address: str, has: Callable[[AgentUri], bool]
) -> Mentioned | MalformedUri | UnknownAgent:
    try:
        uri = parse_uri(address)
    except MalformedUri as error:
        return error
    if has(uri):
        return Mentioned(address, uri)
    return UnknownAgent(address)
