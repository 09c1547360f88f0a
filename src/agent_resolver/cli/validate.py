"""`agent validate`: every fault of an agent file and an index, with its place."""

import argparse

from agent_resolver.cli.checked import Checked
from agent_resolver.cli.input import (
    AGENT_FILE_LABEL,
    INDEX,
    INDEX_LABEL,
    read_agent_bytes,
    read_index_bytes,
)
from agent_resolver.cli.option import Commands, add_agents, add_command, add_index, add_json
from agent_resolver.cli.validate_report import REPORTS
from agent_resolver.core import agent_file_notices, index_notices
from agent_resolver.schema import read_agent_file, read_index
from agent_resolver.storage import FileError, UnreadableFile

_EXAMPLES = """\
  agent validate
  agent validate -a ./config/agents.md -i ./config/servers.json
  agent validate --strict --format github
"""


def add_to(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(commands, "validate", "check an agent file and a server index", _EXAMPLES)
    add_agents(parser)
    add_index(parser)
    parser.add_argument("--strict", action="store_true", help="treat warnings, such as unknown keys, as errors")
    parser.add_argument("-v", "--verbose", action="store_true", help="show the line of each finding, and what was read")
    parser.add_argument(
        "--format",
        choices=tuple(REPORTS),
        default="text",
        help="how to report (default: text); --json is --format json",
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Check both files to the end, then report."""
    checked = [_check_agent_file(options.agents), _check_index(options.index)]
    if options.strict:
        checked = [file.strict() for file in checked]
    report = REPORTS["json" if options.json else options.format]
    report(checked, verbose=options.verbose)
    return max(file.exit_code for file in checked)


def _check_agent_file(path: str) -> Checked:
    checked = Checked(label=AGENT_FILE_LABEL, valid="agents.md frontmatter is valid", path=path)
    try:
        raw = read_agent_bytes(path)
    except FileError as error:
        return checked.unreadable(error)
    reading = read_agent_file(raw)
    if reading.agent is None:
        return checked.found(raw, reading.issues)
    needs = reading.agent.requires.mcp
    return checked.found(
        raw,
        (*reading.issues, *agent_file_notices(reading.agent, reading.tree)),
        f"{len(needs)} requirement(s), {sum(len(need.permissions) for need in needs)} permission(s)",
    )


def _check_index(path: str | None) -> Checked:
    checked = Checked(label=INDEX_LABEL, valid="mcp.index.json is valid", path=path or INDEX)
    try:
        raw = read_index_bytes(checked.path)
    except UnreadableFile as error:
        # Only the default path may be absent: whoever names a file means it.
        return checked if error.missing and path is None else checked.unreadable(error)
    except FileError as error:
        return checked.unreadable(error)
    reading = read_index(raw)
    if reading.value is None:
        return checked.found(raw, reading.issues)
    categories = {category for entry in reading.value for category in entry.categories}
    return checked.found(
        raw,
        (*reading.issues, *index_notices(reading.value, reading.tree)),
        f"{len(reading.value)} server(s), {len(categories)} category/categories",
    )
