"""The servers to choose from, behind one small port: a list in memory, or a file of any size."""

from collections.abc import Collection, Iterable, Iterator
from functools import cached_property
from operator import attrgetter
from typing import Protocol, TypeGuard, cast

from msgspec import Struct

from agent_resolver.core.rule import distance, eligible, judge, preference
from agent_resolver.schema.agent_file import Limits, Requirement
from agent_resolver.schema.explanation import RejectionCode
from agent_resolver.schema.index import Index, Server, server_of

ServerKey = tuple[str, str]
"""The id and the version of a server, which no two servers of an index share."""


class RejectedServers(Struct):
    """The servers of a category that are rejected for one reason."""

    code: RejectionCode
    total: int
    first: list[Server]
    """As many of them as were asked for, by id, then version."""


class Offering(Protocol):
    """The servers that offer one category."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Server]:
        """Every server, by id, then version."""

    @property
    def scopes(self) -> Collection[str]:
        """Every scope that one of the servers offers."""

    def passing(self, requirement: Requirement, limits: Limits) -> Iterator[Server]:
        """The servers that break no rule, by preference; what is not asked for is not looked up."""

    def closest(
        self,
        requirement: Requirement,
        limits: Limits,
        most: int,
    ) -> list[Server]:
        """The servers that break the fewest rules and lack the fewest scopes, the closest first."""

    def rejected(
        self,
        requirement: Requirement,
        limits: Limits,
        most: int,
    ) -> list[RejectedServers]:
        """The servers that break a rule, by the first that they break, in the order in which the rules come up."""


class KnownServers(Protocol):
    """Servers that are looked up by id and version."""

    def get(self, key: ServerKey, /) -> Server | None:
        """The server with this id and version; None if there is none."""


class Servers(KnownServers, Protocol):
    """The servers to choose from, which many agent files may share."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Server]:
        """Every server, by id, then version."""

    @property
    def categories(self) -> Collection[str]:
        """Every category that a server offers, in order."""

    def offering(self, category: str) -> Offering:
        """The servers that offer `category`."""

    def passing(self, requirement: Requirement, limits: Limits) -> Iterator[Server]:
        """The servers that may be chosen for a requirement, by preference."""

    def first_passing(
        self,
        requirement: Requirement,
        limits: Limits,
    ) -> tuple[Server | None, bool]:
        """The first of them, or None, and whether there is no other: the others are not read to tell."""

    def named(self, word: str) -> list[Server]:
        """The servers whose id is `word`, or whose id and version are, as `id@version`."""

    def categories_of(
        self,
        scopes: Collection[str],
        most: int,
    ) -> dict[str, tuple[str, ...]]:
        """The first categories, in order, whose servers offer each of these scopes; none for one that none offers."""

    def position(self, server: Server) -> int:
        """The place of a server in the index, counted from 0."""


class ListedOffering(Struct, frozen=True):
    """The servers in memory that offer one category."""

    servers: list[Server]
    """By id, then version; in any order where only `passing` is asked for."""

    def __len__(self) -> int:
        return len(self.servers)

    def __iter__(self) -> Iterator[Server]:
        return iter(self.servers)

    @property
    def scopes(self) -> Collection[str]:
        """Every scope that one of the servers offers."""
        return {scope for server in self.servers for scope in server.scopes or ()}

    def passing(self, requirement: Requirement, limits: Limits) -> Iterator[Server]:
        """The servers that break no rule, by preference."""
        return iter(sorted(eligible(requirement, limits, self.servers), key=preference))

    def closest(
        self,
        requirement: Requirement,
        limits: Limits,
        most: int,
    ) -> list[Server]:
        """The servers that break the fewest rules and lack the fewest scopes, the closest first."""
        from heapq import nsmallest  # Needed for failures alone.

        count = distance(requirement, limits)
        return nsmallest(
            most,
            self.servers,
            key=lambda server: (*count(server), preference(server)),
        )

    def rejected(
        self,
        requirement: Requirement,
        limits: Limits,
        most: int,
    ) -> list[RejectedServers]:
        """The servers that break a rule, by the first that they break."""
        first_broken = judge(requirement, limits)
        found: dict[RejectionCode, RejectedServers] = {}
        # A reason comes where its first server does; servers come by id, so the order
        # is the same in every process.
        for server in self.servers:
            reason = first_broken(server)
            if reason is None:
                continue
            rejected = found.setdefault(
                reason.code, RejectedServers(reason.code, 0, [])
            )
            rejected.total += 1
            if rejected.total <= most:
                rejected.first.append(server)
        return list(found.values())


