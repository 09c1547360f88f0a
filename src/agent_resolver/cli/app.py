"""Parses the command line, runs one command, and turns what ends it early into words and an exit code."""

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from importlib import import_module
from typing import Final

from agent_resolver._version import __version__
from agent_resolver.cli.errors import InvalidFile, InvalidFiles, Usage, code_of
from agent_resolver.cli.input import (
    AGENT_FILE,
    AGENT_FILE_LABEL,
    INDEX,
    INDEX_LABEL,
    default_agent_file,
    hint_at_missing,
)
from agent_resolver.cli.output import (
    discard_out,
    err,
    err_faults,
    flush_out,
    issue_document,
    only_results_on_stdout,
    out_json,
    out_json_line,
    safe,
    use_utf8,
)
from agent_resolver.cli.parser import CommandParser, HelpText
from agent_resolver.schema.errors import InvalidAgentFile, InvalidIndex, ResolverError
from agent_resolver.storage.errors import UnreadableFile

_EXAMPLES = """\
examples:
  agent validate                     check ./agents.md and ./mcp.index.json
  agent discover                     see which servers exist, by category
  agent resolve --explain            write ./agents.lock and ./agents.resolution.json
  agent resolve --check              exit 1 with a diff if the lock would change
  agent verify                       check that ./agents.lock still holds
  agent why crm                      see which server was chosen for a category, and why not the others
  agent tools list                   see which tools the lock opens
  agent run "Say what you can do"    let the agent of this folder run

exit codes:
  0  done, warnings included
  1  the answer is no: invalid, unsatisfied, changed
  2  usage, or a file that is missing or not a regular readable file
  3  `agent diff` alone: something changed that needs a look
  4  `agent diff` alone: something changed that is a risk
"""


COMMANDS: Final = (
    "init",
    "adopt",
    "validate",
    "discover",
    "index",
    "resolve",
    "verify",
    "why",
    "tree",
    "diff",
    "workspace",
    "report",
    "export",
    "catalog",
    "plan",
    "run",
    "runs",
    "blueprint",
    "worker",
    "task",
    "eval",
    "serve",
    "tools",
    "inbox",
    "audit",
    "state",
    "config",
    "doctor",
    "trust-folder",
    "schema",
    "completion",
)


def build_parser(names: Sequence[str] = COMMANDS) -> argparse.ArgumentParser:
    """The command line with these commands; each is a module or folder here, imported only when it is asked for."""
    parser = CommandParser(
        prog=_called_as(),
        description="Resolve what an AI agent needs against the MCP servers that exist.",
        epilog=_EXAMPLES,
        formatter_class=HelpText,
        allow_abbrev=False,
    )
    parser.add_argument(
        "-V",
        "--version",
        action="version",
        version=f"agent {__version__}",
        help="print the version",
    )
    # Without `prog`, argparse would make a formatter of help to find it out, and import
    # `shutil` for that.
    commands = parser.add_subparsers(
        title="commands",
        metavar="COMMAND",
        required=True,
        dest="command",
        prog=parser.prog,
    )
    for name in names:
        import_module(f"agent_resolver.cli.{name.replace('-', '_')}").add_to(commands)
    return parser


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    use_utf8()
    options = _parse(arguments)
    # A server on stdio has the wire for itself, and sees to it.
    with nullcontext() if options.command == "serve" else only_results_on_stdout():
        code = _run_command(options)
    # After the answer, so that an operator need not wait for what only the next command
    # needs.
    if cache := sys.modules.get("agent_resolver.project.index_cache"):
        cache.write_wanted(os.environ)
    return code


