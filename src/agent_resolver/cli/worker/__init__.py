"""`agent worker`: takes up runs of every kind and drives them, as many workers as are started."""

import argparse
from importlib import import_module
from typing import Final

from agent_resolver.cli.catalog import add_root
from agent_resolver.cli.errors import Usage
from agent_resolver.cli.option import (
    Commands,
    add_agents,
    add_command,
    add_governed,
    add_json,
    add_project,
    add_trust,
)
from agent_resolver.cli.run import add_tool_use, count_argument
from agent_resolver.cli.serve import address_argument

_CAPACITY: Final = 10
"""The number of runs that a worker drives at the same time."""
# As `RunKind` has them: its module is imported only when a command needs it.
_KINDS: Final = ("agent", "workflow", "blueprint", "task")
_MAX_NAME: Final = 64

_EXAMPLES = """\
  agent worker                       drive runs until Ctrl-C or SIGTERM
  agent worker --until-idle          drive what can go on now, and end
  agent worker --capacity 50 --kind blueprint
  agent worker --http 127.0.0.1:9464    answer probes, and Prometheus
  agent worker list                  the workers of this state, on every machine
  agent worker drain 3f9c2a          let one hand its runs over and end

Several workers share the runs of one state; a run whose worker is gone is taken up by another. The first signal lets
what is being called come to its end and hands the runs over; the second one ends the worker at once, and loses nothing.

exit codes:
  0    stopped by a signal or drained, or idle with --until-idle
  1    it cannot work: no token, a blueprint with faults, a folder that is not trusted
  2    usage, a file that is missing, or a package that a kind of runs needs
"""
_LIST_EXAMPLES = """\
  agent worker list
  agent worker list --json

Workers that stopped, or that are gone, are listed for an hour.
"""
_DRAIN_EXAMPLES = """\
  agent worker drain 3f9c2a          the beginning of a name is enough
  agent worker drain --all --wait    and wait until each has ended

exit codes:
  0    each was asked; with --wait, each has ended
  1    there is no such worker, or one did not end in time
"""


def add_to(commands: Commands) -> None:
    """Declare the commands."""
    parser = add_command(
        commands, "worker", "drive runs of every kind until it is stopped", _EXAMPLES
    )
    parser.add_argument(
        "--capacity",
        metavar="N",
        type=count_argument,
        default=_CAPACITY,
        help=f"drive so many runs at the same time (default: {_CAPACITY})",
    )
    parser.add_argument(
        "--kind",
        metavar="KIND",
        choices=_KINDS,
        action="append",
        dest="kinds",
        help=f"only these runs: {', '.join(_KINDS)} (repeatable; default: all)",
    )
    parser.add_argument(
        "--until-idle", action="store_true", help="end once no run can go on by itself"
    )
    parser.add_argument(
        "--http",
        metavar="HOST:PORT",
        type=address_argument,
        help="answer /healthz, /readyz and /metrics there",
    )
    parser.add_argument(
        "--allow-remote",
        action="store_true",
        help="let HOST be an address that other machines can reach",
    )
    add_tool_use(parser)
    add_root(parser)
    add_governed(parser)
    add_json(parser, "print what it does as lines of JSON on stdout")
    parser.set_defaults(run=_import_and_work)
    # Without a command below it, `agent worker` itself works, so the group is optional.
    group = parser.add_subparsers(title="commands", metavar="COMMAND", required=False)
    listing = add_command(
        group, "list", "list the workers of this state", _LIST_EXAMPLES
    )
    _finish(listing, "listing")
    drain = add_command(
        group, "drain", "let workers hand their runs over and end", _DRAIN_EXAMPLES
    )
    drain.add_argument(
        "names",
        metavar="NAME",
        nargs="*",
        type=_name_argument,
        help="their names, or the beginnings",
    )
    drain.add_argument(
        "--all",
        action="store_true",
        dest="drains_all",
        help="every worker of this state",
    )
    drain.add_argument("--wait", action="store_true", help="wait until they have ended")
    drain.add_argument(
        "--wait-seconds",
        metavar="N",
        type=count_argument,
        default=600,
        help="wait no longer than this (default: 600)",
    )
    _finish(drain, "draining")


def _finish(parser: argparse.ArgumentParser, module: str) -> None:
    add_agents(parser)
    add_project(parser)
    add_trust(parser)
    add_json(parser, "print it as JSON")
    # The innermost parser sets its default last, in place of that of `agent worker`.
    parser.set_defaults(run=lambda options: _import_and_run(module, options))


def _name_argument(text: str) -> str:
    if not (text.isalnum() and text.isascii() and len(text) <= _MAX_NAME):
        raise argparse.ArgumentTypeError(
            f"`{text[:_MAX_NAME]}` is not the name of a worker"
        )
    return text


def _import_and_work(options: argparse.Namespace) -> int:
    # From here on each line is an event, and so is an error.
    options.json_lines = options.json
    if options.allow_remote and not options.http:
        raise Usage(
            "`--allow-remote` is about `--http`",
            "name the address with `--http HOST:PORT`",
        )
    return _import_and_run("working", options)


def _import_and_run(module: str, options: argparse.Namespace) -> int:
    code: int = import_module(f"agent_resolver.cli.worker.{module}").run(options)
    return code
