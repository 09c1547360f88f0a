"""The configuration of Codex, `config.toml` with a table `[mcp_servers.NAME]` for each server."""

from typing import Final

from agent_resolver.exchange.client_config import read_config
from agent_resolver.exchange.imported import Imported, Source
from agent_resolver.exchange.part import Part, import_each

NAME: Final = "codex"


def matches(content: object) -> bool:
    """True if the content has tables of servers."""
    match content:
        case {"mcp_servers": dict()}:
            return True
    return False


def read(source: Source) -> Imported:
    """The servers of the file."""
    servers = Part(source.content).member("mcp_servers")
    return import_each(
        servers.members(),
        lambda name, part, notes: read_config(NAME, name, part, notes),
    )
