"""Parses the command line, runs one command, and turns what ends it early into words and an exit code."""

import argparse
import gc
import os
import sys
from collections.abc import Sequence

from agent_resolver._version import __version__
from agent_resolver.cli import completion, discover, resolve, schema, validate
from agent_resolver.cli.errors import InvalidFile, Refusal
from agent_resolver.cli.output import err, err_faults, out_json, safe, use_utf8
from agent_resolver.schema import Issue, ResolverError
from agent_resolver.storage import FileError, OversizeFile, UnreadableFile

_EXAMPLES = """\
examples:
  agent validate                     check ./agents.md and ./mcp.index.json
  agent discover                     see which servers exist, by category
  agent resolve --explain            write ./agents.lock and ./agents.resolution.json
  agent resolve --check              exit 1 with a diff if the lock would change

exit codes:
  0  done, warnings included
  1  the answer is no: invalid, unsatisfied, changed
  2  usage, or a file that is missing or not a regular readable file
"""


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = argparse.ArgumentParser(
        prog="agent",
        description="Resolve what an AI agent needs against the MCP servers that exist.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("-V", "--version", action="version", version=f"agent {__version__}", help="print the version")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in (validate, discover, resolve, schema, completion):
        command.add_to(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the `agent` command and return its exit code."""
    use_utf8()
    # A command lives for moments and makes no cycles: looking for them would cost a third of a large resolution.
    gc.disable()
    options = build_parser().parse_args(arguments)
    try:
        code: int = options.run(options)
        sys.stdout.flush()
    except ResolverError as error:
        return _report(error, as_json=getattr(options, "json", False))
    except BrokenPipeError:
        # Whoever read the output has seen enough. Closing it again at exit must not complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        err("Interrupted")
        return 130
    return code


def _report(error: ResolverError, *, as_json: bool) -> int:
    hint = _hint(error)
    issues: Sequence[Issue] = error.issues if isinstance(error, InvalidFile) else ()
    if as_json:
        out_json({"success": False, "error": {"message": str(error), "hint": hint, "issues": issues}})
    elif isinstance(error, InvalidFile):
        err_faults(error.label, error.path, issues)
    else:
        err(f"error: {safe(str(error))}")
        if hint:
            err(f"hint: {safe(hint)}")
    return _exit_code(error)


def _hint(error: ResolverError) -> str:
    if isinstance(error, Refusal):
        return error.hint
    if isinstance(error, UnreadableFile) and error.missing:
        return "check the path, or give another with `--agents` or `--index`"
    return ""


def _exit_code(error: ResolverError) -> int:
    if isinstance(error, Refusal):
        return error.exit_code
    return 2 if isinstance(error, FileError) and not isinstance(error, OversizeFile) else 1
