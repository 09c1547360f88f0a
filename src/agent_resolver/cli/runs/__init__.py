"""`agent runs`: the runs of a project, and how to go on with them, end them, or take them elsewhere."""

import argparse
from importlib import import_module
from typing import Final

from agent_resolver.cli.catalog import add_root
from agent_resolver.cli.errors import Usage
from agent_resolver.cli.option import (
    Commands,
    add_command,
    add_for_state,
    add_group,
    add_index,
    add_json,
    add_project,
    add_token,
    add_trust,
    output_path,
)
from agent_resolver.cli.run import add_budget, add_model, add_no_input, add_surroundings

# As `ShownStatus` has them: its module is imported only when a command needs it.
RUN_STATUSES: Final = (
    "running",
    "waiting",
    "interrupted",
    "done",
    "failed",
    "cancelled",
)
_MAX_RUN_ID: Final = 64
_MAX_DIGITS: Final = 7
_DEFAULT_LIMIT: Final = 100
"""The number of runs that are listed."""

_EXAMPLES = """\
  agent runs list                            the newest runs, and what each waits for
  agent runs show 4f1c0a9e                   what happened in one; the beginning of its id is enough
  agent runs resume 4f1c0a9e                 go on, once what it waits for was answered
  agent runs cancel 4f1c0a9e
"""
_LIST_EXAMPLES = """\
  agent runs list
  agent runs list --status waiting --agent reviewer
  agent runs list --limit 1000 --json
"""
_SHOW_EXAMPLES = """\
  agent runs show 4f1c0a9e
  agent runs show 4f1c0a9e --json
"""
_RESUME_EXAMPLES = """\
  agent runs resume 4f1c0a9e                 one that waited, was interrupted, or used up a budget
  agent runs resume 4f1c0a9e "Leave that, and sum up" --max-rounds 4
  agent runs resume --ready                  every run that can go on, one after the other
  agent runs resume --watch                  the same, and stay: go on with runs as answers come

exit codes:
  0    the agent came to its end; with --ready, each of them did
  1    it did not, or the run cannot go on: it still waits, runs elsewhere, or its agent changed
  2    usage, or a file that is missing
  130  interrupted
"""
_CANCEL_EXAMPLES = """\
  agent runs cancel 4f1c0a9e
  agent runs cancel 4f1c0a9e 77b3d0aa
"""
_REPLAY_EXAMPLES = """\
  agent runs replay 4f1c0a9e
  agent runs replay 4f1c0a9e --model small --json
"""
_EXPORT_EXAMPLES = """\
  agent runs export 4f1c0a9e -o run.json
  agent runs export 4f1c0a9e > run.json
"""


def add_to(commands: Commands) -> None:
    """Declare the commands."""
    group = add_group(
        commands,
        "runs",
        "list runs, look at them, go on with them, cancel them",
        _EXAMPLES,
    )
    _add_list(group)
    show = add_command(group, "show", "show what happened in a run", _SHOW_EXAMPLES)
    add_run_id(show)
    _finish(show, "show")
    _add_resume(group)
    cancel = add_command(group, "cancel", "end runs for good", _CANCEL_EXAMPLES)
    cancel.add_argument(
        "runs",
        metavar="RUN",
        nargs="+",
        type=run_id_argument,
        help="their ids, or the beginnings of them",
    )
    _finish(cancel, "cancel")
    _add_replay(group)
    export = add_command(
        group,
        "export",
        "write all that is kept of a run as one JSON document",
        _EXPORT_EXAMPLES,
    )
    add_run_id(export)
    export.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=output_path,
        help="the file (default: stdout)",
    )
    _finish(export, "export")


def _add_list(group: Commands) -> None:
    parser = add_command(group, "list", "list runs, newest first", _LIST_EXAMPLES)
    parser.add_argument(
        "--status",
        choices=RUN_STATUSES,
        metavar="STATUS",
        help=f"one of {', '.join(RUN_STATUSES)}",
    )
    parser.add_argument(
        "--agent", metavar="NAME", default="", help="only the runs of this agent"
    )
    parser.add_argument(
        "--limit",
        metavar="N",
        type=run_limit_argument,
        default=_DEFAULT_LIMIT,
        help=f"at most so many ({_DEFAULT_LIMIT})",
    )
    _finish(parser, "listing")


def _add_resume(group: Commands) -> None:
    parser = add_command(
        group, "resume", "go on with a run from where it stopped", _RESUME_EXAMPLES
    )
    parser.add_argument(
        "chosen",
        metavar="RUN",
        nargs="?",
        type=run_id_argument,
        help="its id, or the beginning of it",
    )
    parser.add_argument(
        "prompt",
        metavar="PROMPT",
        nargs="?",
        help="what the agent shall do now, in place of the calls that were open",
    )
    parser.add_argument(
        "--ready",
        action="store_true",
        help="every run that was answered or interrupted",
    )
    parser.add_argument(
        "--watch",
        action="store_true",
        help="the same, and go on with others as answers come",
    )
    parser.add_argument(
        "--with-changes",
        action="store_true",
        help="go on although the agent changed since",
    )
    add_model(parser)
    add_budget(parser)
    add_no_input(parser)
    add_surroundings(parser)
    parser.set_defaults(run=_import_and_resume)


def _add_replay(group: Commands) -> None:
    summary = "run the journal again without acting, and show the first difference to the agent as it is now"
    parser = add_command(group, "replay", summary, _REPLAY_EXAMPLES)
    add_run_id(parser)
    add_model(parser)
    add_root(parser)
    add_index(parser)
    add_project(parser)
    add_token(parser)
    add_trust(parser)
    add_json(parser)
    parser.set_defaults(run=_import_and_run, runs_command="replay")


def add_run_id(parser: argparse.ArgumentParser, metavar: str = "RUN") -> None:
    """The run that a command is about."""
    parser.add_argument(
        "chosen",
        metavar=metavar,
        type=run_id_argument,
        help="its id, or the beginning of it",
    )


def _finish(parser: argparse.ArgumentParser, module: str) -> None:
    add_for_state(parser)
    parser.set_defaults(run=_import_and_run, runs_command=module)


def run_id_argument(argument: str) -> str:
    """The id of a run, or the beginning of it, as an option takes it."""
    # Bytes that are not UTF-8 are not printable either.
    if not (argument.isprintable() and 0 < len(argument) <= _MAX_RUN_ID):
        raise argparse.ArgumentTypeError("no run has an id like that")
    return argument


def run_limit_argument(argument: str) -> int:
    """The number of runs that are listed, as an option takes it."""
    # The length is bounded first, so that `int` never has to read a very long text.
    if not (
        argument.isascii()
        and argument.isdigit()
        and len(argument) <= _MAX_DIGITS
        and int(argument)
    ):
        raise argparse.ArgumentTypeError(
            f"expected a number of runs above 0, found {argument!r}"
        )
    return int(argument)


def _import_and_resume(options: argparse.Namespace) -> int:
    is_for_all = options.ready or options.watch
    if is_for_all == (options.chosen is not None):
        raise Usage(
            "Say which run: its id, or `--ready`, or `--watch`",
            "`agent runs list` lists them",
        )
    # One model for all runs would change agents that the operator did not think of.
    if is_for_all and options.model:
        raise Usage(
            "`--model` is for one run: each of several has its own", "name the run"
        )
    # Events are lines of JSON here, so an error has to be one too.
    options.json_lines = options.json
    options.runs_command = "resume"
    return _import_and_run(options)


def _import_and_run(options: argparse.Namespace) -> int:
    code: int = import_module(f"agent_resolver.cli.runs.{options.runs_command}").run(
        options
    )
    return code