class ServerPool(Struct, frozen=True, dict=True):
    """Servers in memory, in the order of their index."""

    servers: tuple[Server, ...]
    wanted: frozenset[str] | None = None
    """The categories that choices will be made for, where that is known: the others need not be grouped for it."""

    def __len__(self) -> int:
        return len(self.servers)

    def __iter__(self) -> Iterator[Server]:
        return iter(self._ordered)

    @property
    def categories(self) -> Collection[str]:
        """Every category that a server offers, in order."""
        return self._offers.keys()

    def offering(self, category: str) -> Offering:
        """The servers that offer `category`."""
        return ListedOffering(self._offers.get(category, []))

    def passing(self, requirement: Requirement, limits: Limits) -> Iterator[Server]:
        """The servers that may be chosen for a requirement, by preference."""
        if self.wanted is None or requirement.category not in self.wanted:
            return self.offering(requirement.category).passing(requirement, limits)
        # The groups are not sorted, unlike `_offers`: `passing` sorts the few that are
        # left.
        return ListedOffering(self._unsorted[requirement.category]).passing(
            requirement, limits
        )

    def first_passing(
        self,
        requirement: Requirement,
        limits: Limits,
    ) -> tuple[Server | None, bool]:
        """The first server that may be chosen, or None, and whether there is no other."""
        passing = self.passing(requirement, limits)
        first = next(passing, None)
        return first, first is not None and next(passing, None) is None

    def get(self, key: ServerKey) -> Server | None:
        """The server with this id and version; None if there is none."""
        return self._by_key.get(key)

    def named(self, word: str) -> list[Server]:
        """The servers whose id is `word`, or whose id and version are."""
        return [server for server in self.servers if word in {server.id, str(server)}]

    def categories_of(
        self,
        scopes: Collection[str],
        most: int,
    ) -> dict[str, tuple[str, ...]]:
        """The first categories, in order, whose servers offer each of these scopes."""
        wanted = set(scopes)
        found: dict[str, set[str]] = {}
        for server in self.servers:
            for scope in wanted.intersection(server.scopes or ()):
                found.setdefault(scope, set()).update(server.categories)
        # A server may offer a scope and no category.
        return {
            scope: tuple(sorted(categories)[:most])
            for scope, categories in found.items()
            if categories
        }

    def position(self, server: Server) -> int:
        """The place of a server in the index, counted from 0."""
        return self._positions[server.id, server.version]

    @cached_property
    def _ordered(self) -> list[Server]:
        return in_order(self.servers)

    @cached_property
    def _offers(self) -> dict[str, list[Server]]:
        return by_category(self.servers)

    @cached_property
    def _unsorted(self) -> dict[str, list[Server]]:
        wanted = self.wanted or frozenset()
        found: dict[str, list[Server]] = {category: [] for category in wanted}
        for server in self.servers:
            for category in wanted.intersection(server.categories):
                found[category].append(server)
        return found

    @cached_property
    def _by_key(self) -> dict[ServerKey, Server]:
        return {(server.id, server.version): server for server in self.servers}

    @cached_property
    def _positions(self) -> dict[ServerKey, int]:
        return {
            (server.id, server.version): position
            for position, server in enumerate(self.servers)
        }


def pool_of(servers: Iterable[Server], wanted: frozenset[str] | None = None) -> Servers:
    """Servers to choose from: as they are, or a list of them in memory."""
    if _is_pool(servers):
        return servers
    return ServerPool(tuple(servers), wanted)


def known_servers(servers: KnownServers | Iterable[Server]) -> KnownServers:
    """Servers by id and version: as they are, or a list of them in memory."""
    if _is_known(servers):
        return servers
    return ServerPool(tuple(cast("Iterable[Server]", servers)))


# Asked of the class: to ask a pool itself for its categories would have it read them.
def _is_pool(servers: object) -> TypeGuard[Servers]:
    return hasattr(type(servers), "offering")


def _is_known(servers: object) -> TypeGuard[KnownServers]:
    return hasattr(type(servers), "get")


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
        # An entry may list a category twice, and counts once.
        for category in dict.fromkeys(server.categories):
            grouped.setdefault(category, []).append(server)
    return dict(sorted(grouped.items()))
