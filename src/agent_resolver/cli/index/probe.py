"""`agent index probe`: ask servers of the index for their tools, pin what they say, and draft their scopes."""

import argparse
from importlib import import_module

from agent_resolver.cli.option import (
    Commands,
    add_command,
    add_index,
    add_json,
    add_project,
    add_trust,
)

_EXAMPLES = """\
  agent index probe github                  start or call one server, and ask for its tools
  agent index probe --all --timeout 120     every server of the index
  agent index probe github --dry-run        say what would be pinned, and write nothing
  agent index probe github --replace        pin definitions that changed since the last time

It starts commands and calls addresses that the index names, so the project must be trusted.
"""


def add_to(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "probe",
        "ask servers for their tools, pin them, and draft their scopes",
        _EXAMPLES,
    )
    parser.add_argument(
        "ids", metavar="ID[@VERSION]", nargs="*", help="the servers to ask"
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="ask every server of the index that is not withdrawn",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="how long each server may take (default: 60)",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="write nothing, say what would be written",
    )
    parser.add_argument(
        "--replace",
        action="store_true",
        help="pin definitions that are not the pinned ones any more",
    )
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="show what launched servers log"
    )
    add_index(parser)
    add_project(parser)
    add_trust(parser)
    add_json(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    # The MCP SDK takes half a second to import: only who asks servers pays for it.
    return int(import_module("agent_resolver.cli.index.probing").run(options))
