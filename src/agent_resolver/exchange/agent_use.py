"""Finds the MCP servers and tools that an agent file of a client names."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from agent_resolver.exchange.proposed_requirement import Certainty

_INLINE_KEYS: Final = ("mcp-servers", "mcpServers", "mcp_servers")
_QUALIFIED: Final = re.compile(r"(?<![\w-])mcp__[A-Za-z0-9-]+(?:_{1,2}[A-Za-z0-9*-]+)*")
"""`mcp__server__tool`, as Claude Code and others spell a tool of a server."""
_SLASHED: Final = re.compile(r"(?P<server>[^\s/()*]+)/(?P<tool>[^\s/()]+)")
"""`server/tool`, as VS Code and GitHub Copilot spell it, and also their own groups of tools."""
_UNFIT: Final = re.compile(r"[^A-Za-z0-9_-]")
_ALL: Final = "*"
_MOST: Final = 10_000


class ServerMention(Struct, frozen=True):
    """A server that an agent file names."""

    name: str
    """The id of a known server, else the name in the file."""
    tool: str
    """The tool that is named; empty for every tool."""
    certainty: Certainty
    is_known: bool


class KnownNames:
    """The servers of an index, under every spelling that clients have for them."""

    def __init__(self, servers: Iterable[tuple[str, str]]) -> None:
        """From pairs of a name in its source and the id."""
        self._ids: dict[str, str] = {}
        for name, server_id in servers:
            for spelling in (name, server_id, _UNFIT.sub("_", name)):
                self._ids.setdefault(spelling, server_id)

    def find(self, name: str) -> str | None:
        """The id of a server; None if there is none of this name."""
        return self._ids.get(name)


def inline_servers(front_matter: Mapping[str, Any]) -> dict[str, Any]:
    """The servers that an agent file configures itself, as a client configuration has them."""
    found: dict[str, Any] = {}
    for key in _INLINE_KEYS:
        listed = front_matter.get(key)
        parts = listed if isinstance(listed, list) else [listed]
        for part in parts:
            if isinstance(part, dict):
                found.update(
                    {
                        str(name): config
                        for name, config in part.items()
                        if isinstance(config, dict)
                    }
                )
    return found


def server_mentions(
    tools: Sequence[str],
    front_matter: Mapping[str, Any],
    body: str,
    known: KnownNames,
) -> list[ServerMention]:
    """Every server that a file names, each with a tool or with all; the most certain mention of each comes first.

    Args:
        tools: Its list of tools.
        front_matter: Its front matter.
        body: The text below.
        known: The servers that there are.
    """
    mentions: list[ServerMention] = []
    for tool in tools[:_MOST]:
        mentions += _from_tool(tool, known)
    for name in _named_servers(front_matter):
        mentions.append(_mention(name, "", "stated", known))
    qualified = list(dict.fromkeys(_QUALIFIED.findall(body)))
    for word in qualified[:_MOST]:
        mentions.append(_from_qualified(word, "derived", known))
    found: dict[tuple[str, str], ServerMention] = {}
    for mention in mentions:
        found.setdefault((mention.name, mention.tool), mention)
    return _without_repeated_servers(found.values())


def _without_repeated_servers(mentions: Iterable[ServerMention]) -> list[ServerMention]:
    """A server that is named as a whole and by its tools: the tools say what is needed of it."""
    ordered = list(mentions)
    with_tools = {mention.name for mention in ordered if mention.tool}
    return [
        mention for mention in ordered if mention.tool or mention.name not in with_tools
    ]


def _named_servers(front_matter: Mapping[str, Any]) -> Iterator[str]:
    yield from inline_servers(front_matter)
    for key in _INLINE_KEYS:
        listed = front_matter.get(key)
        if isinstance(listed, list):
            yield from (item for item in listed if isinstance(item, str))


def _from_tool(tool: str, known: KnownNames) -> Iterator[ServerMention]:
    if _QUALIFIED.fullmatch(tool):
        yield _from_qualified(tool, "stated", known)
    elif found := _SLASHED.fullmatch(tool):
        # Clients spell their own groups of tools in the same way.
        is_known = known.find(found["server"]) is not None
        yield _mention(
            found["server"], found["tool"], "stated" if is_known else "guessed", known
        )
    elif known.find(tool) is not None:
        yield _mention(tool, "", "derived", known)


def _from_qualified(
    word: str, certainty: Certainty, known: KnownNames
) -> ServerMention:
    """The server and the tool of `mcp__server__tool`; where both may hold `__`, the longest known server."""
    parts = word.removeprefix("mcp__").split("__")
    for count in range(len(parts), 0, -1):
        if known.find("__".join(parts[:count])) is not None:
            return _mention(
                "__".join(parts[:count]), "__".join(parts[count:]), certainty, known
            )
    return _mention(parts[0], "__".join(parts[1:]), certainty, known)


def _mention(
    name: str,
    tool: str,
    certainty: Certainty,
    known: KnownNames,
) -> ServerMention:
    server_id = known.find(name)
    return ServerMention(
        server_id or name,
        "" if tool == _ALL else tool,
        certainty,
        server_id is not None,
    )
