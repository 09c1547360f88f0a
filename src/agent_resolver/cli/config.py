"""`agent config`: every effective setting, and where it came from."""

import argparse

import msgspec

from agent_resolver.cli.option import (
    Commands,
    add_agents,
    add_command,
    add_group,
    add_json,
    add_project,
    session_of,
)
from agent_resolver.cli.output import out, out_json, safe

_EXAMPLES = """\
  agent config show
  AGENT_STATE_URL=sqlite:////var/lib/agents.db agent config show --json
"""


def add_to(commands: Commands) -> None:
    """Declare the commands."""
    group = add_group(commands, "config", "show the settings of a project", _EXAMPLES)
    parser = add_command(
        group, "show", "print every effective setting and where it came from", _EXAMPLES
    )
    add_agents(parser)
    add_project(parser)
    add_json(parser)
    parser.set_defaults(run=run_show)


def run_show(options: argparse.Namespace) -> int:
    """Print the settings by key."""
    with session_of(options) as session:
        settings = session.loaded.settings
    if options.json:
        out_json(
            [
                {"key": item.key, "value": item.value, "origin": item.origin}
                for item in settings
            ]
        )
        return 0
    for item in settings:
        # What a value holds of passwords was masked when the settings were loaded.
        value = (
            "(unset)"
            if item.value is None
            else msgspec.json.encode(item.value).decode()
        )
        out(safe(f"{item.key} = {value}  # {item.origin}"))
    return 0
