"""`agent tools`: the tools that a lock opens, and calls to them."""

import argparse
from importlib import import_module

from agent_resolver.cli.option import Commands, add_command, add_governed, add_group, add_json

_LIST_EXAMPLES = """\
  agent tools list
  agent tools list --json | jq '.refused[].code'
"""
_SHOW_EXAMPLES = """\
  agent tools show notes.read_note
"""
_CALL_EXAMPLES = """\
  agent tools call notes.read_note '{"name": "welcome"}'
  echo '{"name": "welcome"}' | agent tools call notes.read_note -
"""


def add_to(commands: Commands) -> None:
    """Declare the commands."""
    group = add_group(commands, "tools", "list, show and call the tools that a lock opens")
    listing = add_command(group, "list", "list the tools that the agent may call", _LIST_EXAMPLES)
    show = add_command(group, "show", "show what a tool takes and where it comes from", _SHOW_EXAMPLES)
    call = add_command(group, "call", "call a tool and print its result", _CALL_EXAMPLES)
    for parser in (show, call):
        parser.add_argument("id", metavar="ID", help="the tool, as `agent tools list` names it")
    call.add_argument("arguments", metavar="JSON", help="the arguments as a JSON object, or - to read them from stdin")
    for parser, run in ((listing, "run_list"), (show, "run_show"), (call, "run_call")):
        add_governed(parser)
        parser.add_argument(
            "--timeout", type=float, default=60.0, metavar="SECONDS", help="how long a server may take (default: 60)"
        )
        parser.add_argument("-v", "--verbose", action="store_true", help="show what launched servers log")
        add_json(parser)
        parser.set_defaults(run=_run, tools_command=run)


def _run(options: argparse.Namespace) -> int:
    # The MCP SDK takes half a second to import: only who calls tools pays for it.
    run = getattr(import_module("agent_resolver.cli.tools_run"), options.tools_command)
    return int(run(options))
