"""Who answers for a model, and one who tries again."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final, Literal, Protocol

from msgspec import Meta, Struct

FailureKind = Literal[
    "provider",
    "rate_limited",
    "overloaded",
    "timeout",
    "stream_interrupted",
    "context_overflow",
    "invalid_request",
    "unauthorized",
    "model_not_found",
    "content_filtered",
    "all_unavailable",
    "pool_exhausted",
    "cancelled",
]
_PASSING: Final = {"provider", "rate_limited", "overloaded", "timeout", "stream_interrupted"}
_LONGEST_MS: Final = 8_000


class InferenceFailure(Exception):
    """A model did not answer."""

    def __init__(self, kind: FailureKind, message: str, retry_after_ms: int | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.retry_after_ms = retry_after_ms

    @property
    def may_pass(self) -> bool:
        """Whether trying again could help."""
        return self.kind in _PASSING


class LlmExecutor(Protocol):
    """Lets a model answer."""

    async def execute(self, request: Any) -> Any:  # noqa: ANN401 - the run's business
        """The answer to a request.

        Raises:
            InferenceFailure: There is none.
        """
        ...


class RetryConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The section `retry`: how often, and how long to wait in between."""

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

    async def execute(self, request: Any) -> Any:  # noqa: ANN401 - the run's business
        """The answer of the executor within, after as many attempts as it takes and may take."""
        for attempt in range(self.config.max_retries):
            try:
                return await self.inner.execute(request)
            except InferenceFailure as failure:
                if not failure.may_pass:
                    raise
                await self._wait(self._delay_ms(attempt, failure) / 1000)
        return await self.inner.execute(request)

    def _delay_ms(self, attempt: int, failure: InferenceFailure) -> int:
        is_overloaded = failure.kind == "overloaded"
        base = self.config.overloaded_backoff_base_ms if is_overloaded else self.config.backoff_base_ms
        # Beyond some doublings only the bound counts, and a large number would take long to compute.
        delay = min(base << min(attempt, 16), _LONGEST_MS)
        return max(delay, failure.retry_after_ms or 0)
