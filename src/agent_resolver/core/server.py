"""Servers in the orders and groups that decisions use."""

from collections.abc import Iterable
from functools import cached_property
from operator import attrgetter

from msgspec import Struct

from agent_resolver.schema.index import Index, Server, server_of


class ServerPool(Struct, frozen=True, dict=True):
    """The servers to choose from, which many agent files may share."""

    servers: tuple[Server, ...]

    @cached_property
    def offers(self) -> dict[str, list[Server]]:
        """The servers that offer each category, both in order; grouped when this is first asked for, and only then."""
        return by_category(self.servers)

    def offering(self, category: str) -> list[Server]:
        """The servers that offer `category`, in order."""
        return self.offers.get(category, [])


def servers_of(index: Index) -> tuple[Server, ...]:
    """The servers that an index file states."""
    return tuple(map(server_of, index))


def in_order(servers: Iterable[Server]) -> list[Server]:
    """Servers by id, then version."""
    return sorted(servers, key=attrgetter("id", "version"))


def by_category(servers: Iterable[Server]) -> dict[str, list[Server]]:
    """The servers that offer each category, both in order."""
    grouped: dict[str, list[Server]] = {}
    for server in in_order(servers):
        for category in dict.fromkeys(server.categories):
            grouped.setdefault(category, []).append(server)
    return dict(sorted(grouped.items()))
