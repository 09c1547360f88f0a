"""Lock entries, and the hashes over them."""

from collections.abc import Mapping

from msgspec import UNSET, UnsetType, structs

from agent_resolver.schema.agent_file import Requirement
from agent_resolver.schema.canonical_digest import digest, hexdigest
from agent_resolver.schema.index import Server
from agent_resolver.schema.lockfile import LockedServer


def server_hash(
    server_id: str,
    version: str,
    endpoint: str,
    scopes: tuple[str, ...],
) -> str:
    """SHA-256 over what a lock entry pins, in hexadecimal; the scopes are sorted first."""
    # The specification fixes this text. Ids, versions and scopes hold none of its
    # separators, so no two share it.
    pinned = f"{server_id}@{version}|{endpoint}|{','.join(sorted(scopes))}"
    return hexdigest(pinned.encode())


def lock_entry(requirement: Requirement, server: Server) -> LockedServer:
    """The entry that pins `server` for `requirement`."""
    address = server.address
    # Keys that the first format does not have are left out where they say nothing, so
    # that its locks keep their bytes.
    tool_scopes = _in_order(server.tool_scopes) if server.tool_scopes else UNSET
    transport = server.transport if server.transport != "streamable-http" else UNSET
    tools: dict[str, str] | UnsetType = UNSET
    if server.tools is not None:
        tools = dict(sorted(server.tools.items()))
    entry = LockedServer(
        category=requirement.category,
        server_id=server.id,
        version=server.version,
        endpoint=address,
        scopes=requirement.permissions,
        hash=server_hash(server.id, server.version, address, requirement.permissions),
        launch=server.launch or UNSET,
        tool_scopes=tool_scopes,
        transport=transport,
        tools=tools,
    )
    return structs.replace(entry, integrity=integrity_of(entry))


def integrity_of(entry: LockedServer) -> str | UnsetType:
    """The digest of all that an entry says, where it says more than its hash covers."""
    bare = structs.replace(entry, integrity=UNSET)
    further = (bare.launch, bare.tool_scopes, bare.transport, bare.tools)
    if all(value is UNSET for value in further):
        return UNSET
    return digest(bare)


def _in_order(tool_scopes: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    return {tool: tuple(sorted(scopes)) for tool, scopes in sorted(tool_scopes.items())}


def called_at(entry: LockedServer) -> str:
    """The endpoint of a server, with the protocol that it speaks where that is not Streamable HTTP."""
    return (
        f"{entry.endpoint} over {entry.transport}"
        if entry.transport
        else entry.endpoint
    )


def address(entry: LockedServer) -> str:
    """The address of a server, or the command that starts it with the variables that it is given."""
    import shlex  # Slow to import, and rarely needed.

    launch = entry.launch
    if launch is UNSET:
        return called_at(entry)
    names = f" with {', '.join(launch.env)}" if launch.env else ""
    return (
        f"{shlex.join((launch.command, *launch.args))}{names} over {launch.transport}"
    )
