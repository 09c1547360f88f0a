"""LangGraph's prebuilt agent, with a chat model in memory."""

import sys
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

START = time.process_time()

from langchain.agents import create_agent  # noqa: E402 - the import is timed
from langchain_core.language_models import BaseChatModel  # noqa: E402
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage  # noqa: E402
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult  # noqa: E402
from langchain_core.tools import tool  # noqa: E402
from pydantic import Field  # noqa: E402

IMPORTED = time.process_time() - START

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.run_loop.harness import ANSWER, ARGUMENTS, JSON_ARGUMENTS, ROUNDS, Tool, in_pieces, main  # noqa: E402

TOOL = Tool()


class Model(BaseChatModel):
    """A chat model in memory."""

    @property
    def _llm_type(self) -> str:
        return "memory"

    def bind_tools(self, _tools: Sequence[Any], **_: Any) -> "Model":
        """The same model: it knows the tool."""
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        if _has_all(messages):
            message = AIMessage(content=ANSWER)
        else:
            message = AIMessage(content="", tool_calls=[{"name": "search", "args": ARGUMENTS, "id": "call"}])
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return self._generate(messages)


class StreamingModel(Model):
    """The same in pieces."""

    async def _astream(self, messages: list[BaseMessage], *_: Any, **__: Any) -> AsyncIterator[ChatGenerationChunk]:
        if _has_all(messages):
            for piece in in_pieces(ANSWER):
                yield ChatGenerationChunk(message=AIMessageChunk(content=piece))
            return
        for place, piece in enumerate(in_pieces(JSON_ARGUMENTS)):
            name, call_id = ("search", "call") if place == 0 else (None, None)
            call = {"name": name, "args": piece, "id": call_id, "index": 0, "type": "tool_call_chunk"}
            yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_call_chunks=[call]))


def _has_all(messages: list[BaseMessage]) -> bool:
    return sum(isinstance(message, ToolMessage) for message in messages) >= ROUNDS


@tool
async def search(
    query: Annotated[str, Field(min_length=1, max_length=64)],  # noqa: ARG001 - checked, and not used
    days: Annotated[int, Field(ge=1, le=14)],  # noqa: ARG001
    order: Literal["newest", "oldest"],  # noqa: ARG001
) -> str:
    """Search the notes."""
    return await TOOL()


AGENT = create_agent(Model(), [search])
STREAMING = create_agent(StreamingModel(), [search])
QUESTION = {"messages": [{"role": "user", "content": "Find the notes."}]}
LIMIT = {"recursion_limit": 100}


async def _whole() -> str:
    found = await AGENT.ainvoke(QUESTION, LIMIT)
    return str(found["messages"][-1].content)


async def _streamed() -> str:
    text = ""
    async for mode, event in STREAMING.astream(QUESTION, LIMIT, stream_mode=["messages", "updates"]):
        if mode == "updates" and "model" in event:
            text = str(event["model"]["messages"][-1].content)
    return text


if __name__ == "__main__":
    main(TOOL, _whole, _streamed, IMPORTED)
