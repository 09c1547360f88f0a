"""`agent plan`: what an agent is made of, before it runs."""

import argparse
from importlib import import_module

from agent_resolver.cli.catalog import add_root
from agent_resolver.cli.option import (
    Commands,
    add_command,
    add_index,
    add_json,
    add_project,
    add_trust,
)

_EXAMPLES = """\
  agent plan reviewer                      its model, plugins and tools, and why each absent tool is absent
  agent plan agent://team/reviewer --json
  agent plan --all                         one line for every agent of the catalog; exits 1 if one has no plan
  agent plan reviewer --config models.default.provider=local
"""


def add_to(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "plan",
        "print what an agent is made of: model, plugins and tools",
        _EXAMPLES,
    )
    parser.add_argument(
        "agent", metavar="AGENT", nargs="?", help="the name of an agent, or its address"
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="plan every agent of the catalog, and print a line for each",
    )
    add_root(parser)
    add_index(parser)
    add_project(parser)
    add_trust(parser)
    add_json(parser)
    parser.set_defaults(run=_import_and_run)


def _import_and_run(options: argparse.Namespace) -> int:
    code: int = import_module("agent_resolver.cli.plan.execution").run(options)
    return code
