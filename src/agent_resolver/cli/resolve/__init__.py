"""`agent resolve`: choose a server for every requirement and pin the choice."""

import argparse
import os
from collections.abc import Sequence

from agent_resolver.cli.artifact import Artifact, Settled, Status, lock_status
from agent_resolver.cli.chosen import SourceIssues, chosen_issues, flattened
from agent_resolver.cli.errors import InvalidFile, InvalidFiles, Usage
from agent_resolver.cli.input import AGENT_FILE_LABEL, INDEX, INDEX_LABEL, Inputs, load
from agent_resolver.cli.option import (
    Commands,
    add_agents,
    add_command,
    add_index,
    add_json,
    add_workspace,
    output_path,
)
from agent_resolver.cli.output import err_warnings
from agent_resolver.cli.resolve.report import print_header, print_json, print_text
from agent_resolver.cli.resolved_at import resolved_at
from agent_resolver.core.explanation_writer import explanation_json
from agent_resolver.core.resolution import Resolution, resolve
from agent_resolver.schema.artifact_path import explanation_path_of, lock_path_of
from agent_resolver.schema.issue import only_warnings
from agent_resolver.schema.lockfile import Lockfile, to_json
from agent_resolver.storage.file import Batch

_EXAMPLES = """\
  agent resolve
  agent resolve --explain -o ./lockfiles/agents.lock --explain-output ./audit/resolution.json
  agent resolve -i servers-prod.json --dry-run
  agent resolve --check              in CI: exit 1 with a diff if the lock would change
  agent resolve --strict             no lock while a chosen server starts a package that is not pinned
  agent resolve --locked             in CI: exit 1 if the lock is missing or stale
  agent resolve --workspace          every agent file below this folder, one read of the index
"""


