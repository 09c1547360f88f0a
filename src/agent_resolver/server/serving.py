"""Serves a project: opens its parts, and runs the server over them until it ends."""

import logging
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread
from msgspec import Struct

from agent_resolver.capability.isolated import prepare_calls
from agent_resolver.catalog.catalog import Catalog
from agent_resolver.catalog.errors import Stopped
from agent_resolver.catalog.listing import Verdict
from agent_resolver.catalog.query import Changes, Judge
from agent_resolver.core.loopback import is_loopback
from agent_resolver.project.catalog import judge_of, resolve_against
from agent_resolver.project.identity import caller_of, caller_or_anonymous, verifier_of
from agent_resolver.project.index import overlay_path
from agent_resolver.project.manifest import require_no_drift
from agent_resolver.project.project import Project
from agent_resolver.project.run import ProjectRuns, open_journal, open_runs
from agent_resolver.project.session import Session
from agent_resolver.project.tools import open_tools
from agent_resolver.registry.manifest import manifest_of
from agent_resolver.registry.pipeline import Ports
from agent_resolver.registry.registry import ToolRegistry
from agent_resolver.registry.tool import CallContext
from agent_resolver.schema.caller import ANONYMOUS, Caller
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.errors import InvalidInput, ResolverError
from agent_resolver.server.address import mcp_url
from agent_resolver.server.errors import CannotServe
from agent_resolver.server.inbox import inbox_tools
from agent_resolver.server.listening import open_listener
from agent_resolver.server.mcp_server import AgentServer, agent_server
from agent_resolver.server.metric import ServedProcess
from agent_resolver.server.notification import Notices
from agent_resolver.server.prompt import AgentPrompts
from agent_resolver.server.resource import AgentResources
from agent_resolver.server.resource_tool import ResourceTools
from agent_resolver.server.run_tool import RunAgentTool
from agent_resolver.server.stdio import own_wire
from agent_resolver.server.task import Tasks
from agent_resolver.server.task_run import AgentTaskRuns, BlueprintTaskRuns, TaskRuns
from agent_resolver.server.tool import RegistryTools, caller_of_request
from agent_resolver.server.transport import Beside, Keeping, serve_http, serve_stdio
from agent_resolver.server.watch import keep_up, tell_of_tools

if TYPE_CHECKING:
    from agent_resolver.engine.stored import StoredEngine
    from agent_resolver.server.auth import Authentication

_NO_INDEX = Judge("", lambda _: Verdict("unresolved", "there is no index"))
_MOST_A_PAGE = 100


class Ready(Struct, frozen=True):
    """The offer of a server that starts to listen."""

    url: str | None
    """The address of MCP; None over stdio."""
    agents: int
    tools: int
    """How many tools the project's own code and its lock offer."""
    problems: Mapping[str, Exception]
    """Why servers of the lock are not there, by their names."""


class Serving(Struct, frozen=True, kw_only=True):
    """The ways in which a server can be started."""

    http: tuple[str, int] | None = None
    """The host and port to listen on; None for stdio."""
    is_shared: bool = False
    """True if other servers of the project answer at the same address."""
    listening: socket.socket | None = None
    """The socket to listen on, where another program has bound it."""
    channel: socket.socket | None = None
    """Leads to that program."""
    allow_hosts: Sequence[str] = ()
    page_size: int
    has_locked_tools: bool = False
    """True to serve the tools that the lock opens."""
    has_inbox: bool = False
    is_strict: bool = False
    runs_of: Session | None = None
    """The project whose agents clients may run; None to let them run nothing."""
    token_file: str | None = None
    on_ready: Callable[[Ready], None] | None = None
    on_indexed: Callable[[Catalog], None] | None = None
    """Called when agent files have been read for the first time; only over stdio, in a thread."""


