"""`agent task`: requests in plain words that become approved, executed, audited plans."""

import argparse
from importlib import import_module
from typing import Final

from agent_resolver.cli.option import (
    Commands,
    add_agents,
    add_command,
    add_for_state,
    add_governed,
    add_group,
    add_json,
    add_project,
    add_trust,
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
"""The number of tasks that are listed."""
_ENVIRONMENTS: Final = ("dev", "stg", "prd")

_EXAMPLES = """\
  agent task start "Open a ticket titled 'Login fails' and assign it to team accounts"
  agent task list --status waiting
  agent task show 4f1c0a9e                    what it did, and what it waits for
  agent task resume 4f1c0a9e                  go on, once its questions were answered in `agent inbox`
"""
_START_EXAMPLES = """\
  agent task start "Open a ticket titled 'Login fails'"
  agent task start - < request.txt
  agent task start "Restart the web server" --environment prd --token-file token.jwt
  agent task start "Tell the customers" --incident incident.json --json

exit codes:
  0    the plan was executed
  1    it waits for a person, failed, or was refused
  2    usage, or a file that is missing
  130  interrupted; `agent task resume` goes on
"""
_LIST_EXAMPLES = """\
  agent task list
  agent task list --status waiting --json
"""
_SHOW_EXAMPLES = """\
  agent task show 4f1c0a9e                    the beginning of its id is enough
  agent task show 4f1c0a9e --json
"""
_RESUME_EXAMPLES = """\
  agent task resume 4f1c0a9e                  after its questions were answered, or after it was interrupted
  agent task resume 4f1c0a9e --token-file token.jwt
  agent task resume 4f1c0a9e --max-iterations 40

exit codes: as for `agent task start`
"""
_RUN_EXAMPLES = """\
  agent task run                              go on with every task that can
  agent task run --watch                      the same, and stay: go on with others as answers come
"""
_CANCEL_EXAMPLES = """\
  agent task cancel 4f1c0a9e
  agent task cancel 4f1c0a9e 77b3d0aa
"""
_EXPORT_EXAMPLES = """\
  agent task export 4f1c0a9e -o task.json
  agent task export 4f1c0a9e > task.json
  agent task export 4f1c0a9e --format oscal -o assessment-results.json
"""
_VERIFY_EXAMPLES = """\
  agent task verify task.json                 does the document hold together?
  agent task verify task.json --state         and is it what the state of this project says?
  agent task verify task.json --json          every fault with its code

exit codes:
  0    everything holds
  1    something does not, or the file is not the evidence of a task
  2    usage, or a file that is missing
"""
_SKILLS_EXAMPLES = """\
  agent task skills                           those that the settings name, else those of the package
  agent task skills prompts --json            those of a folder

exit codes:
  0  each is as its changelog says
  1  one has a fault, such as a changed prompt with an old version
  2  usage, or a file that is missing
"""


def add_to(commands: Commands) -> None:
    """Declare the commands."""
    group = add_group(
        commands, "task", "turn a request into an approved, executed plan", _EXAMPLES
    )
    _add_start(group)
    _add_list(group)
    show = add_command(
        group, "show", "show a task, and what it waits for", _SHOW_EXAMPLES
    )
    add_run_id(show, "TASK")
    _finish(show, "show")
    resume = add_command(group, "resume", "go on with a task", _RESUME_EXAMPLES)
    add_run_id(resume, "TASK")
    _add_driving(resume, "resume")
    run = add_command(group, "run", "go on with every task that can", _RUN_EXAMPLES)
    run.add_argument(
        "--watch",
        action="store_true",
        help="stay, and go on with others as answers come",
    )
    _add_driving(run, "ready")
    cancel = add_command(group, "cancel", "end tasks for good", _CANCEL_EXAMPLES)
    cancel.add_argument(
        "tasks",
        metavar="TASK",
        nargs="+",
        type=run_id_argument,
        help="their ids, or beginnings",
    )
    _finish(cancel, "cancel")
    export = add_command(
        group,
        "export",
        "write the evidence of a task as one document",
        _EXPORT_EXAMPLES,
    )
    add_run_id(export, "TASK")
    export.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=output_path,
        help="the file (default: stdout)",
    )
    export.add_argument(
        "--format",
        choices=("json", "oscal"),
        default="json",
        help="the evidence itself, or OSCAL assessment results made of it (default: json)",
    )
    _finish(export, "export")
    skills = add_command(
        group,
        "skills",
        "check the prompts of the planner and their versions",
        _SKILLS_EXAMPLES,
    )
    skills.add_argument(
        "folder",
        metavar="DIR",
        nargs="?",
        help="their folder (default: `reasoner.skills`)",
    )
    add_agents(skills)
    add_project(skills)
    add_trust(skills)
    add_json(skills)
    # `skills` reads prompts and no task, so it takes no token.
    skills.set_defaults(run=_import_and_run, task_command="skills")
    verify = add_command(
        group,
        "verify",
        "check the evidence that `agent task export` wrote",
        _VERIFY_EXAMPLES,
    )
    verify.add_argument("file", metavar="FILE", help="the evidence, as JSON")
    verify.add_argument(
        "--state",
        action="store_true",
        help="also compare it with the state of this project",
    )
    _finish(verify, "verify")


