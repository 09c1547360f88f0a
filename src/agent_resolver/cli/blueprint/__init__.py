"""`agent blueprint`: durable workflows over tools: check them, run them, and look after their runs."""

import argparse
from importlib import import_module
from typing import Final

from agent_resolver.cli.option import (
    Commands,
    add_command,
    add_for_state,
    add_governed,
    add_group,
    add_json,
    output_path,
)
from agent_resolver.cli.run import add_tool_use
from agent_resolver.cli.runs import (
    RUN_STATUSES,
    add_run_id,
    run_id_argument,
    run_limit_argument,
)

_DEFAULT_LIMIT: Final = 100
"""The number of runs that are listed."""

_EXAMPLES = """\
  agent blueprint check                                   every blueprint that agent.toml names
  agent blueprint show tickets.handle                     its steps, in the order in which they run
  agent blueprint run tickets.handle --input '{"title": "Login fails"}'
  agent blueprint list --status waiting
"""
_CHECK_EXAMPLES = """\
  agent blueprint check                       every blueprint that agent.toml names
  agent blueprint check blueprints/handle.yaml
  agent blueprint check blueprints            every blueprint in that folder
  agent blueprint check tickets.handle --strict

exit codes:
  0  each of them can be run
  1  one has a fault, or with --strict a warning
  2  usage, or a file that is missing
"""
_SHOW_EXAMPLES = """\
  agent blueprint show tickets.handle
  agent blueprint show blueprints/handle.yaml --svg build/handle.svg
"""
_RUN_EXAMPLES = """\
  agent blueprint run tickets.handle --input '{"title": "Login fails"}'
  agent blueprint run tickets.handle --input @request.json --key order-4711
  agent blueprint run tickets.handle --input - < request.json
  agent blueprint run tickets.handle --input @request.json --detach      leave it to `agent worker`

exit codes:
  0    the run is done; with --detach, it has begun
  1    it failed, was refused, or waits
  2    usage, or a file that is missing
  130  interrupted; `agent worker` goes on with it
"""
_STATUS_EXAMPLES = """\
  agent blueprint status 4f1c0a9e             the beginning of its id is enough
  agent blueprint status 4f1c0a9e --json
"""
_HISTORY_EXAMPLES = """\
  agent blueprint history 4f1c0a9e
  agent blueprint history 4f1c0a9e --json
"""
_SIGNAL_EXAMPLES = """\
  agent blueprint signal 4f1c0a9e delivered
  agent blueprint signal 4f1c0a9e delivered --data '{"parcel": "A-17"}'
"""
_CANCEL_EXAMPLES = """\
  agent blueprint cancel 4f1c0a9e
  agent blueprint cancel 4f1c0a9e 77b3d0aa
"""
_LIST_EXAMPLES = """\
  agent blueprint list
  agent blueprint list --status waiting --blueprint tickets.handle
  agent blueprint list --versions             how many runs of each version are still under way
"""


def add_to(commands: Commands) -> None:
    """Declare the commands."""
    group = add_group(
        commands, "blueprint", "check and run durable workflows over tools", _EXAMPLES
    )
    _add_check(group)
    _add_show(group)
    _add_run(group)
    status = add_command(
        group,
        "status",
        "show how far a run is, and what it waits for",
        _STATUS_EXAMPLES,
    )
    add_run_id(status)
    _finish(status, "status")
    history = add_command(
        group, "history", "show everything that happened in a run", _HISTORY_EXAMPLES
    )
    add_run_id(history)
    _finish(history, "history")
    signal = add_command(group, "signal", "send a signal to a run", _SIGNAL_EXAMPLES)
    add_run_id(signal)
    signal.add_argument(
        "name", metavar="NAME", help="the signal, as the blueprint names it"
    )
    signal.add_argument(
        "--data",
        metavar="JSON",
        default="null",
        help="what it brings: JSON, @FILE, or - for stdin",
    )
    _finish(signal, "signal")
    cancel = add_command(
        group, "cancel", "end runs, and take back what they have done", _CANCEL_EXAMPLES
    )
    cancel.add_argument(
        "runs",
        metavar="RUN",
        nargs="+",
        type=run_id_argument,
        help="their ids, or the beginnings of them",
    )
    _finish(cancel, "cancel")
    _add_list(group)


