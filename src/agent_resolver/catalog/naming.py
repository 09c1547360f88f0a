"""Which address each agent has, where two may have one name."""

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
    """Where an agent is listed, and where else it is found."""

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
    found = [
        address for same in by_name.values() for address in _of_one_name(same, roots)
    ]
    return sorted(found, key=lambda address: (address.name, address.uri))


def _of_one_name(same: list[Named], roots: Sequence[str]) -> list[Address]:
    first = same[0]
    short = agent_uri(first.name)
    if len(same) == 1:
        return [Address(first.file, first.name, short)]
    uris = _told_apart(first.name, [_place_of(agent, roots) for agent in same])
    return [
        Address(first.file, first.name, short, also=uris[0]),
        *(
            Address(agent.file, agent.name, uri, None, first.file)
            for agent, uri in zip(same[1:], uris[1:], strict=True)
        ),
    ]


def _place_of(agent: Named, roots: Sequence[str]) -> tuple[str, ...]:
    """The folders of a file, from the top of the disk down, and its own name."""
    root, parts = roots[agent.root].replace("\\", "/").split("/"), agent.path.split("/")
    # A root that is a file ends with the name that the path repeats.
    above = root[:-1] if root[-1:] == parts else root
    return tuple(part for part in (*above, *parts) if part not in {"", ".", ".."})


def _told_apart(name: str, places: list[tuple[str, ...]]) -> list[str]:
    """For each place the first of its addresses that is no other's."""
    offered = [list(dict.fromkeys(_possible_names(name, place))) for place in places]
    count = Counter(uri for uris in offered for uri in uris)
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
    # Folders that no address can hold.
    yield agent_uri(
        sha256("/".join(place).encode(errors="surrogateescape")).hexdigest()[:16], name
    )
