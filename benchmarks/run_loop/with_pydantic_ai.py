"""pydantic-ai, with its model for tests."""

import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Literal

START = time.process_time()

from pydantic import Field  # noqa: E402 - the import is timed
from pydantic_ai import Agent, AgentRunResultEvent, ModelMessage, ModelResponse, TextPart, ToolCallPart  # noqa: E402
from pydantic_ai.messages import ToolReturnPart  # noqa: E402
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel  # noqa: E402

IMPORTED = time.process_time() - START

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.run_loop.harness import ANSWER, ARGUMENTS, JSON_ARGUMENTS, ROUNDS, Tool, in_pieces, main  # noqa: E402

TOOL = Tool()


def _has_all(messages: list[ModelMessage]) -> bool:
    return sum(isinstance(part, ToolReturnPart) for message in messages for part in message.parts) >= ROUNDS


async def _complete(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
    if _has_all(messages):
        return ModelResponse(parts=[TextPart(ANSWER)])
    return ModelResponse(parts=[ToolCallPart("search", ARGUMENTS)])


async def _stream(messages: list[ModelMessage], _info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
    if _has_all(messages):
        for piece in in_pieces(ANSWER):
            yield piece
        return
    first, *others = in_pieces(JSON_ARGUMENTS)
    yield {0: DeltaToolCall(name="search", json_args=first, tool_call_id="call")}
    for piece in others:
        yield {0: DeltaToolCall(json_args=piece)}


AGENT = Agent(FunctionModel(_complete, stream_function=_stream))


@AGENT.tool_plain
async def search(
    query: Annotated[str, Field(min_length=1, max_length=64)],  # noqa: ARG001 - checked, and not used
    days: Annotated[int, Field(ge=1, le=14)],  # noqa: ARG001
    order: Literal["newest", "oldest"],  # noqa: ARG001
) -> str:
    """Search the notes."""
    return await TOOL()


async def _whole() -> str:
    return (await AGENT.run("Find the notes.")).output


async def _streamed() -> str:
    text = ""
    async with AGENT.run_stream_events("Find the notes.") as events:
        async for event in events:
            if isinstance(event, AgentRunResultEvent):
                text = event.result.output
    return text


if __name__ == "__main__":
    main(TOOL, _whole, _streamed, IMPORTED)
