"""Claude Desktop: `claude_desktop_config.json` in a folder of the user."""

from typing import Any, Final

from agent_resolver.exchange.client.entry import Client, ClientEntry, started


def _render(entry: ClientEntry) -> dict[str, Any]:
    if entry.command:
        # It fills no variables in: the user has to.
        return started(entry, "")
    # It only starts servers, so a small program has to stand in between.
    return {"command": "npx", "args": ["mcp-remote", entry.url]}


CLAUDE_DESKTOP: Final = Client(
    name="claude-desktop",
    title="Claude Desktop",
    path="",
    root="mcpServers",
    wires=frozenset({"stdio"}),
    reads_variables=False,
    render=_render,
)