def _add_check(group: Commands) -> None:
    parser = add_command(
        group,
        "check",
        "find every fault of blueprints, and where it is",
        _CHECK_EXAMPLES,
    )
    parser.add_argument(
        "chosen",
        metavar="FILE|FOLDER|ID",
        nargs="*",
        help="files, folders of them, or ids of blueprints that agent.toml names (default: all of agent.toml)",
    )
    parser.add_argument(
        "--strict", action="store_true", help="count warnings as faults"
    )
    _add_reading(parser, "check")


def _add_show(group: Commands) -> None:
    parser = add_command(
        group,
        "show",
        "draw the steps of a blueprint in the order in which they run",
        _SHOW_EXAMPLES,
    )
    parser.add_argument(
        "chosen",
        metavar="FILE|ID",
        help="a file, or the id of a blueprint that agent.toml names",
    )
    parser.add_argument(
        "--svg",
        metavar="FILE",
        type=output_path,
        help="write the drawing as SVG to this file",
    )
    _add_reading(parser, "show")


def _add_reading(parser: argparse.ArgumentParser, module: str) -> None:
    """Add the options of a command that reads blueprints and the tools that they call, and calls none."""
    add_governed(parser)
    add_json(parser)
    # `command` is taken: the parser of the application keeps the name of the group
    # there.
    parser.set_defaults(run=_import_and_run, blueprint_command=module)


def _add_run(group: Commands) -> None:
    parser = add_command(
        group,
        "run",
        "run a blueprint to its end, or until it has to wait",
        _RUN_EXAMPLES,
    )
    parser.add_argument(
        "id", metavar="ID", help="the blueprint, as `agent tools list` names it"
    )
    parser.add_argument(
        "--input",
        metavar="JSON",
        default="{}",
        help="its arguments: a JSON object, @FILE, or - for stdin",
    )
    parser.add_argument(
        "--key",
        metavar="TEXT",
        help="make it the same run as others with this key: it is done once",
    )
    parser.add_argument(
        "--trace-id", metavar="HEX", help="go on with this trace, as after an approval"
    )
    parser.add_argument(
        "--detach", action="store_true", help="only begin it: a worker drives it"
    )
    add_tool_use(parser)
    add_governed(parser)
    add_json(parser)
    parser.set_defaults(run=_import_and_run, blueprint_command="run")


def _add_list(group: Commands) -> None:
    parser = add_command(
        group, "list", "list runs of blueprints, newest first", _LIST_EXAMPLES
    )
    parser.add_argument(
        "--status",
        choices=RUN_STATUSES,
        metavar="STATUS",
        help=f"one of {', '.join(RUN_STATUSES)}",
    )
    parser.add_argument(
        "--blueprint", metavar="ID", default="", help="only the runs of this blueprint"
    )
    parser.add_argument(
        "--versions",
        action="store_true",
        help="count the runs under way of each version, in place of listing them",
    )
    amount = parser.add_mutually_exclusive_group()
    amount.add_argument(
        "--limit",
        metavar="N",
        type=run_limit_argument,
        default=_DEFAULT_LIMIT,
        help=f"at most so many (default: {_DEFAULT_LIMIT})",
    )
    amount.add_argument("--all", action="store_true", help="every one of them")
    _finish(parser, "listing")


def _finish(parser: argparse.ArgumentParser, module: str) -> None:
    add_for_state(parser)
    parser.set_defaults(run=_import_and_run, blueprint_command=module)


def _import_and_run(options: argparse.Namespace) -> int:
    # Only the module of this one command is imported, and only once it runs: `--help`
    # needs none of them.
    code: int = import_module(
        f"agent_resolver.cli.blueprint.{options.blueprint_command}"
    ).run(options)
    return code
