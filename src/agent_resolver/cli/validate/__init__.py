"""`agent validate`: every fault of an agent file, an index and its overlay, with its place."""

import argparse

from agent_resolver.cli.file_check import (
    check_agent_file,
    check_index,
    check_overlay,
    with_chosen,
)
from agent_resolver.cli.option import (
    Commands,
    add_agents,
    add_command,
    add_index,
    add_json,
)
from agent_resolver.cli.validate.report import REPORTS

_EXAMPLES = """\
  agent validate
  agent validate -a ./config/agents.md -i ./config/servers.json
  agent validate --strict --format github
"""


def add_to(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "validate",
        "check an agent file, a server index and its overlay",
        _EXAMPLES,
    )
    add_agents(parser)
    add_index(parser)
    parser.add_argument(
        "--strict",
        action="store_true",
        help="treat warnings, such as unknown keys, as errors",
    )
    parser.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="show the line of each finding, and what was read",
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="show every finding, also where many are alike",
    )
    report = parser.add_mutually_exclusive_group()
    report.add_argument(
        "--format",
        choices=tuple(REPORTS),
        default="text",
        help="how to report (default: text); --json is --format json",
    )
    add_json(report)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Check every file to the end, then report."""
    agent = check_agent_file(options.agents)
    index = check_index(options.index)
    overlay = check_overlay(options.index)
    # The servers that the agent file chooses are known only when both files are valid,
    # hence a second look at the index.
    checked = [agent, with_chosen(agent, index)]
    if overlay is not None:
        checked.append(overlay)
    # Warnings become errors before the report, so that every format and the exit code
    # agree.
    if options.strict:
        checked = [file.strict() for file in checked]
    report = REPORTS["json" if options.json else options.format]
    report(checked, options)
    # The worst file decides: 2 for one that cannot be read goes before 1 for one that
    # is invalid.
    return max(file.exit_code for file in checked)
