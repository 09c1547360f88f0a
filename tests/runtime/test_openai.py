"""The adapter for chat completions, against a server on loopback that fails in every way."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, get_args

import pytest
from msgspec import structs

from agent_resolver.runtime import (
    EXECUTOR_CHECKS,
    CallDelta,
    ChatAnswer,
    ChatRequest,
    FailureKind,
    InferenceFailure,
    MediaBlock,
    Message,
    OpenAiExecutor,
    Script,
    TextBlock,
    TextDelta,
    ToolCall,
    ToolOffer,
    Usage,
    assistant_message,
    system_message,
    tool_message,
    user_message,
)
from agent_resolver.runtime.provider.openai_wire import request_body
from tests.runtime.loopback_model import SECRET, STATUSES, LoopbackModel, loopback_model
from tests.runtime.pieces import pieces_of

REQUEST = ChatRequest(model="small", messages=(user_message("Hello"),))


@pytest.fixture(scope="module")
def server() -> Iterator[LoopbackModel]:
    with loopback_model() as model:
        yield model


def executor_for(url: str, **options: Any) -> OpenAiExecutor:
    return OpenAiExecutor(url, **{"api_key": lambda: SECRET, "name": "acme", **options})


def answered(url: str, request: ChatRequest = REQUEST, **options: Any) -> ChatAnswer:
    async def ask() -> ChatAnswer:
        executor = executor_for(url, **options)
        try:
            return await executor.complete(request)
        finally:
            await executor.close()

    return asyncio.run(ask())


def streamed(url: str, request: ChatRequest = REQUEST, **options: Any) -> list[Any]:
    async def ask() -> list[Any]:
        executor = executor_for(url, **options)
        try:
            return await pieces_of(executor, request)
        finally:
            await executor.close()

    return asyncio.run(ask())


def failed(url: str, **options: Any) -> tuple[str, str]:
    with pytest.raises(InferenceFailure) as stopped:
        answered(url, **options)
    return stopped.value.kind, str(stopped.value)


def broke(url: str, **options: Any) -> tuple[list[Any], str, str]:
    """The pieces of a stream, and how it ended."""
    *pieces, failure = streamed(url, **options)
    assert isinstance(failure, InferenceFailure), failure
    return pieces, failure.kind, str(failure)


@pytest.mark.parametrize("name", EXECUTOR_CHECKS)
def test_it_keeps_the_promises_of_the_port(name: str, server: LoopbackModel) -> None:
    @asynccontextmanager
    async def opened(script: Script) -> AsyncIterator[OpenAiExecutor]:
        executor = executor_for(server.plays(script))
        yield executor
        await executor.close()

    asyncio.run(EXECUTOR_CHECKS[name](opened))


# What is sent ---------------------------------------------------------------------------------------------------------


def test_a_request_is_written_as_the_api_says(server: LoopbackModel) -> None:
    tool = ToolOffer("search", "Searches.", {"type": "object"})
    image = MediaBlock(modality="image", media_type="image/png", data="aGk=")
    sound = MediaBlock(modality="audio", media_type="audio/mpeg", data="aGk=")
    paper = MediaBlock(modality="pdf", media_type="application/pdf", data="aGk=")
    request = ChatRequest(
        model="small",
        messages=(
            system_message("Be brief."),
            Message("user", (TextBlock("Look:"), image, sound, paper)),
            assistant_message("", (ToolCall("c1", "search", "{}"),)),
            tool_message("c1", "Nothing"),
        ),
        tools=(tool,),
        temperature=0.0,
        max_output_tokens=7,
        reasoning_effort="max",
        response_schema={"type": "object"},
    )

    answered(server.plays([ChatAnswer(text="{}")]), request)

    assert server.requests[-1] == {
        "model": "small",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "Look:"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
                    {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "mp3"}},
                    {
                        "type": "file",
                        "file": {"filename": "document.pdf", "file_data": "data:application/pdf;base64,aGk="},
                    },
                ],
            },
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "search", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "Nothing"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {"name": "search", "description": "Searches.", "parameters": {"type": "object"}},
            }
        ],
        "temperature": 0.0,
        "max_tokens": 7,
        "reasoning_effort": "high",
        "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": {"type": "object"}}},
    }


def test_only_openai_itself_is_asked_to_keep_prompts(server: LoopbackModel) -> None:
    hinted = structs.replace(REQUEST, messages=(system_message("Be brief."), *REQUEST.messages), cache_prompt=True)

    def key_of(request: ChatRequest) -> str | None:
        key: str | None = request_body(request, is_stream=False, takes_cache_key=True).get("prompt_cache_key")
        return key

    answered(server.plays([ChatAnswer()]), hinted)
    assert "prompt_cache_key" not in server.requests[-1]
    assert OpenAiExecutor()._body(hinted, is_stream=True)["prompt_cache_key"] == key_of(hinted)
    assert key_of(structs.replace(hinted, cache_prompt=False)) is None
    # The same beginning has the same key, whatever follows it; another beginning has another.
    assert key_of(structs.replace(hinted, messages=(*hinted.messages, user_message("Go on")))) == key_of(hinted)
    offer = ToolOffer("search", "Searches.", {"type": "object"})
    others = [structs.replace(hinted, tools=(offer,)), structs.replace(hinted, messages=(system_message("Be long."),))]
    assert len({key_of(hinted), *map(key_of, others)}) == 3


def test_a_stream_asks_for_its_usage(server: LoopbackModel) -> None:
    pieces = streamed(server.plays([ChatAnswer(text="Hi", usage=Usage(3, 2, 1))]))

    assert server.requests[-1]["stream_options"] == {"include_usage": True}
    assert pieces == [TextDelta("Hi"), ChatAnswer(text="Hi", usage=Usage(3, 2, 1), model="loopback")]


def test_the_key_is_sent_in_a_header_and_read_for_each_request(server: LoopbackModel) -> None:
    keys = iter(["one", "two\n"])

    async def ask_twice() -> None:
        executor = executor_for(server.plays([ChatAnswer()] * 2), api_key=lambda: next(keys))
        await executor.complete(REQUEST)
        await executor.complete(REQUEST)
        await executor.close()

    asyncio.run(ask_twice())
    assert [sent["authorization"] for sent in server.headers[-2:]] == ["Bearer one", "Bearer two"]


def test_a_server_that_wants_no_key_gets_none(server: LoopbackModel) -> None:
    answered(server.plays([ChatAnswer()]), api_key=None)

    assert "authorization" not in server.headers[-1]


@pytest.mark.parametrize(
    "url", ["http://models.example/v1", "https://user:pass@models.example/v1", "ftp://127.0.0.1/v1", "models", ""]
)
def test_an_address_that_a_key_must_not_travel_to_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="the address must be `https`"):
        OpenAiExecutor(url)


def test_what_the_api_has_no_word_for_is_refused_before_it_is_sent(server: LoopbackModel) -> None:
    film = MediaBlock(modality="video", media_type="video/mp4", data="aGk=")
    before = len(server.requests)

    with pytest.raises(InferenceFailure, match="chat completions take no video"):
        answered(server.plays([]), ChatRequest(model="small", messages=(Message("user", (film,)),)))
    with pytest.raises(InferenceFailure, match="acme: the request cannot be written: Unicode"):
        answered(server.plays([]), ChatRequest(model="small", messages=(user_message("\ud800"),)))

    assert len(server.requests) == before


def test_one_executor_may_be_used_in_one_loop_after_the_other(server: LoopbackModel) -> None:
    executor = executor_for(server.plays([ChatAnswer(text="a"), ChatAnswer(text="b")]))

    async def ask() -> str:
        answer = await executor.complete(REQUEST)
        await executor.close()
        return answer.text

    assert [asyncio.run(ask()), asyncio.run(ask())] == ["a", "b"]


# What goes wrong ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", STATUSES)
def test_every_kind_of_failure_is_told_apart(kind: FailureKind, server: LoopbackModel) -> None:
    status, _ = STATUSES[kind]
    said = "" if kind == "unauthorized" else ": as it is"
    expected = (kind, f"acme: HTTP {status}{said}")

    assert failed(server.plays([InferenceFailure(kind, "as it is")])) == expected
    assert broke(server.plays([InferenceFailure(kind, "as it is")])) == ([], *expected)


def test_the_kinds_that_no_server_says_are_those_of_pools_and_callers() -> None:
    assert set(get_args(FailureKind)) - STATUSES.keys() == {
        "stream_interrupted",
        "all_unavailable",
        "pool_exhausted",
        "cancelled",
    }


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request"),
        (401, "unauthorized"),
        (402, "rate_limited"),
        (403, "unauthorized"),
        (404, "model_not_found"),
        (408, "timeout"),
        (409, "invalid_request"),
        (413, "context_overflow"),
        (422, "invalid_request"),
        (429, "rate_limited"),
        (500, "provider"),
        (502, "provider"),
        (503, "overloaded"),
        (504, "timeout"),
        (529, "overloaded"),
        (599, "provider"),
    ],
)
def test_a_status_alone_says_the_kind(status: int, kind: str, server: LoopbackModel) -> None:
    assert failed(server.fails(f"status-{status}"))[0] == kind


PROBLEMS = [
    ("garbage", "provider", "the answer is not a chat completion"),
    ("deep", "provider", "the answer is not a chat completion"),
    ("no-choices", "provider", "the answer has no choices"),
    ("html", "provider", "the answer is text/html, and not application/json"),
    ("html-error", "provider", "HTTP 502"),
    ("redirect", "provider", "HTTP 307: it wants to redirect, which is refused"),
    ("gzip", "provider", "the answer is compressed, which was not asked for"),
    ("huge", "stream_interrupted", "the answer is too large"),
    ("huge-error", "provider", "HTTP 500"),
    ("many-objects", "stream_interrupted", "the answer is too large"),
    ("cut", "stream_interrupted", "the connection broke off (RemoteProtocolError)"),
    ("filtered", "content_filtered", "the provider held the answer back"),
    ("refusal", "content_filtered", "the provider held the answer back"),
    ("error-inside", "rate_limited", "HTTP 429: behind me"),
]


@pytest.mark.parametrize(("mode", "kind", "problem"), PROBLEMS)
def test_an_answer_that_cannot_be_used_is_a_clear_failure(
    mode: str, kind: str, problem: str, server: LoopbackModel
) -> None:
    assert failed(server.fails(mode)) == (kind, f"acme: {problem}")


STREAM_PROBLEMS = [
    ("garbage", [], "stream_interrupted", "the stream ended before the answer did"),
    ("garbage-event", ["Hel"], "stream_interrupted", "an event of the stream is not a chat completion"),
    ("html", [], "provider", "the answer is text/html, and not text/event-stream"),
    ("redirect", [], "provider", "HTTP 307: it wants to redirect, which is refused"),
    ("huge-event", [], "stream_interrupted", "the answer is too large"),
    ("cut", ["Hel"], "stream_interrupted", "the stream ended before the answer did"),
    ("filtered", ["Hel"], "content_filtered", "the provider held the answer back"),
    ("refusal", [], "content_filtered", "the provider held the answer back"),
    ("error-inside", ["Hel"], "rate_limited", "HTTP 429: behind me"),
]


@pytest.mark.parametrize(("mode", "texts", "kind", "problem"), STREAM_PROBLEMS)
def test_a_stream_that_cannot_be_used_is_a_clear_failure(
    mode: str, texts: list[str], kind: str, problem: str, server: LoopbackModel
) -> None:
    assert broke(server.fails(mode)) == (list(map(TextDelta, texts)), kind, f"acme: {problem}")


def test_an_answer_in_many_pieces_or_calls_has_limits_too(server: LoopbackModel) -> None:
    assert broke(server.fails("huge-text"))[1:] == ("provider", "acme: the answer is too large")
    assert broke(server.fails("many-calls"))[1:] == ("provider", "acme: the answer asks for more than 128 calls")


def test_a_redirect_is_not_followed_and_the_key_stays_here(server: LoopbackModel) -> None:
    before = len(server.requests)

    failed(server.fails("redirect"))

    assert len(server.requests) == before + 1


def test_a_server_that_says_nothing_runs_out_of_time(server: LoopbackModel) -> None:
    silent, stall, alive = map(server.fails, ("silent", "stall", "keep-alive"))

    assert failed(silent, idle_seconds=0.1) == ("timeout", "acme: nothing came for 0.1 s")
    assert failed(silent, answer_seconds=0.1) == ("timeout", "acme: no answer within 0.1 s")
    assert failed(stall, answer_seconds=0.1) == ("timeout", "acme: no answer within 0.1 s")
    assert broke(silent, idle_seconds=0.1) == ([], "timeout", "acme: nothing came for 0.1 s")
    interrupted = ("stream_interrupted", "acme: nothing of the answer came for too long")
    assert failed(stall, idle_seconds=0.1) == interrupted
    assert broke(stall, idle_seconds=0.1) == ([TextDelta("Hel")], *interrupted)
    assert broke(alive, idle_seconds=0.1) == ([], *interrupted)


def test_a_server_that_takes_for_ever_to_say_its_error_runs_out_of_time(server: LoopbackModel) -> None:
    slow = server.fails("slow-error")
    expected = ("timeout", "acme: no answer within 0.3 s")

    assert failed(slow, answer_seconds=0.3) == expected
    assert broke(slow, answer_seconds=0.3) == ([], *expected)


def test_usage_without_numbers_is_not_known_and_not_nothing(server: LoopbackModel) -> None:
    assert answered(server.fails("empty-usage")).usage is None


def test_a_server_that_is_not_there_is_a_failure_that_may_pass() -> None:
    kind, message = failed("http://127.0.0.1:9/v1")

    assert (kind, message) == ("provider", "acme: ConnectError: All connection attempts failed")


def test_the_provider_says_when_to_come_back(server: LoopbackModel) -> None:
    def wait_of(mode: str) -> int | None:
        with pytest.raises(InferenceFailure) as stopped:
            answered(server.fails(mode))
        return stopped.value.retry_after_ms

    assert (wait_of("retry-date"), wait_of("retry-ms"), wait_of("status-429")) == (0, 250, None)


# Secrets --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["echo-key", "quote-key"])
def test_no_failure_quotes_the_key(mode: str, server: LoopbackModel) -> None:
    kind, message = failed(server.fails(mode))

    assert SECRET[:8] not in message
    assert message.isprintable()
    if mode == "echo-key":
        assert (kind, message) == ("provider", "acme: HTTP 500: You sent Bearer *** [31m and more")


@pytest.mark.parametrize("key", ["sk-\nnew-line", "sk-\x00", "sk-ü"])
def test_a_key_that_no_header_can_hold_is_not_quoted_either(key: str, server: LoopbackModel) -> None:
    assert failed(server.plays([]), api_key=lambda: key) == (
        "unauthorized",
        "acme: the key has characters that no key has",
    )


# Liberties ------------------------------------------------------------------------------------------------------------


def test_calls_of_servers_that_take_liberties_are_read_too(server: LoopbackModel) -> None:
    calls = (ToolCall("call_0", "search", '{"query":1}'), ToolCall("call_1", "search", '{"query":1}'))

    answer = answered(server.fails("odd-calls"))
    pieces = streamed(server.fails("odd-calls"))

    assert (answer.calls, answer.finish, answer.usage) == (calls, "tool_calls", Usage(0, 0, 0))
    assert pieces[:2] == [CallDelta(index, "", "search", '{"query":1}') for index in (0, 1)]
    assert (pieces[-1].calls, pieces[-1].finish) == (calls, "tool_calls")


def test_the_body_of_a_request_is_json(server: LoopbackModel) -> None:
    answered(server.plays([ChatAnswer()]))

    assert server.headers[-1]["content-type"] == "application/json"
    assert json.loads(json.dumps(server.requests[-1])) == {
        "model": "small",
        "messages": [{"role": "user", "content": "Hello"}],
    }
