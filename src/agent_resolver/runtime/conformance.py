"""Checks that every executor passes, ours or another author's.

An executor is opened against a provider that plays a script: for each request the next answer or failure in it. How the
provider is made to do that is up to the author of the executor. Each check raises `AssertionError` with what it missed:

    @pytest.mark.parametrize("name", EXECUTOR_CHECKS)
    def test_my_executor_keeps_the_promises_of_the_port(name: str) -> None:
        asyncio.run(EXECUTOR_CHECKS[name](open_mine))
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

import msgspec

from agent_resolver.runtime.executor import InferenceFailure, LlmExecutor, close_stream
from agent_resolver.runtime.inference import (
    CallDelta,
    ChatAnswer,
    ChatRequest,
    Piece,
    Restarted,
    TextDelta,
    ToolOffer,
    Usage,
)
from agent_resolver.runtime.message import (
    ToolCall,
    assistant_message,
    system_message,
    tool_message,
    user_message,
)

Script = Sequence[ChatAnswer | InferenceFailure]
OpenExecutor = Callable[[Script], AbstractAsyncContextManager[LlmExecutor]]
"""Opens an executor whose provider plays a script, and closes both."""
Check = Callable[[OpenExecutor], Coroutine[Any, Any, None]]

_LONGEST_MESSAGE: Final = 1000
_TOOL: Final = ToolOffer(
    "search",
    "Searches.",
    {
        "type": "object",
        "properties": {"query": {"type": "string"}},
        "required": ["query"],
    },
)
_USAGE: Final = Usage(12, 5, 3)
_HELLO: Final = ChatAnswer(text="Hello to you, wörld", usage=_USAGE)
_CALLS: Final = ChatAnswer(
    calls=(
        ToolCall("call_1", "search", '{"query":"a \\"b\\" ü"}'),
        ToolCall("call_2", "search", '{"query":""}'),
    ),
    usage=_USAGE,
    finish="tool_calls",
)


def _ask(*words: str) -> ChatRequest:
    return ChatRequest(
        model="model",
        messages=tuple(map(user_message, words or ("Hello",))),
        tools=(_TOOL,),
    )


async def _read(executor: LlmExecutor, request: ChatRequest) -> list[Piece]:
    return [piece async for piece in executor.stream(request)]


async def _failure(attempt: Awaitable[Any]) -> InferenceFailure:
    try:
        found = await attempt
    except InferenceFailure as failure:
        return failure
    raise AssertionError(f"the provider failed, and the executor gave {found}")


def _require_same(found: ChatAnswer, expected: ChatAnswer) -> None:
    """The answers are the same in all that is not the provider's own; calls in what their arguments mean."""
    assert found.text == expected.text, (
        f"the text is {found.text!r}, and not {expected.text!r}"
    )
    assert _meaning(found) == _meaning(expected), (
        f"the calls are {found.calls}, and not {expected.calls}"
    )
    assert found.finish == expected.finish, (
        f"the end is {found.finish}, and not {expected.finish}"
    )
    assert found.usage == expected.usage, (
        f"the usage is {found.usage}, and not {expected.usage}"
    )


def _meaning(answer: ChatAnswer) -> list[tuple[str, str, object]]:
    return [
        (call.id, call.name, _read_arguments(call.arguments)) for call in answer.calls
    ]


