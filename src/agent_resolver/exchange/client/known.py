"""Every client that can be written for, by name."""

from typing import Final

from agent_resolver.exchange.client.claude_code import CLAUDE_CODE
from agent_resolver.exchange.client.claude_desktop import CLAUDE_DESKTOP
from agent_resolver.exchange.client.codex import CODEX
from agent_resolver.exchange.client.cursor import CURSOR
from agent_resolver.exchange.client.entry import Client
from agent_resolver.exchange.client.gemini import GEMINI
from agent_resolver.exchange.client.vscode import VSCODE

CLIENTS: Final[dict[str, Client]] = {
    client.name: client
    for client in (CLAUDE_CODE, CLAUDE_DESKTOP, VSCODE, CURSOR, CODEX, GEMINI)
}
