"""The output of `agent resolve`."""

import argparse
from collections.abc import Iterator, Sequence
from itertools import chain, islice, repeat
from typing import TYPE_CHECKING

from msgspec import Struct

from agent_resolver.cli.artifact import Settled, Status
from agent_resolver.cli.input import Inputs
from agent_resolver.cli.output import (
    FEW,
    MANY,
    condense,
    err,
    issue_document,
    out,
    out_json,
    shown,
)
from agent_resolver.core.choice import Choice, rejections
from agent_resolver.core.constraint import positions_of
from agent_resolver.core.count import counted
from agent_resolver.core.resolution import Resolution
from agent_resolver.core.server import in_order
from agent_resolver.schema.agent_file import find_in_agent_file
from agent_resolver.schema.explanation import (
    Edit,
    EditKind,
    NearMiss,
    Rejection,
    Suggestion,
)
from agent_resolver.schema.issue import Issue
from agent_resolver.schema.lockfile import LockedServer
from agent_resolver.schema.tree import Node

if TYPE_CHECKING:
    from agent_resolver.core.unknown_scope import UnknownScope
    from agent_resolver.schema.index import Server

_MOST_REQUIREMENTS_SHOWN = 20
"""So many get suggestions: the others have less to say."""
REWRITE_HINT = "hint: Run the same command without `--check` or `--locked` to write it, then review the change"


class Unresolved(Struct, frozen=True, kw_only=True, rename="camel"):
    """A requirement that no server can serve, and why not each server that offers its category."""

    category: str
    required_permissions: tuple[str, ...]
    rejected: tuple[Rejection, ...]
    """Empty until it is asked for: a report for a person shows few of them."""
    other_servers: int
    """How many servers do not offer the category at all."""
    nearest: tuple[NearMiss, ...]
    suggestions: tuple[Suggestion, ...]
    unknown_scopes: "tuple[UnknownScope, ...]"
    """The scopes that no server of the category offers, where something is known of them."""


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
    notes: tuple[str, ...]


def print_header(resolution: Resolution) -> None:
    """Print what is resolved: the agent file, the number of its requirements, and that of the servers."""
    agent = resolution.agent
    out(f"Resolving agent '{agent.name}@{agent.version}'...")
    out(f"  Requirements: {len(agent.requires.mcp)} MCP category/categories")
    out(f"  Available servers: {len(resolution.pool)}")
    out()


def print_json(
    resolution: Resolution,
    settled: Sequence[Settled],
    warnings: Sequence[Issue],
    *,
    success: bool,
) -> None:
    """The whole result as one JSON document."""
    lockfile = resolution.lockfile
    report = ResolveReport(
        success=success,
        agent_name=resolution.agent.name,
        agent_version=resolution.agent.version,
        files=tuple(
            {"path": file.path, "status": file.status.value} for file in settled
        ),
        servers=lockfile.servers if lockfile else (),
        failed=tuple(unresolved(resolution)),
        diff=lock_diff(settled) or None,
        warnings=tuple(map(issue_document, warnings)),
        notes=tuple(notes_on(resolution)),
    )
    out_json(report)


def print_text(
    resolution: Resolution,
    settled: Sequence[Settled],
    inputs: Inputs,
    options: argparse.Namespace,
) -> None:
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
        err_notes(resolution)
    else:
        err_unresolved(resolution, inputs.tree, options.agents, shows_all=options.all)
        _err_advice(resolution)


def print_status(file: Settled) -> None:
    """Print the outcome for one file in a line."""
    match file.status:
        case Status.WRITTEN:
            out(f"✓ Wrote {file.path}")
        case Status.UNCHANGED:
            out(f"✓ Wrote {file.path} (unchanged)")
        case Status.SETTLED:
            # The operator must learn that the conflict was not merged: the file was
            # made again.
            out(
                f"✓ Wrote {file.path}, which had merge conflicts, again from the agent file and the index"
            )
        case Status.CURRENT:
            out(f"✓ {file.path} is up to date")
        case Status.WOULD_WRITE:
            out(f"Would write {file.path}")
        case Status.CHANGED:
            err(f"✗ {file.path} would change")
        case Status.MISSING | Status.STALE:
            err(f"✗ {file.path} is {file.status}")


def notes_on(resolution: Resolution) -> list[str]:
    """The facts that are as asked for and yet worth a word."""
    asked = resolution.limits.residency
    # The server passes because `any` accepts every region. An operator who reads the
    # lock should know that.
    return [
        f"`{choice.requirement.category}` asks for `{asked}`, and `{choice.server}` says `any`: "
        "it is accepted, and promises no region"
        for choice in resolution.without_region
    ]


