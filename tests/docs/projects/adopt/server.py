"""A small MCP server that says of its tools which of them only read."""

import asyncio
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

NOTES = {"welcome": "The lock governs the run."}
NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
READS = types.ToolAnnotations(read_only_hint=True, open_world_hint=False)
DELETES = types.ToolAnnotations(destructive_hint=True, open_world_hint=False)
TOOLS = [
    types.Tool(name="read_note", description="The text of a note.", input_schema=NAME, annotations=READS),
    types.Tool(name="delete_note", description="Delete a note.", input_schema=NAME, annotations=DELETES),
]


async def list_tools(_context: object, _parameters: object) -> types.ListToolsResult:
    """Both tools."""
    return types.ListToolsResult(tools=TOOLS)


async def call_tool(_context: object, parameters: types.CallToolRequestParams) -> types.CallToolResult:
    """The note that is named; one that is deleted is given for the last time."""
    name = (parameters.arguments or {})["name"]
    text = NOTES.pop(name, "") if parameters.name == "delete_note" else NOTES.get(name, "")
    content = types.TextContent(text=text)
    return types.CallToolResult(content=[content], structured_content={"text": text})


async def main() -> None:
    """Serve until stdin closes."""
    server: Server[Any] = Server("notes", version="1.0.0", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (reader, writer):
        await server.run(reader, writer, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())
