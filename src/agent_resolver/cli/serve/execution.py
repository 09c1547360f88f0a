"""What `agent serve` does."""

import argparse
import logging
import os
import secrets
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from agent_resolver.catalog.catalog import Catalog
from agent_resolver.catalog.errors import Stopped
from agent_resolver.catalog.listing import Verdict
from agent_resolver.catalog.query import Changes, Judge
from agent_resolver.cli.catalog.execution import open_catalog_of, warn_of_refused
from agent_resolver.cli.errors import Refusal, Usage
from agent_resolver.cli.input import AGENT_FILE, INDEX
from agent_resolver.cli.option import folder_of, session_here, session_of
from agent_resolver.cli.output import err, out_text
from agent_resolver.core.count import counted
from agent_resolver.core.loopback import is_loopback
from agent_resolver.project.config import variables_of
from agent_resolver.project.config_file import find_config
from agent_resolver.registry.pipeline import Ports
from agent_resolver.registry.registry import ToolRegistry
from agent_resolver.registry.tool import CallContext
from agent_resolver.schema.caller import ANONYMOUS, Caller
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.errors import InvalidInput, ResolverError

if TYPE_CHECKING:
    from agent_resolver.project.session import Session
    from agent_resolver.server.auth import Authentication

_NO_INDEX = Judge("", lambda _: Verdict("unresolved", "there is no index"))


def run(options: argparse.Namespace) -> int:
    """Print the settings for a client, or serve until the client goes or somebody interrupts."""
    if options.project:
        os.chdir(folder_of(options.project))
    if options.lock and not options.tools_of:
        raise Usage("`--lock` names the lock of an agent file", "name that with `--tools-of`")
    if options.print_config:
        return _print_config(options)
    import gc

    import anyio

    gc.enable()  # Commands live for moments and do without; this one lives on.
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    if options.http and not is_loopback(options.http[0]) and not options.allow_host:
        message = f"`{options.http[0]}` can be reached from other machines"
        raise Usage(message, "bind 127.0.0.1, or name the host that clients use with `--allow-host`")
    anyio.run(_serve_until_end, options)
    return 0


async def _serve_until_end(options: argparse.Namespace) -> None:
    import gc

    import anyio

    from agent_resolver.project.catalog import resolve_against
    from agent_resolver.server.mcp_server import agent_server
    from agent_resolver.server.notification import Notices
    from agent_resolver.server.prompt import AgentPrompts
    from agent_resolver.server.resource import AgentResources
    from agent_resolver.server.resource_tool import ResourceTools
    from agent_resolver.server.stdio import own_wire
    from agent_resolver.server.tool import RegistryTools, caller_of_request
    from agent_resolver.server.transport import serve_http, serve_stdio
    from agent_resolver.server.watch import keep_up, tell_of_tools

    index = options.index or INDEX
    is_typed = sys.stdin.isatty()  # By a person, who may expect something to happen.
    async with AsyncExitStack() as stack:
        # Before any code of the project runs, and until all of it has ended.
        wire = None if options.http else stack.enter_context(own_wire())
        session = stack.enter_context(_session_of_tools(options))
        # The agents are those of this folder, also where the tools are those of an agent file elsewhere.
        here = session if session.folder == os.getcwd() else stack.enter_context(session_here(options))
        page_size = options.page_size or here.config.catalog.page_size
        # A client that starts the server waits for its first answer; an operator waits for the address.
        catalog = open_catalog_of(
            here, options, may_be_empty=bool(session.config.tools.modules), may_be_late=not options.http
        )
        is_ready = anyio.Event()
        offer = await _open_offer(session, options, stack)
        for tool in ResourceTools(
            catalog, partial(resolve_against, index), page_size, is_strict=options.strict
        ).tools():
            offer.registry.add(tool)
        notices = Notices()
        tools = RegistryTools(offer.registry, offer.context, caller_of_request, offer.manifest)
        resources = AgentResources(
            catalog,
            page_size=page_size,
            is_strict=options.strict,
            clearance_of=lambda ctx: tools.caller_of(ctx).clearance,
        )
        server = agent_server(resources, tools, AgentPrompts(catalog, resources), notices, is_ready.wait)
        folders, files = catalog.watched
        keep_agents = partial(keep_up, partial(_refresh_catalog, catalog, index), folders, [*files, index], notices)

        async def beside() -> None:
            if not catalog.is_indexed:
                await _index_catalog(catalog)
            is_ready.set()
            async with anyio.create_task_group() as group:
                group.start_soon(keep_agents)
                group.start_soon(tell_of_tools, offer.registry, notices)

        # What is there now stays: looking through it again and again for garbage would only cost time.
        gc.freeze()
        if wire is None:
            listening = stack.enter_context(_open_listener(*options.http))
            url = _mcp_url(options.http[0], listening.getsockname()[1])
            authentication = _authentication_of(offer, url, options.allow_host)
            tools_too = f" and {counted(offer.count, 'tool')}" if offer.count else ""
            err(f"Serving {counted(catalog.total, 'agent')}{tools_too} at {url}")
            await serve_http(server, listening, options.allow_host, notices, beside, authentication=authentication)
        else:
            if is_typed:
                err("Waiting for messages of an MCP client on stdin; Ctrl-C ends it")
                err("hint: `agent serve --print-config CLIENT` prints what a client needs to start this by itself")
            await serve_stdio(server, beside, wire)


