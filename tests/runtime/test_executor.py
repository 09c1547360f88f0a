"""Who tries again: what, how often, and after how long."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any, get_args

import pytest

from agent_resolver.runtime import (
    CallDelta,
    ChatAnswer,
    ChatRequest,
    FailureKind,
    InferenceFailure,
    LlmExecutor,
    Piece,
    Restarted,
    RetryConfig,
    RetryingExecutor,
    ScriptedExecutor,
    TextDelta,
    ToolCall,
    close_stream,
    user_message,
)
from tests.runtime.pieces import pieces_of

PASSING = {"provider", "rate_limited", "overloaded", "timeout", "stream_interrupted"}
REQUEST = ChatRequest(model="small", messages=(user_message("Hello"),))
HELLO = ChatAnswer(text="Hello to you")
PIECES = [TextDelta("Hel"), TextDelta("lo "), TextDelta("to "), TextDelta("you"), HELLO]


def failure(kind: FailureKind = "timeout", retry_after_ms: int | None = None) -> InferenceFailure:
    return InferenceFailure(kind, "no answer", retry_after_ms)


def tried(inner: LlmExecutor, **config: Any) -> tuple[Any, list[float]]:
    """The answer or the failure, and the seconds that were waited."""
    waits: list[float] = []

    async def wait(seconds: float) -> None:
        waits.append(seconds)

    executor = RetryingExecutor(inner, RetryConfig(**config), wait)
    try:
        return asyncio.run(executor.complete(REQUEST)), waits
    except InferenceFailure as failure:
        return failure, waits


def streamed(inner: LlmExecutor, **config: Any) -> tuple[list[Any], list[float]]:
    """The pieces, the failure that ended them if there was one, and the seconds that were waited."""
    waits: list[float] = []

    async def wait(seconds: float) -> None:
        waits.append(seconds)

    executor = RetryingExecutor(inner, RetryConfig(**config), wait)
    return asyncio.run(pieces_of(executor, REQUEST)), waits


# Whole answers --------------------------------------------------------------------------------------------------------


def test_what_passes_is_tried_again_and_waited_for_longer_each_time() -> None:
    inner = ScriptedExecutor([failure(), failure(), failure(), HELLO])

    assert tried(inner, max_retries=3) == (HELLO, [0.5, 1.0, 2.0])
    assert inner.requests == [REQUEST] * 4


def test_after_the_last_try_the_failure_is_told() -> None:
    failures = [failure(), failure(), failure()]
    inner = ScriptedExecutor([*failures, HELLO])

    assert tried(inner, max_retries=2) == (failures[2], [0.5, 1.0])
    assert len(inner.requests) == 3


@pytest.mark.parametrize("kind", get_args(FailureKind))
def test_only_what_may_pass_is_tried_again(kind: FailureKind) -> None:
    inner = ScriptedExecutor([failure(kind), HELLO])
    answer, waits = tried(inner, max_retries=1)

    assert (answer == HELLO) is (kind in PASSING)
    assert len(inner.requests) == 1 + len(waits) == (2 if kind in PASSING else 1)


def test_an_overloaded_provider_is_given_more_time() -> None:
    inner = ScriptedExecutor([failure("overloaded"), failure("overloaded"), HELLO])

    assert tried(inner, max_retries=2) == (HELLO, [2.0, 4.0])


def test_no_wait_is_longer_than_eight_seconds_unless_the_provider_asks_for_it() -> None:
    def waits_after(*failures: InferenceFailure, **config: Any) -> list[float]:
        return tried(ScriptedExecutor([*failures, HELLO]), max_retries=len(failures), **config)[1]

    assert waits_after(*(failure() for _ in range(100)))[4:] == [8.0] * 96
    assert waits_after(failure(retry_after_ms=20_000)) == [20.0]
    assert waits_after(failure(retry_after_ms=1)) == [0.5]
    assert waits_after(failure(), backoff_base_ms=0) == [0.0]


def test_a_provider_that_asks_for_hours_has_failed() -> None:
    asks = failure("rate_limited", retry_after_ms=3_600_000)

    assert tried(ScriptedExecutor([asks, HELLO]), max_retries=5) == (asks, [])


# Streams --------------------------------------------------------------------------------------------------------------


def test_a_stream_that_fails_before_its_first_piece_is_tried_again_silently() -> None:
    inner = ScriptedExecutor([failure(), failure("overloaded"), HELLO])

    assert streamed(inner, max_retries=2) == (PIECES, [0.5, 4.0])


def test_a_stream_has_no_more_tries_before_its_first_piece_than_an_answer() -> None:
    last = failure()
    inner = ScriptedExecutor([failure(), failure(), last, HELLO])

    assert streamed(inner, max_retries=2, max_stream_retries=9) == ([last], [0.5, 1.0])


def test_a_stream_that_breaks_off_starts_again_and_says_so_first() -> None:
    broken = (TextDelta("Hel"), failure("stream_interrupted"))
    inner = ScriptedExecutor([broken, broken, HELLO])

    pieces, waits = streamed(inner, max_retries=1, max_stream_retries=2)

    first, second = Restarted(2, "no answer"), Restarted(3, "no answer")
    assert pieces == [TextDelta("Hel"), first, TextDelta("Hel"), second, *PIECES]
    assert waits == [0.5, 1.0]


def test_a_stream_starts_again_only_so_often() -> None:
    last = failure("stream_interrupted")
    inner = ScriptedExecutor([(TextDelta("a"), failure()), (TextDelta("b"), last), HELLO])

    pieces, _ = streamed(inner, max_retries=5, max_stream_retries=1)

    assert pieces == [TextDelta("a"), Restarted(2, "no answer"), TextDelta("b"), last]


def test_a_stream_that_breaks_off_for_good_is_not_started_again() -> None:
    filtered = failure("content_filtered")

    pieces, waits = streamed(ScriptedExecutor([(TextDelta("a"), filtered), HELLO]), max_retries=5)

    assert (pieces, waits) == ([TextDelta("a"), filtered], [])


def test_a_stream_that_ends_without_its_answer_was_interrupted() -> None:
    pieces, _ = streamed(ScriptedExecutor([(TextDelta("a"),), HELLO]), max_retries=1)

    assert pieces == [TextDelta("a"), Restarted(2, "the stream ended before the answer did"), *PIECES]


class Stalling:
    """Gives some pieces, and then nothing for ever."""

    def __init__(self, *pieces: Piece) -> None:
        self._pieces = pieces
        self.closed = 0

    async def complete(self, _: ChatRequest) -> ChatAnswer:
        raise NotImplementedError

    async def stream(self, _: ChatRequest) -> AsyncIterator[Piece]:
        try:
            for piece in self._pieces:
                yield piece
            await asyncio.Event().wait()
        finally:
            self.closed += 1


@pytest.mark.parametrize("pieces", [(), (TextDelta("a"), TextDelta("b"))])
def test_a_stream_in_which_nothing_comes_is_interrupted_and_closed(pieces: tuple[Piece, ...]) -> None:
    inner = Stalling(*pieces)

    # No patience at all: the shortest that a section may ask for is a second.
    got, _ = streamed(inner, max_retries=0, max_stream_retries=0, stream_idle_timeout_secs=0)

    assert got[:-1] == list(pieces)
    assert (got[-1].kind, str(got[-1])) == ("stream_interrupted", "no piece of the answer came for 0 s")
    assert inner.closed == 1


def test_a_stream_that_is_not_read_to_its_end_is_closed() -> None:
    inner = Stalling(TextDelta("a"))

    async def read_one() -> Piece:
        pieces = RetryingExecutor(inner, RetryConfig(max_retries=1)).stream(REQUEST)
        first = await anext(pieces)
        await close_stream(pieces)
        assert inner.closed == 1, "at once, and not with the loop"
        return first

    assert asyncio.run(read_one()) == TextDelta("a")


# Scripts --------------------------------------------------------------------------------------------------------------


def test_a_script_gives_its_answers_in_turn_and_ends() -> None:
    script = ScriptedExecutor([HELLO, lambda request: ChatAnswer(text=f"{request.model}, then")])

    answers = [asyncio.run(script.complete(REQUEST)).text for _ in range(2)]

    assert answers == ["Hello to you", "small, then"]
    with pytest.raises(InferenceFailure, match="the script has no further answer"):
        asyncio.run(script.complete(REQUEST))


def test_a_function_answers_every_request() -> None:
    echo = ScriptedExecutor(lambda request: ChatAnswer(text=request.messages[-1].text))

    assert {asyncio.run(echo.complete(REQUEST)).text for _ in range(9)} == {"Hello"}


def test_a_script_streams_calls_in_pieces_too() -> None:
    answer = ChatAnswer(calls=(ToolCall("c1", "search", '{"q":1}'),), finish="tool_calls")

    pieces = asyncio.run(pieces_of(ScriptedExecutor([answer]), REQUEST))

    arguments = [piece.arguments for piece in pieces if isinstance(piece, CallDelta)]
    assert (pieces[0], "".join(arguments), pieces[-1]) == (CallDelta(0, "c1", "search"), '{"q":1}', answer)


def texts(pieces: Iterable[Piece]) -> str:
    return "".join(piece.text for piece in pieces if isinstance(piece, TextDelta))


@pytest.mark.parametrize("text", ["", "a", "ab", "abcde", "x" * 1001])
def test_the_pieces_of_a_script_are_the_whole(text: str) -> None:
    pieces = asyncio.run(pieces_of(ScriptedExecutor([ChatAnswer(text=text)]), REQUEST))

    assert texts(pieces) == text