def _add_start(group: Commands) -> None:
    parser = add_command(
        group,
        "start",
        "start a task, and bring it to its end or its first question",
        _START_EXAMPLES,
    )
    parser.add_argument(
        "request",
        metavar="REQUEST",
        help="what shall be done, in your own words; - for stdin",
    )
    parser.add_argument(
        "--environment",
        choices=_ENVIRONMENTS,
        help="where the plan acts (default: `reasoner.environment`, which is dev); prd takes a verified token",
    )
    parser.add_argument(
        "--incident",
        metavar="FILE",
        help="a JSON file with the incident that the task belongs to",
    )
    parser.add_argument(
        "--trace-id",
        metavar="HEX",
        help="the trace that the task belongs to: 32 hexadecimal digits",
    )
    _add_driving(parser, "start")


def _add_driving(parser: argparse.ArgumentParser, module: str) -> None:
    """Add the options of a command that runs stages."""
    parser.add_argument(
        "--max-iterations",
        metavar="N",
        type=_positive,
        help="how often the planner may be asked",
    )
    parser.add_argument(
        "--token-limit",
        metavar="N",
        type=_positive,
        help="how many tokens models may use",
    )
    add_tool_use(parser)
    add_governed(parser)
    add_json(parser)
    parser.set_defaults(run=_import_and_run, task_command=module)


def _add_list(group: Commands) -> None:
    parser = add_command(group, "list", "list tasks, newest first", _LIST_EXAMPLES)
    parser.add_argument(
        "--status",
        choices=RUN_STATUSES,
        metavar="STATUS",
        help=f"one of {', '.join(RUN_STATUSES)}",
    )
    parser.add_argument(
        "--limit",
        metavar="N",
        type=run_limit_argument,
        default=_DEFAULT_LIMIT,
        help=f"at most so many (default: {_DEFAULT_LIMIT})",
    )
    _finish(parser, "listing")


def _finish(parser: argparse.ArgumentParser, module: str) -> None:
    add_for_state(parser)
    parser.set_defaults(run=_import_and_run, task_command=module)


def _positive(text: str) -> int:
    # The length is bounded before `int` reads the text; decimals of other scripts pass
    # `isdecimal`, hence `isascii`.
    if not (
        text.isdecimal() and text.isascii() and 0 < len(text) <= 9 and int(text) > 0  # noqa: PLR2004
    ):
        raise argparse.ArgumentTypeError(f"`{text}` is not a number of 1 or more")
    return int(text)


def _import_and_run(options: argparse.Namespace) -> int:
    code: int = import_module(f"agent_resolver.cli.task.{options.task_command}").run(
        options
    )
    return code
