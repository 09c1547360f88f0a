"""`agent audit`: what was decided and done, and whether the record of it is whole."""

import argparse
import os
from typing import TYPE_CHECKING

import msgspec

from agent_resolver.cli.errors import Usage
from agent_resolver.cli.option import Commands, add_agents, add_command, add_group, add_json, add_project, project_of
from agent_resolver.cli.output import err, out, out_json, safe
from agent_resolver.storage.database import Database
from agent_resolver.storage.trail import SqliteTrail

if TYPE_CHECKING:
    from agent_resolver.project.project import Project

_MAX_DIGITS = 18

_SHOW_EXAMPLES = """\
  agent audit show --last 20
  agent audit show --run 4f1c0a... --json
"""
_VERIFY_EXAMPLES = """\
  agent audit verify
  agent audit verify --root 9f2b...   fail unless the trail ends in this root
"""


def add_to(commands: Commands) -> None:
    """Declare the commands."""
    group = add_group(commands, "audit", "show and verify the audit trail")
    show = add_command(group, "show", "print the records of the trail", _SHOW_EXAMPLES)
    show.add_argument(
        "--run",
        dest="run_id",
        type=_text,
        metavar="ID",
        help="only the records of this run",
    )
    show.add_argument("--last", type=_count, metavar="N", help="only the last N records")
    verify = add_command(group, "verify", "find any record that was changed, removed or reordered", _VERIFY_EXAMPLES)
    verify.add_argument("--root", metavar="HEX", help="the sealed root that was noted down earlier")
    for parser, run in ((show, run_show), (verify, run_verify)):
        add_agents(parser)
        add_project(parser)
        add_json(parser)
        parser.set_defaults(run=run)


def run_show(options: argparse.Namespace) -> int:
    """Print the records, oldest first."""
    project = project_of(options)
    try:
        records = list(SqliteTrail(state_of(project)).records(options.run_id, options.last))
    finally:
        project.close()
    if options.json:
        out_json(records)
        return 0
    for record in records:
        body = msgspec.json.encode(record.body, order="sorted").decode()
        out(safe(f"{record.position} {record.at} {record.run[:8]}.{record.sequence} {record.kind} {body}"))
    return 0


def run_verify(options: argparse.Namespace) -> int:
    """Recompute the whole chain."""
    project = project_of(options)
    try:
        faults, count, root = SqliteTrail(state_of(project), project.key).verify(options.root or "")
    finally:
        project.close()
    if options.json:
        out_json({"success": not faults, "records": count, "root": root, "faults": faults})
    elif faults:
        err("✗ The audit trail does not verify:")
        for fault in faults:
            err(f"  - {safe(fault)}")
    else:
        out(f"✓ {count} record(s) verify, root {root or '(empty)'}")
    return 1 if faults else 0


def state_of(project: "Project") -> Database:
    """The state file, which must be there: looking at a trail must not make an empty one."""
    if not os.path.exists(project.state_path):
        hint = "nothing was recorded here yet; name another project's agent file with `--agents`"
        raise Usage(f"`{project.state_path}` does not exist", hint)
    return project.database


def _text(argument: str) -> str:
    if not argument.isprintable():  # Nor are bytes that are no UTF-8.
        raise argparse.ArgumentTypeError("no run has an id like that")
    return argument


def _count(argument: str) -> int:
    # SQLite counts to 2**63, and nobody has that many records.
    if not (argument.isascii() and argument.isdigit() and len(argument) <= _MAX_DIGITS):
        raise argparse.ArgumentTypeError(f"expected a number of records, found {argument!r}")
    return int(argument)
