"""`agent index search`: which servers have to do with some words."""

import argparse

from agent_resolver.cli.index.listed import (
    Listed,
    listed_document,
    load_listed,
    print_listed,
)
from agent_resolver.cli.input import INDEX
from agent_resolver.cli.option import Commands, add_command, add_index, add_json
from agent_resolver.cli.output import err, out, out_json
from agent_resolver.core.count import counted
from agent_resolver.core.server_search import search_servers

_MOST = 20
_EXAMPLES = """\
  agent index search github
  agent index search issue tracker
  agent index search reporting --json | jq -r '.servers[].id'
"""


def add_to(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "search",
        "find servers by words in id, name, description and categories",
        _EXAMPLES,
    )
    parser.add_argument(
        "words",
        metavar="WORD",
        nargs="+",
        help="words to look for; servers that have the most of them are found",
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help=f"show every server, not only the best {_MOST}",
    )
    add_index(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the servers that have the most words, the best first; exit 1 if there is none."""
    # An id with its version is unique in an index, so it leads from a match back to the
    # entry.
    listed = {str(each.server): each for each in load_listed(options.index or INDEX)}
    matches = search_servers(options.words, (each.text for each in listed.values()))
    found = [
        (listed[f"{match.text.id}@{match.text.version}"], match.score)
        for match in matches
    ]
    if options.json:
        _print_document(options.words, found)
    else:
        best = [each for each, _ in found]
        _print_matches(best if options.all else best[:_MOST], len(found), len(listed))
    # Like `grep`, the command exits 1 where nothing was found, so that scripts need not
    # parse its answer.
    return 0 if found else 1


def _print_document(words: list[str], found: list[tuple[Listed, int]]) -> None:
    documents = [{**listed_document(each), "score": score} for each, score in found]
    out_json(
        {
            "success": bool(found),
            "words": words,
            "servers": documents,
            "total": len(found),
        }
    )


def _print_matches(shown: list[Listed], found: int, total: int) -> None:
    """The best servers on a line each, the description of the first, and how many there are."""
    print_listed(shown)
    for best in shown[:1]:
        if best.entry.description:
            out(f"    {best.server.id}: {best.entry.description}")
    cut = f", the best {len(shown)} shown" if len(shown) < found else ""
    out(f"{found:,} of {counted(total, 'server')}{cut}")
    if not found:
        err("hint: try fewer or other words; `agent index list` shows every server")