def _run_command(options: argparse.Namespace) -> int:
    try:
        code: int = options.run(options)
        # Output is buffered, so a full disk may show only here, where the error still
        # gets a message and an exit code.
        with suppress(ValueError):  # Code of the project has closed it.
            flush_out()
    except ResolverError as error:
        return _report_error(error, options)
    except ModuleNotFoundError as error:
        from agent_resolver._extra import install_hint, is_of_an_extra

        # A module that no extra brings is a fault of this program, and keeps its
        # traceback.
        if not is_of_an_extra(error):
            raise
        extra = {"serve": "serve", "task": "tools,engine,reasoner"}.get(
            options.command, "tools"
        )
        return _report_error(
            Usage(f"This command needs `{error.name}`", install_hint(extra)), options
        )
    except OSError as error:
        return _report_unwritable(error)
    except KeyboardInterrupt:
        err("Interrupted")
        return 130
    return code


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    # Only the command that is asked for is imported; for help and for a wrong name, all
    # of them.
    asked = [name for name in COMMANDS if name in arguments[:1]]
    options, unknown = build_parser(asked or COMMANDS).parse_known_args(arguments)
    if unknown:
        # The parser of the command knows its options, and so what a misspelt one was
        # meant to be.
        options.parser.refuse_unknown(unknown)
    # A workspace finds its agent files by itself, and refuses any `agents` but the
    # default.
    takes_one_agent_file = not getattr(options, "workspace", None)
    if takes_one_agent_file and getattr(options, "agents", None) == AGENT_FILE:
        options.agents = default_agent_file()
    return options


def _report_unwritable(error: OSError) -> int:
    """Report an output that cannot be written: what goes wrong with other files is handled where they are used."""
    discard_out()
    is_enough_for_its_reader = isinstance(error, BrokenPipeError)
    if not is_enough_for_its_reader:
        # An error of a file has its name, one of the output has none.
        what = (
            "The output cannot be written"
            if error.filename is None
            else f"`{error.filename}` cannot be used"
        )
        err(f"error: {what}: {error.strerror or error}")
    return 1


def _called_as() -> str:
    """The name by which the command was called, where it is one of its own."""
    name = os.path.basename(sys.argv[0])
    return name if name == "agent-resolver" else "agent"


def _report_error(error: ResolverError, options: argparse.Namespace) -> int:
    hint = _hint_for(error, options)
    files = _refused_files(error, options)
    details = list(error.details)
    if getattr(options, "json", False):
        documents = [
            {
                "path": file.path,
                "kind": file.label,
                "issues": list(map(issue_document, file.issues)),
            }
            for file in files
        ]
        document = {
            "code": code_of(error),
            "message": str(error),
            "hint": hint or None,
            "files": documents,
            "details": details,
        }
        # A command that prints a line for each event prints one for its error too.
        write = out_json_line if getattr(options, "json_lines", False) else out_json
        write({"success": False, "error": document})
        return error.exit_code
    for file in files:
        err_faults(file.name, file.path, file.issues)
    if not files:
        err(f"error: {safe(str(error))}")
    for detail in details:
        err(f"  - {safe(str(detail))}")
    if hint:
        err(f"hint: {safe(hint)}")
    return error.exit_code


def _refused_files(
    error: ResolverError, options: argparse.Namespace
) -> Sequence[InvalidFile]:
    if isinstance(error, InvalidFiles):
        return error.files
    if isinstance(error, InvalidAgentFile):
        return [InvalidFile(AGENT_FILE_LABEL, options.agents, error.issues)]
    if isinstance(error, InvalidIndex):
        return [
            InvalidFile(
                INDEX_LABEL, getattr(options, "index", None) or INDEX, error.issues
            )
        ]
    from agent_resolver.project.errors import InvalidBlueprints, InvalidSkills

    if isinstance(error, InvalidBlueprints | InvalidSkills):
        return [
            InvalidFile(path, path, issues) for path, issues in error.faults.items()
        ]
    # A layer of the settings: a file, a variable or a flag, each with issues like a
    # file's.
    return (
        [InvalidFile(error.source, error.source, error.issues)] if error.source else []
    )


def _hint_for(error: ResolverError, options: argparse.Namespace) -> str:
    if error.hint:
        return error.hint
    if isinstance(error, UnreadableFile) and error.missing:
        # A lock is made by a command, so the remedy is to run it.
        if error.path.endswith(".lock"):
            return "run `agent resolve`, or check the path"
        # The option to name is the one whose value is missing. The name of the file
        # tells an index too, since a session may look for it in the folder of the
        # nearest settings.
        asked = {
            getattr(options, "agents", None): "--agents",
            getattr(options, "index", None) or INDEX: "--index",
        }
        is_index = os.path.basename(error.path) == os.path.basename(INDEX)
        option = asked.get(error.path) or ("--index" if is_index else None)
        return hint_at_missing(error.path, option) if option else "check the path"
    return ""
