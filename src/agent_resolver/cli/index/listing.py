"""`agent index list`: which servers an index has."""

import argparse
from collections import Counter
from typing import Final

from agent_resolver.cli.index.listed import (
    MOST_SHOWN,
    Listed,
    listed_document,
    load_listed,
    print_listed,
)
from agent_resolver.cli.input import INDEX
from agent_resolver.cli.option import Commands, add_command, add_index, add_json
from agent_resolver.cli.output import err, out, out_json
from agent_resolver.core.count import counted
from agent_resolver.schema.walker import suggestion

MISSING: Final = {
    "categories": "categories",
    "scopes": "scopes",
    "residency": "residency",
    "sensitivity": "maxSensitivity",
    "signed": "signed",
    "version": "version",
    "tool-scopes": "toolScopes",
    "tools": "tools",
}
"""The words of `--missing`, and the facts that they mean."""
_TOP: Final = 8
_EXAMPLES = """\
  agent index list
  agent index list --category database --missing residency
  agent index list --status deprecated --json | jq -r '.servers[].id'
"""


def add_to(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "list",
        "list the servers of an index, with what is not known of each",
        _EXAMPLES,
    )
    parser.add_argument(
        "--category", metavar="NAME", help="only servers that offer this category"
    )
    parser.add_argument(
        "--status",
        choices=("active", "deprecated", "deleted"),
        help="only servers with this status",
    )
    parser.add_argument(
        "--source",
        metavar="KIND",
        help="only servers of this kind of source, or `hand-written`",
    )
    parser.add_argument(
        "--missing",
        choices=tuple(MISSING),
        help="only servers of which this is not known",
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help=f"show every server, not only the first {MOST_SHOWN}",
    )
    add_index(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print a line for each server that the filters leave."""
    listed = load_listed(options.index or INDEX)
    found = [each for each in listed if _is_asked_for(each, options)]
    if options.json:
        out_json(
            {
                "servers": list(map(listed_document, found)),
                "total": len(found),
                "of": len(listed),
            }
        )
        return 0
    kept = found if options.all else found[:MOST_SHOWN]
    print_listed(kept)
    is_cut = len(kept) < len(found)
    cut = f", the first {len(kept)} shown" if is_cut else ""
    out(f"{len(found):,} of {counted(len(listed), 'server')}{cut}")
    if is_cut:
        err(f"hint: `--all` shows every one; by category: {_largest_categories(found)}")
    if not found:
        _err_unknown_words(listed, options)
    return 0


def _err_unknown_words(listed: list[Listed], options: argparse.Namespace) -> None:
    """Say which word no server has, and which one may have been meant."""
    categories = sorted(
        {category for each in listed for category in each.server.categories}
    )
    sources = sorted({each.source for each in listed})
    if options.category is not None and options.category not in categories:
        meant = (
            suggestion(options.category, categories)
            or "`agent index search` finds servers by other words"
        )
        err(f"hint: no server offers the category `{options.category}`; {meant}")
    if options.source is not None and options.source not in sources:
        err(
            f"hint: no server is of the source `{options.source}`; there are: {', '.join(sources)}"
        )


def _is_asked_for(listed: Listed, options: argparse.Namespace) -> bool:
    if (
        options.category is not None
        and options.category not in listed.server.categories
    ):
        return False
    if options.status is not None and options.status != listed.server.status:
        return False
    if options.source is not None and options.source != listed.source:
        return False
    return options.missing is None or _lacks(listed, MISSING[options.missing])


def _lacks(listed: Listed, fact: str) -> bool:
    if fact == "toolScopes":
        # An empty mapping is known to be empty; only None means that nothing was
        # stated.
        return listed.server.tool_scopes is None
    if fact == "tools":
        return listed.server.tools is None
    return fact in listed.unknown


def _largest_categories(found: list[Listed]) -> str:
    counts = Counter(category for each in found for category in each.server.categories)
    # The count decides, then the name, so that equal counts keep a fixed order.
    largest = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_TOP]
    return ", ".join(f"{category} {count}" for category, count in largest)
