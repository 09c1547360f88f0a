"""`agent catalog`: the agent files of some folders, as clients see them."""

import argparse
from importlib import import_module

from agent_resolver.cli.option import (
    Commands,
    add_command,
    add_group,
    add_index,
    add_json,
    add_project,
)

_LIST = """\
  agent catalog list                 every agent below ./agents, or the roots of agent.toml
  agent catalog list --root agents --root ../shared/agents
  agent catalog list --capability python --model sonnet --json | jq '.[].uri'
"""
_SEARCH = """\
  agent catalog search "review python code"
  agent catalog search kubernetes --role operator --json
"""
_SHOW = """\
  agent catalog show code-reviewer
  agent catalog show agent://team/code-reviewer --json
  agent catalog show 'agent://code-reviewer?format=json'
"""
_CHECK = """\
  agent catalog check                name every warning, with its place
  agent catalog check --fix          put quotes and indents where YAML needs them
"""
_STATS = """\
  agent catalog stats
"""
_LINT = """\
  agent catalog lint workflow.md     find @server:agent://name where no such agent is
"""


_EXAMPLES = """\
  agent catalog list                                      every agent below ./agents, or the roots of agent.toml
  agent catalog search "review python code"
  agent catalog check                                     name every warning, with its place
"""


def add_to(commands: Commands) -> None:
    """Declare the commands."""
    group = add_group(
        commands, "catalog", "look at the agents of folders of agent files", _EXAMPLES
    )
    parser = _add_action(group, "list", "list the agents by name", _LIST)
    _add_filters(parser)
    parser = _add_action(
        group, "search", "find agents by words, the best first", _SEARCH
    )
    parser.add_argument(
        "text",
        metavar="TEXT",
        help="words to look for in names, capabilities, tags and descriptions",
    )
    parser.add_argument(
        "--limit", type=int, default=20, help="how many at most, 1 to 100 (default: 20)"
    )
    _add_filters(parser)
    parser = _add_action(group, "show", "show one agent, whole", _SHOW)
    parser.add_argument("agent", metavar="AGENT", help="a name, or an agent:// address")
    parser.add_argument(
        "--format",
        choices=("json", "markdown"),
        help="(default: that of the address, else markdown)",
    )
    parser = _add_action(
        group, "check", "name what is wrong with the agent files", _CHECK
    )
    parser.add_argument(
        "--fix",
        action="store_true",
        help="repair front matter that is no YAML, where that is plain",
    )
    parser.add_argument("--strict", action="store_true", help="exit 1 for warnings too")
    _add_action(group, "stats", "count agents, sizes and tokens", _STATS)
    parser = _add_action(
        group, "lint", "find mentions of agents that do not exist", _LINT
    )
    parser.add_argument(
        "files", metavar="FILE", nargs="+", help="Markdown files that mention agents"
    )


def _add_action(
    group: Commands, name: str, summary: str, examples: str
) -> argparse.ArgumentParser:
    parser = add_command(group, name, summary, examples)
    add_root(parser)
    # The index decides which agent files with `requires` are resolved, so every action
    # has the option.
    add_index(parser)
    add_project(parser)
    add_json(parser)
    parser.set_defaults(run=_import_and_run, action=name)
    return parser


def add_root(parser: argparse.ArgumentParser) -> None:
    """`--root`."""
    parser.add_argument(
        "--root",
        metavar="DIR",
        action="append",
        default=[],
        dest="roots",
        help="a folder of agent files, or one file (repeatable; default: catalog.roots of agent.toml, else ./agents "
        "and ./agents.md)",
    )


def _add_filters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--capability", metavar="WORD", help="only agents with this capability"
    )
    parser.add_argument(
        "--role", metavar="ROLE", help="only agents that play this role"
    )
    parser.add_argument("--model", metavar="MODEL", help="only agents for this model")


def _import_and_run(options: argparse.Namespace) -> int:
    # sqlite3 takes milliseconds to import, on the way of every command.
    code: int = import_module("agent_resolver.cli.catalog.execution").run(options)
    return code
