"""The server index, `mcp.index.json`, a list of what exists; and a server, whichever file it came from."""

from collections.abc import Mapping
from typing import Final

from msgspec import UNSET, Struct, UnsetType

from agent_resolver.schema.canonical_digest import digest
from agent_resolver.schema.source import BYTE_ORDER_MARK
from agent_resolver.schema.vocabulary import (
    Endpoint,
    EndpointTransport,
    EnvironmentName,
    Identifier,
    OptionalText,
    Residency,
    Sensitivity,
    Status,
    Text,
    Transport,
)

OVERLAY_NAME: Final = "mcp.overlay.yaml"
"""The name of the overlay of an index, which is in the same folder."""
UNVERSIONED: Final = "unversioned"
"""Takes the place of the version of a server whose index entry states none."""
_MOST_SPACE: Final = 4096
"""An object that begins with more white space than this is taken for an array, and refused."""


class ServerData(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """Where the server keeps data, and how sensitive that may be; what is left out is not known."""

    residency: tuple[Residency, ...] | UnsetType = UNSET
    max_sensitivity: Sensitivity | UnsetType = UNSET


class ServerTrust(Struct, frozen=True, kw_only=True, gc=False):
    """Who vouches for the server; what is left out is not known."""

    signed: bool | UnsetType = UNSET
    publisher: OptionalText | UnsetType = UNSET


class ServerPolicy(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """How the server asks to be used."""

    rate_limit_per_min: float | UnsetType = UNSET


class Launch(Struct, frozen=True, kw_only=True, gc=False):
    """How to start a server that is run, not called."""

    command: Text
    args: tuple[OptionalText, ...] = ()
    env: tuple[EnvironmentName, ...] = ()
    """Names of the environment variables it needs; never their values."""
    transport: Transport = "stdio"

    @property
    def endpoint(self) -> str:
        """What stands for the address of a server that has none, so that the hash of a lock covers the command."""
        return f"launch:{digest(self)}"


class IndexEntry(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """One server at one version, as the index file states it; a fact that is left out is not known."""

    id: Identifier
    version: Identifier | UnsetType = UNSET
    endpoint: Endpoint | UnsetType = UNSET
    """May be left out where `launch` is given."""
    categories: tuple[Text, ...]
    scopes: tuple[Identifier, ...] | UnsetType = UNSET
    data: ServerData | UnsetType = UNSET
    trust: ServerTrust | UnsetType = UNSET
    policy: ServerPolicy | UnsetType = UNSET
    launch: Launch | UnsetType = UNSET
    tool_scopes: dict[Text, tuple[Identifier, ...]] | UnsetType = UNSET
    """Which scopes open a tool."""

    name: Text | UnsetType = UNSET
    """The name that the server has where it was imported from, if it cannot be an id."""
    description: OptionalText | UnsetType = UNSET
    transport: EndpointTransport | UnsetType = UNSET
    """The protocol that `endpoint` speaks; Streamable HTTP if nothing is said."""
    status: Status | UnsetType = UNSET
    """The stage of its life; active if nothing is said."""
    tools: dict[Text, Text] | UnsetType = UNSET
    """The digest of the definition of each tool, as `agent index probe` found it."""
    drafted: tuple[Text, ...] | UnsetType = UNSET
    """The tools whose scopes were drafted from what the server says of itself, and confirmed by no person."""
    source: Text | UnsetType = UNSET
    """The kind of catalogue or client configuration that the entry was imported from."""


Index = tuple[IndexEntry, ...]
"""The servers of one index file, in its order."""


class IndexFile(Struct, frozen=True):
    """The other form of an index file: an object that holds the array."""

    servers: Index


def is_object(raw: bytes) -> bool:
    """True if the file is an object, which holds the servers under `servers`; else it is an array of them."""
    head = raw[:_MOST_SPACE].removeprefix(BYTE_ORDER_MARK.encode())
    return head.lstrip().startswith(b"{")


class Server(Struct, frozen=True, gc=False):
    """One server at one version. A fact that is not stated is None, which no constraint accepts."""

    id: str
    version: str
    endpoint: str
    """Empty for a server that is started: `address` has what a lock says in its place."""
    categories: tuple[str, ...]
    scopes: tuple[str, ...] | None
    residency: tuple[Residency, ...] | None = None
    max_sensitivity: Sensitivity | None = None
    signed: bool | None = None
    publisher: str | None = None
    rate_limit_per_minute: float | None = None
    launch: Launch | None = None
    tool_scopes: Mapping[str, tuple[str, ...]] | None = None
    """Which scopes open a tool; None if that is not known."""
    transport: EndpointTransport = "streamable-http"
    status: Status = "active"
    tools: Mapping[str, str] | None = None
    """The digest of the definition of each tool; None if they were never looked at."""
    drafted: tuple[str, ...] = ()
    """The tools whose scopes no person has confirmed."""

    @property
    def address(self) -> str:
        """The endpoint, or what stands for it; worked out when it is asked for, since few servers are chosen."""
        return self.endpoint or (self.launch.endpoint if self.launch else "")

    def __str__(self) -> str:
        return f"{self.id}@{self.version}"


def server_of(entry: IndexEntry) -> Server:
    """The server that an entry of an index file states."""
    # Values that may be stated and be empty, zero or false, which is not the same as not knowing: `or` would mix it up.
    scopes = _scopes_of_tools(entry) if entry.scopes is UNSET else entry.scopes
    tools = None if entry.tools is UNSET else entry.tools
    data = entry.data or _NO_DATA
    residency = None if data.residency is UNSET else data.residency
    trust = entry.trust or _NO_TRUST
    signed = None if trust.signed is UNSET else trust.signed
    publisher = None if trust.publisher is UNSET else trust.publisher
    policy = entry.policy or _NO_POLICY
    limit = None if policy.rate_limit_per_min is UNSET else policy.rate_limit_per_min
    # The others are never empty when they are stated, or mean the same when they are.
    version = entry.version or UNVERSIONED
    endpoint = entry.endpoint or ""
    max_sensitivity = data.max_sensitivity or None
    launch = entry.launch or None
    tool_scopes = entry.tool_scopes or None
    transport = entry.transport or "streamable-http"
    status = entry.status or "active"
    drafted = entry.drafted or ()
    # By position, in the order of the fields: an index may have 100,000 entries, and keywords take longer.
    return Server(
        entry.id,
        version,
        endpoint,
        entry.categories,
        scopes,
        residency,
        max_sensitivity,
        signed,
        publisher,
        limit,
        launch,
        tool_scopes,
        transport,
        status,
        tools,
        drafted,
    )


def _scopes_of_tools(entry: IndexEntry) -> tuple[str, ...] | None:
    """The scopes that open a tool of a server, which it must offer; None if that is not known either."""
    if entry.tool_scopes is UNSET:
        return None
    return tuple(sorted({scope for scopes in entry.tool_scopes.values() for scope in scopes}))


_NO_DATA: Final = ServerData()
_NO_TRUST: Final = ServerTrust()
_NO_POLICY: Final = ServerPolicy()
