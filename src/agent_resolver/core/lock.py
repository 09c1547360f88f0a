"""What a lock entry holds, and the hashes over it."""

from collections.abc import Mapping
from hashlib import sha256

from msgspec import UNSET, structs

from agent_resolver.core.server import Server
from agent_resolver.schema import LockedServer, Requirement, digest


def server_hash(server_id: str, version: str, endpoint: str, scopes: tuple[str, ...]) -> str:
    """SHA-256 over what a lock entry pins, in hexadecimal; the scopes are sorted first."""
    return sha256(f"{server_id}@{version}|{endpoint}|{','.join(sorted(scopes))}".encode()).hexdigest()


def lock_entry(requirement: Requirement, server: Server) -> LockedServer:
    """The entry that pins `server` for `requirement`."""
    entry = LockedServer(
        category=requirement.category,
        server_id=server.id,
        version=server.version,
        endpoint=server.endpoint,
        scopes=requirement.permissions,
        hash=server_hash(server.id, server.version, server.endpoint, requirement.permissions),
        launch=server.launch or UNSET,
        tool_scopes=_in_order(server.tool_scopes) if server.tool_scopes else UNSET,
    )
    uses_more = entry.launch is not UNSET or entry.tool_scopes is not UNSET
    return structs.replace(entry, integrity=digest(entry)) if uses_more else entry


def _in_order(tool_scopes: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    return {tool: tuple(sorted(scopes)) for tool, scopes in sorted(tool_scopes.items())}
