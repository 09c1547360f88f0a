"""`agent index`: fills the server index, and says what is in it."""

from agent_resolver.cli.index import probe, sync
from agent_resolver.cli.option import Commands, add_group

_EXAMPLES = """\
  agent index probe github                  ask a server for its tools, pin them, and draft their scopes
  agent index sync https://registry.example fetch a registry, and keep what it says
"""
_SUBCOMMANDS = (probe, sync)


def add_to(commands: Commands) -> None:
    """Declare the commands."""
    group = add_group(commands, "index", "fill the server index, and find servers in it", _EXAMPLES)
    for subcommand in _SUBCOMMANDS:
        subcommand.add_to(group)
