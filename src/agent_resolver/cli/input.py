"""The input files of a command."""

from typing import Final

from agent_resolver.cli.errors import InvalidFile, InvalidFiles
from agent_resolver.core import Server, servers_of
from agent_resolver.schema import AgentFile, Index, InvalidInput, Issue, Severity, parse_index, read_agent_file
from agent_resolver.schema.issue import errors
from agent_resolver.schema.limit import MAX_AGENT_FILE_BYTES, MAX_INDEX_BYTES
from agent_resolver.storage import read_bounded

AGENT_FILE: Final = "./agents.md"
INDEX: Final = "./mcp.index.json"

AGENT_FILE_LABEL: Final = "agents.md"
INDEX_LABEL: Final = "mcp.index.json"


def read_agent_bytes(path: str) -> bytes:
    """The bytes of an agent file."""
    return read_bounded(path, MAX_AGENT_FILE_BYTES)


def read_index_bytes(path: str) -> bytes:
    """The bytes of an index."""
    return read_bounded(path, MAX_INDEX_BYTES)


def load(agent_path: str, index_path: str) -> tuple[AgentFile, list[Issue], tuple[Server, ...]]:
    """The agent file, the warnings about it, and the servers of the index.

    Raises:
        InvalidFiles: With the faults of both.
    """
    reading = read_agent_file(read_agent_bytes(agent_path))
    index = _index(index_path)
    if reading.agent is None or isinstance(index, InvalidFile):
        agent = InvalidFile(AGENT_FILE_LABEL, agent_path, tuple(errors(reading.issues)))
        raise InvalidFiles([found for found in (agent, index) if isinstance(found, InvalidFile) and found.issues])
    warnings = [issue for issue in reading.issues if issue.severity is Severity.WARNING]
    return reading.agent, warnings, servers_of(index)


def load_servers(path: str) -> tuple[Server, ...]:
    """The servers of the index at `path`."""
    index = _index(path)
    if isinstance(index, InvalidFile):
        raise InvalidFiles([index])
    return servers_of(index)


def _index(path: str) -> Index | InvalidFile:
    try:
        return parse_index(read_index_bytes(path))
    except InvalidInput as error:
        return InvalidFile(INDEX_LABEL, path, error.issues)