def add_to(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "resolve",
        "choose a server for every requirement and write the lock",
        _EXAMPLES,
    )
    add_agents(parser)
    add_index(parser)
    parser.add_argument(
        "-o",
        "--output",
        metavar="PATH",
        type=output_path,
        help="path of the lock (default: beside the agent file, <stem>.lock)",
    )
    parser.add_argument(
        "-e",
        "--explain",
        action="store_true",
        help="also write every choice and every rejection",
    )
    parser.add_argument(
        "--explain-output",
        metavar="PATH",
        type=output_path,
        help="path of the explanation, implies --explain (default: beside the agent file, <stem>.resolution.json)",
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="show every warning, and every requirement and rejection of a failure, also where many are alike",
    )
    parser.add_argument(
        "--strict",
        action="store_true",
        help="write no lock while there is a warning, such as a chosen server whose package is not pinned",
    )
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument(
        "--dry-run",
        action="store_true",
        help="write nothing, say what would be written",
    )
    mode.add_argument(
        "--check",
        action="store_true",
        help="write nothing, exit 1 with a diff if the lock would change",
    )
    mode.add_argument(
        "--locked",
        action="store_true",
        help="write nothing, exit 1 if the lock is missing or stale",
    )
    parser.add_argument(
        "--resolved-at",
        metavar="TIME",
        help="what resolvedAt says: now, or an ISO 8601 time (default: SOURCE_DATE_EPOCH, else 1970-01-01)",
    )
    add_workspace(parser, "resolve")
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Resolve, write or compare what was asked for, and report."""
    if options.workspace is not None:
        from agent_resolver.cli.resolve.workspace import run_workspace

        return run_workspace(options)
    # The time is read first: a faulty SOURCE_DATE_EPOCH is reported before any file is
    # opened.
    instant = resolved_at(options.resolved_at)
    inputs = load(options.agents, options.index or INDEX)
    resolution = resolve(inputs.agent, inputs.servers, resolved_at=instant)
    # Warnings about servers concern only those that are chosen: an index may have
    # thousands with one.
    chosen = chosen_issues(inputs.index, [resolution])
    if options.strict:
        _refuse_warnings(options.agents, inputs, chosen)
    # In JSON the warnings are part of the document; on a terminal they come before the
    # result, as they may explain it.
    if not options.json:
        err_warnings(options.agents, inputs.warnings, shows_all=options.all)
        for found in chosen:
            err_warnings(found.path, found.issues, shows_all=options.all)
        print_header(resolution)
    # The files of a batch appear together, and only if it ends without an error.
    with Batch() as batch:
        settled = settle(resolution, options.agents, options, batch)
    success = _is_success(resolution, inputs, settled, options)
    if options.json:
        warnings = (*inputs.index.issues, *inputs.warnings, *flattened(chosen))
        print_json(resolution, settled, warnings, success=success)
    else:
        print_text(resolution, settled, inputs, options)
    return 0 if success else 1


def _is_success(
    resolution: Resolution,
    inputs: Inputs,
    settled: Sequence[Settled],
    options: argparse.Namespace,
) -> bool:
    # A compiled index that is older than its sources cannot vouch for a lock, so a
    # check in CI must fail.
    is_old = bool(inputs.index.issues) and (options.check or options.locked)
    is_refused = any(file.status.is_refusal for file in settled)
    return resolution.success and not is_old and not is_refused


def _refuse_warnings(
    agent_path: str, inputs: Inputs, chosen: Sequence[SourceIssues]
) -> None:
    """Stop before anything is written while there is a warning.

    Raises:
        InvalidFiles: With every warning as an error.
    """
    # The index counts as well: a compiled one may be older than its sources.
    found = [
        (AGENT_FILE_LABEL, agent_path, inputs.warnings),
        (INDEX_LABEL, inputs.index.path, inputs.index.issues),
    ]
    found += [(INDEX_LABEL, each.path, each.issues) for each in chosen]
    files = [
        InvalidFile(label, path, only_warnings(issues)) for label, path, issues in found
    ]
    if refused := [file for file in files if file.issues]:
        raise InvalidFiles(refused)


def settle(
    resolution: Resolution, agent_path: str, options: argparse.Namespace, batch: Batch
) -> list[Settled]:
    """Write the files that belong to this resolution, or compare them with what is there; the lock comes first.

    Raises:
        Refusal: A file is there that is not ours.
    """
    lockfile = resolution.lockfile
    # Without a lockfile, which is what a failed resolution gives, the explanation alone
    # is written.
    artifacts = _artifacts_of(resolution, lockfile, agent_path, options)
    writes = not (options.locked or options.check or options.dry_run)
    # Every file is judged before the first one is written, so that a refusal leaves all
    # of them as they were.
    conflicts = [
        artifact.refuse_foreign(allows_conflict=writes) for artifact in artifacts
    ]
    if not writes:
        return _compare(artifacts, lockfile, options)
    # The lock is written last: it changes only when the explanation of it is safe on
    # the disk.
    written = zip(reversed(artifacts), reversed(conflicts), strict=True)
    # The result is turned round once more: callers expect the lock first.
    return [
        Settled(artifact, artifact.write(batch, conflict))
        for artifact, conflict in written
    ][::-1]


def _compare(
    artifacts: Sequence[Artifact],
    lockfile: Lockfile | None,
    options: argparse.Namespace,
) -> list[Settled]:
    """Compare the files with what is there; without a lockfile there is nothing that should be there."""
    if lockfile is None:
        return []
    # `--locked` compares what the lock pins, not its bytes, so the time of the
    # resolution does not count.
    if options.locked:
        lock = artifacts[0]
        return [Settled(lock, lock_status(lock.path, lockfile))]
    otherwise = Status.CHANGED if options.check else Status.WOULD_WRITE
    settled = []
    for file in artifacts:
        status = Status.CURRENT if file.is_current() else otherwise
        settled.append(Settled(file, status))
    return settled


def _artifacts_of(
    resolution: Resolution,
    lockfile: Lockfile | None,
    agent_path: str,
    options: argparse.Namespace,
) -> list[Artifact]:
    """The files that belong to this resolution: beside the agent file unless said otherwise, the lock first."""
    artifacts = []
    if lockfile is not None:
        artifacts.append(
            # The content is a function, because most modes compare it lazily or not at
            # all.
            Artifact(
                options.output or lock_path_of(agent_path),
                lambda: [to_json(lockfile)],
                is_lock=True,
            )
        )
    if options.explain or options.explain_output:
        path = options.explain_output or explanation_path_of(agent_path)
        # An explanation may be large, so it is made piece by piece.
        artifacts.append(Artifact(path, lambda: explanation_json(resolution)))
    # Real paths are compared, since a link or `./` may make one file of two paths.
    if len(artifacts) > 1 and os.path.realpath(artifacts[0].path) == os.path.realpath(
        artifacts[1].path
    ):
        raise Usage(
            "The lock and the explanation cannot be one file", "give each its own path"
        )
    return artifacts