def _read_arguments(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


# The checks ---------------------------------------------------------------------------


async def _text_comes_whole(open_executor: OpenExecutor) -> None:
    async with open_executor([_HELLO]) as executor:
        _require_same(await executor.complete(_ask()), _HELLO)


async def _calls_come_whole(open_executor: OpenExecutor) -> None:
    async with open_executor([_CALLS]) as executor:
        _require_same(await executor.complete(_ask()), _CALLS)


async def _broken_arguments_are_handed_on(open_executor: OpenExecutor) -> None:
    """What to do about a call that cannot be made is not for the executor to decide."""
    broken = ChatAnswer(
        calls=(ToolCall("call_1", "search", '{"query": '),),
        usage=_USAGE,
        finish="tool_calls",
    )
    # The answer twice: it is asked for as a whole, and then as a stream.
    async with open_executor([broken, broken]) as executor:
        _require_same(await executor.complete(_ask()), broken)
        pieces = await _read(executor, _ask())
        assert isinstance(pieces[-1], ChatAnswer)
        _require_same(pieces[-1], broken)


async def _an_answer_that_ran_out_of_tokens_says_so(
    open_executor: OpenExecutor,
) -> None:
    cut = ChatAnswer(text="Hello to", usage=_USAGE, finish="length")
    async with open_executor([cut]) as executor:
        _require_same(await executor.complete(_ask()), cut)


async def _a_stream_ends_with_the_whole_of_its_pieces(
    open_executor: OpenExecutor,
) -> None:
    for expected in (_HELLO, _CALLS):
        async with open_executor([expected]) as executor:
            pieces = await _read(executor, _ask())
        *deltas, answer = pieces
        assert isinstance(answer, ChatAnswer), (
            f"the last piece is {answer}, and not the answer"
        )
        assert deltas, "there is no piece before the answer"
        assert not any(isinstance(piece, ChatAnswer | Restarted) for piece in deltas), (
            "it has more than one answer"
        )
        _require_same(answer, expected)
        text = "".join(piece.text for piece in deltas if isinstance(piece, TextDelta))
        assert text == expected.text, f"the pieces of the text are {text!r}"
        assert _gathered(deltas) == _meaning(expected), (
            f"the pieces of the calls are {_gathered(deltas)}"
        )


def _gathered(pieces: Sequence[Piece]) -> list[tuple[str, str, object]]:
    deltas = [piece for piece in pieces if isinstance(piece, CallDelta)]
    calls: list[tuple[str, str, object]] = []
    for place in sorted({piece.index for piece in deltas}):
        own = [piece for piece in deltas if piece.index == place]
        arguments = "".join(piece.arguments for piece in own)
        identity = next((piece.id for piece in own if piece.id), "")
        name = next((piece.name for piece in own if piece.name), "")
        calls.append((identity, name, _read_arguments(arguments)))
    return calls


async def _a_conversation_with_results_goes_on(open_executor: OpenExecutor) -> None:
    said = (
        system_message("Be brief."),
        user_message("Hello"),
        assistant_message("Let me see.", _CALLS.calls),
        tool_message("call_1", "Nothing."),
        tool_message("call_2", ""),
        assistant_message("", (ToolCall("call_3", "search", "not JSON"),)),
        tool_message("call_3", "The arguments are not JSON"),
    )
    async with open_executor([_HELLO]) as executor:
        request = ChatRequest(
            model="model",
            messages=said,
            tools=(_TOOL,),
            temperature=0.5,
            max_output_tokens=64,
        )
        _require_same(await executor.complete(request), _HELLO)


async def _a_failure_has_a_kind_and_few_words(open_executor: OpenExecutor) -> None:
    long = InferenceFailure("overloaded", "busy\n" * 10_000)
    async with open_executor([long, long]) as executor:
        for attempt in (executor.complete(_ask()), _read(executor, _ask())):
            failure = await _failure(attempt)
            assert failure.kind == "overloaded", (
                f"the kind is {failure.kind}, and not overloaded"
            )
            assert len(str(failure)) <= _LONGEST_MESSAGE, (
                f"the message has {len(str(failure))} characters"
            )
            assert str(failure).isprintable(), (
                "the message has lines or control characters"
            )


async def _a_rate_limit_says_when_to_come_back(open_executor: OpenExecutor) -> None:
    limited = InferenceFailure("rate_limited", "slower", 7_000)
    async with open_executor([limited, limited]) as executor:
        for attempt in (executor.complete(_ask()), _read(executor, _ask())):
            failure = await _failure(attempt)
            found = (failure.kind, failure.retry_after_ms)
            assert found == ("rate_limited", 7_000), f"the failure is {found}"


async def _a_failure_is_over_with_the_next_request(open_executor: OpenExecutor) -> None:
    async with open_executor(
        [InferenceFailure("provider", "broken"), _HELLO]
    ) as executor:
        await _failure(executor.complete(_ask()))
        _require_same(await executor.complete(_ask()), _HELLO)


async def _a_stream_may_be_left(open_executor: OpenExecutor) -> None:
    async with open_executor([_HELLO, _HELLO]) as executor:
        pieces = executor.stream(_ask())
        # Left after its first piece, as by a reader that goes away.
        await anext(pieces)
        await close_stream(pieces)
        _require_same(await executor.complete(_ask()), _HELLO)


async def _a_request_may_be_cancelled(open_executor: OpenExecutor) -> None:
    async with open_executor([_HELLO, _HELLO]) as executor:
        asked = asyncio.ensure_future(executor.complete(_ask()))
        # One turn of the loop, so that the request has begun when it is cancelled.
        await asyncio.sleep(0)
        asked.cancel()
        (found,) = await asyncio.gather(asked, return_exceptions=True)
        # The answer may have come first: both ends keep the promise.
        assert isinstance(found, asyncio.CancelledError | ChatAnswer), (
            f"a cancelled request ended in {found!r}"
        )


async def _requests_do_not_wait_for_each_other(open_executor: OpenExecutor) -> None:
    answers = [ChatAnswer(text=f"answer {number}", usage=_USAGE) for number in range(8)]
    async with open_executor(answers) as executor:
        found = await asyncio.gather(
            *(executor.complete(_ask(str(number))) for number in range(8))
        )
    assert sorted(answer.text for answer in found) == [
        answer.text for answer in answers
    ]


EXECUTOR_CHECKS: Final[Mapping[str, Check]] = {
    check.__name__.strip("_"): check
    for check in (
        _text_comes_whole,
        _calls_come_whole,
        _broken_arguments_are_handed_on,
        _an_answer_that_ran_out_of_tokens_says_so,
        _a_stream_ends_with_the_whole_of_its_pieces,
        _a_conversation_with_results_goes_on,
        _a_failure_has_a_kind_and_few_words,
        _a_rate_limit_says_when_to_come_back,
        _a_failure_is_over_with_the_next_request,
        _a_stream_may_be_left,
        _a_request_may_be_cancelled,
        _requests_do_not_wait_for_each_other,
    )
}
"""Every check by its name."""
