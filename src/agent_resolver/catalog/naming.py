"""Gives each agent an address, also where several have one name."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Final

from msgspec import Struct

from agent_resolver.catalog.reader import refused_name
from agent_resolver.catalog.uri import MAX_LENGTH, agent_uri

_LONGEST: Final = MAX_LENGTH * 3 // 4
"""The longest address that leaves room for a question."""


class Named(Struct, frozen=True):
    """An agent file that wants an address."""

    file: int
    root: int
    path: str
    """Below its root, with `/` between the parts."""
    name: str


class Address(Struct, frozen=True):
    """The address under which an agent is listed, and the other one under which it is found."""

    file: int
    name: str
    uri: str
    also: str | None = None
    """The longer address, for the first of several agents of one name."""
    clashes_with: int | None = None
    """The file that has the short address, for every further one."""


def addresses(agents: Iterable[Named], roots: Sequence[str]) -> list[Address]:
    """The address of each agent, sorted by name and address.

    The first of a name, by root and then by path, is `agent://name`. Where there are several, each is also
    `agent://<folder>/<name>`, with as many folders as it takes to tell them apart, and no more; where they share the
    folder, the name of the file stands for it.
    """
    by_name: dict[str, list[Named]] = {}
    for agent in sorted(agents, key=lambda agent: (agent.root, agent.path)):
        by_name.setdefault(agent.name, []).append(agent)
    found: list[Address] = []
    for same in by_name.values():
        found += _addresses_of_one_name(same, roots)
    return sorted(found, key=lambda address: (address.name, address.uri))


def _addresses_of_one_name(
    same: list[Named], roots: Sequence[str]
) -> Iterator[Address]:
    """The addresses of all agents that have one name; the first agent has the short one."""
    first, *further = same
    short = agent_uri(first.name)
    if not further:
        yield Address(first.file, first.name, short)
        return
    places = [_place_of(agent, roots) for agent in same]
    longer, *others = _distinct_addresses(first.name, places)
    yield Address(first.file, first.name, short, also=longer)
    for agent, uri in zip(further, others, strict=True):
        yield Address(agent.file, agent.name, uri, clashes_with=first.file)


def _place_of(agent: Named, roots: Sequence[str]) -> tuple[str, ...]:
    """The folders of a file, from the top of the disk down, and its own name."""
    root = roots[agent.root].replace("\\", "/").split("/")
    path = agent.path.split("/")
    # A root that is a file ends with the name that the path repeats.
    if root[-1:] == path:
        root.pop()
    return tuple(part for part in (*root, *path) if part not in {"", ".", ".."})


def _distinct_addresses(name: str, places: list[tuple[str, ...]]) -> list[str]:
    """For each place the first of its possible addresses that no other place has."""
    offered = [dict.fromkeys(_possible_names(name, place)) for place in places]
    count: Counter[str] = Counter()
    for uris in offered:
        count.update(uris.keys())
    return [next(uri for uri in uris if count[uri] == 1) for uris in offered]


def _possible_names(name: str, place: tuple[str, ...]) -> Iterator[str]:
    """The addresses that a file could have, the nicest first."""
    for parts in (place[:-1], place):
        for count in range(1, len(parts) + 1):
            if refused_name(parts[-count]):
                break
            uri = agent_uri(*parts[-count:], name)
            if len(uri) <= _LONGEST:
                yield uri
    # Some folders fit into no address.
    whole = "/".join(place).encode(errors="surrogateescape")
    yield agent_uri(sha256(whole).hexdigest()[:16], name)
