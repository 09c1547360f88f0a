"""VS Code: `.vscode/mcp.json` in the folder of the project."""

from typing import Any, Final

from agent_resolver.exchange.client.entry import Client, ClientEntry, json_settings

_REFERENCE: Final = "${{env:{}}}"


def _render(entry: ClientEntry) -> dict[str, Any]:
    return {"type": entry.wire, **json_settings(entry, _REFERENCE, {"url": entry.url})}


VSCODE: Final = Client(
    name="vscode",
    title="VS Code",
    path=".vscode/mcp.json",
    root="servers",
    wires=frozenset({"stdio", "http", "sse"}),
    reads_variables=True,
    expands=r"\$\{",
    render=_render,
)
