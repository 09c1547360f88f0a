"""An MCP server over stdio that opens tickets, each as a line of `tickets.jsonl` in the folder it is started in."""

import json
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"team": {"enum": ["OPS", "HR"]}, "title": {"type": "string", "maxLength": 40}},
    "required": ["team", "title"],
    "additionalProperties": False,
}


async def list_tools(_context: object, _parameters: object) -> types.ListToolsResult:
    """The one tool."""
    tool = types.Tool(name="create_ticket", description="Opens a ticket for a team.", input_schema=SCHEMA)
    return types.ListToolsResult(tools=[tool])


async def call_tool(_context: object, parameters: types.CallToolRequestParams) -> types.CallToolResult:
    """Open a ticket."""
    with Path("tickets.jsonl").open("a", encoding="utf-8") as tickets:  # noqa: ASYNC230 - a line
        tickets.write(json.dumps(parameters.arguments) + "\n")
    return types.CallToolResult(content=[types.TextContent(type="text", text="Ticket 17 was created")])


async def main() -> None:
    """Serve until the client goes."""
    server: Server[Any] = Server("tickets", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
