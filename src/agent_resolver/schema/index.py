"""The server index, `mcp.index.json`: a JSON array of what exists."""

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
