"""`agent index coverage`: what of an index is usable, and which facts to fill in first."""

import argparse
import os
from collections.abc import Sequence
from typing import Final

from agent_resolver.cli.index.template import template_line
from agent_resolver.cli.input import (
    AGENT_FILE,
    INDEX,
    OTHER_AGENT_FILE,
    load,
    load_index,
)
from agent_resolver.cli.option import (
    Commands,
    add_agents,
    add_command,
    add_index,
    add_json,
)
from agent_resolver.cli.output import err, out, out_json, shown
from agent_resolver.core.count import counted
from agent_resolver.core.index_coverage import (
    CategoryCoverage,
    Coverage,
    Unresolved,
    coverage_of,
    unresolved,
)
from agent_resolver.core.rule import overlay_line
from agent_resolver.schema.index import OVERLAY_NAME, Server

_EXAMPLES = """\
  agent index coverage                      for ./agents.md if it is there, else for the largest categories
  agent index coverage -a reviewer.md
  agent index coverage --json | jq '.lacking'
"""
_MOST_CATEGORIES: Final = 5
_MOST_SERVERS: Final = 3
_WIDTH: Final = 15


def add_to(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "coverage",
        "say how much of an index is usable, and what to fill in first",
        _EXAMPLES,
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="show every category, or every server that could do",
    )
    add_agents(parser)
    add_index(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Count what is known, and say what to write where."""
    path = options.index or INDEX
    agent_path = options.agents
    # Only the default path may be absent.
    has_agent = agent_path not in {AGENT_FILE, OTHER_AGENT_FILE} or os.path.lexists(
        agent_path
    )
    # Without an agent file only the index can be described, and no requirement can
    # fail.
    servers, failed = (
        _look_at(agent_path, path)
        if has_agent
        else (tuple(load_index(path).servers), ())
    )
    coverage = coverage_of(servers)
    if options.json:
        out_json(
            _coverage_document(coverage, failed, agent_path if has_agent else None)
        )
        return 0
    _print_counts(coverage)
    if has_agent:
        _print_failed(agent_path, failed, everything=options.all)
    else:
        _print_categories(coverage.categories, everything=options.all)
    return 0


def _look_at(
    agent_path: str, index_path: str
) -> tuple[tuple[Server, ...], tuple[Unresolved, ...]]:
    from agent_resolver.core.resolution import resolve

    inputs = load(agent_path, index_path)
    # The remedies come from a resolution as `agent resolve` makes it, so both commands
    # agree on what fails.
    return tuple(inputs.servers), unresolved(resolve(inputs.agent, inputs.servers))


def _coverage_document(
    coverage: Coverage, failed: Sequence[Unresolved], agent_path: str | None
) -> dict[str, object]:
    # One item for each requirement that fails: the facts that would let it resolve, and
    # the overlay line to paste.
    requirements = [
        {
            "category": each.requirement.category,
            "remedies": [
                {
                    "server": str(remedy.server),
                    "facts": remedy.facts,
                    "overlay": overlay_line(remedy.server.id, remedy.facts),
                }
                for remedy in each.remedies
            ],
        }
        for each in failed
    ]
    categories = [
        {"category": each.category, "total": each.total, "usable": each.usable}
        for each in coverage.categories
    ]
    return {
        "total": coverage.total,
        "usable": coverage.usable,
        "lacking": coverage.lacking,
        "categories": categories,
        "agents": agent_path,
        "unresolved": requirements,
    }


def _print_counts(coverage: Coverage) -> None:
    verb = "has" if coverage.total == 1 else "have"
    out(f"{coverage.usable:,} of {counted(coverage.total, 'server')} {verb} every fact")
    for fact, count in coverage.lacking.items():
        if count:
            out(f"  {fact:<{_WIDTH}} not known of {count:,}")


def _print_failed(path: str, failed: Sequence[Unresolved], *, everything: bool) -> None:
    """Print the facts that would let the requirements of an agent file resolve."""
    out()
    if not failed:
        out(
            f"✓ Every requirement of {shown(path)} resolves: no further fact is needed for it"
        )
        return
    for each in failed:
        category = each.requirement.category
        # Without a remedy, a fact that is known stands in the way: no line of an
        # overlay would help.
        if not each.remedies:
            out(f"✗ {category}: no fact that is not known would let it resolve")
            err(
                f"hint: `agent why {category}` says what speaks against each server; `agent index search {category}`"
            )
            continue
        out(
            f"✗ {category}: resolves with one of these lines in {OVERLAY_NAME}, if it is so:"
        )
        # Versions of one server need the same line.
        lines = list(
            dict.fromkeys(
                overlay_line(remedy.server.id, remedy.facts) for remedy in each.remedies
            )
        )
        kept = lines if everything else lines[:_MOST_SERVERS]
        for line in kept:
            out(f"    {line}")
        if len(kept) < len(lines):
            out(f"    … and {len(lines) - len(kept)} more: --all shows each")


def _print_categories(
    categories: Sequence[CategoryCoverage], *, everything: bool
) -> None:
    """The categories in which most servers lack a fact, each with the servers that lack the fewest."""
    # Categories come with the most incomplete first, so the cut below keeps those where
    # a fact helps most.
    incomplete = [each for each in categories if each.incomplete]
    kept = incomplete if everything else incomplete[:_MOST_CATEGORIES]
    if not kept:
        return
    out()
    out(f"Fill in first, in {OVERLAY_NAME}:")
    for each in kept:
        out(
            f"  {each.category}: {each.usable} of {counted(each.total, 'server')} usable"
        )
        # With several categories, one server each gives the reader a start in every one
        # of them.
        for server in each.incomplete[: 1 if len(kept) > 1 else _MOST_SERVERS]:
            out(f"    {template_line(server)}")
    if len(kept) < len(incomplete):
        out(f"  … and {len(incomplete) - len(kept)} more categories: --all shows each")
    err(
        "hint: with an agent file (`--agents`) only what its requirements need is listed"
    )
