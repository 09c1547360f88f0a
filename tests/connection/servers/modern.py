"""An MCP server of the newest revision, built with the SDK: its tools change, and it tells through a subscription.

Like `raw.py` it appends its process id to `pids` in the folder it is started in.
"""

import asyncio
import os
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp import MCPError
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged

ANYTHING: dict[str, Any] = {"type": "object"}

tools = {name: types.Tool(name=name, input_schema=ANYTHING) for name in ("change", "cut", "echo", "a-list", "ask")}
bus = InMemorySubscriptionBus()
listen = ListenHandler(bus)
cut = anyio.Event()


async def list_tools(_context: object, _parameters: object) -> types.ListToolsResult:
    """The tools as they are now."""
    return types.ListToolsResult(tools=list(tools.values()))


async def call_tool(
    _context: object, parameters: types.CallToolRequestParams
) -> types.CallToolResult | types.InputRequiredResult:
    """Do what the tool is called."""
    arguments = parameters.arguments or {}
    match parameters.name:
        case "change" | "cut":
            for name in arguments.get("remove", ()):
                tools.pop(name, None)
            for name in arguments.get("add", ()):
                tools[name] = types.Tool(name=name, input_schema=ANYTHING)
            if parameters.name == "cut":
                cut.set()
            else:
                await bus.publish(ToolsListChanged())
        case "a-list":
            return types.CallToolResult(content=[], structured_content=[1, 2, 3])
        case "ask":
            return types.InputRequiredResult(request_state="what is your name?")
    return types.CallToolResult(content=[], structured_content={"tools": sorted(tools)})


async def subscribe(
    context: Any, parameters: types.SubscriptionsListenRequestParams
) -> types.SubscriptionsListenResult:
    """Serve one subscription; the first ends in an error when it is cut."""
    if cut.is_set():
        return await listen(context, parameters)
    async with anyio.create_task_group() as both:
        both.start_soon(listen, context, parameters)
        await cut.wait()
        both.cancel_scope.cancel()
    raise MCPError(types.INTERNAL_ERROR, "The stream was cut")


async def main() -> None:
    """Serve until stdin closes."""
    server: Server[Any] = Server(
        "modern",
        version="1.0.0",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_subscriptions_listen=subscribe,
    )
    async with stdio_server() as (reader, writer):
        await server.run(reader, writer, server.create_initialization_options())


if __name__ == "__main__":
    with Path("pids").open("a") as file:
        file.write(f"{os.getpid()}\n")
    asyncio.run(main())
