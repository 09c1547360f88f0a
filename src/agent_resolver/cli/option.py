"""Options that several commands share."""

import argparse
from typing import Any

from agent_resolver.cli.input import AGENT_FILE, INDEX

Commands = Any
"""What `add_subparsers` returns; argparse keeps its type private."""


def add_command(commands: Commands, name: str, summary: str, examples: str) -> argparse.ArgumentParser:
    """A command with its help and examples."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    return parser


def add_agents(parser: argparse.ArgumentParser) -> None:
    """`--agents`."""
    parser.add_argument(
        "-a", "--agents", metavar="PATH", default=AGENT_FILE, help=f"path to the agent file (default: {AGENT_FILE})"
    )


def add_index(parser: argparse.ArgumentParser) -> None:
    """`--index`."""
    parser.add_argument("-i", "--index", metavar="PATH", help=f"path to the server index (default: {INDEX})")


def add_json(parser: argparse._ActionsContainer) -> None:
    """`--json`."""
    parser.add_argument("--json", action="store_true", help="print the result as JSON on stdout")