async def serve(  # noqa: PLR0913 - each is one option of `agent serve`
    project: Project,
    *,
    http: tuple[str, int] | None = None,
    tools: bool = False,
    inbox: bool = False,
    strict: bool = False,
    run: bool = False,
    allow_hosts: Sequence[str] = (),
    page_size: int | None = None,
    on_ready: Callable[[Ready], None] | None = None,
) -> None:
    """Serve a project to MCP clients, as `agent serve` does, until the client goes or the program is interrupted.

    Args:
        project: The project.
        http: The host and port to listen on; left out, the client is at stdin and stdout.
        tools: True to serve the tools that the lock opens, besides those of the project's own code.
        inbox: True to serve the inbox as tools, for people who answer the calls of others.
        strict: True to hide agents whose `requires` do not resolve.
        run: True to let clients run the agents, which uses their models and tools.
        allow_hosts: The names that clients may call the server by, where the host is not this machine alone.
        page_size: How many agents a page of a listing has.
        on_ready: Called once, when the server listens.

    Raises:
        CannotServe: The address cannot be used, or other machines could reach it and no name is allowed.
        LockRefused: The lock does not hold, and its tools are asked for.
        UntrustedFolder: The project would start commands or load code, and no person trusts it.
    """
    session = project.session
    if page_size is not None and not 1 <= page_size <= _MOST_A_PAGE:
        raise CannotServe(f"A page has 1 to {_MOST_A_PAGE} agents")
    await serve_session(
        session,
        project.catalog,
        Serving(
            http=http,
            allow_hosts=allow_hosts,
            page_size=page_size or session.config.catalog.page_size,
            has_locked_tools=tools,
            has_inbox=inbox,
            is_strict=strict,
            runs_of=session if run else None,
            token_file=project.token_file,
            on_ready=on_ready,
        ),
        session.index_path,
    )


async def serve_session(
    session: Session,
    catalog: Catalog,
    how: Serving,
    index: str,
) -> None:
    """Serve the agents of a catalog and the tools of a session; `index` is what agents resolve against.

    Raises:
        CannotServe: The address cannot be used, or the settings do not fit it.
    """
    _check_address(how.http, how.allow_hosts)
    async with AsyncExitStack() as stack:
        if how.http is None:
            # Before any code of the project runs, and until all of it has ended.
            wire = stack.enter_context(own_wire())
            opened = await _open_server(session, catalog, how, index, stack)
            _note_ready(how, catalog, opened.offer, None)
            await serve_stdio(opened.server, opened.beside, wire, opened.stop_runs)
            return
        opened = await _open_server(session, catalog, how, index, stack)
        listening = how.listening or open_listener(*how.http, is_shared=how.is_shared)
        stack.enter_context(listening)
        url = mcp_url(how.http[0], listening.getsockname()[1])
        authentication = _authentication_of(session, opened.offer, url, how.allow_hosts)
        _note_ready(how, catalog, opened.offer, url)
        seconds_left = await serve_http(
            opened.server,
            listening,
            how.allow_hosts,
            opened.notices,
            opened.beside,
            on_interrupt=opened.stop_runs,
            authentication=authentication,
            probed=ServedProcess(session),
            keeping=_keeping_of(session, how, opened.offer),
        )
        # Otherwise the tools would be closed only once the slowest call has ended.
        await opened.offer.registry.settle(seconds_left)


def _keeping_of(session: Session, how: Serving, offer: "_Offer") -> Keeping:
    """The things that this server shares with others: also the state, if it uses the state at all."""
    if not offer.has_state and not how.is_shared:
        return Keeping(channel=how.channel)
    return Keeping(
        store=session.store,
        seal=session.seal,
        is_shared=how.is_shared,
        channel=how.channel,
    )


def _note_ready(
    how: Serving,
    catalog: Catalog,
    offer: "_Offer",
    url: str | None,
) -> None:
    if how.on_ready is not None:
        how.on_ready(Ready(url, catalog.total, offer.count, offer.problems))


class _OpenServer(Struct, frozen=True):
    """The server, ready to be reached."""

    server: AgentServer
    notices: Notices
    offer: "_Offer"
    beside: Beside
    stop_runs: Callable[[], None]
    """Lets runs be interrupted and not cancelled, once requests end because the server stops."""


