"""An executor that tries again what may pass."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated, Final

from msgspec import Meta, Struct

from agent_resolver.runtime.executor import InferenceFailure, LlmExecutor, close_stream
from agent_resolver.runtime.inference import ChatAnswer, ChatRequest, Piece, Restarted

_LONGEST_MS: Final = 8_000
_MOST_ASKED_MS: Final = 120_000
"""A provider that wants more time than this has failed: a run should not hang for an hour in silence."""


class RetryConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The section `retry`: how often to try again, and how long to wait in between."""

    max_retries: Annotated[int, Meta(ge=0, le=100)]
    backoff_base_ms: Annotated[int, Meta(ge=0)] = 500
    overloaded_backoff_base_ms: Annotated[int, Meta(ge=0)] = 2_000
    max_stream_retries: Annotated[int, Meta(ge=0)] = 2
    stream_idle_timeout_secs: Annotated[int, Meta(ge=1)] = 60


class RetryingExecutor:
    """Tries again what may pass, waiting longer each time."""

    def __init__(
        self,
        inner: LlmExecutor,
        config: RetryConfig,
        wait: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.inner = inner
        self.config = config
        self._wait = wait

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """The answer of the executor within, after as many attempts as it takes and may take."""
        # The last attempt is outside of the loop, so that its failure is raised as it
        # is.
        for attempt in range(self.config.max_retries):
            try:
                return await self.inner.complete(request)
            except InferenceFailure as failure:
                await self._wait_or_raise(attempt, failure)
        return await self.inner.complete(request)

    async def stream(self, request: ChatRequest) -> AsyncIterator[Piece]:
        """The pieces of the executor within.

        An attempt that fails before its first piece is tried again like a whole answer, without a word. One that
        breaks off later starts again `max_stream_retries` times at most, and the reader is sent `Restarted` first.
        """
        # Two counts: a stream that always breaks off late must not use up what is meant
        # for a busy provider.
        retries, restarts = 0, 0
        while True:
            has_pieces = False
            pieces = self._read_pieces(request)
            try:
                async for piece in pieces:
                    has_pieces = True
                    yield piece
            except InferenceFailure as failure:
                used, most = (
                    (restarts, self.config.max_stream_retries)
                    if has_pieces
                    else (retries, self._most)
                )
                if used >= most:
                    raise
                await self._wait_or_raise(used, failure)
                reason = str(failure)
            else:
                return
            finally:
                await close_stream(pieces)
            if has_pieces:
                restarts += 1
                yield Restarted(restarts + 1, reason)
            else:
                retries += 1

    @property
    def _most(self) -> int:
        return self.config.max_retries

    async def _read_pieces(self, request: ChatRequest) -> AsyncIterator[Piece]:
        """The pieces of one attempt.

        Raises:
            InferenceFailure: There is no answer, it broke off, or no piece came for too long.
        """
        seconds = self.config.stream_idle_timeout_secs
        pieces = self.inner.stream(request)
        is_whole = False
        # An end without the answer is a fault of the executor within, and looks to the
        # reader like a broken stream.
        try:
            while (piece := await _next_piece(pieces, seconds)) is not None:
                is_whole = isinstance(piece, ChatAnswer)
                yield piece
        finally:
            await close_stream(pieces)
        if not is_whole:
            raise InferenceFailure(
                "stream_interrupted", "the stream ended before the answer did"
            )

    async def _wait_or_raise(self, attempt: int, failure: InferenceFailure) -> None:
        """Wait until the next attempt is due; what is being handled is raised again if there should be none."""
        if not failure.may_pass or (failure.retry_after_ms or 0) > _MOST_ASKED_MS:
            raise failure
        await self._wait(self._delay_ms(attempt, failure) / 1000)

    def _delay_ms(self, attempt: int, failure: InferenceFailure) -> int:
        is_overloaded = failure.kind == "overloaded"
        base = (
            self.config.overloaded_backoff_base_ms
            if is_overloaded
            else self.config.backoff_base_ms
        )
        # Beyond some doublings only the bound counts, and a large number would take
        # long to compute.
        delay = min(base << min(attempt, 16), _LONGEST_MS)
        # A wait that the provider asks for is never shortened.
        return max(delay, failure.retry_after_ms or 0)


async def _next_piece(pieces: AsyncIterator[Piece], seconds: float) -> Piece | None:
    patience = asyncio.timeout(seconds)
    try:
        async with patience:
            return await anext(pieces, None)
    except TimeoutError:
        # The executor within may have timeouts of its own.
        if not patience.expired():
            raise
        raise InferenceFailure(
            "stream_interrupted", f"no piece of the answer came for {seconds:g} s"
        ) from None
