"""The tools of a project's agent, ready to be called."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO

from msgspec import Struct, structs

from agent_resolver.connection.locked_servers import LockedServers, ServerUse
from agent_resolver.connection.transport import Credentials, Surroundings
from agent_resolver.core.admission import forbidden, grants_of
from agent_resolver.core.blueprint.tool_rule import calls_of
from agent_resolver.engine.tool import BlueprintTool
from agent_resolver.project.blueprint import (
    CheckedBlueprint,
    DescribedBlueprint,
    load_blueprints,
)
from agent_resolver.project.capability import load_capabilities
from agent_resolver.project.config import ServerAccess
from agent_resolver.project.definition import kept_definitions
from agent_resolver.project.engine import EngineUse, has_driver, open_engine
from agent_resolver.project.errors import LockRefused, UntrustedFolder
from agent_resolver.project.session import Session
from agent_resolver.registry.inbox import Inbox
from agent_resolver.registry.pipeline import Ports
from agent_resolver.registry.registry import ToolRegistry
from agent_resolver.registry.tool import CallContext, Tool
from agent_resolver.schema.audit import AuditKind, Record
from agent_resolver.schema.caller import Caller
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.lockfile import LockedServer
from agent_resolver.storage.clock import SystemClock
from agent_resolver.storage.trail import append_record
from agent_resolver.telemetry.setup import open_telemetry

if TYPE_CHECKING:
    from agent_resolver.capability.function import Capability
    from agent_resolver.engine.port import RunResult, RunView
    from agent_resolver.engine.stored import StoredEngine

_USUAL_ENGINE = EngineUse()
_CONNECT_SECONDS = 20.0
_CANCELLED_SECONDS = 3.0
"""How long a command that a signal ends waits for its calls to end and to be recorded."""


class OpenTools(Struct, frozen=True):
    """A registry that is open, and the run that uses it."""

    registry: ToolRegistry
    servers: LockedServers
    inbox: Inbox
    own: tuple[Descriptor, ...]
    """The tools of the project itself: its capabilities and its blueprints."""
    context: CallContext
    engine: "StoredEngine | None" = None
    """What runs blueprints; None in a project that has none."""
    blueprints: Mapping[str, BlueprintTool] = {}
    """The blueprints that can be run here, by id."""


@asynccontextmanager
async def open_tools(  # noqa: PLR0913 - each is one option of a command line
    session: Session,
    *,
    caller: Caller,
    is_connected: bool = True,
    is_governed: bool = True,
    forbid: tuple[str, ...] | None = None,
    run: str = "",
    seconds: float = 60.0,
    verbose: bool = False,
    engine: EngineUse = _USUAL_ENGINE,
) -> AsyncIterator[OpenTools]:
    """Verify the lock, load the project's capabilities, connect the locked servers, and close all of it again.

    A project of capabilities alone needs no agent file, and an agent file that asks for no servers no lock; what it
    forbids holds all the same.

    Args:
        session: The project.
        caller: Who calls where a call does not say so.
        is_connected: False to connect a server only when one of its tools is called.
        is_governed: False to have no locked servers.
        forbid: What is forbidden, where that is not what the agent file of the session says.
        run: The run that uses them, in whose chain of records all of it is kept; left out, it is a run of its own.
        seconds: How long a call of a locked server may take.
        verbose: True to show what launched servers log.
        engine: How runs of blueprints are driven.
    """
    context = CallContext.for_caller(caller)
    # A run that uses the tools has their records in its own chain.
    context = structs.replace(context, run=run or context.run)
    has_own = bool(session.config.tools.modules or session.config.tools.blueprints)
    if forbid is None:
        # Before there is any state: without an agent file, or with one that is wrong,
        # there is nothing to keep.
        forbid = _forbidden_actions(session, has_own=has_own)
    has_lock = is_governed and _needs_lock(session, has_own=has_own)
    if has_lock:
        session.agent  # noqa: B018 - read for its errors
    telemetry = open_telemetry(session.environment, app_id=session.app_id)
    with _closing_telemetry(telemetry), log_of_servers(verbose=verbose) as errors:
        # Lock and trust come first: before both hold, nothing is connected and no code
        # is loaded.
        own = await _vouched_for(session, context.run, has_lock=has_lock)
        if has_lock:
            agent = f"{session.agent.name}@{session.agent.version}"
            context = structs.replace(context, agent=agent, lock=session.lock_digest)
        registry = ToolRegistry(_registry_ports(session, telemetry))
        for capability in own.capabilities:
            _offer(registry, capability, forbid)
        # This comes after the capabilities, whose rules say who is asked about an
        # interrupted call.
        await registry.recover(context)
        uses = _server_uses(session) if has_lock else ()
        servers = LockedServers(
            uses, registry, session.store, _surroundings(session, errors, seconds)
        )
        inbox = inbox_of(session)
        running = _running_blueprints(session, registry, own, forbid, engine, telemetry)
        # The engine closes before the servers, which a step that still runs may need.
        async with _closing_tools(servers, registry), running as opened:
            if is_connected:
                await servers.connect(context.run)
            yield OpenTools(
                registry,
                servers,
                inbox,
                own.descriptors,
                context,
                opened.engine,
                opened.tools,
            )


def _forbidden_actions(session: Session, *, has_own: bool) -> tuple[str, ...]:
    """The actions that the agent file forbids; a project of capabilities alone need not have one."""
    if session.has_agent or not has_own:
        return session.limits.forbid
    return ()


def _needs_lock(session: Session, *, has_own: bool) -> bool:
    """True if the tools of locked servers belong to the project."""
    # In a project without code of its own only a lock brings tools, so there a missing
    # agent file is an error.
    return not has_own or (session.has_agent and session.has_requirements)


def _surroundings(session: Session, errors: TextIO, seconds: float) -> Surroundings:
    return Surroundings(
        folder=session.folder,
        environment=session.environment,
        errors=errors,
        # An operator who allows little time for a call waits no longer for a
        # connection.
        connect_seconds=min(seconds, _CONNECT_SECONDS),
        call_seconds=seconds,
    )


@asynccontextmanager
async def _closing_tools(
    servers: LockedServers, registry: ToolRegistry
) -> AsyncIterator[None]:
    """Close the servers, and wait until every call is recorded; only for seconds if a signal ends the command."""
    seconds_to_settle: float | None = None
    try:
        yield
    except asyncio.CancelledError:
        seconds_to_settle = _CANCELLED_SECONDS
        raise
    finally:
        # The connections end first, so that a call of a server that hangs cannot keep
        # the command waiting.
        await servers.close()
        await registry.settle(seconds_to_settle)


def inbox_of(session: Session) -> Inbox:
    """The inbox of a project."""
    return Inbox(
        session.store,
        session.secrets,
        SystemClock(),
        seal=session.seal,
        only_verified=session.has_issuer,
    )


class _OwnTools(Struct, frozen=True):
    """The tools that the project itself brings."""

    capabilities: list["Capability[..., Any]"]
    blueprints: list[CheckedBlueprint]

    @property
    def descriptors(self) -> tuple[Descriptor, ...]:
        capabilities = [capability.descriptor for capability in self.capabilities]
        return (*capabilities, *(blueprint.descriptor for blueprint in self.blueprints))


async def _vouched_for(session: Session, run: str, *, has_lock: bool) -> _OwnTools:
    """The tools of the project itself, once its lock holds and a person trusts what it would run."""
    store = session.store
    try:
        if has_lock and (why := session.why_trust_is_needed):
            session.require_trust(why, files=session.files_of_lock)
        capabilities = load_capabilities(session)
        blueprints = load_blueprints(
            session, [capability.descriptor for capability in capabilities]
        )
    except LockRefused as refused:
        # The refusal is recorded as well: the trail has to show that this lock did not
        # hold.
        kinds = sorted({difference.kind.value for difference in refused.details})
        body = {"reason": str(refused), "differences": kinds}
        await append_record(store, Record(run, AuditKind.LOCK_REFUSED, body))
        raise
    except UntrustedFolder as refused:
        await append_record(
            store, Record(run, AuditKind.FOLDER_REFUSED, {"reason": str(refused)})
        )
        raise
    if has_lock:
        hashes = [entry.hash for entry in session.lockfile.servers]
        body = {"agent": session.lockfile.agent_name, "hashes": hashes}
        await append_record(store, Record(run, AuditKind.LOCK_VERIFIED, body))
    return _OwnTools(capabilities, blueprints)


@asynccontextmanager
async def _running_blueprints(  # noqa: PLR0913, PLR0917 - what ties the engine to the registry
    session: Session,
    registry: ToolRegistry,
    own: _OwnTools,
    forbid: tuple[str, ...],
    use: EngineUse,
    telemetry: Any,  # noqa: ANN401 - its room lies beside the registry's
) -> AsyncIterator["_RunningBlueprints"]:
    """Offer the blueprints, each of whose runs the engine drives with calls of the same registry."""
    # A worker needs the engine even without blueprints, for runs that go on with those
    # that they began with.
    if not (own.blueprints or use.is_worker):
        yield _RunningBlueprints(None, {})
        return
    tools: dict[str, BlueprintTool] = {}
    async with open_engine(session, registry.call, use, telemetry) as engine:
        for each in own.blueprints:
            called = [call.tool for call in calls_of(each.blueprint)]
            if each.refused is not None:
                registry.refuse(
                    each.descriptor.id, each.descriptor.source, each.refused
                )
                continue
            if use.drives and not has_driver(session):
                # Without the package of the engine, a blueprint can be looked at and
                # planned with, but not called.
                _offer(registry, DescribedBlueprint(each.descriptor), forbid, *called)
                continue
            # Where runs are left to workers, a call starts the run and then only looks
            # how far it is.
            finish = engine.finish if use.drives else partial(_look_at, engine)
            tools[each.descriptor.id] = tool = BlueprintTool(
                each.blueprint, engine.runs, finish, each.descriptor
            )
            _offer(registry, tool, forbid, *called)
        yield _RunningBlueprints(engine, tools)


async def _look_at(
    engine: "StoredEngine",
    run: str,
    seconds: float,  # noqa: ARG001 - the port
) -> "RunResult | RunView":
    """The progress of a run that is left to workers, without waiting for them."""
    return await engine.result(run, 0.0)


class _RunningBlueprints(Struct, frozen=True):
    """The engine of blueprints, and the tools that start their runs."""

    engine: "StoredEngine | None"
    tools: dict[str, BlueprintTool]


def _registry_ports(session: Session, telemetry: Any) -> Ports:  # noqa: ANN401 - its room lies beside the registry's
    return Ports(
        store=session.store,
        seal=session.seal,
        secrets=session.secrets,
        telemetry=telemetry,
        clock=SystemClock(),
        keeps_content=session.config.audit.content == "excerpt",
        only_verified=session.has_issuer,
    )


def _offer(
    registry: ToolRegistry, tool: Tool, forbid: tuple[str, ...], *called: str
) -> None:
    """Offer a tool, unless it is forbidden itself or calls a tool that is."""
    descriptor = tool.descriptor
    if refused := forbidden(
        (descriptor.id, *descriptor.rules.required_scopes, *called), forbid
    ):
        registry.refuse(descriptor.id, descriptor.source, refused)
    else:
        registry.add(tool)


@contextmanager
def _closing_telemetry(telemetry: Any) -> Iterator[None]:  # noqa: ANN401 - as above
    try:
        yield
    finally:
        if telemetry is not None:
            telemetry.close()


@contextmanager
def log_of_servers(*, verbose: bool) -> Iterator[TextIO]:
    """The stream for the logs of launched servers: that of a person who asked for it, or none."""
    if verbose:
        yield sys.stderr
    else:
        with open(os.devnull, "w", encoding="utf-8") as nowhere:
            yield nowhere


def _server_uses(session: Session) -> list[ServerUse]:
    """Each locked server once, with the scopes of all its entries."""
    entries = session.lockfile.servers
    grants = grants_of(entries, session.limits.forbid, session.config.tools.admit)
    # A server that is locked for several categories is connected once.
    by_name = {f"{entry.server_id}@{entry.version}": entry for entry in entries}
    # The texts are read only where the lock pins definitions; they are shown, and
    # decide nothing.
    kept = (
        kept_definitions(session.index_path)
        if any(entry.tools for entry in entries)
        else {}
    )
    return [
        ServerUse(
            entry=entry,
            grant=grants[name],
            credentials=credentials_of(
                session.config.servers.get(entry.server_id, ServerAccess())
            ),
            rate_limit_per_minute=_rate_limit(session, entry),
            definitions=kept.get(name, {}),
        )
        for name, entry in sorted(by_name.items())
    ]


def _rate_limit(session: Session, entry: LockedServer) -> float | None:
    server = session.servers.get((entry.server_id, entry.version))
    return server.rate_limit_per_minute if server else None


def credentials_of(access: ServerAccess) -> Credentials:
    """The credentials that the settings name for a server."""
    oauth = access.oauth
    token_env = access.token_env or None
    if not oauth:
        return Credentials(token_env=token_env)
    return Credentials(
        token_env=token_env,
        client_id=oauth.client_id,
        client_secret_env=oauth.client_secret_env,
        issuer=oauth.issuer or None,
    )
