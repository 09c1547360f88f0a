"""What to write into the settings of a client so that it finds this server."""

import json
from collections.abc import Sequence
from typing import Final

CLIENTS: Final = ("claude-code", "claude-desktop", "vscode", "cursor", "codex")
_NAME: Final = "agent-resolver"


def client_config(client: str, command: Sequence[str], url: str | None) -> str:
    """The settings for one client: a server that it starts, or one at an address."""
    if client == "codex":
        return _toml_settings(command, url)
    entry: dict[str, object] = {"command": command[0], "args": list(command[1:])}
    if url:
        # Claude Desktop only starts servers, so a small program has to stand in between.
        entry = {"command": "npx", "args": ["mcp-remote", url]} if client == "claude-desktop" else {"url": url}
        if client in {"claude-code", "vscode"}:
            entry = {"type": "http", **entry}
    elif client == "vscode":
        entry = {"type": "stdio", **entry}
    return json.dumps({"servers" if client == "vscode" else "mcpServers": {_NAME: entry}}, indent=2) + "\n"


def _toml_settings(command: Sequence[str], url: str | None) -> str:
    lines = (
        [f"url = {_toml_value(url)}"]
        if url
        else [f"command = {_toml_value(command[0])}", f"args = {_toml_value(list(command[1:]))}"]
    )
    return "\n".join([f"[mcp_servers.{_NAME}]", *lines, ""])


def _toml_value(value: str | list[str]) -> str:
    """JSON is TOML here, but for pairs of surrogates and for the one control character that JSON leaves alone."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
