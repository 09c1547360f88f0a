"""`agent discover`: which servers exist, by category."""

import argparse
from collections.abc import Iterable

from agent_resolver.cli.input import INDEX, load_index
from agent_resolver.cli.option import Commands, add_command, add_index, add_json
from agent_resolver.cli.output import err, out, out_json
from agent_resolver.core.count import counted
from agent_resolver.core.server import Servers
from agent_resolver.schema.index import Server

_EXAMPLES = """\
  agent discover
  agent discover -i ./production-servers.json
  agent discover --json | jq '.categories[].category'
"""


_NOT_KNOWN = "(not known)"
_MANY = 50
"""The number of servers from which on a list with filters is of more use."""


def add_to(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "discover",
        "list the servers of an index, grouped by category",
        _EXAMPLES,
    )
    add_index(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print every category and what each of its servers offers."""
    path = options.index or INDEX
    if not options.json:
        out(f"Reading MCP index from {path}...")
        out()
    servers = load_index(path).servers
    if options.json:
        out_json(_discovery_document(servers))
    elif len(servers):
        _print_categories(servers)
    else:
        out("No servers found in index.")
    return 0


def _discovery_document(servers: Servers) -> dict[str, object]:
    categories = [
        {
            "category": category,
            "servers": list(map(_server_document, servers.offering(category))),
        }
        for category in servers.categories
    ]
    return {
        "categories": categories,
        "totalServers": len(servers),
        "totalCategories": len(categories),
    }


def _server_document(server: Server) -> dict[str, object]:
    return {
        "id": server.id,
        "version": server.version,
        "endpoint": server.address,
        "signed": server.signed,
        "publisher": server.publisher,
        "scopes": server.scopes,
        "residency": server.residency,
        "maxSensitivity": server.max_sensitivity,
    }


def _render_list(words: Iterable[str] | None) -> str:
    # None is what the index does not state; an empty list is stated, and means that
    # there are none.
    if words is None:
        return _NOT_KNOWN
    return ", ".join(words) or "(none)"


def _print_categories(servers: Servers) -> None:
    # This heading and the four lines of each server are fixed by the specification.
    out("Available MCP Servers by Category:")
    out()
    has_versions = False
    for category in servers.categories:
        out(f"  {category}:")
        before = None
        # Servers come by id and then by version, so that two versions of one server are
        # neighbours.
        for server in servers.offering(category):
            has_versions = has_versions or server.id == before
            before = server.id
            out(f"    - {server}{' [signed]' if server.signed else ''}")
            out(f"      Scopes: {_render_list(server.scopes)}")
            out(f"      Residency: {_render_list(server.residency)}")
            out(f"      Max Sensitivity: {server.max_sensitivity or _NOT_KNOWN}")
        out()
    out(
        f"Total: {counted(len(servers), 'server')} in {counted(len(servers.categories), 'category', 'categories')}"
    )
    if len(servers) > _MANY:
        err(
            "hint: `agent index list --category NAME` and `agent index search WORDS` show fewer of them"
        )
    # In string order `10.0.0` comes before `9.0.0`, which a reader of the list would
    # not expect.
    if has_versions:
        err(
            "hint: Of several versions of one server, `agent resolve` takes the smallest in string order"
        )
