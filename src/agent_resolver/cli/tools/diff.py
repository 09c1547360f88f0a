"""Runs `agent tools diff`."""

import argparse
import os
from collections.abc import Sequence

from agent_resolver.cli.option import session_of
from agent_resolver.cli.output import out, out_json
from agent_resolver.core.count import counted, plural
from agent_resolver.core.manifest_diff import (
    ToolChange,
    is_breaking,
    manifest_difference,
)
from agent_resolver.project.manifest import read_manifest
from agent_resolver.schema.manifest import MANIFEST_NAME

_CODE = "the code"


def run(options: argparse.Namespace) -> int:
    """Compare two manifests, or one with the code."""
    old = _manifest_file(options.old)
    before = read_manifest(old)
    # The code is loaded only where the second manifest is left out, since that takes a
    # trusted project.
    if options.new is None:
        from agent_resolver.cli.tools.manifest import manifest_of_session

        new = _CODE
        after = manifest_of_session(session_of(options))
    else:
        new = _manifest_file(options.new)
        after = read_manifest(new)
    changes = manifest_difference(before, after)
    breaks = is_breaking(changes)
    if options.json:
        out_json({"success": not breaks, "old": old, "new": new, "changes": changes})
    else:
        print_changes(old, new, changes)
        out(_summarize_changes(changes))
    return 1 if breaks else 0


def print_changes(old: str, new: str, changes: Sequence[ToolChange]) -> None:
    """Every change for a person, those that break a caller or reader first."""
    out(f"{old} → {new}")
    # Sorting is stable, so that changes of a kind keep the order of the manifest.
    for change in sorted(changes, key=lambda change: not change.is_breaking):
        sign, word = ("✗", "breaking") if change.is_breaking else ("✓", "compatible")
        out(f"  {sign} {word:<10}  {change.what}")
        out(f"                {change.why}")


def _summarize_changes(changes: Sequence[ToolChange]) -> str:
    if not changes:
        return "Nothing changed"
    count = sum(change.is_breaking for change in changes)
    if not count:
        return "Nothing that changed breaks callers or readers"
    return f"{count} of {counted(len(changes), 'change')} {plural(count, 'breaks', 'break')} callers or readers"


def _manifest_file(path: str) -> str:
    return (
        os.path.normpath(os.path.join(path, MANIFEST_NAME))
        if os.path.isdir(path)
        else path
    )
