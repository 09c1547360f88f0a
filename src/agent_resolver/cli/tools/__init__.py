"""`agent tools`: the tools that a lock opens, and calls to them."""

import argparse
from importlib import import_module

from agent_resolver.cli.option import (
    Commands,
    add_agents,
    add_command,
    add_governed,
    add_group,
    add_json,
    add_project,
    add_trust,
    output_path,
)

_EXAMPLES = """\
  agent tools list                                        what the lock and the code offer
  agent tools call notes.read_note '{"name": "welcome"}'
  agent tools certify                                     are the tools of the code fit to be offered?
"""
_LIST_EXAMPLES = """\
  agent tools list
  agent tools list --tag connector
  agent tools list --json | jq '.refused[].code'
"""
_SHOW_EXAMPLES = """\
  agent tools show notes.read_note
"""
_CALL_EXAMPLES = """\
  agent tools call notes.read_note '{"name": "welcome"}'
  echo '{"name": "welcome"}' | agent tools call notes.read_note -
"""
_ACCEPT_EXAMPLES = """\
  agent tools accept                 every change, old against new; asks before it writes anything
  agent tools accept notes           those of one server
  agent tools accept notes.read_note notes.find --yes

What is accepted goes into the index. The lock governs: renew it with `agent resolve`.
"""
_MANIFEST_EXAMPLES = """\
  agent tools manifest | jq '.tools[].id'
  agent tools manifest --out tools.manifest.json
  agent tools manifest --check       exit 1 with the changes if tools.manifest.json is not what the code offers

It lists the tools that the project's own code offers, not those of locked servers.
"""
_DIFF_EXAMPLES = """\
  agent tools diff tools.manifest.json             what the code changed
  agent tools diff ../main ./                      two folders: their tools.manifest.json
  agent tools diff old.json new.json --json | jq '.changes[] | select(.isBreaking)'

A change of an input is compatible when all that was valid stays valid, one of an output when all that may come was
possible before. What cannot be judged counts as breaking.

exit codes:
  0  nothing changed, or only what is compatible
  1  something changed that breaks callers or readers
"""
_CERTIFY_EXAMPLES = """\
  agent tools certify
  agent tools certify --out tools.certificate.json
  agent tools certify --json | jq '.checks[] | select(.status == "failed")'
  agent tools certify --format oscal --out assessment-results.json
"""


def add_to(commands: Commands) -> None:
    """Declare the commands."""
    group = add_group(
        commands,
        "tools",
        "list, show, call, accept and certify the tools of an agent",
        _EXAMPLES,
    )
    listing = add_command(
        group, "list", "list the tools that the agent may call", _LIST_EXAMPLES
    )
    show = add_command(
        group, "show", "show what a tool takes and where it comes from", _SHOW_EXAMPLES
    )
    call = add_command(
        group, "call", "call a tool and print its result", _CALL_EXAMPLES
    )
    for parser in (show, call):
        parser.add_argument(
            "id", metavar="ID", help="the tool, as `agent tools list` names it"
        )
    listing.add_argument("--tag", metavar="TAG", help="only the tools with this tag")
    call.add_argument(
        "--trace-id", metavar="HEX", help="go on with this trace, as after an approval"
    )
    call.add_argument(
        "--key",
        metavar="TEXT",
        help="make it the same call as others with this key: it is done once",
    )
    call.add_argument(
        "arguments",
        metavar="JSON",
        help="the arguments as a JSON object, or - to read them from stdin",
    )
    accept = add_command(
        group,
        "accept",
        "review tools that a server has changed, and pin them",
        _ACCEPT_EXAMPLES,
    )
    accept.add_argument(
        "names",
        metavar="SERVER[.TOOL]",
        nargs="*",
        help="only these servers or tools (default: all)",
    )
    accept.add_argument("--yes", action="store_true", help="accept without being asked")
    runs = (
        (listing, "run_list"),
        (show, "run_show"),
        (call, "run_call"),
        (accept, "run_accept"),
    )
    for parser, run in runs:
        add_governed(parser)
        parser.add_argument(
            "--timeout",
            type=float,
            default=60.0,
            metavar="SECONDS",
            help="how long a server may take (default: 60)",
        )
        parser.add_argument(
            "-v",
            "--verbose",
            action="store_true",
            help="show what launched servers log",
        )
        add_json(parser)
        parser.set_defaults(run=_run_on_session, tools_command=run)
    _add_own(group)


def _add_own(group: Commands) -> None:
    """The commands about the tools of the project's own code."""
    manifest = add_command(
        group,
        "manifest",
        "list what the tools of the code take, give and ask",
        _MANIFEST_EXAMPLES,
    )
    manifest.add_argument(
        "--out",
        metavar="PATH",
        type=output_path,
        help="write it to this file, unless it is there already",
    )
    manifest.add_argument(
        "--check",
        action="store_true",
        help="compare it with the file of --out (default: tools.manifest.json beside agent.toml), and write nothing",
    )
    changes = add_command(
        group,
        "diff",
        "say what changed between two manifests, and what of it breaks",
        _DIFF_EXAMPLES,
    )
    a_manifest = "manifest, or a folder with `tools.manifest.json`"
    changes.add_argument("old", metavar="OLD", help=f"the old {a_manifest}")
    changes.add_argument(
        "new",
        metavar="NEW",
        nargs="?",
        help=f"the new {a_manifest} (default: what the code offers)",
    )
    certify = add_command(
        group,
        "certify",
        "check that the tools of the code are fit to be offered",
        _CERTIFY_EXAMPLES,
    )
    certify.add_argument(
        "--out",
        metavar="REPORT",
        type=output_path,
        help="write the report to this file",
    )
    certify.add_argument(
        "--format",
        choices=("json", "oscal"),
        default="json",
        help="how the report is written: our own JSON, or OSCAL assessment results (default: json)",
    )
    for parser, module in (
        (manifest, "manifest"),
        (changes, "diff"),
        (certify, "certify"),
    ):
        add_agents(parser)
        add_project(parser)
        add_trust(parser)
        add_json(parser)
        parser.set_defaults(run=_run_on_code, tools_module=module)


def _run_on_code(options: argparse.Namespace) -> int:
    # Two manifests are compared without any extra: only who loads the code pays for
    # what it needs.
    return int(
        import_module(f"agent_resolver.cli.tools.{options.tools_module}").run(options)
    )


def _run_on_session(options: argparse.Namespace) -> int:
    # The MCP SDK takes half a second to import: only who calls tools pays for it.
    module = "accept" if options.tools_command == "run_accept" else "execution"
    run = getattr(
        import_module(f"agent_resolver.cli.tools.{module}"), options.tools_command
    )
    return int(run(options))
