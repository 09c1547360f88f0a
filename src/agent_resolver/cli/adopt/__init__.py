"""`agent adopt`: from the servers or agents of a client to a governed project."""

import argparse
from importlib import import_module

from agent_resolver.cli.errors import Usage
from agent_resolver.cli.input import AGENT_FILE
from agent_resolver.cli.option import (
    Commands,
    add_command,
    add_json,
    add_project,
    add_trust,
)

# The names are those of `exchange.client.known`, which is imported only when the
# command runs.
_CLIENTS = ("claude-code", "claude-desktop", "vscode", "cursor", "codex", "gemini")
_EXAMPLES = """\
  agent adopt --dry-run --trust              show every change, and write nothing
  agent adopt --trust                        every client configuration in this folder
  agent adopt .mcp.json --allow 'read:*' --allow 'network:*'
  agent adopt --agents --dry-run             show how agent files would move into ./agents
  agent adopt --agents .claude/agents

It starts the servers of the configuration to ask for their tools, so the folder must be trusted. The configuration as
it was stays beside it, as FILE.before-agent-resolver. If anything is missing, nothing is written.
"""


def add_to(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "adopt",
        "govern the servers of a client configuration, or serve a client's agent files",
        _EXAMPLES,
    )
    parser.add_argument(
        "configs",
        metavar="CONFIG",
        nargs="*",
        help="a client configuration (default: each that is in this folder)",
    )
    parser.add_argument(
        "--client",
        choices=_CLIENTS,
        metavar="CLIENT",
        help=f"whose configuration it is: {', '.join(_CLIENTS)}",
    )
    parser.add_argument(
        "--allow",
        metavar="PATTERN",
        action="append",
        default=[],
        help="ask only for scopes like this, such as 'read:*' (repeatable; default: every scope)",
    )
    parser.add_argument(
        "--no-probe",
        action="store_true",
        help="start no server, and use the scopes the index states",
    )
    parser.add_argument(
        "--agents",
        metavar="FOLDER",
        nargs="*",
        dest="agent_folders",
        help="move agent files into ./agents instead (default: out of each folder that a client loads whole)",
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
        help="write nothing, and show every change as a diff",
    )
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="show what launched servers log"
    )
    add_project(parser)
    add_trust(parser)
    add_json(parser)
    # Here `--agents` names folders. The agent file that is adopted into is always the
    # one of this folder.
    parser.set_defaults(run=_import_and_run, agents=AGENT_FILE, index=None)


def _import_and_run(options: argparse.Namespace) -> int:
    # `--agents` without a folder gives an empty list, so only None means that the
    # option is absent.
    if options.agent_folders is None:
        module = "execution"
    else:
        _refuse_options_of_servers(options)
        module = "agents"
    code: int = import_module(f"agent_resolver.cli.adopt.{module}").run(options)
    return code


def _refuse_options_of_servers(options: argparse.Namespace) -> None:
    # An option without effect is refused: an operator would believe that it had chosen
    # what moves. `--timeout` is not looked at, since one that was given cannot be told
    # from its default.
    given = {
        "CONFIG": options.configs,
        "--client": options.client,
        "--allow": options.allow,
        "--no-probe": options.no_probe,
    }
    for name, value in given.items():
        if value:
            raise Usage(f"`--agents` moves agent files, so `{name}` has no place there")