async def _open_server(
    session: Session,
    catalog: Catalog,
    how: Serving,
    index: str,
    stack: AsyncExitStack,
) -> _OpenServer:
    offer = await _open_offer(session, how, stack)
    resolve_one = partial(resolve_against, index)
    for tool in ResourceTools(
        catalog, resolve_one, how.page_size, is_strict=how.is_strict
    ).tools():
        offer.registry.add(tool)
    runs: ProjectRuns | None = None
    run_agent: RunAgentTool | None = None
    if how.runs_of is not None:
        opening = open_runs(
            how.runs_of, catalog, caller=offer.context.caller, is_strict=how.is_strict
        )
        runs = await stack.enter_async_context(opening)
        run_agent = RunAgentTool(runs, catalog, is_strict=how.is_strict)
        offer.registry.add(run_agent)
    notices = Notices()
    store = session.store if offer.has_state else None
    tools = RegistryTools(
        offer.registry, offer.context, caller_of_request, offer.manifest, store
    )
    notices.usual_clearance = offer.context.caller.clearance
    if task_runs := _task_runs(session, offer, runs):
        tools.tasks = Tasks(
            offer.registry, session.store, offer.context, tools.caller_of, task_runs
        )
        stack.callback(tools.tasks.stop)
    resources = AgentResources(
        catalog,
        page_size=how.page_size,
        is_strict=how.is_strict,
        clearance_of=lambda ctx: tools.caller_of(ctx).clearance,
    )
    is_ready = anyio.Event()
    server = agent_server(
        resources, tools, AgentPrompts(catalog, resources), notices, is_ready.wait
    )
    folders, files = catalog.watched
    keep_agents = partial(
        keep_up,
        partial(_refresh_catalog, catalog, index),
        folders,
        [*files, index, overlay_path(index)],
        notices,
    )

    async def beside() -> None:
        if not catalog.is_indexed:
            await _index_catalog(catalog, how)
        is_ready.set()
        async with anyio.create_task_group() as group:
            group.start_soon(keep_agents)
            group.start_soon(tell_of_tools, offer.registry, notices)

    def stop_runs() -> None:
        if offer.engine is not None:
            # No wave begins any more: another process goes on with the runs.
            offer.engine.worker.stop()
        if run_agent is not None:
            run_agent.stop()
        if tools.tasks is not None:
            tools.tasks.stop()

    return _OpenServer(server, notices, offer, beside, stop_runs)


def _task_runs(
    session: Session, offer: "_Offer", runs: ProjectRuns | None
) -> dict[str, TaskRuns]:
    """The runs that clients may start as tasks, by their kind."""
    found: dict[str, TaskRuns] = {}
    if offer.engine is not None:
        found["blueprint"] = BlueprintTaskRuns(offer.engine.runs)
    if runs is not None:
        found["agent"] = AgentTaskRuns(
            partial(open_journal, session), session.store, offer.registry.now
        )
    return found


# The catalog --------------------------------------------------------------------------


async def _index_catalog(catalog: Catalog, how: Serving) -> None:
    """Read every agent file for the first time, in a thread, so that the client is answered meanwhile."""
    is_read = False

    async def stop_if_cancelled() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            if not is_read:
                catalog.stop()  # A thread cannot be cancelled.

    async with anyio.create_task_group() as group:
        group.start_soon(stop_if_cancelled)
        await to_thread.run_sync(_read_agents, catalog, how)
        is_read = True
        group.cancel_scope.cancel()


def _read_agents(catalog: Catalog, how: Serving) -> None:
    try:
        catalog.refresh()
        if how.on_indexed is not None:
            how.on_indexed(catalog)
    except Stopped:
        pass  # The server ends.
    except ResolverError as error:
        logging.getLogger(__name__).warning("%s", error)


def _refresh_catalog(catalog: Catalog, index: str) -> Changes:
    """Bring the catalog up to date; while the index of servers is invalid, the last one that was not decides."""
    try:
        return catalog.refresh(judge_of(index) or _NO_INDEX)
    except InvalidInput as error:
        logging.getLogger(__name__).warning("%s: %s", index, error)
        return catalog.refresh()


