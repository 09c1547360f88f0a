"""Rewrites mentions of agents that a client loads itself to the address under which they are served."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final

from msgspec import Struct

from agent_resolver.catalog.uri import agent_uri
from agent_resolver.schema.mention import code_spans
from agent_resolver.schema.source import Lines

_AT: Final = r"(?<![\w@./:+-])@(?P<prefix>agent-)?(?P<name>{})(?![\w@:/+-]|\.\w)"
_PROSE: Final = r"\b(?:the|an?) [`\"*]*(?P<name>{})[`\"*]* (?:sub-?)?agent\b"


class LeftMention(Struct, frozen=True):
    """A mention that may mean an agent, and was left as it is."""

    path: str
    line: int
    column: int
    text: str
    why: str


class Rewriting(Struct, frozen=True):
    """A text with new mentions."""

    text: str
    count: int
    left: tuple[LeftMention, ...]


class Moved(Struct, frozen=True):
    """The agents that moved, by name."""

    server: str
    """The name of the server in the client's configuration."""
    uris: Mapping[str, str]
    unclear: Collection[str] = ()
    """Names that mean something else as well."""


def moved_agents(
    server: str, names: Collection[str], others: Collection[str] = ()
) -> Moved:
    """The mentions of agents with these names.

    Args:
        server: The name of the server in the client's configuration.
        names: The names of the agents that moved, repeated where several share one.
        others: What else such a mention may mean, such as the name of a file.
    """
    listed = list(names)
    # `@agent-x` is how Claude Code mentions the agent x, and the mention of an agent
    # that is called agent-x.
    doubled = {name for name in listed if listed.count(name) > 1 or name in others}
    doubled |= {
        name
        for name in listed
        if f"agent-{name}" in listed
        or name.removeprefix("agent-") in set(listed) - {name}
    }
    return Moved(server, {name: agent_uri(name) for name in listed}, frozenset(doubled))


def rewrite_mentions(text: str, path: str, moved: Moved) -> Rewriting:
    """The text with `@server:agent://name` for each exact `@name` or `@agent-name`.

    Only a mention that cannot mean anything else is rewritten: not in code, not where the name is also that of a file,
    and not the words "the name agent".
    """
    if not moved.uris:
        return Rewriting(text, 0, ())
    # The longest name first: `@code-reviewer` is not `@code`.
    longest_first = sorted(moved.uris, key=lambda name: (-len(name), name))
    names = "|".join(map(re.escape, longest_first))
    code = list(code_spans(text))
    lines = Lines(text)
    left: list[LeftMention] = []
    count = 0

    def leave(found: re.Match[str], why: str) -> str:
        left.append(mention_left(found, why))
        return found[0]

    def mention_left(found: re.Match[str], why: str) -> LeftMention:
        line, column = lines.place(found.start())
        return LeftMention(path, line, column, found[0], why)

    def rewrite(found: re.Match[str]) -> str:
        nonlocal count
        if found["name"] in moved.unclear:
            return leave(found, "the name may mean something else")
        if any(start <= found.start() < end for start, end in code):
            return leave(found, "it is in code")
        count += 1
        return f"@{moved.server}:{moved.uris[found['name']]}"

    changed = re.sub(_AT.format(names), rewrite, text)
    left += _in_prose(text, names, lambda found: mention_left(found, "it is prose"))
    ordered = sorted(left, key=lambda each: (each.line, each.column))
    return Rewriting(changed, count, tuple(ordered))


def _in_prose(
    text: str, names: str, describe: Callable[[re.Match[str]], LeftMention]
) -> Iterator[LeftMention]:
    for found in re.finditer(_PROSE.format(names), text, re.IGNORECASE):
        yield describe(found)
