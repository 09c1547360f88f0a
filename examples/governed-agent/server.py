"""A small MCP server that keeps notes in memory: what the example's agent may use, and what it may not."""

import asyncio
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

NOTES = {"welcome": "The lock governs the run.", "plan": "Read, then write, never delete."}
NAME = {"type": "object", "properties": {"name": {"type": "string", "minLength": 1}}, "required": ["name"]}
NAME_AND_TEXT = {
    "type": "object",
    "properties": {"name": {"type": "string", "minLength": 1}, "text": {"type": "string"}},
    "required": ["name", "text"],
    "additionalProperties": False,
}
TOOLS = [
    types.Tool(name="list_notes", description="The names of all notes.", input_schema={"type": "object"}),
    types.Tool(name="read_note", description="The text of one note.", input_schema=NAME),
    types.Tool(name="write_note", description="Write a note.", input_schema=NAME_AND_TEXT),
    types.Tool(name="delete_note", description="Delete a note for good.", input_schema=NAME),
    types.Tool(name="debug_dump", description="Everything the server knows.", input_schema={"type": "object"}),
]


async def list_tools(_context: object, _parameters: object) -> types.ListToolsResult:
    """Every tool, also those that no lock opens."""
    return types.ListToolsResult(tools=TOOLS)


async def call_tool(_context: object, parameters: types.CallToolRequestParams) -> types.CallToolResult:
    """Do what a tool says."""
    arguments = parameters.arguments or {}
    match parameters.name:
        case "list_notes":
            return _result({"notes": sorted(NOTES)})
        case "read_note" if arguments["name"] in NOTES:
            return _result({"name": arguments["name"], "text": NOTES[arguments["name"]]})
        case "write_note":
            NOTES[arguments["name"]] = arguments["text"]
            return _result({"written": arguments["name"]})
        case "delete_note":
            return _result({"deleted": NOTES.pop(arguments["name"], None) is not None})
        case "debug_dump":
            return _result(dict(NOTES))
    text = types.TextContent(text=f"there is no note {arguments.get('name')!r}")
    return types.CallToolResult(content=[text], is_error=True)


def _result(value: dict[str, Any]) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=str(value))], structured_content=value)


async def main() -> None:
    """Serve until stdin closes."""
    server: Server[Any] = Server("notes", version="1.0.0", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (reader, writer):
        await server.run(reader, writer, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())
