"""The server index, `mcp.index.json`, a JSON array of what exists; and a server, whichever file it came from."""

from collections.abc import Mapping

from msgspec import UNSET, Struct, UnsetType

from agent_resolver.schema.canonical_digest import digest
from agent_resolver.schema.vocabulary import Endpoint, Identifier, OptionalText, Residency, Sensitivity, Text, Transport


class ServerData(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """Where the server keeps data, and how sensitive that may be."""

    residency: tuple[Residency, ...]
    max_sensitivity: Sensitivity


class ServerTrust(Struct, frozen=True, kw_only=True, gc=False):
    """Who vouches for the server."""

    signed: bool
    publisher: OptionalText


class ServerPolicy(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """How the server asks to be used."""

    rate_limit_per_min: float | UnsetType = UNSET


class Launch(Struct, frozen=True, kw_only=True, gc=False):
    """How to start a server that is run, not called."""

    command: Text
    args: tuple[OptionalText, ...] = ()
    env: tuple[Text, ...] = ()
    """Names of the environment variables it needs; never their values."""
    transport: Transport = "stdio"

    @property
    def endpoint(self) -> str:
        """What stands for the address of a server that has none, so that the hash of a lock covers the command."""
        return f"launch:{digest(self)}"


class IndexEntry(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """One server at one version, as the index file states it."""

    id: Identifier
    version: Identifier
    endpoint: Endpoint | UnsetType = UNSET
    """May be left out where `launch` is given."""
    categories: tuple[Text, ...]
    scopes: tuple[Identifier, ...]
    data: ServerData
    trust: ServerTrust
    policy: ServerPolicy | UnsetType = UNSET
    launch: Launch | UnsetType = UNSET
    tool_scopes: dict[Text, tuple[Identifier, ...]] | UnsetType = UNSET
    """Which scopes open a tool."""


Index = tuple[IndexEntry, ...]
"""The servers of one index file, in its order."""


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


def server_of(entry: IndexEntry) -> Server:
    """The server that an entry of an index file states."""
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
