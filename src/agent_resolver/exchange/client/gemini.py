"""Gemini CLI: `.gemini/settings.json` in the folder of the project."""

from typing import Any, Final

from agent_resolver.exchange.client.entry import Client, ClientEntry, json_settings

_REFERENCE: Final = "${{{}}}"
_TOOLS: Final = "includeTools"


def _render(entry: ClientEntry) -> dict[str, Any]:
    address = "url" if entry.wire == "sse" else "httpUrl"
    settings = json_settings(entry, _REFERENCE, {address: entry.url})
    if entry.tools is not None:
        settings[_TOOLS] = list(entry.tools)
    return settings


GEMINI: Final = Client(
    name="gemini",
    title="Gemini CLI",
    path=".gemini/settings.json",
    root="mcpServers",
    wires=frozenset({"stdio", "http", "sse"}),
    tool_filter=_TOOLS,
    reads_variables=True,
    expands=r"\$[\w{]",
    render=_render,
)
