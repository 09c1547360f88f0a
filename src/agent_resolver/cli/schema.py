"""`agent schema`: the JSON Schema of each file."""

import argparse

from agent_resolver.cli.option import Commands, add_command
from agent_resolver.cli.output import out_json
from agent_resolver.schema.format_schema import json_schema

_EXAMPLES = """\
  agent schema agents                the front matter of an agent file
  agent schema index > mcp.index.schema.json
"""


def add_to(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands, "schema", "print the JSON Schema of a file format", _EXAMPLES
    )
    parser.add_argument(
        "format",
        choices=(
            "agents",
            "index",
            "overlay",
            "lock",
            "resolution",
            "blueprint",
            "eval",
        ),
        help="which file",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print one schema."""
    out_json(json_schema(options.format))
    return 0
