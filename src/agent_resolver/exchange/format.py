"""The formats that an index can be imported from, in the order in which content is held against them."""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from agent_resolver.exchange import (
    client_config,
    codex,
    docker_catalogue,
    mcpm,
    official_registry,
    toolhive,
)
from agent_resolver.exchange.imported import Imported, Source


class Format(Struct, frozen=True):
    """One format."""

    name: str
    title: str
    """What a person knows it as."""
    matches: Callable[[object], bool]
    """True if parsed content is of this format."""
    read: Callable[[Source], Imported]


FORMATS: Final = (
    Format(
        client_config.NAME,
        "mcpServers of .mcp.json, Claude, Cursor, Gemini",
        client_config.matches,
        client_config.read,
    ),
    Format(codex.NAME, "config.toml of Codex", codex.matches, codex.read),
    Format(
        docker_catalogue.NAME,
        "Docker's catalogue",
        docker_catalogue.matches,
        docker_catalogue.read,
    ),
    Format(mcpm.NAME, "the catalogue of mcpm", mcpm.matches, mcpm.read),
    Format(toolhive.NAME, "ToolHive's catalogue", toolhive.matches, toolhive.read),
    Format(
        client_config.VSCODE_NAME,
        "mcp.json of VS Code",
        client_config.matches_vscode,
        client_config.read_vscode,
    ),
    Format(
        official_registry.NAME,
        "server.json of the official registry",
        official_registry.matches,
        official_registry.read,
    ),
)
BY_NAME: Final = {each.name: each for each in FORMATS}


def recognise(content: object) -> Format | None:
    """The format of parsed content; None if it is of none that is known."""
    return next((each for each in FORMATS if each.matches(content)), None)
