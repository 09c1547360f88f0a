"""Agent Resolver, with its permission check and a sink that takes every event; nothing is kept."""

import sys
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

START = time.process_time()

from agent_resolver.registry import CallContext  # noqa: E402 - the import is timed
from agent_resolver.runtime import (  # noqa: E402
    AgentRuntimeBuilder,
    AgentSpec,
    CallDelta,
    ChatAnswer,
    ChatRequest,
    ModelSpec,
    Piece,
    RunEvent,
    RunRequest,
    TextDelta,
    ToolCall,
    Usage,
    user_message,
)
from agent_resolver.schema import Descriptor  # noqa: E402

IMPORTED = time.process_time() - START

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.run_loop.harness import ANSWER, JSON_ARGUMENTS, ROUNDS, Tool, in_pieces, main  # noqa: E402

ASKS = ChatAnswer(
    calls=(ToolCall("call", "search", JSON_ARGUMENTS),),
    usage=Usage(100, 20),
    finish="tool_calls",
)
ENDS = ChatAnswer(text=ANSWER, usage=Usage(100, 20))
SCHEMA = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "minLength": 1, "maxLength": 64},
        "days": {"type": "integer", "minimum": 1, "maximum": 14},
        "order": {"enum": ["newest", "oldest"]},
    },
    "required": ["query", "days", "order"],
    "additionalProperties": False,
}
TOOL = Tool()


class Model:
    """A model in memory."""

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """Ask for the tool until its results are there, then answer."""
        results = sum(message.role == "tool" for message in request.messages)
        return ASKS if results < ROUNDS else ENDS

    async def stream(self, request: ChatRequest) -> AsyncGenerator[Piece]:
        """The same in pieces."""
        answer = await self.complete(request)
        for piece in in_pieces(ANSWER if answer is ENDS else JSON_ARGUMENTS):
            yield TextDelta(piece) if answer is ENDS else CallDelta(0, "call", "search", piece)
        yield answer


class Search:
    """The tool."""

    descriptor = Descriptor(id="search", description="Search the notes.", input_schema=SCHEMA, source="bench")

    async def invoke(self, _arguments: dict[str, Any], _context: CallContext) -> str:
        """Do nothing."""
        return await TOOL()


PERMISSION = {"default_behavior": "deny", "rules": [{"tool": "search", "behavior": "allow"}]}
RUNTIME = (
    AgentRuntimeBuilder()
    .with_tool("search", Search())
    .with_provider("memory", Model())
    .with_model(ModelSpec(id="model", provider_id="memory", upstream_model="model"))
    .with_agent_spec(AgentSpec(id="agent", model_id="model", max_rounds=100, sections={"permission": PERMISSION}))
    .build()
)
WHOLE = RunRequest(agent_id="agent", messages=(user_message("Find the notes."),))
STREAMED = RunRequest(agent_id="agent", messages=(user_message("Find the notes."),), streams=True)


def _take(_event: RunEvent) -> None:
    """Take an event."""


async def _whole() -> str:
    return (await RUNTIME.run(WHOLE, _take)).text


async def _streamed() -> str:
    return (await RUNTIME.run(STREAMED, _take)).text


if __name__ == "__main__":
    main(TOOL, _whole, _streamed, IMPORTED)
