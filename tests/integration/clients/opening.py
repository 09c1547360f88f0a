"""Opens a ticket with the Python SDK, once a line comes in; somebody may end it before it hears of the result.

Usage: opening.py MODE URL TITLE | opening.py MODE - TITLE COMMAND ARGUMENT...
"""

import os
import sys

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client


async def main() -> None:
    """Get ready, wait for the word, and call."""
    mode, url, title, *line = sys.argv[1:]
    server = stdio_client(StdioServerParameters(command=line[0], args=line[1:], env=dict(os.environ))) if line else url
    async with Client(server, mode=mode) as client:
        await client.call_tool("tickets__search", {})
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await anyio.to_thread.run_sync(sys.stdin.readline)
        await client.call_tool("tickets__create", {"title": title})
        sys.stdout.write("done\n")


if __name__ == "__main__":
    anyio.run(main)
