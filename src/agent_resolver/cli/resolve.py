"""`agent resolve`: choose a server for every requirement and pin the choice."""

import argparse
import os

from agent_resolver.cli.artifact import Artifact, Settled, Status, lock_status
from agent_resolver.cli.errors import Usage
from agent_resolver.cli.input import INDEX, load
from agent_resolver.cli.instant import resolved_at
from agent_resolver.cli.option import Commands, add_agents, add_command, add_index, add_json
from agent_resolver.cli.output import err_warnings
from agent_resolver.cli.resolve_report import print_header, print_json, print_text
from agent_resolver.core import Resolution, explanation_json, resolve
from agent_resolver.schema import to_json

_EXAMPLES = """\
  agent resolve
  agent resolve --explain -o ./lockfiles/agents.lock --explain-output ./audit/resolution.json
  agent resolve -i servers-prod.json --dry-run
  agent resolve --check              in CI: exit 1 with a diff if the lock would change
  agent resolve --locked             in CI: exit 1 if the lock is missing or stale
"""


def add_to(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(commands, "resolve", "choose a server for every requirement and write the lock", _EXAMPLES)
    add_agents(parser)
    add_index(parser)
    parser.add_argument(
        "-o", "--output", metavar="PATH", help="path of the lock (default: beside the agent file, <stem>.lock)"
    )
    parser.add_argument("-e", "--explain", action="store_true", help="also write every choice and every rejection")
    parser.add_argument(
        "--explain-output",
        metavar="PATH",
        help="path of the explanation, implies --explain (default: beside the agent file, <stem>.resolution.json)",
    )
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--dry-run", action="store_true", help="write nothing, say what would be written")
    mode.add_argument("--check", action="store_true", help="write nothing, exit 1 with a diff if the lock would change")
    mode.add_argument("--locked", action="store_true", help="write nothing, exit 1 if the lock is missing or stale")
    parser.add_argument(
        "--resolved-at",
        metavar="TIME",
        help="what resolvedAt says: now, or an ISO 8601 time (default: SOURCE_DATE_EPOCH, else 1970-01-01)",
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Resolve, write or compare what was asked for, and report."""
    instant = resolved_at(options.resolved_at)
    agent, warnings, servers = load(options.agents, options.index or INDEX)
    resolution = resolve(agent, servers, resolved_at=instant)
    if not options.json:
        err_warnings(options.agents, warnings)
        print_header(resolution)
    settled = _settle(_artifacts(resolution, options), resolution, options)
    if options.json:
        print_json(resolution, settled, warnings)
    else:
        print_text(resolution, settled)
    return 0 if resolution.success and not any(file.status.is_refusal for file in settled) else 1


def _artifacts(resolution: Resolution, options: argparse.Namespace) -> list[Artifact]:
    """The files that belong to this resolution: beside the agent file unless said otherwise, the lock first."""
    stem = options.agents.removesuffix(".md")
    artifacts = []
    if lockfile := resolution.lockfile:
        artifacts.append(Artifact(options.output or f"{stem}.lock", lambda: [to_json(lockfile)], is_lock=True))
    if options.explain or options.explain_output:
        path = options.explain_output or f"{stem}.resolution.json"
        artifacts.append(Artifact(path, lambda: explanation_json(resolution)))
    if len({os.path.realpath(artifact.path) for artifact in artifacts}) < len(artifacts):
        raise Usage("The lock and the explanation cannot be one file", "give each its own path")
    return artifacts


def _settle(artifacts: list[Artifact], resolution: Resolution, options: argparse.Namespace) -> list[Settled]:
    """Write the files, or compare them with what is there."""
    lockfile = resolution.lockfile
    for artifact in artifacts:
        artifact.refuse_foreign()
    if options.locked:
        return [Settled(artifacts[0], lock_status(artifacts[0].path, lockfile))] if lockfile else []
    if options.check or options.dry_run:
        otherwise = Status.CHANGED if options.check else Status.WOULD_WRITE
        compared = artifacts if lockfile else []
        return [Settled(file, Status.CURRENT if file.is_current() else otherwise) for file in compared]
    # The lock is written last: it changes only when the explanation of it is safe on the disk.
    return [Settled(artifact, artifact.write()) for artifact in reversed(artifacts)][::-1]
