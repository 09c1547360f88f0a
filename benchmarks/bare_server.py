"""The SDK's low-level server with constant answers: `bare_server.py ANSWERS.json [PORT]`, over stdio without a port."""

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server


def main() -> None:
    """Serve until the client goes."""
    answers = json.loads(Path(sys.argv[1]).read_text())
    listing = types.ListResourcesResult.model_validate(answers["list"])
    definition = types.ReadResourceResult.model_validate(answers["read"])

    async def list_resources(_ctx: Any, _params: Any) -> types.ListResourcesResult:  # noqa: ANN401 - the SDK's
        return listing

    async def read_resource(_ctx: Any, _params: Any) -> types.ReadResourceResult:  # noqa: ANN401 - the SDK's
        return definition

    server: Server[Any] = Server("bare", version="1", on_list_resources=list_resources, on_read_resource=read_resource)
    if len(sys.argv) > 2:  # noqa: PLR2004 - a port is given
        import uvicorn

        uvicorn.run(
            server.streamable_http_app(host="127.0.0.1"), host="127.0.0.1", port=int(sys.argv[2]), log_config=None
        )
    else:
        anyio.run(_stdio, server)


async def _stdio(server: Server[Any]) -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    main()
