"""Runs `agent serve`."""

import argparse
import gc
import logging
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from agent_resolver.cli.catalog.execution import open_catalog_of, warn_of_refused
from agent_resolver.cli.client_command import ServeCommand
from agent_resolver.cli.errors import Usage
from agent_resolver.cli.input import AGENT_FILE, INDEX
from agent_resolver.cli.option import folder_of, session_here, session_of
from agent_resolver.cli.output import err, out_text
from agent_resolver.cli.starting import start_patiently
from agent_resolver.core.count import counted
from agent_resolver.project.config import variables_of
from agent_resolver.project.config_file import find_config

if TYPE_CHECKING:
    import socket

    from agent_resolver.project.session import Session
    from agent_resolver.server.serving import Ready


def run(options: argparse.Namespace) -> int:
    """Print the settings for a client, or serve until the client goes or the user interrupts."""
    if options.project:
        # The folder is changed before anything is looked up, so that relative paths
        # mean the same as for an operator there.
        os.chdir(folder_of(options.project))
    if options.lock and not options.tools_of:
        raise Usage(
            "`--lock` names the lock of an agent file", "name that with `--tools-of`"
        )
    # The settings for a client are printed without opening what the server would serve.
    if options.print_config:
        return _print_config(options)
    # The supervisor starts this command again for each process, and needs nothing of
    # what follows.
    if options.processes > 1:
        return _supervise(options)
    import anyio

    gc.enable()  # Commands live for moments and do without; this one lives on.
    # Logs go to stderr: over stdio, MCP keeps stdout for its messages alone.
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.WARNING,
        format="%(levelname)s %(name)s: %(message)s",
    )
    # Only once: these files are closed with their objects.
    sockets = _handed_sockets(options)
    serve = partial(anyio.run, _serve_until_end, options, *sockets)
    if options.http:
        start_patiently(serve, lambda problem: err(f"warning: {problem}"))
    else:
        # A client waits for its first answer, and gives up by itself.
        serve()
    return 0


async def _serve_until_end(
    options: argparse.Namespace,
    listening: "socket.socket | None",
    channel: "socket.socket | None",
) -> None:
    from agent_resolver.server.serving import Serving, serve_session

    is_typed = sys.stdin.isatty()  # By a person, who may expect something to happen.

    with ExitStack() as stack:
        session = stack.enter_context(_session_of_tools(options))
        # The agents are those of this folder, also where the tools are those of an
        # agent file elsewhere.
        here = (
            session
            if session.folder == os.getcwd()
            else stack.enter_context(session_here(options))
        )
        # A client that starts the server waits for its first answer; an operator waits
        # for the address.
        catalog = open_catalog_of(
            here,
            options,
            may_be_empty=_has_own_tools(session),
            may_be_late=not options.http,
        )
        how = Serving(
            http=options.http,
            # Processes of one supervisor share the address as well, whether they were
            # asked to or not.
            is_shared=options.shared or channel is not None,
            listening=listening,
            channel=channel,
            allow_hosts=options.allow_host,
            page_size=options.page_size or here.config.catalog.page_size,
            has_locked_tools=bool(options.tools_of),
            has_inbox=options.inbox,
            is_strict=options.strict,
            runs_of=here if options.runs else None,
            token_file=options.token_file,
            on_ready=partial(_report_ready, channel=channel, is_typed=is_typed),
            on_indexed=warn_of_refused,
        )
        await serve_session(session, catalog, how, options.index or INDEX)


def _report_ready(
    ready: "Ready", *, channel: "socket.socket | None", is_typed: bool
) -> None:
    """Say that the server listens: to the supervisor if there is one, else to the operator."""
    # A server of the lock that is down does not keep the others from being served.
    for server, problem in ready.problems.items():
        err(f"warning: {server} is not there: {problem}")
    if ready.url is not None:
        tools_too = f" and {counted(ready.tools, 'tool')}" if ready.tools else ""
        words = f"Serving {counted(ready.agents, 'agent')}{tools_too} at {ready.url}"
        # A process of a supervisor reports through the channel, and the supervisor
        # prints it once for all.
        if channel is None:
            err(words)
        else:
            channel.sendall(words.encode())
    elif is_typed:
        err("Waiting for messages of an MCP client on stdin; Ctrl-C ends it")
        err(
            "hint: `agent serve --print-config CLIENT` prints what a client needs to start this by itself"
        )
    # What is there now stays: looking through it again and again for garbage would only
    # cost time.
    gc.freeze()


