"""The input files of a command."""

import os
from typing import Final

from msgspec import Struct

from agent_resolver.cli.errors import InvalidFile, InvalidFiles
from agent_resolver.cli.output import err, err_warnings
from agent_resolver.core.server import Servers
from agent_resolver.project.agent_path import has_front_matter
from agent_resolver.project.open_index import OpenIndex, open_index
from agent_resolver.schema.agent_file import AgentFile, Reading, read_agent_file
from agent_resolver.schema.errors import InvalidIndex, InvalidOverlay
from agent_resolver.schema.index import OVERLAY_NAME
from agent_resolver.schema.issue import Issue, Severity, only_errors
from agent_resolver.schema.limit import MAX_AGENT_FILE_BYTES, MAX_INDEX_BYTES
from agent_resolver.schema.tree import Node
from agent_resolver.storage.file import read_bounded

AGENT_FILE: Final = "./agents.md"
OTHER_AGENT_FILE: Final = "./AGENTS.md"
"""The name that other tools look for; it is an agent file only if it has front matter."""
INDEX: Final = "./mcp.index.json"

AGENT_FILE_LABEL: Final = "agents.md"
INDEX_LABEL: Final = "mcp.index.json"


def default_agent_file() -> str:
    """The agent file of this folder: `agents.md`, else an `AGENTS.md` with front matter."""
    has_other = has_front_matter(OTHER_AGENT_FILE)
    # A link that leads nowhere counts as there: the error then names it, instead of a
    # silent choice of the other file.
    if not os.path.lexists(AGENT_FILE):
        return OTHER_AGENT_FILE if has_other else AGENT_FILE
    # On some file systems both names are one file.
    if (
        has_other
        and os.path.exists(AGENT_FILE)
        and not os.path.samefile(AGENT_FILE, OTHER_AGENT_FILE)
    ):
        err(
            "note: `AGENTS.md` has front matter too, and is not read: `agents.md` comes first"
        )
    return AGENT_FILE


def hint_at_missing(path: str, option: str) -> str:
    """The advice about an input file that is not there, and which `option` names."""
    if path not in {AGENT_FILE, INDEX}:
        return f"check the path, or name another file with `{option}`"
    # No file was named: a newcomer may not know yet that there should be one.
    if os.path.lexists(AGENT_FILE) or os.path.lexists(INDEX):
        write_one = "docs/quick-start.md shows how to write one"  # `agent init` writes both files or neither.
        return f"change to the folder that has it, or name another file with `{option}`; {write_one}"
    return f"run `agent init` to begin here, change to the folder that has it, or name another file with `{option}`"


def read_agent_bytes(path: str) -> bytes:
    """The bytes of an agent file."""
    return read_bounded(path, MAX_AGENT_FILE_BYTES)


def read_index_bytes(path: str) -> bytes:
    """The bytes of an index."""
    return read_bounded(path, MAX_INDEX_BYTES)


class Inputs(Struct, frozen=True):
    """The files that a resolution is made of."""

    agent: AgentFile
    tree: Node
    """Where each value of the agent file stands."""
    warnings: tuple[Issue, ...]
    index: OpenIndex

    @property
    def servers(self) -> Servers:
        """The servers of the index, with the facts of its overlay."""
        return self.index.servers


def load(agent_path: str, index_path: str) -> Inputs:
    """The agent file, the warnings about it, and the servers of the index.

    Raises:
        InvalidFiles: With the faults of both.
    """
    reading = read_agent_file(read_agent_bytes(agent_path))
    index = _open(index_path)
    # Both files are read before either is refused, so that one run shows the faults of
    # both.
    if reading.agent is None or isinstance(index, InvalidFile):
        agent = InvalidFile(
            AGENT_FILE_LABEL, agent_path, tuple(only_errors(reading.issues))
        )
        raise InvalidFiles(
            [
                found
                for found in (agent, index)
                if isinstance(found, InvalidFile) and found.issues
            ]
        )
    return Inputs(reading.agent, reading.tree, warnings_of(reading), index)


def warnings_of(reading: Reading) -> tuple[Issue, ...]:
    """The warnings about the agent file, for a command that uses it."""
    return tuple(
        issue for issue in reading.issues if issue.severity is Severity.WARNING
    )


def load_index(path: str) -> OpenIndex:
    """The index at `path`, in whichever form it is."""
    index = _open(path)
    # A faulty index is a value until here, so that `load` can report it together with
    # the agent file.
    if isinstance(index, InvalidFile):
        raise InvalidFiles([index])
    return index


def _open(path: str) -> OpenIndex | InvalidFile:
    try:
        index = open_index(path, os.environ)
    except InvalidOverlay as error:
        return InvalidFile(OVERLAY_NAME, error.source, error.issues)
    except InvalidIndex as error:
        return InvalidFile(INDEX_LABEL, path, error.issues)
    # To choose from an old copy without a word would be worse than a word too many,
    # whatever the command is.
    err_warnings(path, index.issues)
    return index