def err_notes(resolution: Resolution) -> None:
    """Print the notes, few of many."""
    notes, left_out = condense(notes_on(resolution), lambda _note: None)
    for note in notes:
        err(f"hint: {note}")
    if left_out:
        err(f"… and {len(left_out[None])} more like these: `--json` has each")


def _print_summary(servers: Sequence[LockedServer]) -> None:
    out("Resolution Summary:")
    for server in servers:
        out(f"  {server.category}: {server.server_id}@{server.version}")
        out(f"    Scopes: {', '.join(server.scopes)}")
    out()
    out("✓ Resolution complete")


def lock_diff(settled: Sequence[Settled]) -> str:
    """The change of the lock as a diff; an explanation may be too long to compare line by line."""
    # Only the lock is compared by lines, and it comes first.
    return (
        settled[0].artifact.diff()
        if settled and settled[0].status is Status.CHANGED
        else ""
    )


def unresolved(
    resolution: Resolution, *, is_whole: bool = True
) -> Iterator[Unresolved]:
    """Every requirement that failed, one after the other: all that they say together may be large.

    The rejected servers of one that is not whole are left out.
    """
    from agent_resolver.core.unknown_scope import unknown_scopes

    choices = _failed_choices(resolution)
    # Hints are looked up in bulk, for the first requirements alone: each means a search
    # through the scopes of a category.
    hints = unknown_scopes(
        resolution.failed[:_MOST_REQUIREMENTS_SHOWN], resolution.pool
    )
    # Requirements beyond those with hints get an empty tuple, so that the zip below
    # runs on.
    none: tuple[UnknownScope, ...] = ()
    for choice, failure, unknown in zip(
        choices, resolution.failures, chain(hints, repeat(none)), strict=False
    ):
        offering = resolution.pool.offering(failure.category)
        yield Unresolved(
            category=failure.category,
            required_permissions=failure.required_permissions,
            rejected=tuple(rejections(choice, resolution.limits, offering))
            if is_whole
            else (),
            other_servers=len(resolution.pool) - len(offering),
            nearest=failure.nearest,
            suggestions=failure.suggestions,
            unknown_scopes=unknown,
        )


def err_unresolved(
    resolution: Resolution, tree: Node, agent_path: str, *, shows_all: bool
) -> None:
    """Print the reasons why no server can be chosen, and the edits that would change that."""
    failed = resolution.failed
    categories = list(dict.fromkeys(requirement.category for requirement in failed))
    err(f"Resolution failed: no candidates for categories: {', '.join(categories)}")
    most = None if shows_all else _MOST_REQUIREMENTS_SHOWN
    # Equal requirements have a position each, so that a suggestion points at the right
    # line of the file.
    positions = positions_of(failed, resolution.agent)
    # The generator is cut by `islice`, so requirements beyond the limit are never
    # worked out.
    failures = unresolved(resolution, is_whole=shows_all)
    shown_ones = zip(
        _failed_choices(resolution), islice(failures, most), positions, strict=False
    )
    for choice, requirement, position in shown_ones:
        scopes = ", ".join(requirement.required_permissions)
        of_which = (
            f" for `{requirement.category}` ({scopes})" if len(failed) > 1 else ""
        )
        err(f"Rejected candidates{of_which}:")
        if shows_all:
            _err_every_rejected(requirement)
            rejected = len(requirement.rejected)
        else:
            rejected = _err_rejected(choice, resolution)
        # The count includes servers that are not listed: an empty list must not look
        # like an empty category.
        if not rejected:
            err(f"  none: no server of the index offers `{requirement.category}`")
        _err_nearest(requirement, rejected)
        for line in (
            *_render_suggestions(requirement, position, tree, agent_path),
            *_render_unknown(requirement),
        ):
            err(line)
    if most is not None and len(failed) > most:
        more = counted(len(failed) - most, "more requirement")
        err(f"… and {more} that no server can serve: `--all` shows each")


def _failed_choices(resolution: Resolution) -> list[Choice]:
    return [choice for choice in resolution.choices if choice.server is None]


def _err_every_rejected(requirement: Unresolved) -> None:
    for found in requirement.rejected:
        err(f"  {found.server_id}@{found.version}: {found.reason.message}")


