"""The input files of a command."""

from agent_resolver.cli.errors import InvalidFile
from agent_resolver.core import Server, servers_of
from agent_resolver.schema import AgentFile, InvalidInput, parse_agent_file, parse_index
from agent_resolver.schema.limit import MAX_AGENT_FILE_BYTES, MAX_INDEX_BYTES
from agent_resolver.storage import read_bounded

AGENT_FILE = "./agents.md"
INDEX = "./mcp.index.json"

AGENT_FILE_LABEL = "agents.md"
INDEX_LABEL = "mcp.index.json"


def read_agent_bytes(path: str) -> bytes:
    """The bytes of an agent file."""
    return read_bounded(path, MAX_AGENT_FILE_BYTES)


def read_index_bytes(path: str) -> bytes:
    """The bytes of an index."""
    return read_bounded(path, MAX_INDEX_BYTES)


def load_agent(path: str) -> AgentFile:
    """The agent file at `path`."""
    try:
        return parse_agent_file(read_agent_bytes(path))
    except InvalidInput as error:
        raise InvalidFile(AGENT_FILE_LABEL, path, error.issues) from None


def load_servers(path: str) -> tuple[Server, ...]:
    """The servers of the index at `path`."""
    try:
        return servers_of(parse_index(read_index_bytes(path)))
    except InvalidInput as error:
        raise InvalidFile(INDEX_LABEL, path, error.issues) from None
