"""`agent resolve --workspace`: every agent file below a folder, a lock beside each, one read of the index."""

import argparse
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from agent_resolver.cli.artifact import Settled, Status
from agent_resolver.cli.chosen import chosen_issues, flattened
from agent_resolver.cli.errors import Refusal
from agent_resolver.cli.input import load_index, warnings_of
from agent_resolver.cli.option import workspace_of
from agent_resolver.cli.output import (
    err,
    err_faults,
    err_warnings,
    issue_document,
    out,
    out_json,
    safe,
)
from agent_resolver.cli.progress import shown_progress
from agent_resolver.cli.resolve import settle
from agent_resolver.cli.resolve.report import (
    REWRITE_HINT,
    Unresolved,
    err_notes,
    err_unresolved,
    lock_diff,
    notes_on,
    print_status,
    unresolved,
)
from agent_resolver.cli.resolved_at import resolved_at
from agent_resolver.core.chosen_notice import chosen_notices
from agent_resolver.core.count import counted
from agent_resolver.core.resolution import Resolution, resolver
from agent_resolver.project.workspace import Member, members
from agent_resolver.schema.agent_file import AgentFile
from agent_resolver.schema.issue import only_errors, only_warnings
from agent_resolver.storage.errors import FileError
from agent_resolver.storage.file import Batch


class Outcome(Struct, frozen=True):
    """The outcome for one agent file."""

    member: Member
    resolution: Resolution | None = None
    """None where the agent file is invalid."""
    settled: Sequence[Settled] = ()
    problem: str = ""
    """Why no file could be written or compared."""

    @property
    def status(self) -> str:
        """One word for it."""
        if self.resolution is None:
            return "invalid"
        if self.problem:
            return "refused"
        if not self.resolution.success:
            return "failed"
        # The lock comes first among the files; a refusal of any of them counts before
        # its status.
        return next(
            (file.status for file in self.settled if file.status.is_refusal),
            self.settled[0].status,
        )

    @property
    def success(self) -> bool:
        """True if all went well."""
        return isinstance(self.status, Status) and not self.status.is_refusal

    @property
    def failed(self) -> tuple[Unresolved, ...]:
        """The requirements that no server can serve."""
        if self.resolution:
            return tuple(unresolved(self.resolution))
        return ()


def run_workspace(options: argparse.Namespace) -> int:
    """Resolve every agent file and report all of them, whatever became of each."""
    folder, index = workspace_of(options, "output", "explain_output")
    # The index is read once for all members, which is what makes a workspace fast.
    opened = load_index(index)
    resolve = resolver(opened.servers, resolved_at=resolved_at(options.resolved_at))
    if not options.json:
        out(f"Resolving the agent files below `{folder}`...")
        out()
    # All outcomes are kept until the end: a file that cannot be resolved must not stop
    # the others.
    outcomes = list(
        shown_progress(
            _resolve_members(folder, options, resolve), "Resolving agent files:"
        )
    )
    chosen = chosen_issues(
        opened, [outcome.resolution for outcome in outcomes if outcome.resolution]
    )
    # As for a single agent file, an index older than its sources cannot vouch for a
    # lock.
    is_old = bool(opened.issues) and (options.check or options.locked)
    success = all(outcome.success for outcome in outcomes) and not is_old
    if options.json:
        warnings = [*opened.issues, *flattened(chosen)]
        document = {**_workspace_document(outcomes), "success": success}
        out_json({**document, "warnings": list(map(issue_document, warnings))})
    else:
        for found in chosen:
            err_warnings(found.path, found.issues, shows_all=options.all)
        _print_outcomes(outcomes, shows_all=options.all)
    return 0 if success else 1


def _resolve_members(
    folder: str, options: argparse.Namespace, resolve: Callable[[AgentFile], Resolution]
) -> Iterator[Outcome]:
    """The outcome for each agent file; all that is written is flushed to the disk together."""
    # One batch for all: hundreds of locks are flushed to the disk side by side instead
    # of one after the other.
    with Batch() as batch:
        for member in members(folder):
            resolution = resolve(member.reading.agent) if member.reading.agent else None
            yield _settle_member(member, resolution, options, batch)


