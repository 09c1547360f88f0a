"""`agent runs`: the runs of a project."""

import argparse
from importlib import import_module
from typing import Final

from agent_resolver.cli.catalog import add_root
from agent_resolver.cli.option import (
    Commands,
    add_command,
    add_group,
    add_index,
    add_json,
    add_project,
    add_token,
    add_trust,
)

_MAX_RUN_ID: Final = 64
_REPLAY_EXAMPLES = """\
  agent runs replay 4f1c0a9e
  agent runs replay 4f1c0a9e --model small --json
"""


def add_to(commands: Commands) -> None:
    """Declare the commands."""
    group = add_group(commands, "runs", "replay runs", _REPLAY_EXAMPLES)
    summary = "run the journal again without acting, and show the first difference to the agent as it is now"
    parser = add_command(group, "replay", summary, _REPLAY_EXAMPLES)
    parser.add_argument("chosen", metavar="RUN", type=_run_id, help="its id, or the beginning of it")
    parser.add_argument("--model", metavar="NAME", help="a model in place of the one that the agent names")
    add_root(parser)
    add_index(parser)
    add_project(parser)
    add_token(parser)
    add_trust(parser)
    add_json(parser)
    parser.set_defaults(run=_import_and_run, runs_command="replay")


def _run_id(argument: str) -> str:
    # Bytes that are not UTF-8 are not printable either.
    if not (argument.isprintable() and 0 < len(argument) <= _MAX_RUN_ID):
        raise argparse.ArgumentTypeError("no run has an id like that")
    return argument


def _import_and_run(options: argparse.Namespace) -> int:
    code: int = import_module(f"agent_resolver.cli.runs.{options.runs_command}").run(options)
    return code
