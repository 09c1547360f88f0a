"""VS Code: `.vscode/mcp.json` in the folder of the project."""

from typing import Any, Final

from agent_resolver.exchange.client.entry import Client, ClientEntry, headers, started

_REFERENCE: Final = "${{env:{}}}"


def _render(entry: ClientEntry) -> dict[str, Any]:
    if entry.command:
        return {"type": "stdio", **started(entry, _REFERENCE)}
    return {"type": entry.wire, "url": entry.url, **headers(entry, _REFERENCE)}


VSCODE: Final = Client(
    name="vscode",
    title="VS Code",
    path=".vscode/mcp.json",
    root="servers",
    wires=frozenset({"stdio", "http", "sse"}),
    filters_tools=False,
    reads_variables=True,
    expands=r"\$\{",
    render=_render,
)
