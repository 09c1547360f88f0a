"""agno, with a model in memory."""

import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

START = time.process_time()

from agno.agent import Agent  # noqa: E402 - the import is timed
from agno.models.base import Model as BaseModel  # noqa: E402
from agno.models.message import Message  # noqa: E402
from agno.models.response import ModelResponse  # noqa: E402
from pydantic import Field  # noqa: E402

IMPORTED = time.process_time() - START

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.run_loop.harness import ANSWER, JSON_ARGUMENTS, PIECES, ROUNDS, Tool, in_pieces, main  # noqa: E402

TOOL = Tool()
CALL = {"id": "call", "type": "function", "function": {"name": "search", "arguments": JSON_ARGUMENTS}}


@dataclass
class Model(BaseModel):
    """A model in memory."""

    id: str = "memory"
    name: str = "Memory"
    provider: str = "Memory"

    async def ainvoke(self, messages: list[Message], **_: Any) -> ModelResponse:
        """Ask for the tool until its results are there, then answer."""
        if _has_all(messages):
            return ModelResponse(role="assistant", content=ANSWER)
        return ModelResponse(role="assistant", tool_calls=[dict(CALL)])

    async def ainvoke_stream(self, messages: list[Message], **_: Any) -> AsyncIterator[ModelResponse]:
        """The same in pieces."""
        if _has_all(messages):
            for piece in in_pieces(ANSWER):
                yield ModelResponse(role="assistant", content=piece)
            return
        for _piece in range(PIECES - 1):
            yield ModelResponse(role="assistant")
        yield ModelResponse(role="assistant", tool_calls=[dict(CALL)])

    def invoke(self, *_: Any, **__: Any) -> ModelResponse:
        """Not used."""
        raise NotImplementedError

    def invoke_stream(self, *_: Any, **__: Any) -> Iterator[ModelResponse]:
        """Not used."""
        raise NotImplementedError

    def _parse_provider_response(self, response: Any, **_: Any) -> ModelResponse:
        return response

    def _parse_provider_response_delta(self, response: Any) -> ModelResponse:
        return response


def _has_all(messages: list[Message]) -> bool:
    return sum(message.role == "tool" for message in messages) >= ROUNDS


async def search(
    query: Annotated[str, Field(min_length=1, max_length=64)],  # noqa: ARG001 - checked, and not used
    days: Annotated[int, Field(ge=1, le=14)],  # noqa: ARG001
    order: Literal["newest", "oldest"],  # noqa: ARG001
) -> str:
    """Search the notes."""
    return await TOOL()


AGENT = Agent(model=Model(), tools=[search], telemetry=False)


async def _whole() -> str:
    return str((await AGENT.arun("Find the notes.")).content)


async def _streamed() -> str:
    text = ""
    async for event in AGENT.arun("Find the notes.", stream=True, stream_events=True):
        if event.event == "RunCompleted":
            text = str(event.content)
    return text


if __name__ == "__main__":
    main(TOOL, _whole, _streamed, IMPORTED)
