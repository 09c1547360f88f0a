"""Claude Code: `.mcp.json` in the folder of the project."""

from typing import Any, Final

from agent_resolver.exchange.client.entry import Client, ClientEntry, json_settings

_REFERENCE: Final = "${{{}}}"


def _render(entry: ClientEntry) -> dict[str, Any]:
    return json_settings(entry, _REFERENCE, {"type": entry.wire, "url": entry.url})


CLAUDE_CODE: Final = Client(
    name="claude-code",
    title="Claude Code",
    path=".mcp.json",
    root="mcpServers",
    wires=frozenset({"stdio", "http", "sse"}),
    # It has no filter: its rules for tools are in another file, which also holds rules
    # of the user.
    reads_variables=True,
    reads_comments=False,
    expands=r"\$\{",
    render=_render,
)
