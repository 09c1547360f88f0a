"""Reads a stream to its end, whatever the end is."""

from typing import Any

from agent_resolver.runtime import ChatRequest, InferenceFailure, LlmExecutor


async def pieces_of(executor: LlmExecutor, request: ChatRequest) -> list[Any]:
    """The pieces, and at last the failure if one ended them."""
    pieces: list[Any] = []
    try:
        async for piece in executor.stream(request):
            pieces.append(piece)  # noqa: PERF401 - the pieces before a failure count
    except InferenceFailure as failure:
        pieces.append(failure)
    return pieces
