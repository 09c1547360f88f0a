"""What `agent serve` does."""

import argparse
import logging
import os
import secrets
import socket
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack
from functools import partial

from agent_resolver.catalog.catalog import Catalog, Changes, Judge
from agent_resolver.catalog.listing import Verdict
from agent_resolver.cli.catalog_run import opened
from agent_resolver.cli.errors import Refusal, Usage
from agent_resolver.cli.input import INDEX
from agent_resolver.cli.option import project_of
from agent_resolver.cli.output import err
from agent_resolver.registry import CallContext, ToolRegistry
from agent_resolver.schema import InvalidInput

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_NO_INDEX = Judge("", lambda _: Verdict("unresolved", "there is no index"))


def run(options: argparse.Namespace) -> int:
    """Print the settings for a client, or serve until the client goes or somebody interrupts."""
    if options.print_config:
        return _print_config(options)
    import gc

    import anyio

    gc.enable()  # Commands live for moments and do without; this one lives on.
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    if options.http and options.http[0] not in _LOOPBACK and not options.allow_host:
        message = f"`{options.http[0]}` can be reached from other machines, and there is no authentication yet"
        raise Usage(message, "bind 127.0.0.1, or name the host that clients use with `--allow-host`")
    anyio.run(_serve, options)
    return 0


async def _serve(options: argparse.Namespace) -> None:
    from agent_resolver.project.catalog import catalog_settings, resolve_against
    from agent_resolver.server.mcp_server import agent_server
    from agent_resolver.server.notice import Notices
    from agent_resolver.server.resource import AgentResources
    from agent_resolver.server.tool import RegistryTools
    from agent_resolver.server.transport import serve_http, serve_stdio
    from agent_resolver.server.twin import Twins
    from agent_resolver.server.watch import keep_up

    index = options.index or INDEX
    page_size = options.page_size or catalog_settings(os.environ, options.settings)[0].page_size
    async with AsyncExitStack() as stack:
        catalog = stack.enter_context(opened(options))
        registry, context = await _registry(options, stack)
        for tool in Twins(catalog, partial(resolve_against, index), page_size, is_strict=options.strict).tools():
            registry.add(tool)
        notices = Notices()
        resources = AgentResources(catalog, page_size=page_size, is_strict=options.strict)
        server = agent_server(resources, RegistryTools(registry, context), notices)
        folders, files = catalog.watched
        beside = partial(keep_up, partial(_refresh, catalog, index), folders, [*files, index], notices)
        if options.http:
            listening = stack.enter_context(_listener(*options.http))
            err(f"Serving {catalog.total} agent(s) at {_url(options.http[0], listening.getsockname()[1])}")
            await serve_http(server, listening, options.allow_host, notices, beside)
        else:
            await serve_stdio(server, beside)


def _refresh(catalog: Catalog, index: str) -> Changes:
    """Bring the catalog up to date; while the index of servers is invalid, the last one that was not decides."""
    from agent_resolver.project.catalog import judge_of

    try:
        return catalog.refresh(judge_of(index) or _NO_INDEX)
    except InvalidInput as error:
        logging.getLogger(__name__).warning("%s: %s", index, error)
        return catalog.refresh()


def _listener(host: str, port: int) -> socket.socket:
    from agent_resolver.server.transport import listener

    try:
        return listener(host, port)
    except OSError as error:
        message = f"Cannot listen on `{host}:{port}`: {(error.strerror or str(error)).partition(' (')[0]}"
        raise Refusal(message, "name another port, or 0 for any that is free") from None


def _url(host: str, port: int) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/mcp"


async def _registry(options: argparse.Namespace, stack: AsyncExitStack) -> tuple[ToolRegistry, CallContext]:
    """An empty registry, or the one with the tools that a lock opens."""
    if not options.tools_of:
        return ToolRegistry(), CallContext(run=secrets.token_hex(16), trace_id="", caller="mcp")
    from agent_resolver.project.tools import open_tools

    options.agents = options.tools_of
    project = project_of(options)
    stack.callback(project.close)
    tools = await stack.enter_async_context(open_tools(project, caller="mcp"))
    return tools.registry, tools.context


def _print_config(options: argparse.Namespace) -> int:
    from agent_resolver.project.catalog import catalog_roots, catalog_settings
    from agent_resolver.server.client_config import client_config

    roots = [
        os.path.abspath(root) for root in catalog_roots(options.roots, *catalog_settings(os.environ, options.settings))
    ]
    if not roots:
        raise Usage("There are no agent files to serve", "name a folder with `--root`")
    command = ["agent", "serve", *(word for root in roots for word in ("--root", root)), *_options(options)]
    url = _url(*options.http) if options.http else None
    sys.stdout.write(client_config(options.print_config, command, url))
    return 0


def _options(options: argparse.Namespace) -> Iterator[str]:
    """The options that a client has to start the server with, wherever it does so."""
    index = options.index or (INDEX if os.path.exists(INDEX) else None)
    for name, path in (("--index", index), ("--tools-of", options.tools_of), ("--lock", options.lock)):
        if path:
            yield from (name, os.path.abspath(path))
    if options.page_size:
        yield from ("--page-size", str(options.page_size))
    for setting in options.settings:
        yield from ("--config", setting)
    yield from (f"--{name}" for name in ("strict", "trust") if getattr(options, name))
