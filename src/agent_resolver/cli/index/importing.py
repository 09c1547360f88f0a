"""`agent index import`: entries for an index from catalogues and client configurations."""

import argparse
import os
from typing import TYPE_CHECKING, Final

from agent_resolver.cli.client_command import project_folder
from agent_resolver.cli.errors import InvalidFile, InvalidFiles, Refusal
from agent_resolver.cli.input import INDEX, INDEX_LABEL, read_index_bytes
from agent_resolver.cli.option import Commands, add_command, add_json, output_path
from agent_resolver.core.count import counted
from agent_resolver.schema.errors import InvalidIndex, InvalidOverlay
from agent_resolver.schema.index import (
    OVERLAY_NAME,
    UNVERSIONED,
    Index,
    IndexEntry,
    is_object,
)
from agent_resolver.schema.index_reader import parse_index, read_index
from agent_resolver.schema.issue import IssueCode
from agent_resolver.schema.lockfile import to_json
from agent_resolver.storage.errors import UnreadableFile
from agent_resolver.storage.exclusive import exclusively_in_folder
from agent_resolver.storage.file import write_atomic
from agent_resolver.storage.ownership import (
    believed_users,
    refuse_link_away,
    require_own,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent_resolver.exchange.merge import Batch, Merged
    from agent_resolver.exchange.source_file import SourcesReading

FORMAT_NAMES: Final = (
    "client-config",
    "codex",
    "docker-catalogue",
    "mcpm",
    "official-registry",
    "toolhive",
    "vscode",
)
_EXAMPLES = """\
  agent index import .mcp.json                        the servers of Claude Code, Cursor or Gemini
  agent index import .vscode/mcp.json ~/.codex/config.toml
  agent index import ./mcp-registry/servers           a checkout of Docker's catalogue, with all its folders
  agent index import servers.json --format official-registry --dry-run

What a source does not say stays unknown: state residency, sensitivity and scopes in mcp.overlay.yaml. Values of
variables and headers are never carried over, and an entry with a secret among its arguments is refused.
"""


def add_to(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "import",
        "add the servers of catalogues and clients to an index",
        _EXAMPLES,
    )
    parser.add_argument(
        "sources",
        metavar="SOURCE",
        nargs="+",
        help="a file, or a folder that is read with all folders below it",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=output_path,
        default=INDEX,
        help=f"the index to add to; made if it is not there (default: {INDEX})",
    )
    parser.add_argument(
        "--format",
        choices=FORMAT_NAMES,
        help="the format of the sources (default: by their content)",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="write nothing, and say what would change",
    )
    parser.add_argument(
        "--strict",
        action="store_true",
        help="write nothing and exit 1 if any entry is refused",
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="show every note and conflict, also where many are alike",
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Read the sources, merge them into the index, and report; exit 1 if nothing could be imported."""
    from agent_resolver.cli.index.import_report import report_import
    from agent_resolver.exchange.merge import Batch
    from agent_resolver.exchange.source_file import read_sources

    # The sources are read before the lock is taken: other commands wait only while the
    # index itself is read and written.
    reading = read_sources(options.sources, options.format)
    batches = [Batch(file.path, file.imported.entries) for file in reading.files]
    # Two imports at the same moment would each write an index without the servers of
    # the other.
    with exclusively_in_folder(options.output):
        raw = _read_existing(options.output)
        existing = _parse_existing(raw, options.output)
        merged = _merge(existing, batches, options.output)
        # With `--strict` one refused entry refuses them all, so that a pipeline never
        # works with a part of a source.
        is_no = not merged.ids or (options.strict and _has_faults(reading))
        status = "refused" if is_no else _write_index(options, raw, existing, merged)
    # The report needs no lock: the index is written or refused at this point.
    report_import(options, reading, merged, status)
    return 1 if is_no else 0


def _has_faults(reading: "SourcesReading") -> bool:
    return any(file.imported.faults for file in reading.files)


def _read_existing(path: str) -> bytes | None:
    from agent_resolver.project.index import refuse_compiled

    try:
        raw = read_index_bytes(path)
    except UnreadableFile as error:
        if error.missing:
            return None
        raise
    # The import edits JSON, so a compiled index must be named by its source instead.
    refuse_compiled(path, raw, "--output")
    return raw


def _parse_existing(raw: bytes | None, path: str) -> Index:
    # A missing file and an empty one mean the same: the index begins with this import.
    if not raw:
        return ()
    try:
        return parse_index(raw)
    except InvalidIndex as error:
        raise InvalidFiles([InvalidFile(INDEX_LABEL, path, error.issues)]) from None


def _merge(existing: Index, batches: "Sequence[Batch]", path: str) -> "Merged":
    from agent_resolver.exchange.merge import merge_entries
    from agent_resolver.project.index import overlay_path, overlay_vouching

    try:
        # Where the overlay vouches for a server, the merge keeps the way in which it is
        # reached.
        return merge_entries(existing, batches, overlay_vouching(path))
    except InvalidOverlay as error:
        raise InvalidFiles(
            [InvalidFile(OVERLAY_NAME, overlay_path(path), error.issues)]
        ) from None


def _write_index(
    options: argparse.Namespace, raw: bytes | None, existing: Index, merged: "Merged"
) -> str:
    """Write the index unless it says all of it already; what became of it."""
    # The order of entries in the file means nothing, so a sorted comparison avoids a
    # rewrite that changes nothing.
    if raw and sorted(existing, key=_order) == list(merged.entries):
        return "unchanged"
    if raw:
        _refuse_unknown_keys(raw, options.output)
    # The form of the file is kept: a bare list stays a list, an object keeps its key.
    content = to_json(
        {"servers": merged.entries} if raw and is_object(raw) else merged.entries
    )
    parse_index(
        content
    )  # What is written can be read: a fault in an importer stops here.
    if options.dry_run:
        return "would-write"
    # The index decides which commands may run, so neither a link nor a file of another
    # user may choose what is written.
    refuse_link_away(options.output, project_folder(), is_named=True)
    require_own(options.output, believed_users(os.environ))
    write_atomic(options.output, [content])
    return "written"


def _order(entry: IndexEntry) -> tuple[str, str]:
    return entry.id, entry.version or UNVERSIONED


def _refuse_unknown_keys(raw: bytes, path: str) -> None:
    """Stop before keys are lost that a newer release may know."""
    # Writing goes through the schema, which drops keys that it does not know.
    unknown = [
        issue for issue in read_index(raw).issues if issue.code is IssueCode.UNKNOWN_KEY
    ]
    if unknown:
        first = unknown[0]
        where = f"`{first.path}` ({first.line}:{first.column})"
        message = f"`{path}` has {counted(len(unknown), 'key')} that would be lost, the first is {where}"
        raise Refusal(message, "remove them, or write to another file with `--output`")
