"""The tools of a project's agent, ready to be called."""

import os
import secrets
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from msgspec import Struct

from agent_resolver.connection.locked_servers import LockedServers, ServerUse
from agent_resolver.connection.transport import Credentials, Surroundings
from agent_resolver.core.admission import forbidden, grants_of
from agent_resolver.project.adapter import SystemClock
from agent_resolver.project.capability import load_capabilities
from agent_resolver.project.config import ServerAccess
from agent_resolver.project.errors import LockRefused, UntrustedFolder
from agent_resolver.project.exposure import why_trust_is_needed
from agent_resolver.project.project import Project
from agent_resolver.registry.inbox import Inbox
from agent_resolver.registry.pipeline import Ports
from agent_resolver.registry.registry import ToolRegistry
from agent_resolver.registry.tool import CallContext
from agent_resolver.schema.caller import Caller
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.telemetry.setup import open_telemetry

if TYPE_CHECKING:
    from agent_resolver.capability.function import Capability

_CONNECT_SECONDS = 20.0


class OpenTools(Struct, frozen=True):
    """A registry that is open, and the run that uses it."""

    registry: ToolRegistry
    servers: LockedServers
    inbox: Inbox
    capabilities: tuple[Descriptor, ...]
    context: CallContext


@asynccontextmanager
async def open_tools(  # noqa: PLR0913 - each is one option of a command line
    project: Project,
    *,
    caller: Caller,
    for_tool: str | None = None,
    is_governed: bool = True,
    seconds: float = 60.0,
    verbose: bool = False,
) -> AsyncIterator[OpenTools]:
    """Verify the lock, load the project's capabilities, connect the locked servers, and close all of it again.

    Only the server of `for_tool` is connected if one is named. A project of capabilities alone needs no agent file, and
    an agent file that asks for no servers no lock; what it forbids holds all the same. Without `is_governed` there are
    no locked servers either.
    """
    context = CallContext(run=secrets.token_hex(16), trace_id=secrets.token_hex(16), caller=caller)
    has_modules = bool(project.config.tools.modules)
    # Before there is any state: without an agent file, or with one that is wrong, there is nothing to keep.
    forbid = project.limits.forbid if project.has_agent or not has_modules else ()
    has_lock = is_governed and (not has_modules or (project.has_agent and project.has_requirements))
    if has_lock:
        project.agent  # noqa: B018 - read for its errors
    telemetry = open_telemetry(project.environment, app_id=project.app_id)
    ports = project.ports
    with _closing(telemetry), _errors(verbose=verbose) as errors:
        capabilities = await _vouched_for(project, context.run, has_lock=has_lock)
        registry = ToolRegistry(_ports(project, telemetry))
        for capability in capabilities:
            _offer(registry, capability, forbid)
        await registry.recover(context)
        around = Surroundings(
            folder=project.folder,
            environment=project.environment,
            errors=errors,
            connect_seconds=min(seconds, _CONNECT_SECONDS),
            call_seconds=seconds,
        )
        servers = LockedServers(_uses(project) if has_lock else (), registry, ports, around)
        owner = servers.owner_of(for_tool) if for_tool else None
        inbox = Inbox(ports, project.secrets, SystemClock(), trail=ports, only_verified=project.has_issuer)
        try:
            await servers.connect(context.run, None if for_tool is None else [owner] if owner else [])
            described = tuple(capability.descriptor for capability in capabilities)
            yield OpenTools(registry, servers, inbox, described, context)
        finally:
            await servers.close()
            await registry.settle()


async def _vouched_for(project: Project, run: str, *, has_lock: bool) -> list["Capability[..., Any]"]:
    """The project's capabilities, once its lock holds and somebody trusts what it would run."""
    ports = project.ports
    try:
        if has_lock and (why := why_trust_is_needed(project)):
            project.require_trust(why)
        capabilities = load_capabilities(project)
    except LockRefused as refused:
        kinds = sorted({difference.kind.value for difference in refused.differences})
        await ports.append(run, "lock.refused", {"reason": str(refused), "differences": kinds})
        raise
    except UntrustedFolder as refused:
        await ports.append(run, "folder.refused", {"reason": str(refused)})
        raise
    if has_lock:
        hashes = [entry.hash for entry in project.lockfile.servers]
        await ports.append(run, "lock.verified", {"agent": project.lockfile.agent_name, "hashes": hashes})
    return capabilities


def _ports(project: Project, telemetry: Any) -> Ports:  # noqa: ANN401 - its room lies beside the registry's
    ports = project.ports
    return Ports(
        trail=ports,
        pending=ports,
        rate=ports,
        ledger=ports,
        seal=ports.seal,
        secrets=project.secrets,
        telemetry=telemetry,
        clock=SystemClock(),
        only_verified=project.has_issuer,
    )


def _offer(registry: ToolRegistry, capability: "Capability[..., Any]", forbid: tuple[str, ...]) -> None:
    descriptor = capability.descriptor
    if refused := forbidden((descriptor.id, *descriptor.rules.required_scopes), forbid):
        registry.refuse(descriptor.id, descriptor.source, refused)
    else:
        registry.add(capability)


@contextmanager
def _closing(telemetry: Any) -> Iterator[None]:  # noqa: ANN401 - as above
    try:
        yield
    finally:
        if telemetry is not None:
            telemetry.close()


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
    grants = grants_of(entries, project.limits.forbid, project.config.tools.admit)
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
