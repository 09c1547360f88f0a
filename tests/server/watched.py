"""A tool that is watched, and words for what requests carry and results say."""

import json
from collections.abc import Awaitable
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import MCPError

from agent_resolver.registry import CallContext
from tests.registry.sample import MemoryTool

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"


class Watched(MemoryTool):
    """A tool that keeps the contexts of its calls, and reports as much progress as it is told to."""

    def __init__(self, tool_id: str = "memory.echo", steps: int = 0, **fields: Any) -> None:
        super().__init__(tool_id, **fields)
        self.contexts: list[CallContext] = []
        self.ended = anyio.Event()
        self._steps = steps

    async def invoke(self, arguments: dict[str, Any], context: CallContext) -> Any:
        self.contexts.append(context)
        for step in range(self._steps):
            await context.progress(step, self._steps, f"step {step}")
        self.ended.set()
        return await super().invoke(arguments, context)


def meta(**keys: Any) -> Any:
    """What a request carries beside its parameters."""
    return {f"agent-resolver/{name}": value for name, value in keys.items()}


def below(parent: object) -> Any:
    """The same, for a call that belongs below a span of the client's."""
    return {"traceparent": parent}


def failure(result: types.CallToolResult) -> dict[str, Any]:
    """What a result says that is none: the same as structure and as text."""
    [content] = result.content
    assert isinstance(content, types.TextContent)
    told: dict[str, Any] = json.loads(content.text)
    assert result.is_error
    assert result.structured_content == told
    return told


async def refusal(asked: Awaitable[object]) -> types.ErrorData:
    with pytest.raises(MCPError) as caught:
        await asked
    return caught.value.error
