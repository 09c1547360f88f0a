"""Claude Code: `.mcp.json` in the folder of the project."""

from typing import Any, Final

from agent_resolver.exchange.client.entry import Client, ClientEntry, headers, started

_REFERENCE: Final = "${{{}}}"


def _render(entry: ClientEntry) -> dict[str, Any]:
    if entry.command:
        return started(entry, _REFERENCE)
    return {"type": entry.wire, "url": entry.url, **headers(entry, _REFERENCE)}


CLAUDE_CODE: Final = Client(
    name="claude-code",
    title="Claude Code",
    path=".mcp.json",
    root="mcpServers",
    wires=frozenset({"stdio", "http", "sse"}),
    # Its rules for tools are in another file, which also holds rules of the user.
    filters_tools=False,
    reads_variables=True,
    expands=r"\$\{",
    render=_render,
)
