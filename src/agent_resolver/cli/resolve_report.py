"""What `agent resolve` prints."""

import sys
from collections.abc import Iterator, Sequence

from msgspec import Struct

from agent_resolver.cli.artifact import Settled, Status
from agent_resolver.cli.output import err, issue_document, out, out_json
from agent_resolver.core import Resolution, in_order, rejections
from agent_resolver.schema import Issue, LockedServer, Rejection, RejectionCode

_MOST_REJECTIONS_SHOWN = 50


class Unresolved(Struct, frozen=True, kw_only=True, rename="camel"):
    """A requirement that no server can serve, and why not each server that offers its category."""

    category: str
    required_permissions: tuple[str, ...]
    rejected: tuple[Rejection, ...]
    other_servers: int
    """How many servers do not offer the category at all."""


class Report(Struct, frozen=True, kw_only=True, rename="camel"):
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


def print_json(resolution: Resolution, settled: Sequence[Settled], warnings: Sequence[Issue]) -> None:
    """The whole result as one JSON document."""
    lockfile = resolution.lockfile
    report = Report(
        success=resolution.success and not any(file.status.is_refusal for file in settled),
        agent_name=resolution.agent.name,
        agent_version=resolution.agent.version,
        files=tuple({"path": file.path, "status": file.status.value} for file in settled),
        servers=lockfile.servers if lockfile else (),
        failed=tuple(_unresolved(resolution)),
        diff=_diff(settled) or None,
        warnings=tuple(map(issue_document, warnings)),
    )
    out_json(report)


def print_text(resolution: Resolution, settled: Sequence[Settled]) -> None:
    """The result for a person."""
    for file in settled:
        _print_status(file)
    if any(file.status.is_refusal for file in settled):
        sys.stdout.write(_diff(settled))
        err("hint: Run the same command without `--check` or `--locked` to write it, then review the change")
    elif resolution.lockfile:
        out()
        _print_summary(resolution.lockfile.servers)
    else:
        _err_unresolved(list(_unresolved(resolution)))


def _print_status(file: Settled) -> None:
    match file.status:
        case Status.WRITTEN:
            out(f"✓ Wrote {file.path}")
        case Status.UNCHANGED:
            out(f"✓ Wrote {file.path} (unchanged)")
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


def _diff(settled: Sequence[Settled]) -> str:
    """How the lock would change; an explanation may be too long to compare line by line."""
    return settled[0].artifact.diff() if settled and settled[0].status is Status.CHANGED else ""


def _unresolved(resolution: Resolution) -> Iterator[Unresolved]:
    ordered = in_order(resolution.servers)
    for choice in resolution.choices:
        if choice.server is None:
            rejected = list(rejections(choice, resolution.limits, ordered))
            near = [found for found in rejected if found.reason.code is not RejectionCode.MISSING_CATEGORY]
            yield Unresolved(
                category=choice.requirement.category,
                required_permissions=choice.requirement.permissions,
                rejected=tuple(near),
                other_servers=len(rejected) - len(near),
            )


def _err_unresolved(failed: Sequence[Unresolved]) -> None:
    categories = list(dict.fromkeys(requirement.category for requirement in failed))
    err(f"Resolution failed: no candidates for categories: {', '.join(categories)}")
    for requirement in failed:
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
    err()
    err(f"hint: Run `agent discover` to see every server for {', '.join(f'`{category}`' for category in categories)}")