def _err_rejected(choice: Choice, resolution: Resolution) -> int:
    """The servers of the category, few where many are rejected for like reasons; how many there are in all."""
    offering = resolution.pool.offering(choice.requirement.category)
    groups = offering.rejected(choice.requirement, resolution.limits, MANY)
    few: list[Server] = []
    for each in groups:
        few += each.first[:FEW] if each.total > MANY else each.first
    # Groups come by reason; the list is in the order of servers again, as in every
    # other report.
    for found in rejections(choice, resolution.limits, in_order(few)):
        err(f"  {found.server_id}@{found.version}: {found.reason.message}")
    for each in groups:
        if each.total > MANY:
            err(
                f"  … and {each.total - FEW} more with `{each.code}`: `--all` shows each"
            )
    return len(offering)


def _err_advice(resolution: Resolution) -> None:
    offers = set(resolution.pool.categories)
    categories = list(
        dict.fromkeys(
            need.category for need in resolution.failed if need.category in offers
        )
    )
    err()
    # Each suggestion was tried without the others, so their effect together is not
    # known.
    if len(resolution.failed) > 1 and any(
        failure.suggestions for failure in resolution.failures
    ):
        err("hint: Follow one suggestion at a time: each was tried alone")
    named, left_out = condense(categories, lambda _category: None)
    more = f" and {len(left_out[None])} more" if left_out else ""
    shown = (
        f" for {', '.join(f'`{category}`' for category in named)}{more}"
        if categories
        else ""
    )
    err(f"hint: Run `agent discover` to see every server{shown}")


def _err_nearest(requirement: Unresolved, rejected: int) -> None:
    """The servers that come closest, where the rejections alone do not show it."""
    # A single rejection that broke one rule has said everything already.
    if rejected < 2 and all(len(miss.reasons) < 2 for miss in requirement.nearest):  # noqa: PLR2004
        return
    err("Nearest misses:")
    for miss in requirement.nearest:
        rules = counted(len(miss.reasons), "rule")
        codes = ", ".join(reason.code for reason in miss.reasons)
        err(f"  {miss.server_id}@{miss.version}: breaks {rules} ({codes})")


def _render_suggestions(
    requirement: Unresolved, position: int, tree: Node, agent_path: str
) -> Iterator[str]:
    if not requirement.suggestions:
        return
    from agent_resolver.core.spelling import are_twins

    either = ", either" if len(requirement.suggestions) > 1 else ""
    yield f"To let `{requirement.category}` resolve{either}:"
    for number, suggestion in enumerate(requirement.suggestions, 1):
        server = f"{suggestion.server_id}@{suggestion.version}"
        loosening = ", but this loosens a constraint" if suggestion.loosens else ""
        yield f"  {number}. For {server}{loosening}:"
        for edit in suggestion.edits:
            at = find_in_agent_file(tree, _steps_of(edit, position))
            # Two spellings may look the same on the screen, so the difference is put
            # into words.
            twins = (
                ", the same letters in another Unicode form"
                if are_twins(edit.before, edit.after or "")
                else ""
            )
            yield f"     {edit}{twins} ({shown(agent_path)}:{at.line}:{at.column})"


def _steps_of(edit: Edit, position: int) -> Iterator[str | int]:
    """The path of an edit, step by step, in the requirement at this position."""
    # The edit names the list, and the position says which of its items is meant.
    path = edit.path.replace("requires.mcp", f"requires.mcp.{position}")
    for step in path.split("."):
        yield int(step) if step.isdigit() else step


def _render_unknown(requirement: Unresolved) -> Iterator[str]:
    """The facts about scopes that no server of the category offers, unless a suggestion says what to write."""
    edits = [
        edit for suggestion in requirement.suggestions for edit in suggestion.edits
    ]
    # Where the category itself is a slip, hints about scopes of that category would
    # mislead.
    if any(edit.kind is EditKind.FIX_CATEGORY for edit in edits):
        return
    fixed = {edit.before for edit in edits if edit.kind is EditKind.FIX_SCOPE}
    for unknown in requirement.unknown_scopes:
        if unknown.scope in fixed:
            continue
        known = []
        if unknown.similar:
            known.append(f"similar are {_in_backticks(unknown.similar)}")
        if unknown.other_categories:
            known.append(f"it is offered for {_in_backticks(unknown.other_categories)}")
        yield f"No server offers `{unknown.scope}` for `{requirement.category}`: {'; '.join(known)}"


def _in_backticks(words: Sequence[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)
