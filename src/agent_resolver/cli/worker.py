"""`agent worker`: drives runs of blueprints, as many workers as are started."""

import argparse
from importlib import import_module
from typing import Final

from agent_resolver.cli.option import Commands, add_command, add_governed, add_json
from agent_resolver.cli.run import add_tool_use, count_argument

_CAPACITY: Final = 10
"""The number of runs that a worker drives at the same time."""

_EXAMPLES = """\
  agent worker                       drive runs until Ctrl-C or SIGTERM
  agent worker --until-idle          drive what can go on now, and end
  agent worker --capacity 50

Several workers share the runs of one state; a run whose worker is gone is taken up by another. The first signal lets
what is being called come to its end and hands the runs on; the second one ends the worker at once, and loses nothing.

exit codes:
  0    stopped by a signal, or idle with --until-idle
  1    it cannot work: no token, a blueprint with faults, a folder that is not trusted
  2    usage, or a file that is missing
"""


def add_to(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(commands, "worker", "drive runs of blueprints until it is stopped", _EXAMPLES)
    parser.add_argument(
        "--capacity",
        metavar="N",
        type=count_argument,
        default=_CAPACITY,
        help=f"drive so many runs at the same time (default: {_CAPACITY})",
    )
    parser.add_argument("--until-idle", action="store_true", help="end once no run can go on by itself")
    add_tool_use(parser)
    add_governed(parser)
    add_json(parser, "print what it does as lines of JSON on stdout")
    parser.set_defaults(run=_import_and_run)


def _import_and_run(options: argparse.Namespace) -> int:
    options.json_lines = options.json
    code: int = import_module("agent_resolver.cli.blueprint.working").run(options)
    return code