# The tools ----------------------------------------------------------------------------


class _Offer(Struct, frozen=True):
    """All that is served besides the agents, and the caller it is served to."""

    registry: ToolRegistry
    context: CallContext
    manifest: dict[str, str] | None = None
    count: int = 0
    problems: Mapping[str, Exception] = {}
    has_state: bool = False
    engine: "StoredEngine | None" = None
    """What runs the blueprints of the project; None if it has none."""


async def _open_offer(session: Session, how: Serving, stack: AsyncExitStack) -> _Offer:
    """The tools of the project and of a lock, if there are any, and those of the inbox where they are asked for."""
    caller = await _caller_to_serve(session, how)
    own = session.config.tools
    has_tools = bool(how.has_locked_tools or own.modules or own.blueprints)
    if not has_tools and how.runs_of is None:
        registry = ToolRegistry(Ports(only_verified=session.has_issuer))
        return _Offer(registry, CallContext.for_caller(caller))
    # Runs are recorded, also in a project without any tools, which has nothing to
    # forbid.
    forbid = None if has_tools else ()
    opening = open_tools(
        session, caller=caller, is_governed=how.has_locked_tools, forbid=forbid
    )
    tools = await stack.enter_async_context(opening)
    count = len(tools.registry.list())
    if how.has_inbox:
        for tool in inbox_tools(tools.inbox):
            tools.registry.add(tool)
    manifest = _checked_manifest(session, tools.own)
    if any(descriptor.rules.is_isolated for descriptor in tools.own):
        prepare_calls()
    problems = dict(sorted(tools.servers.problems.items()))
    tools.servers.keep_connected(tools.context.run)
    return _Offer(
        tools.registry,
        tools.context,
        manifest,
        count,
        problems,
        has_state=True,
        engine=tools.engine,
    )


async def _caller_to_serve(session: Session, how: Serving) -> Caller:
    """The caller over stdio, or over HTTP where no request names one."""
    if how.http is None:
        return await caller_of(session, how.token_file, session.environment)
    if session.has_issuer and how.token_file:
        raise CannotServe(
            "Over HTTP each request brings its own token, so `--token-file` has no place there"
        )
    if session.has_issuer or not is_loopback(how.http[0]):
        return ANONYMOUS
    return await caller_or_anonymous(session, how.token_file, session.environment)


def _checked_manifest(
    session: Session, capabilities: Sequence[Descriptor]
) -> dict[str, str] | None:
    """The version and digest of the project's own tools; a manifest that is committed must be that of the code."""
    require_no_drift(session, capabilities)
    manifest = manifest_of(capabilities)
    if capabilities:
        return {"version": manifest.version, "digest": manifest.digest}
    return None


# The address --------------------------------------------------------------------------


def _check_address(http: tuple[str, int] | None, allow_hosts: Sequence[str]) -> None:
    """Refuse an address that other machines reach, unless the operator said by which name.

    Raises:
        CannotServe: No name is allowed.
    """
    if http is not None and not is_loopback(http[0]) and not allow_hosts:
        message = f"`{http[0]}` can be reached from other machines"
        raise CannotServe(
            message,
            "bind 127.0.0.1, or name the host that clients use with `--allow-host`",
        )


def _authentication_of(
    session: Session,
    offer: _Offer,
    url: str,
    names: Sequence[str],
) -> "Authentication | None":
    verifier = verifier_of(session)
    if verifier is None:
        return None
    from agent_resolver.server.auth import Authentication, resource_of

    identity = session.config.identity
    resource = resource_of(str(identity.audience), url, names)
    scopes = sorted(
        {
            scope
            for tool in offer.registry.list()
            for scope in tool.rules.required_scopes
        }
    )
    return Authentication(
        verifier=verifier,
        issuer=str(identity.issuer),
        resource=resource,
        scopes=tuple(scopes),
    )
