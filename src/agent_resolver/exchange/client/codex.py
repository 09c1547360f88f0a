"""Codex: `.codex/config.toml` in the folder of the project."""

from typing import Any, Final

from agent_resolver.exchange.client.entry import Client, ClientEntry

_TOOLS: Final = "enabled_tools"


def _render(entry: ClientEntry) -> dict[str, Any]:
    settings: dict[str, Any] = {"url": entry.url}
    if entry.command:
        settings = {"command": entry.command[0], "args": list(entry.command[1:])}
        if entry.variables:
            settings["env_vars"] = list(entry.variables)
    if entry.token_variable:
        settings["bearer_token_env_var"] = entry.token_variable
    if entry.tools is not None:
        settings[_TOOLS] = list(entry.tools)
    return settings


CODEX: Final = Client(
    name="codex",
    title="Codex",
    path=".codex/config.toml",
    root="mcp_servers",
    is_toml=True,
    wires=frozenset({"stdio", "http"}),
    tool_filter=_TOOLS,
    off_switch="enabled",
    reads_variables=True,
    render=_render,
)