def _handed_sockets(
    options: argparse.Namespace,
) -> "tuple[socket.socket | None, socket.socket | None]":
    """The socket that this process listens on and the one to its supervisor, where it has one."""
    if options.serve_on is None:
        return None, None
    import socket

    try:
        # Both numbers come from the command line, so files that are no sockets are
        # refused in plain words.
        listening, channel = (
            socket.socket(fileno=number) for number in options.serve_on
        )
    except OSError as error:
        raise Usage(
            "`--serve-on` is for server processes that `--processes` starts"
        ) from error
    return listening, channel


def _supervise(options: argparse.Namespace) -> int:
    """Start several server processes on one port, and keep them."""
    import asyncio

    from agent_resolver.server.listening import open_listener
    from agent_resolver.server.supervisor import Supervisor, child_command

    count = options.processes
    # The socket is bound once, here, and every process inherits it: the port stays open
    # while they are exchanged.
    with open_listener(*options.http, is_shared=options.shared) as listening:
        supervisor = Supervisor(
            # The processes get the same command line; the supervisor adds the option
            # that names their files.
            child_command(sys.argv[1:]),
            listening,
            count,
            on_ready=lambda said: err(f"{said.decode()}"),
            report=lambda words: err(f"note: {words}"),
        )
        return asyncio.run(supervisor.run())


def _has_own_tools(session: "Session") -> bool:
    # A project of tools alone can be served without any agent file.
    return bool(session.config.tools.modules or session.config.tools.blueprints)


def _session_of_tools(options: argparse.Namespace) -> "Session":
    # In this form it differs from the default, and so must be there.
    options.agents = (
        os.path.normpath(options.tools_of) if options.tools_of else AGENT_FILE
    )
    return session_of(options)


def _print_config(options: argparse.Namespace) -> int:
    from agent_resolver.exchange.client.entry import NAME, ClientEntry
    from agent_resolver.exchange.client.known import CLIENTS
    from agent_resolver.exchange.client.settings import write_entries
    from agent_resolver.server.address import mcp_url

    with session_here(options) as session:
        roots = session.catalog_roots(options.roots)
        variables = variables_of(session.config, session.environment)
    if not roots and not find_config("."):
        raise Usage("There are no agent files to serve", "name a folder with `--root`")
    # A client that calls an address needs no command, as the operator starts that
    # server.
    if options.http:
        entry = ClientEntry(name=NAME, url=mcp_url(*options.http), wire="http")
    else:
        entry = ClientEntry(
            name=NAME, command=_command_for_client(options, roots), variables=variables
        )
    # The settings are written as if the client had none yet, so that they can be pasted
    # or merged.
    out_text(write_entries(CLIENTS[options.print_config], "", [entry], ""))
    return 0


def _command_for_client(
    options: argparse.Namespace, roots: Sequence[str]
) -> tuple[str, ...]:
    # The command names every path as absolute: a client may start it in any folder.
    return ServeCommand(
        roots=roots,
        index=options.index,
        tools_of=options.tools_of,
        lock=options.lock,
        token_file=options.token_file,
        page_size=options.page_size,
        settings=options.settings,
        flags=[flag for flag, is_given in _flags_of(options).items() if is_given],
    ).words()


def _flags_of(options: argparse.Namespace) -> dict[str, bool]:
    """The options without a value that a client has to start the server with too."""
    return {
        "--inbox": options.inbox,
        "--run": options.runs,
        "--strict": options.strict,
        "--trust": options.trust,
    }
