"""The port to models: who answers, and how an answer can fail to come."""

from collections.abc import AsyncIterator
from typing import Final, Literal, Protocol

from agent_resolver.core.shorten import shorten
from agent_resolver.runtime.inference import ChatAnswer, ChatRequest, Piece
from agent_resolver.schema.errors import ResolverError

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
_LONGEST_MESSAGE: Final = 1000
_PASSING: Final = frozenset(
    {"provider", "rate_limited", "overloaded", "timeout", "stream_interrupted"}
)
_OF_MODEL: Final = _PASSING | {"unauthorized", "model_not_found"}


class InferenceFailure(ResolverError):
    """A model did not answer. The message is one bounded line, whatever the provider said."""

    def __init__(
        self, kind: FailureKind, message: str, retry_after_ms: int | None = None
    ) -> None:
        # Cut twice: the first cut bounds the work, and `shorten` the message.
        seen = message[: 4 * _LONGEST_MESSAGE]
        printable = "".join(map(_make_printable, seen))
        super().__init__(shorten(printable, _LONGEST_MESSAGE))
        self.kind = kind
        self.retry_after_ms = retry_after_ms

    @property
    def may_pass(self) -> bool:
        """True if trying again could help."""
        return self.kind in _PASSING

    @property
    def is_of_model(self) -> bool:
        """True if another model could answer the same request."""
        return self.kind in _OF_MODEL


def _make_printable(character: str) -> str:
    """The character, or a space in place of one that could move a cursor or hide text."""
    return character if character.isprintable() else " "


class LlmExecutor(Protocol):
    """Lets a model answer. It may also have `async close()`, which is called once nothing asks it any more."""

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """The whole answer to a request.

        Raises:
            InferenceFailure: There is none.
        """
        ...

    def stream(self, request: ChatRequest) -> AsyncIterator[Piece]:
        """The answer in pieces: deltas as they come, and at last the whole answer.

        Raises:
            InferenceFailure: There is none, or it broke off.
        """
        ...


async def close_stream(pieces: AsyncIterator[Piece]) -> None:
    """End a stream that is not read to its end, so that what it holds is free at once."""
    close = getattr(pieces, "aclose", None)
    if close is not None:
        await close()


async def close_executor(executor: LlmExecutor) -> None:
    """Close an executor that nothing asks any more, if it has anything to close."""
    close = getattr(executor, "close", None)
    if close is not None:
        await close()