async def _index_catalog(catalog: Catalog) -> None:
    """Read every agent file for the first time, in a thread, so that the client is answered meanwhile."""
    import anyio
    from anyio import to_thread

    is_read = False

    async def stop_if_cancelled() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            if not is_read:
                catalog.stop()  # A thread cannot be cancelled.

    async with anyio.create_task_group() as group:
        group.start_soon(stop_if_cancelled)
        await to_thread.run_sync(_read_agents, catalog)
        is_read = True
        group.cancel_scope.cancel()


def _read_agents(catalog: Catalog) -> None:
    try:
        catalog.refresh()
        warn_of_refused(catalog)
    except Stopped:
        pass  # The server ends.
    except ResolverError as error:
        logging.getLogger(__name__).warning("%s", error)


def _refresh_catalog(catalog: Catalog, index: str) -> Changes:
    """Bring the catalog up to date; while the index of servers is invalid, the last one that was not decides."""
    from agent_resolver.project.catalog import judge_of

    try:
        return catalog.refresh(judge_of(index) or _NO_INDEX)
    except InvalidInput as error:
        logging.getLogger(__name__).warning("%s: %s", index, error)
        return catalog.refresh()


def _open_listener(host: str, port: int) -> socket.socket:
    from agent_resolver.server.transport import listener

    try:
        return listener(host, port)
    except OSError as error:
        message = f"Cannot listen on `{host}:{port}`: {(error.strerror or str(error)).partition(' (')[0]}"
        raise Refusal(message, "name another port, or 0 for any that is free") from None


def _mcp_url(host: str, port: int) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/mcp"


class _Offer(Struct, frozen=True):
    """What is served besides the agents, and as whose."""

    session: "Session"
    registry: ToolRegistry
    context: CallContext
    manifest: dict[str, str] | None = None
    count: int = 0
    """How many tools the project's own code and its lock offer."""


def _session_of_tools(options: argparse.Namespace) -> "Session":
    # In this form it is told from one that nobody named, and so must be there.
    options.agents = os.path.normpath(options.tools_of) if options.tools_of else AGENT_FILE
    return session_of(options)


