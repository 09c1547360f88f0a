"""`agent index build`: compiles indexes into one file that is read in milliseconds, whatever its size."""

import argparse
import os

from agent_resolver.cli.errors import InvalidFile, InvalidFiles, Refusal, Usage
from agent_resolver.cli.input import INDEX, INDEX_LABEL
from agent_resolver.cli.option import Commands, add_command, add_json, output_path
from agent_resolver.cli.output import out, out_json, safe, shown
from agent_resolver.core.count import counted
from agent_resolver.schema.errors import InvalidIndex, InvalidOverlay
from agent_resolver.schema.index import OVERLAY_NAME
from agent_resolver.storage.file import read_head
from agent_resolver.storage.index_file.form import MAGIC

_EXAMPLES = """\
  agent index build                                     ./mcp.index.json into ./mcp.index.db
  agent index build acme.json beta.json -o mcp.index.db

Then name it with `--index` in any command. `agent resolve --index mcp.index.db --check` exits 1 if a source has changed
since.
"""


def add_to(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "build",
        "compile indexes into one file that any size is read from fast",
        _EXAMPLES,
    )
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="*",
        default=[INDEX],
        help=f"JSON indexes (default: {INDEX})",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="PATH",
        type=output_path,
        help="path of the compiled index (default: beside the first FILE, <stem>.db)",
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Compile the files, with the overlay beside each, and say what was written."""
    from agent_resolver.project.index_build import build_index

    # Only the extension of the first source changes, so that the compiled index lies
    # beside it under the same name.
    output = options.output or f"{os.path.splitext(options.files[0])[0]}.db"
    # The files are judged before the build, which may take seconds and would replace
    # the output at its end.
    _refuse_files(options.files, output)
    try:
        built = build_index(options.files, output, os.environ)
    except InvalidIndex as error:
        # The error names the faulty source, since only one of several files may have
        # the fault.
        raise InvalidFiles(
            [InvalidFile(INDEX_LABEL, error.source, error.issues)]
        ) from None
    except InvalidOverlay as error:
        raise InvalidFiles(
            [InvalidFile(OVERLAY_NAME, error.source, error.issues)]
        ) from None
    size = os.path.getsize(output)
    if options.json:
        document = {
            "success": True,
            "path": output,
            "servers": built.servers,
            "bytes": size,
        }
        out_json({**document, "sources": built.sources})
        return 0
    sources = ", ".join(shown(path) for path in options.files)
    out(
        safe(
            f"✓ Wrote {shown(output)}: {counted(built.servers, 'server')} from {sources}, {size:,} bytes"
        )
    )
    return 0


def _refuse_files(files: list[str], output: str) -> None:
    """Stop before a source, or a file that is not a compiled index, is overwritten."""
    for path in files:
        # Real paths are compared: a link, or another spelling of the path, may lead to
        # the same file.
        if os.path.realpath(path) == os.path.realpath(output):
            raise Usage(
                f"The compiled index cannot be written over `{path}`, which it is built from",
                "choose another `-o`",
            )
        # The first bytes tell a compiled index from JSON, whatever the name of the file
        # ends in.
        if read_head(path, len(MAGIC)) == MAGIC:
            raise Refusal(
                f"`{path}` is compiled already",
                "name the JSON indexes that it was built from",
            )
    # A file that is missing or empty has nothing to lose; one that begins otherwise was
    # not built by this command.
    head = read_head(output, len(MAGIC))
    if head and head != MAGIC:
        raise Refusal(
            f"`{output}` exists and is not a compiled index",
            "choose another `-o`, or move the file away",
        )
