"""Cursor: `.cursor/mcp.json` in the folder of the project."""

from typing import Any, Final

from agent_resolver.exchange.client.entry import Client, ClientEntry, json_settings

_REFERENCE: Final = "${{env:{}}}"


def _render(entry: ClientEntry) -> dict[str, Any]:
    # Cursor finds out itself which of the two protocols an address speaks.
    return json_settings(entry, _REFERENCE, {"url": entry.url})


CURSOR: Final = Client(
    name="cursor",
    title="Cursor",
    path=".cursor/mcp.json",
    root="mcpServers",
    wires=frozenset({"stdio", "http", "sse"}),
    reads_variables=True,
    expands=r"\$\{",
    render=_render,
)
