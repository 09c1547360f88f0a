"""What the resolver knows of a server, wherever that came from."""

from collections.abc import Iterable, Mapping
from operator import attrgetter

from msgspec import UNSET, Struct

from agent_resolver.schema.index import Index, IndexEntry, Launch
from agent_resolver.schema.vocabulary import Residency, Sensitivity


class Server(Struct, frozen=True, gc=False):
    """One server at one version. A fact that nobody stated is None, which no constraint accepts."""

    id: str
    version: str
    endpoint: str
    categories: tuple[str, ...]
    scopes: tuple[str, ...]
    residency: tuple[Residency, ...] | None = None
    max_sensitivity: Sensitivity | None = None
    signed: bool | None = None
    publisher: str | None = None
    rate_limit_per_minute: float | None = None
    launch: Launch | None = None
    tool_scopes: Mapping[str, tuple[str, ...]] | None = None
    """Which scopes open a tool; None when nobody said."""

    def __str__(self) -> str:
        return f"{self.id}@{self.version}"


def servers_of(index: Index) -> tuple[Server, ...]:
    """The servers that an index file states."""
    return tuple(map(_server, index))


def _server(entry: IndexEntry) -> Server:
    data, trust = entry.data, entry.trust
    return Server(
        entry.id,
        entry.version,
        entry.endpoint or entry.launch.endpoint,  # type: ignore[union-attr]  # an entry has one of the two
        entry.categories,
        entry.scopes,
        data.residency,
        data.max_sensitivity,
        trust.signed,
        trust.publisher,
        None if not entry.policy or entry.policy.rate_limit_per_min is UNSET else entry.policy.rate_limit_per_min,
        entry.launch or None,
        entry.tool_scopes or None,
    )


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
