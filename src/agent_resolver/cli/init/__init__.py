"""`agent init`: a project to begin with, or one proposed from what is in the folder."""

import argparse
from importlib import import_module

from agent_resolver.cli.input import AGENT_FILE
from agent_resolver.cli.option import Commands, add_command, add_json

_EXAMPLES = """\
  agent init --dry-run               show what would be written, and how certain each line is
  agent init                         in an empty folder: an agent file and an index that resolve at once
  agent init -y                      beside a client configuration or agent files: write the proposal without asking

Files that are there are never overwritten. Residency, sensitivity, trust and scopes are never guessed.
"""


def add_to(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands, "init", "write an agent file and an index to begin with", _EXAMPLES
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="write nothing, and show every file"
    )
    parser.add_argument(
        "-y", "--yes", action="store_true", help="write a proposal without being asked"
    )
    add_json(parser)
    parser.set_defaults(run=_import_and_run, agents=AGENT_FILE, index=None)


def _import_and_run(options: argparse.Namespace) -> int:
    code: int = import_module("agent_resolver.cli.init.execution").run(options)
    return code