def _settle_member(
    member: Member,
    resolution: Resolution | None,
    options: argparse.Namespace,
    batch: Batch,
) -> Outcome:
    if resolution is None:
        return Outcome(member)
    # `--strict` refuses each member on its own, so one with a warning does not keep the
    # others from their lock.
    if options.strict and (warnings := _warnings_about(member, resolution)):
        return Outcome(
            member, resolution, problem=f"{member.path}: `--strict` refuses {warnings}"
        )
    try:
        return Outcome(
            member, resolution, settle(resolution, member.path, options, batch)
        )
    except (Refusal, FileError) as error:
        # A file that cannot be written is the problem of one member, and reported with
        # it.
        advice = "; move the file away" if isinstance(error, Refusal) else ""
        return Outcome(member, resolution, problem=f"{error}{advice}")


def _warnings_about(member: Member, resolution: Resolution) -> str:
    """The number of warnings about an agent file and the servers chosen for it; empty if there are none."""
    # Only the servers chosen for this file count: an index may have thousands of others
    # with a warning.
    chosen = (choice.server for choice in resolution.choices if choice.server)
    of_servers = only_warnings(chosen_notices(resolution.pool, chosen))
    count = len(of_servers) + len(warnings_of(member.reading))
    if not count:
        return ""
    return "1 warning" if count == 1 else f"{count} warnings"


def _print_outcomes(outcomes: Sequence[Outcome], *, shows_all: bool) -> None:
    for outcome in outcomes:
        _print_outcome(outcome, shows_all=shows_all)
    _err_advice(outcomes)
    out()
    out(_summarize_outcomes(outcomes))


def _print_outcome(outcome: Outcome, *, shows_all: bool) -> None:
    member = outcome.member
    warnings = warnings_of(member.reading) if outcome.resolution else ()
    err_warnings(member.path, warnings)
    for file in outcome.settled:
        print_status(file)
    # Line by line, so that nothing which a lock holds steers the terminal.
    for line in lock_diff(outcome.settled).splitlines():
        out(line)
    if not outcome.success:
        _err_problem(outcome, shows_all=shows_all)
    elif outcome.resolution:
        err_notes(outcome.resolution)


def _err_problem(outcome: Outcome, *, shows_all: bool) -> None:
    """The first problem, from what keeps a file from being read to what keeps it from being resolved."""
    member = outcome.member
    if member.problem:
        err(f"✗ {safe(str(member.problem))}")
    elif outcome.resolution is None:
        err_faults(member.path, member.path, only_errors(member.reading.issues))
    elif outcome.problem:
        err(f"✗ {safe(outcome.problem)}")
    elif not outcome.resolution.success:
        err(f"✗ {member.path}")
        err_unresolved(
            outcome.resolution,
            member.reading.tree,
            member.path,
            shows_all=shows_all,
        )
        err()


def _err_advice(outcomes: Sequence[Outcome]) -> None:
    if any(file.status.is_refusal for outcome in outcomes for file in outcome.settled):
        err(REWRITE_HINT)
    if any(outcome.status == "failed" for outcome in outcomes):
        err(
            "hint: Run `agent discover` to see every server, or `agent why` for one agent file"
        )


def _summarize_outcomes(outcomes: Sequence[Outcome]) -> str:
    counts: dict[str, int] = {}
    for outcome in outcomes:
        counts[outcome.status] = counts.get(outcome.status, 0) + 1
    listed = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    sign = "✓" if all(outcome.success for outcome in outcomes) else "✗"
    return f"{sign} {counted(len(outcomes), 'agent file')}: {listed}"


def _workspace_document(outcomes: Sequence[Outcome]) -> dict[str, object]:
    return {
        "success": all(outcome.success for outcome in outcomes),
        "agents": list(map(_outcome_document, outcomes)),
    }


def _outcome_document(outcome: Outcome) -> dict[str, object]:
    member = outcome.member
    resolution = outcome.resolution
    agent = member.reading.agent
    name, version = (agent.name, agent.version) if agent else (None, None)
    lockfile = resolution.lockfile if resolution else None
    servers = lockfile.servers if lockfile else ()
    notes = notes_on(resolution) if resolution else []
    problem = str(member.problem) if member.problem else outcome.problem
    return {
        "path": member.path,
        "status": outcome.status,
        "agentName": name,
        "agentVersion": version,
        "files": [
            {"path": file.path, "status": file.status.value} for file in outcome.settled
        ],
        "servers": servers,
        "failed": outcome.failed,
        "diff": lock_diff(outcome.settled) or None,
        "notes": notes,
        "problem": problem or None,
        "issues": list(map(issue_document, member.reading.issues)),
    }
