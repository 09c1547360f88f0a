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
    ToolScopes,
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
    """[The regions](resolution.md#residency) that the server promises to keep data in; may be empty."""
    max_sensitivity: Sensitivity | UnsetType = UNSET
    """The most sensitive data that the server may be given."""


class ServerTrust(Struct, frozen=True, kw_only=True, gc=False):
    """Who vouches for the server; what is left out is not known."""

    signed: bool | UnsetType = UNSET
    """True if the server is signed. The statement is not checked."""
    publisher: OptionalText | UnsetType = UNSET
    """The publisher of the server; may be empty. It has no part in the choice."""


class ServerPolicy(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """How the server asks to be used."""

    rate_limit_per_min: float | UnsetType = UNSET
    """The number of calls a minute, by [all processes together](governed-tools.md#what-a-call-goes-through). It has
    no part in the choice and is not in the lock."""


class Launch(Struct, frozen=True, kw_only=True, gc=False):
    """How to start a server that is run, not called."""

    command: Text
    """The program to start."""
    args: tuple[OptionalText, ...] = ()
    """Its arguments."""
    env: tuple[EnvironmentName, ...] = ()
    """The names of the environment variables that it needs; never their values."""
    transport: Transport = "stdio"
    """The protocol to talk to it with. `agent tools` talks to every server that it starts over stdio."""

    @property
    def endpoint(self) -> str:
        """What stands for the address of a server that has none, so that the hash of a lock covers the command."""
        return f"launch:{digest(self)}"


class IndexEntry(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """One server at one version, as the index file states it; a fact that is left out is not known."""

    id: Identifier
    """The id of the server; with the version, unique in the file."""
    version: Identifier | UnsetType = UNSET
    """Any string. A server without a version is locked as `unversioned`."""
    endpoint: Endpoint | UnsetType = UNSET
    """The address of the server, as a rule a URL; required unless there is a `launch`."""
    categories: tuple[Text, ...]
    """The categories that the server serves; may be empty."""
    scopes: tuple[Identifier, ...] | UnsetType = UNSET
    """The scopes that the server offers; may be empty. If left out, the scopes in `toolScopes` are offered."""
    data: ServerData | UnsetType = UNSET
    trust: ServerTrust | UnsetType = UNSET
    policy: ServerPolicy | UnsetType = UNSET
    launch: Launch | UnsetType = UNSET
    """[The command](file-formats.md#servers-that-are-started) of a server that is started, in place of
    `endpoint`."""
    tool_scopes: ToolScopes | UnsetType = UNSET
    """The scopes that open each tool: [tools and their scopes](file-formats.md#tools-and-their-scopes)."""

    name: Text | UnsetType = UNSET
    """For people: the name of the server where it was imported from, if it cannot be an id."""
    description: OptionalText | UnsetType = UNSET
    """For people: the purpose of the server."""
    transport: EndpointTransport | UnsetType = UNSET
    """The protocol that `endpoint` speaks; if left out, `streamable-http`, the only one that `agent tools`
    speaks."""
    status: Status | UnsetType = UNSET
    """The stage of its life; if left out, `active`. A deleted server is
    [not chosen](reason-codes.md#server_withdrawn)."""
    tools: dict[Text, Text] | UnsetType = UNSET
    """The digest of the definition of each tool, as `agent index probe` found it; copied into the lock."""
    drafted: tuple[Text, ...] | UnsetType = UNSET
    """The tools whose `toolScopes` a program drafted and no person confirmed."""
    source: Text | UnsetType = UNSET
    """For people: the kind of catalogue or client configuration that the entry was imported from."""


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


# One function: each line reads one field, and an index may have 100,000 entries, each of
# which would pay for every call that a split adds.
def server_of(entry: IndexEntry) -> Server:
    """The server that an entry of an index file states."""
    # Values that may be stated and be empty, zero or false, which is not the same as
    # not knowing: `or` would mix it up.
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
    # By position, in the order of the fields: an index may have 100,000 entries, and
    # keywords take longer.
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
    return tuple(
        sorted({scope for scopes in entry.tool_scopes.values() for scope in scopes})
    )


_NO_DATA: Final = ServerData()
_NO_TRUST: Final = ServerTrust()
_NO_POLICY: Final = ServerPolicy()
