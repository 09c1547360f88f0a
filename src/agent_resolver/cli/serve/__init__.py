"""`agent serve`: the agents, and tools over them, for MCP clients."""

import argparse
import re
from importlib import import_module

from agent_resolver.cli.catalog import add_root
from agent_resolver.cli.errors import Usage
from agent_resolver.cli.option import (
    Commands,
    add_command,
    add_index,
    add_project,
    add_token,
)

_CLIENTS = ("claude-code", "claude-desktop", "vscode", "cursor", "codex", "gemini")
# An IPv6 address stands in brackets, which keeps its colons apart from that of the
# port.
_ADDRESS = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[^:\[\]\s]+):(?P<port>\d{1,5})")
_EXAMPLES = """\
  agent serve --root agents                           over stdio, for a client that starts it
  agent serve --http 127.0.0.1:8765                   at http://127.0.0.1:8765/mcp
  agent serve --http 127.0.0.1:8765 --processes 4     by four processes; SIGHUP exchanges them
  agent serve --print-config claude-code              what to write into the client's settings
  agent serve --tools-of agents.md                    and the tools that agents.lock opens
  agent serve --tools-of agents.md --inbox            and the inbox, as tools
  agent serve --run                                   and a tool that runs an agent
  agent serve --strict                                hide agents whose `requires` do not resolve
"""


def add_to(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "serve",
        "serve the agents over MCP, each loaded when it is asked for",
        _EXAMPLES,
    )
    add_root(parser)
    add_index(parser)
    parser.add_argument(
        "--project",
        metavar="DIR",
        help="serve as if started in this folder (default: this one)",
    )
    parser.add_argument(
        "--http",
        metavar="HOST:PORT",
        type=address_argument,
        help="serve Streamable HTTP there, at /mcp",
    )
    parser.add_argument(
        "--allow-host",
        metavar="NAME",
        action="append",
        default=[],
        help="a name that clients may call the server by; needed where HOST is not this machine alone (repeatable)",
    )
    parser.add_argument(
        "--processes",
        metavar="N",
        type=int,
        default=1,
        help="answer with so many processes, 1 to 64 (default: 1)",
    )
    parser.add_argument(
        "--shared",
        action="store_true",
        help="other servers of this project answer at the same address: keep sessions in the state, share the port, "
        "and finish what was begun before SIGTERM ends this one",
    )
    # The option is hidden: it names open files, which only the supervisor that opened
    # them can know.
    parser.add_argument(
        "--serve-on",
        metavar="LISTENING:CHANNEL",
        type=_parse_files,
        help=argparse.SUPPRESS,
    )
    parser.add_argument(
        "--page-size",
        metavar="N",
        type=int,
        help="agents a page, 1 to 100 (default: catalog.page_size, else 20)",
    )
    parser.add_argument(
        "--tools-of",
        metavar="PATH",
        help="also serve the tools that the lock of this agent file opens",
    )
    parser.add_argument(
        "--lock",
        metavar="PATH",
        help="path of that lock (default: beside it, <stem>.lock)",
    )
    parser.add_argument(
        "--trust",
        action="store_true",
        help="let the commands of that project run, for CI",
    )
    add_project(parser)
    add_token(parser)
    parser.add_argument(
        "--inbox",
        action="store_true",
        help="also serve the inbox as tools, for people who answer the calls of others",
    )
    parser.add_argument(
        "--run",
        action="store_true",
        dest="runs",
        help="also let clients run the agents here, with their models and their tools",
    )
    parser.add_argument(
        "--strict",
        action="store_true",
        help="hide agents whose `requires` do not resolve",
    )
    parser.add_argument(
        "--print-config",
        choices=_CLIENTS,
        metavar="CLIENT",
        help=f"one of {', '.join(_CLIENTS)}",
    )
    parser.set_defaults(run=_import_and_run)


def address_argument(text: str) -> tuple[str, int]:
    """A host and a port, as an option takes them."""
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found["port"]) > 65535:  # noqa: PLR2004 - the last port
        raise argparse.ArgumentTypeError(f"`{text}` is not HOST:PORT")
    return found["host"].strip("[]"), int(found["port"])


def _parse_files(text: str) -> tuple[int, int]:
    """The open files that a supervisor hands to a server process."""
    listening, _, channel = text.partition(":")
    # The numbers are checked here; whether they are open sockets is found out when they
    # are used.
    if not (listening.isdecimal() and channel.isdecimal()):
        raise argparse.ArgumentTypeError(
            "it is for server processes that `--processes` starts"
        )
    return int(listening), int(channel)


def _import_and_run(options: argparse.Namespace) -> int:
    if options.page_size is not None and not 1 <= options.page_size <= 100:  # noqa: PLR2004 - the standard's clients must be able to hold it
        raise Usage("`--page-size` must be from 1 to 100")
    if not 1 <= options.processes <= 64:  # noqa: PLR2004 - more would only wait for each other
        raise Usage("`--processes` must be from 1 to 64")
    # On stdio there is one client and one process, so nothing could be shared.
    if (options.processes > 1 or options.shared) and not options.http:
        raise Usage(
            "`--processes` and `--shared` are for a server at an address",
            "name one with `--http`",
        )
    code: int = import_module("agent_resolver.cli.serve.execution").run(options)
    return code
