"""What `agent resolve` prints."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from agent_resolver.cli.artifact import Settled, Status
from agent_resolver.cli.input import Inputs
from agent_resolver.cli.output import err, issue_document, out, out_json, shown
from agent_resolver.core.choice import rejections
from agent_resolver.core.constraint import position_of
from agent_resolver.core.resolution import Resolution
from agent_resolver.core.server import in_order
from agent_resolver.schema.agent_file import Requirement, find_in_agent_file
from agent_resolver.schema.explanation import NearMiss, Rejection, RejectionCode, Suggestion
from agent_resolver.schema.lockfile import LockedServer
from agent_resolver.schema.tree import Node

_MOST_REJECTIONS_SHOWN = 50
REWRITE_HINT = "hint: Run the same command without `--check` or `--locked` to write it, then review the change"


class Unresolved(Struct, frozen=True, kw_only=True, rename="camel"):
    """A requirement that no server can serve, and why not each server that offers its category."""

    category: str
    required_permissions: tuple[str, ...]
    rejected: tuple[Rejection, ...]
    other_servers: int
    """How many servers do not offer the category at all."""
    nearest: tuple[NearMiss, ...]
    suggestions: tuple[Suggestion, ...]


class ResolveReport(Struct, frozen=True, kw_only=True, rename="camel"):
    """The result of `agent resolve --json`."""

    success: bool
    agent_name: str
    agent_version: str
    files: tuple[dict[str, str], ...]
    servers: tuple[LockedServer, ...]
    failed: tuple[Unresolved, ...]
    diff: str | None
    warnings: tuple[dict[str, object], ...]


def print_header(resolution: Resolution) -> None:
    """What is being resolved."""
    agent = resolution.agent
    out(f"Resolving agent '{agent.name}@{agent.version}'...")
    out(f"  Requirements: {len(agent.requires.mcp)} MCP category/categories")
    out(f"  Available servers: {len(resolution.servers)}")
    out()


def print_json(resolution: Resolution, settled: Sequence[Settled], inputs: Inputs) -> None:
    """The whole result as one JSON document."""
    lockfile = resolution.lockfile
    report = ResolveReport(
        success=resolution.success and not any(file.status.is_refusal for file in settled),
        agent_name=resolution.agent.name,
        agent_version=resolution.agent.version,
        files=tuple({"path": file.path, "status": file.status.value} for file in settled),
        servers=lockfile.servers if lockfile else (),
        failed=unresolved(resolution),
        diff=lock_diff(settled) or None,
        warnings=tuple(map(issue_document, inputs.warnings)),
    )
    out_json(report)


def print_text(resolution: Resolution, settled: Sequence[Settled], inputs: Inputs, agent_path: str) -> None:
    """The result for a person."""
    for file in settled:
        print_status(file)
    if any(file.status.is_refusal for file in settled):
        for line in lock_diff(settled).splitlines():
            out(line)
        err(REWRITE_HINT)
    elif resolution.lockfile:
        out()
        _print_summary(resolution.lockfile.servers)
    else:
        err_unresolved(resolution, inputs.tree, agent_path)
        _err_advice(resolution)


def print_status(file: Settled) -> None:
    """What became of one file, in a line."""
    match file.status:
        case Status.WRITTEN:
            out(f"✓ Wrote {file.path}")
        case Status.UNCHANGED:
            out(f"✓ Wrote {file.path} (unchanged)")
        case Status.SETTLED:
            out(f"✓ Wrote {file.path}, which had merge conflicts, anew from the agent file and the index")
        case Status.CURRENT:
            out(f"✓ {file.path} is up to date")
        case Status.WOULD_WRITE:
            out(f"Would write {file.path}")
        case Status.CHANGED:
            err(f"✗ {file.path} would change")
        case Status.MISSING | Status.STALE:
            err(f"✗ {file.path} is {file.status}")


def _print_summary(servers: Sequence[LockedServer]) -> None:
    out("Resolution Summary:")
    for server in servers:
        out(f"  {server.category}: {server.server_id}@{server.version}")
        out(f"    Scopes: {', '.join(server.scopes)}")
    out()
    out("✓ Resolution complete")


def lock_diff(settled: Sequence[Settled]) -> str:
    """How the lock would change; an explanation may be too long to compare line by line."""
    return settled[0].artifact.diff() if settled and settled[0].status is Status.CHANGED else ""


def unresolved(resolution: Resolution) -> tuple[Unresolved, ...]:
    """Every requirement that failed."""
    failures = resolution.failures
    ordered = in_order(resolution.servers) if failures else []
    choices = [choice for choice in resolution.choices if choice.server is None]
    found = []
    for choice, failure in zip(choices, failures, strict=True):
        rejected = list(rejections(choice, resolution.limits, ordered))
        near = [found for found in rejected if found.reason.code is not RejectionCode.MISSING_CATEGORY]
        found.append(
            Unresolved(
                category=failure.category,
                required_permissions=failure.required_permissions,
                rejected=tuple(near),
                other_servers=len(rejected) - len(near),
                nearest=failure.nearest,
                suggestions=failure.suggestions,
            )
        )
    return tuple(found)


def err_unresolved(resolution: Resolution, tree: Node, agent_path: str) -> None:
    """Why it failed, and what would change that."""
    failed = unresolved(resolution)
    categories = list(dict.fromkeys(requirement.category for requirement in failed))
    err(f"Resolution failed: no candidates for categories: {', '.join(categories)}")
    for number, requirement in enumerate(failed):
        scopes = ", ".join(requirement.required_permissions)
        of_which = f" for `{requirement.category}` ({scopes})" if len(failed) > 1 else ""
        err(f"Rejected candidates{of_which}:")
        for found in requirement.rejected[:_MOST_REJECTIONS_SHOWN]:
            err(f"  {found.server_id}@{found.version}: {found.reason.message}")
        more = len(requirement.rejected) - _MOST_REJECTIONS_SHOWN
        if more > 0:
            err(f"  … and {more} more: `agent resolve --explain` writes every one")
        if not requirement.rejected:
            err(f"  none: no server of the index offers `{requirement.category}`")
        _err_nearest(requirement)
        need = Requirement(category=requirement.category, permissions=requirement.required_permissions)
        position = position_of(need, resolution.agent, resolution.failed[:number].count(need))
        for line in _render_suggestions(requirement, position, tree, agent_path):
            err(line)


def _err_advice(resolution: Resolution) -> None:
    offered = {category for server in resolution.servers for category in server.categories}
    categories = dict.fromkeys(need.category for need in resolution.failed if need.category in offered)
    err()
    if len(resolution.failed) > 1:
        err("hint: Follow one suggestion at a time: each was tried alone")
    shown = f" for {', '.join(f'`{category}`' for category in categories)}" if categories else ""
    err(f"hint: Run `agent discover` to see every server{shown}")


def _err_nearest(requirement: Unresolved) -> None:
    """The servers that come closest, where the rejections alone do not show it."""
    if len(requirement.rejected) < 2 and all(len(miss.reasons) < 2 for miss in requirement.nearest):  # noqa: PLR2004
        return
    err("Nearest misses:")
    for miss in requirement.nearest:
        rules = "1 rule" if len(miss.reasons) == 1 else f"{len(miss.reasons)} rules"
        codes = ", ".join(reason.code for reason in miss.reasons)
        err(f"  {miss.server_id}@{miss.version}: breaks {rules} ({codes})")


def _render_suggestions(requirement: Unresolved, position: int, tree: Node, agent_path: str) -> Iterator[str]:
    if not requirement.suggestions:
        return
    yield f"To let `{requirement.category}` resolve{', either' if len(requirement.suggestions) > 1 else ''}:"
    for number, suggestion in enumerate(requirement.suggestions, 1):
        server = f"{suggestion.server_id}@{suggestion.version}"
        yield f"  {number}. For {server}{', but this loosens a constraint' if suggestion.loosens else ''}:"
        for edit in suggestion.edits:
            path = edit.path.replace("requires.mcp", f"requires.mcp.{position}").split(".")
            at = find_in_agent_file(tree, [int(step) if step.isdigit() else step for step in path])
            yield f"     {edit} ({shown(agent_path)}:{at.line}:{at.column})"
