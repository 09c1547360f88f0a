"""What to write into the settings of a client so that it finds this server."""

import json
from collections.abc import Sequence
from typing import Final

CLIENTS: Final = ("claude-code", "claude-desktop", "vscode", "cursor", "codex")
_NAME: Final = "agent-resolver"
_REFERENCES: Final = {
    "claude-code": "${{{}}}",
    # It fills nothing in: a person has to.
    "claude-desktop": "",
    "vscode": "${{env:{}}}",
    "cursor": "${{env:{}}}",
}
"""How each client writes that a variable has the value that it has for the client itself."""


def client_config(client: str, command: Sequence[str], url: str | None, variables: Sequence[str] = ()) -> str:
    """The settings for one client: a server that it starts, or one at an address.

    Args:
        client: The client, one of `CLIENTS`.
        command: The command line of the server, for a client that starts it.
        url: The address of the server, for a client that does not.
        variables: The environment variables that the server reads. The settings name them and never hold their values.
    """
    if client == "codex":
        return _toml_settings(command, url, variables)
    entry: dict[str, object] = {"command": command[0], "args": list(command[1:])}
    if variables:
        reference = _REFERENCES[client]
        entry["env"] = {name: reference.format(name) for name in variables}
    if url:
        # Claude Desktop only starts servers, so a small program has to stand in between.
        entry = {"command": "npx", "args": ["mcp-remote", url]} if client == "claude-desktop" else {"url": url}
        if client in {"claude-code", "vscode"}:
            entry = {"type": "http", **entry}
    elif client == "vscode":
        entry = {"type": "stdio", **entry}
    return json.dumps({"servers" if client == "vscode" else "mcpServers": {_NAME: entry}}, indent=2) + "\n"


def _toml_settings(command: Sequence[str], url: str | None, variables: Sequence[str]) -> str:
    if url:
        lines = [f"url = {_toml_value(url)}"]
    else:
        lines = [f"command = {_toml_value(command[0])}", f"args = {_toml_value(list(command[1:]))}"]
        if variables:
            lines.append(f"env_vars = {_toml_value(list(variables))}")
    return "\n".join([f"[mcp_servers.{_NAME}]", *lines, ""])


def _toml_value(value: str | list[str]) -> str:
    """JSON is TOML here, but for pairs of surrogates and for the one control character that JSON leaves alone."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def mcp_url(host: str, port: int) -> str:
    """Where MCP is served."""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/mcp"
