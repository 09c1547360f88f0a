"""The adapter for LangChain: its own fake model, and its client for OpenAI against a server on loopback."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from langchain_core.exceptions import ModelConnectionError, ModelTimeoutError
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_openai import ChatOpenAI
from msgspec import structs
from pydantic import SecretStr

from agent_resolver.runtime import (
    EXECUTOR_CHECKS,
    ChatAnswer,
    ChatRequest,
    FailureKind,
    InferenceFailure,
    LangChainExecutor,
    MediaBlock,
    Message,
    TextBlock,
    TextDelta,
    ToolOffer,
    system_message,
    user_message,
)
from agent_resolver.runtime.provider.langchain import known_provider
from agent_resolver.runtime.provider.langchain_failure import failure_in
from agent_resolver.runtime.provider.langchain_wire import write_messages
from tests.runtime.loopback_model import SECRET, STATUSES, LoopbackModel, loopback_model
from tests.runtime.pieces import pieces_of

REQUEST = ChatRequest(model="small", messages=(user_message("Hello"),))


@pytest.fixture(scope="module")
def server() -> Iterator[LoopbackModel]:
    with loopback_model() as model:
        yield model


@asynccontextmanager
async def opened(url: str, **options: Any) -> AsyncIterator[LangChainExecutor]:
    """An executor with connections of its own: those that LangChain keeps outlive the loop of a test."""
    # There is no TLS on loopback, and the certificates of the machine take long to read.
    async with httpx2.AsyncClient(verify=False) as client:

        def make(model: str, **settings: Any) -> ChatOpenAI:
            key = SecretStr(SECRET)
            return ChatOpenAI(
                model=model, base_url=url, api_key=key, max_retries=0, http_async_client=client, **settings
            )

        yield LangChainExecutor(make, name="acme", secrets=(SECRET,), **options)


@pytest.mark.parametrize("name", EXECUTOR_CHECKS)
def test_a_client_of_langchain_keeps_the_promises_of_the_port(name: str, server: LoopbackModel) -> None:
    asyncio.run(EXECUTOR_CHECKS[name](lambda script: opened(server.plays(script))))


async def failure_at(url: str) -> InferenceFailure:
    async with opened(url) as executor:
        (failure,) = await pieces_of(executor, REQUEST)
    assert isinstance(failure, InferenceFailure)
    return failure


@pytest.mark.parametrize("kind", STATUSES)
def test_every_kind_of_failure_is_told_apart(kind: FailureKind, server: LoopbackModel) -> None:
    failure = asyncio.run(failure_at(server.plays([InferenceFailure(kind, "as it is")])))

    assert failure.kind == kind


@pytest.mark.parametrize("mode", ["echo-key", "quote-key"])
def test_no_failure_quotes_the_key(mode: str, server: LoopbackModel) -> None:
    failure = asyncio.run(failure_at(server.fails(mode)))

    assert SECRET[:8] not in str(failure)


def test_a_stream_that_ends_too_soon_or_is_held_back_is_a_failure(server: LoopbackModel) -> None:
    async def read(mode: str) -> list[Any]:
        async with opened(server.fails(mode)) as executor:
            return await pieces_of(executor, REQUEST)

    text, filtered = asyncio.run(read("filtered"))
    assert (text, filtered.kind) == (TextDelta("Hel"), "content_filtered")


def test_an_answer_that_follows_a_schema_is_its_text(server: LoopbackModel) -> None:
    schema = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
    request = ChatRequest(model="small", messages=(user_message("Hello"),), response_schema=schema)

    async def read() -> list[Any]:
        async with opened(server.plays([ChatAnswer(text='{"word": "hi"}')])) as executor:
            return await pieces_of(executor, request)

    text, answer = asyncio.run(read())
    assert (text, answer.text, answer.finish) == (TextDelta('{"word":"hi"}'), '{"word":"hi"}', "stop")
    assert server.requests[-1]["response_format"]["type"] == "json_schema"


def test_pictures_are_sent_as_the_provider_takes_them(server: LoopbackModel) -> None:
    image = MediaBlock(modality="image", media_type="image/png", data="aGk=")
    request = ChatRequest(model="small", messages=(Message("user", (TextBlock("Look"), image)),))

    async def ask() -> None:
        async with opened(server.plays([ChatAnswer(text="Yes")])) as executor:
            await executor.complete(request)

    asyncio.run(ask())
    parts = server.requests[-1]["messages"][0]["content"]
    assert parts[1] == {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}


# Fakes ----------------------------------------------------------------------------------------------------------------


def fake(*messages: AIMessage | str) -> LangChainExecutor:
    model = GenericFakeChatModel(messages=iter(messages))
    return LangChainExecutor(lambda _, **__: model)


def test_the_fake_model_of_langchain_answers_whole_and_in_pieces() -> None:
    async def ask() -> tuple[ChatAnswer, list[Any]]:
        executor = fake("Hello to you", "Hello to you")
        return await executor.complete(REQUEST), await pieces_of(executor, REQUEST)

    answer, pieces = asyncio.run(ask())
    assert (answer.text, answer.usage, answer.finish) == ("Hello to you", None, "stop")
    assert pieces == [*map(TextDelta, ["Hello", " ", "to", " ", "you"]), answer]


HINTED = ChatRequest(
    model="small",
    messages=(system_message("Be brief."), system_message("Be kind."), user_message("Hello")),
    tools=(ToolOffer("search", "Searches.", {"type": "object"}),),
    cache_prompt=True,
)


@pytest.mark.parametrize("hint", [None, "prompt_cache_key", "cache_control"])
def test_a_provider_is_asked_to_keep_prompts_in_its_own_words(hint: Any, server: LoopbackModel) -> None:
    async def ask(request: ChatRequest) -> dict[str, Any]:
        async with opened(server.plays([ChatAnswer(text="Hi")]), cache_hint=hint) as executor:
            await executor.complete(request)
        return server.requests[-1]

    sent, plain = (asyncio.run(ask(each)) for each in (HINTED, structs.replace(HINTED, cache_prompt=False)))

    assert [message["content"] for message in plain["messages"]] == ["Be brief.", "Be kind.", "Hello"]
    assert "prompt_cache_key" not in plain
    assert ("prompt_cache_key" in sent) == (hint == "prompt_cache_key")
    marked = [{"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}]
    assert sent["messages"][1]["content"] == (marked if hint == "cache_control" else "Be kind.")
    assert (sent["messages"][0], sent["tools"]) == (plain["messages"][0], plain["tools"])


def test_a_prompt_without_a_system_message_has_no_mark(server: LoopbackModel) -> None:
    assert [message.content for message in write_messages(REQUEST.messages, marks_beginning=True)] == ["Hello"]
    assert known_provider("anthropic")._cache_hint == "cache_control"
    assert known_provider("openai", base_url=server.root)._cache_hint is None


@pytest.mark.parametrize("reason", ["SAFETY", "refusal", "content_filter"])
def test_an_answer_that_is_held_back_is_told_by_its_end(reason: str) -> None:
    message = AIMessage("", response_metadata={"finish_reason": reason})

    with pytest.raises(InferenceFailure) as stopped:
        asyncio.run(fake(message).complete(REQUEST))
    assert stopped.value.kind == "content_filtered"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ModelTimeoutError("t"), "timeout"),
        (ModelConnectionError("c"), "provider"),
        (TimeoutError(), "timeout"),
        (ConnectionResetError(), "provider"),
        (ValueError("no such setting"), "invalid_request"),
        (type("ReadTimeoutError", (Exception,), {"__module__": "sdk"})(), "timeout"),
        (type("APIError", (Exception,), {"__module__": "sdk", "code": 503})(), "overloaded"),
        (type("SdkError", (Exception,), {"__module__": "sdk"})("prompt is too long"), "context_overflow"),
    ],
)
def test_exceptions_of_clients_have_kinds(error: Exception, kind: str) -> None:
    assert failure_in("acme", error).kind == kind


def test_a_connection_that_ends_after_pieces_has_interrupted_the_stream() -> None:
    assert failure_in("acme", ConnectionResetError(), has_pieces=True).kind == "stream_interrupted"


# Providers that LangChain knows ---------------------------------------------------------------------------------------


def test_a_provider_is_opened_by_its_name_with_its_key_and_address(server: LoopbackModel) -> None:
    executor = known_provider("openai", api_key=SECRET, base_url=server.plays([ChatAnswer(text="Hi")]))

    async def ask() -> ChatAnswer:
        answer = await executor.complete(REQUEST)
        for model in executor._models.values():
            await model.root_async_client.close()  # type: ignore[attr-defined] # that of OpenAI
        return answer

    assert asyncio.run(ask()).text == "Hi"
    assert server.headers[-1]["authorization"] == f"Bearer {SECRET}"


@pytest.mark.parametrize(
    ("provider", "kind", "words"),
    [("anthropic", "model_not_found", "langchain-anthropic"), ("acme", "invalid_request", "Unsupported provider")],
)
def test_a_provider_that_cannot_be_opened_says_what_is_missing(provider: str, kind: str, words: str) -> None:
    with pytest.raises(InferenceFailure, match=words) as stopped:
        asyncio.run(known_provider(provider).complete(REQUEST))
    assert stopped.value.kind == kind
