"""An executor that tries again what may pass."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Annotated, Final

from msgspec import Meta, Struct

from agent_resolver.runtime.executor import InferenceFailure, LlmExecutor
from agent_resolver.runtime.inference import ChatAnswer, ChatRequest, Piece

_LONGEST_MS: Final = 8_000


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
        for attempt in range(self.config.max_retries):
            try:
                return await self.inner.complete(request)
            except InferenceFailure as failure:
                if not failure.may_pass:
                    raise
                await self._wait(self._delay_ms(attempt, failure) / 1000)
        return await self.inner.complete(request)

    def stream(self, request: ChatRequest) -> AsyncGenerator[Piece]:
        """The pieces of the executor within."""
        return self.inner.stream(request)

    def _delay_ms(self, attempt: int, failure: InferenceFailure) -> int:
        is_overloaded = failure.kind == "overloaded"
        base = self.config.overloaded_backoff_base_ms if is_overloaded else self.config.backoff_base_ms
        # Beyond some doublings only the bound counts, and a large number would take long to compute.
        delay = min(base << min(attempt, 16), _LONGEST_MS)
        return max(delay, failure.retry_after_ms or 0)
