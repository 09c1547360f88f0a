"""Cursor: `.cursor/mcp.json` in the folder of the project."""

from typing import Any, Final

from agent_resolver.exchange.client.entry import Client, ClientEntry, headers, started

_REFERENCE: Final = "${{env:{}}}"


def _render(entry: ClientEntry) -> dict[str, Any]:
    if entry.command:
        return started(entry, _REFERENCE)
    # Cursor finds out itself which of the two protocols an address speaks.
    return {"url": entry.url, **headers(entry, _REFERENCE)}


CURSOR: Final = Client(
    name="cursor",
    title="Cursor",
    path=".cursor/mcp.json",
    root="mcpServers",
    wires=frozenset({"stdio", "http", "sse"}),
    filters_tools=False,
    reads_variables=True,
    expands=r"\$\{",
    render=_render,
)
