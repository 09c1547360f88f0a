"""The tools of a project's agent, ready to be called."""

import os
import secrets
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TextIO

from msgspec import Struct

from agent_resolver.core.admission import grants_of
from agent_resolver.core.constraint import limits_of
from agent_resolver.project.adapter import SystemClock
from agent_resolver.project.config import ServerAccess
from agent_resolver.project.errors import LockRefused, UntrustedFolder
from agent_resolver.project.exposure import why_trust_is_needed
from agent_resolver.project.project import Project
from agent_resolver.registry.locked import LockedServers, ServerUse
from agent_resolver.registry.registry import ToolRegistry
from agent_resolver.registry.tool import CallContext
from agent_resolver.registry.transport import Credentials, Surroundings

_CONNECT_SECONDS = 20.0


class OpenTools(Struct, frozen=True):
    """A registry that is open, and the run that uses it."""

    registry: ToolRegistry
    servers: LockedServers
    context: CallContext


@asynccontextmanager
async def open_tools(
    project: Project, *, caller: str, for_tool: str | None = None, seconds: float = 60.0, verbose: bool = False
) -> AsyncIterator[OpenTools]:
    """Verify the lock, connect its servers, and close them again; only the server of `for_tool` if one is named."""
    run = secrets.token_hex(16)
    project.agent  # noqa: B018 - without one there is nothing to govern, and no state to keep
    ports = project.ports
    try:
        lockfile = project.lockfile
        if why := why_trust_is_needed(project):
            project.require_trust(why)
    except LockRefused as refused:
        kinds = sorted({difference.kind.value for difference in refused.differences})
        await ports.append(run, "lock.refused", {"reason": str(refused), "differences": kinds})
        raise
    except UntrustedFolder as refused:
        await ports.append(run, "folder.refused", {"reason": str(refused)})
        raise
    uses = _uses(project)
    hashes = [entry.hash for entry in lockfile.servers]
    await ports.append(run, "lock.verified", {"agent": lockfile.agent_name, "hashes": hashes})
    registry = ToolRegistry(trail=ports, pending=ports, rate=ports, clock=SystemClock())
    with _errors(verbose=verbose) as errors:
        around = Surroundings(
            folder=project.folder,
            environment=project.environment,
            errors=errors,
            connect_seconds=min(seconds, _CONNECT_SECONDS),
            call_seconds=seconds,
        )
        servers = LockedServers(uses, registry, ports, around)
        owner = servers.owner_of(for_tool) if for_tool else None
        try:
            await servers.connect(run, None if for_tool is None else [owner] if owner else [])
            yield OpenTools(registry, servers, CallContext(run=run, trace_id=secrets.token_hex(16), caller=caller))
        finally:
            await servers.close()
            await registry.settle()


@contextmanager
def _errors(*, verbose: bool) -> Iterator[TextIO]:
    """Where launched servers log: to a person who asked for it, or nowhere."""
    if verbose:
        yield sys.stderr
    else:
        with open(os.devnull, "w", encoding="utf-8") as nowhere:
            yield nowhere


def _uses(project: Project) -> list[ServerUse]:
    """Each locked server once, with the scopes of all its entries."""
    entries = project.lockfile.servers
    grants = grants_of(entries, limits_of(project.agent).forbid, project.config.tools.admit)
    limits = {str(server): server.rate_limit_per_minute for server in project.servers}
    by_name = {f"{entry.server_id}@{entry.version}": entry for entry in entries}
    return [
        ServerUse(
            entry=entry,
            grant=grants[name],
            credentials=_credentials(project.config.servers.get(entry.server_id, ServerAccess())),
            rate_limit_per_minute=limits[name],
        )
        for name, entry in sorted(by_name.items())
    ]


def _credentials(access: ServerAccess) -> Credentials:
    oauth = access.oauth
    return Credentials(
        token_env=access.token_env or None,
        client_id=oauth.client_id if oauth else None,
        client_secret_env=oauth.client_secret_env if oauth else None,
        issuer=(oauth.issuer or None) if oauth else None,
    )