async def _open_offer(session: "Session", options: argparse.Namespace, stack: AsyncExitStack) -> _Offer:
    """The tools of the project and of a lock, if there are any, and those of the inbox where they are asked for."""
    from agent_resolver.capability.isolated import prepare_calls
    from agent_resolver.project.tools import open_tools
    from agent_resolver.server.inbox import inbox_tools

    caller = await _caller_to_serve(session, options)
    if not (options.tools_of or session.config.tools.modules):
        registry = ToolRegistry(Ports(only_verified=session.has_issuer))
        return _Offer(session, registry, CallContext(run=secrets.token_hex(16), trace_id="", caller=caller))
    opening = open_tools(session, caller=caller, is_governed=bool(options.tools_of))
    tools = await stack.enter_async_context(opening)
    for server, problem in sorted(tools.servers.problems.items()):
        err(f"warning: {server} is not there: {problem}")
    count = len(tools.registry.list())
    if options.inbox:
        for tool in inbox_tools(tools.inbox):
            tools.registry.add(tool)
    manifest = _checked_manifest(session, tools.capabilities)
    if any(descriptor.rules.is_isolated for descriptor in tools.capabilities):
        prepare_calls()
    tools.servers.keep_connected(tools.context.run)
    return _Offer(session, tools.registry, tools.context, manifest, count)


async def _caller_to_serve(session: "Session", options: argparse.Namespace) -> Caller:
    """Who calls over stdio, or over HTTP where no request says so."""
    from agent_resolver.project.identity import caller_of, caller_or_anonymous

    if not options.http:
        return await caller_of(session, options.token_file, session.environment)
    if session.has_issuer and options.token_file:
        raise Usage("Over HTTP each request brings its own token, so `--token-file` has no place there")
    if session.has_issuer or not is_loopback(options.http[0]):
        return ANONYMOUS
    return await caller_or_anonymous(session, options.token_file, session.environment)


def _authentication_of(offer: _Offer, url: str, names: Sequence[str]) -> "Authentication | None":
    from agent_resolver.project.identity import verifier_of

    verifier = verifier_of(offer.session)
    if verifier is None:
        return None
    from agent_resolver.server.auth import Authentication, resource_of

    identity = offer.session.config.identity
    resource = resource_of(str(identity.audience), url, names)
    scopes = sorted({scope for tool in offer.registry.list() for scope in tool.rules.required_scopes})
    return Authentication(verifier=verifier, issuer=str(identity.issuer), resource=resource, scopes=tuple(scopes))


def _checked_manifest(session: "Session", capabilities: Sequence[Descriptor]) -> dict[str, str] | None:
    """What identifies the project's own tools; a manifest that is committed must be that of the code."""
    from agent_resolver.project.manifest import require_no_drift
    from agent_resolver.registry.manifest import manifest_of

    require_no_drift(session, capabilities)
    manifest = manifest_of(capabilities)
    return {"version": manifest.version, "digest": manifest.digest} if capabilities else None


def _print_config(options: argparse.Namespace) -> int:
    from agent_resolver.server.client_settings import client_config

    with session_here(options) as session:
        roots = list(map(os.path.abspath, session.catalog_roots(options.roots)))
        variables = variables_of(session.config, session.environment)
    if not roots and not find_config("."):
        raise Usage("There are no agent files to serve", "name a folder with `--root`")
    named_roots = [word for root in roots for word in ("--root", root)]
    command = [*_own_command(), "serve", *named_roots, *_options_for_client(options)]
    url = _mcp_url(*options.http) if options.http else None
    out_text(client_config(options.print_config, command, url, variables))
    return 0


def _own_command() -> list[str]:
    """The command line of this very program: clients may have another `PATH`."""
    script = os.path.join(os.path.dirname(sys.executable), "agent")
    return [script] if os.path.isfile(script) else [sys.executable, "-m", "agent_resolver"]


def _options_for_client(options: argparse.Namespace) -> Iterator[str]:
    """The options that a client has to start the server with, wherever it does so."""
    settings = find_config(".")
    yield from ("--project", os.path.dirname(settings) if settings else os.getcwd())
    paths = {
        "--index": options.index or (INDEX if os.path.exists(INDEX) else None),
        "--tools-of": options.tools_of,
        "--lock": options.lock,
        "--token-file": options.token_file,
    }
    for name, path in paths.items():
        if path:
            yield from (name, os.path.abspath(path))
    if options.page_size:
        yield from ("--page-size", str(options.page_size))
    for setting in options.settings:
        yield from ("--config", setting)
    yield from (f"--{name}" for name in ("inbox", "strict", "trust") if getattr(options, name))
