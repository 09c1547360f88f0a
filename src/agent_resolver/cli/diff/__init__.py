"""`agent diff`: what changed between two locks, and how much of a risk each change is."""

import argparse
import os

from agent_resolver.cli.diff.report import (
    DiffReport,
    Source,
    print_json,
    print_markdown,
    print_text,
)
from agent_resolver.cli.errors import InvalidFile, InvalidFiles, Refusal
from agent_resolver.cli.input import (
    AGENT_FILE,
    AGENT_FILE_LABEL,
    INDEX,
    load_index,
    read_agent_bytes,
)
from agent_resolver.cli.option import Commands, add_command, add_json
from agent_resolver.core.lock_diff import Risk, Side, diff, worst
from agent_resolver.core.lock_difference import remedy
from agent_resolver.core.server import KnownServers
from agent_resolver.core.verification import unusable
from agent_resolver.schema.agent_file import AgentFile, parse_agent_file
from agent_resolver.schema.artifact_path import agent_path_of, lock_path_of
from agent_resolver.schema.errors import InvalidAgentFile, InvalidLockfile
from agent_resolver.schema.limit import MAX_LOCKFILE_BYTES
from agent_resolver.schema.lockfile import Lockfile, parse_lockfile
from agent_resolver.storage.file import read_bounded

_EXAMPLES = """\
  agent diff agents.lock.old agents.lock
  agent diff ../main ./              two folders: their agents.lock, with the facts of the files beside each
  agent diff old.lock new.lock --old-index old.json --new-index new.json
  agent diff old.lock new.lock --format markdown > comment.md

What a lock does not hold (residency, signature, publisher, constraints) comes from the `mcp.index.json` and the agent
file beside each lock, where they are there; the output says what could not be compared.

exit codes:
  0  nothing changed, or only what is safe
  3  something changed that needs a look
  4  something changed that is a risk
"""
# 1 and 2 are left to a comparison that fails, so that a script can tell a failure from
# an answer.
_CODES = {None: 0, Risk.SAFE: 0, Risk.REVIEW: 3, Risk.RISK: 4}


def add_to(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "diff",
        "say what changed between two locks, and how risky each change is",
        _EXAMPLES,
    )
    for side, metavar in (("old", "OLD"), ("new", "NEW")):
        parser.add_argument(
            side,
            metavar=metavar,
            help=f"the {side} lock, or a folder with `agents.lock`",
        )
    for side in ("old", "new"):
        parser.add_argument(
            f"--{side}-agents",
            metavar="PATH",
            help=f"the agent file of the {side} lock",
        )
        parser.add_argument(
            f"--{side}-index", metavar="PATH", help=f"the index of the {side} lock"
        )
    output = parser.add_mutually_exclusive_group()
    output.add_argument(
        "--format",
        choices=("text", "json", "markdown"),
        default="text",
        help="how to print it; markdown is for a review comment (default: text)",
    )
    add_json(output)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Compare, and print it in the form that was asked for."""
    # An error is reported by the application, which looks at `json` alone.
    options.json = options.json or options.format == "json"
    sources = (
        _find_source(options.old, options.old_agents, options.old_index),
        _find_source(options.new, options.new_agents, options.new_index),
    )
    changes = diff(*map(_read_side, sources))
    report = DiffReport(sources[0], sources[1], changes)
    if options.json:
        print_json(report)
    elif options.format == "markdown":
        print_markdown(report)
    else:
        print_text(report)
    return _CODES[worst(changes)]


def _find_source(path: str, agents: str | None, index: str | None) -> Source:
    # A folder stands for the lock in it that belongs to the usual agent file.
    lock = (
        os.path.join(path, lock_path_of(os.path.basename(AGENT_FILE)))
        if os.path.isdir(path)
        else path
    )
    beside = agent_path_of(lock)
    return Source(
        lock,
        agents or _path_if_there(beside),
        index or _path_if_there(os.path.join(os.path.dirname(lock), INDEX)),
    )


def _path_if_there(path: str) -> str | None:
    # Only a file that was named has to be there: these are looked for, and their
    # absence becomes a note.
    if os.path.isfile(path):
        return os.path.normpath(path)
    return None


def _read_side(source: Source) -> Side:
    lockfile = _read_lockfile(source.lock)
    agent_file = _read_agent_file(source.agents) if source.agents else None
    servers = _read_servers(source.index) if source.index else None
    return Side(lockfile, agent_file, servers)


def _read_lockfile(path: str) -> Lockfile:
    raw = read_bounded(path, MAX_LOCKFILE_BYTES)
    # What must not be read as a lock, such as a merge conflict or a newer format, is
    # refused with its cause.
    problem = unusable(raw)
    if problem:
        raise Refusal(
            f"`{path}` cannot be compared: {problem.message}", remedy(problem.kind)
        )
    try:
        return parse_lockfile(raw)
    except InvalidLockfile as error:
        faults = "; ".join(map(str, error.issues))
        raise Refusal(
            f"`{path}` is not a lock: {faults}", "run `agent resolve` to write it again"
        ) from None


def _read_agent_file(path: str) -> AgentFile:
    try:
        return parse_agent_file(read_agent_bytes(path))
    except InvalidAgentFile as error:
        # The application would look for the path in `--agents`, which this command does
        # not have.
        raise InvalidFiles(
            [InvalidFile(AGENT_FILE_LABEL, path, error.issues)]
        ) from None


def _read_servers(path: str) -> KnownServers:
    return load_index(path).servers
