"""`agent index`: fills the server index, and says what is in it."""

from agent_resolver.cli.index import (
    build,
    coverage,
    importing,
    listing,
    probe,
    search,
    show,
    sync,
)
from agent_resolver.cli.option import Commands, add_group

_EXAMPLES = """\
  agent index import .mcp.json              servers of a client, into ./mcp.index.json
  agent index list --category database      which servers there are
  agent index search issue tracker          which servers have to do with these words
  agent index show github                   every fact of a server, and where it comes from
  agent index coverage                      which facts to fill in first
  agent index build mcp.index.json          compile it, so that any size is resolved in milliseconds
  agent index probe github                  ask a server for its tools, pin them, and draft their scopes
  agent index sync https://registry.example fetch a registry, and keep what it says
"""
_SUBCOMMANDS = (importing, listing, show, search, coverage, build, probe, sync)


def add_to(commands: Commands) -> None:
    """Declare the commands."""
    group = add_group(
        commands, "index", "fill the server index, and find servers in it", _EXAMPLES
    )
    for subcommand in _SUBCOMMANDS:
        subcommand.add_to(group)
