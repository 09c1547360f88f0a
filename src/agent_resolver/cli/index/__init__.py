"""`agent index`: fills the server index, and says what is in it."""

from agent_resolver.cli.index import coverage, importing, listing, search, show
from agent_resolver.cli.option import Commands, add_group

_EXAMPLES = """\
  agent index import .mcp.json              servers of a client, into ./mcp.index.json
  agent index list --category database      which servers there are
  agent index search issue tracker          which servers have to do with these words
  agent index show github                   every fact of a server, and where it comes from
  agent index coverage                      which facts to fill in first
"""
_SUBCOMMANDS = (importing, listing, show, search, coverage)


def add_to(commands: Commands) -> None:
    """Declare the commands."""
    group = add_group(commands, "index", "fill the server index, and find servers in it", _EXAMPLES)
    for subcommand in _SUBCOMMANDS:
        subcommand.add_to(group)
