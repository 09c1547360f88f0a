"""`agent export`: what a lock holds, for the programs of others."""

import argparse
from importlib import import_module

from agent_resolver.cli.errors import Usage
from agent_resolver.cli.option import (
    Commands,
    add_agents,
    add_command,
    add_index,
    add_json,
    add_lock,
    add_project,
    add_workspace,
    output_path,
)

# The names are those of `exchange.client.known`, which is imported only when the
# command runs.
_CLIENTS = ("claude-code", "claude-desktop", "vscode", "cursor", "codex", "gemini")
_FORMATS = ("allowlist", "cyclonedx", "spdx")
_EXAMPLES = """\
  agent export --client claude-code                    serve the agent under its lock, from ./.mcp.json
  agent export --client codex --direct                 the locked servers and tools themselves
  agent export --client vscode --dry-run               show what would change
  agent export --client claude-desktop -o FILE         that client has no file in a project
  agent export --format allowlist --client claude-code --workspace
  agent export --format cyclonedx -o bom.json          a bill of materials
"""


def add_to(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "export",
        "write settings of clients, allow lists and bills of materials",
        _EXAMPLES,
    )
    parser.add_argument(
        "--client",
        choices=_CLIENTS,
        metavar="CLIENT",
        help=f"one of {', '.join(_CLIENTS)}",
    )
    parser.add_argument(
        "--format",
        choices=_FORMATS,
        metavar="FORMAT",
        help=f"something else than settings: {', '.join(_FORMATS)}",
    )
    parser.add_argument(
        "--direct",
        action="store_true",
        help="name the locked servers and tools, instead of one entry that serves them",
    )
    parser.add_argument(
        "--name",
        metavar="NAME",
        help="the name of that one entry (default: agent-resolver)",
    )
    parser.add_argument(
        "--governed",
        action="store_true",
        help="in an allow list, also allow the entry that serves under the lock",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=output_path,
        help="the file to write (default: the client's own in the project; stdout where there is none)",
    )
    parser.add_argument(
        "--replace",
        action="store_true",
        help="replace an entry of the same name that is not from this lock",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="show what would change, and write nothing",
    )
    add_agents(parser)
    add_index(parser)
    add_lock(parser)
    add_workspace(parser, "in an allow list, take")
    add_project(parser)
    add_json(parser)
    parser.set_defaults(run=_import_and_run)


def _import_and_run(options: argparse.Namespace) -> int:
    _check_options(options)
    # Both formats of a bill of materials come from one module.
    module = {None: "settings", "allowlist": "allow"}.get(options.format, "bill")
    code: int = import_module(f"agent_resolver.cli.export.{module}").run(options)
    return code


def _check_options(options: argparse.Namespace) -> None:
    if options.format is None and options.client is None:
        raise Usage(
            "Nothing to export is named",
            f"name a client with `--client`: {', '.join(_CLIENTS)}",
        )
    # Only these two clients have managed settings with such a list.
    if options.format == "allowlist" and options.client not in {
        "claude-code",
        "vscode",
    }:
        raise Usage(
            "An allow list is written for `--client claude-code` or `--client vscode`"
        )
    is_entry = options.format is None
    is_allow_list = options.format == "allowlist"
    # For each option: the value that was given, and True if it means something beside
    # the others. One without effect is refused, since an operator would take it to have
    # been heeded.
    belongs = {
        "--client": (options.client, is_entry or is_allow_list),
        "--direct": (options.direct, is_entry),
        "--name": (options.name, is_entry and not options.direct),
        "--dry-run": (options.dry_run, is_entry),
        "--replace": (options.replace, is_entry),
        "--governed": (options.governed, is_allow_list),
        "--workspace": (options.workspace, is_allow_list),
    }
    for option, (is_given, has_place) in belongs.items():
        if is_given and not has_place:
            raise Usage(f"`{option}` has no place here", "see `agent export --help`")
