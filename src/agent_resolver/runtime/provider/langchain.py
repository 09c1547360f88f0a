"""Any provider that LangChain knows: `init_chat_model`, or a chat model that a program made itself."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any, Final, Literal

import msgspec
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.ai import add_ai_message_chunks
from msgspec import structs

from agent_resolver.runtime.executor import InferenceFailure
from agent_resolver.runtime.inference import ChatAnswer, ChatRequest, Piece, TextDelta
from agent_resolver.runtime.provider.langchain_failure import failure_in
from agent_resolver.runtime.provider.langchain_wire import (
    ChunkReader,
    read_answer,
    write_messages,
)
from agent_resolver.runtime.provider.openai_wire import EFFORTS, cache_key, write_tool

MakeModel = Callable[..., BaseChatModel]
"""Makes a chat model from its name and settings such as `temperature` and `max_tokens`."""
CacheHint = Literal["prompt_cache_key", "cache_control"]
"""A parameter of OpenAI's requests, or a mark in the messages of Anthropic's."""
_EFFORT_KNOWN: Final = frozenset({"azure_openai", "groq", "openai", "xai"})
_MOST_KEPT: Final = 32


class LangChainExecutor:
    """Lets chat models of LangChain answer. They try nothing again by themselves: that is for the section `retry`."""

    def __init__(
        self,
        make_model: MakeModel,
        *,
        name: str = "langchain",
        takes_effort: bool = False,
        cache_hint: CacheHint | None = None,
        secrets: tuple[str, ...] = (),
    ) -> None:
        """The executor of the models that a function makes.

        Args:
            make_model: Makes the model of a name; models are kept, so that their connections are.
            name: What failures call the provider.
            takes_effort: True if the models take `reasoning_effort`.
            cache_hint: How the models are asked to keep the beginning of a prompt; None if they cannot be.
            secrets: What failures must not quote.
        """
        self._make_model = make_model
        self._name = name
        self._takes_effort = takes_effort
        self._cache_hint = cache_hint
        self._secrets = secrets
        self._models: dict[tuple[Any, ...], BaseChatModel] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """The whole answer to a request.

        Raises:
            InferenceFailure: There is none.
        """
        try:
            model = self._model_for(request)
            if request.response_schema is not None:
                return await self._structured(model, request)
            message = await self._with_tools(model, request).ainvoke(
                self._messages(request)
            )
        except Exception as error:
            # Every client has exceptions of its own, so all of them become failures of
            # ours at this border.
            raise failure_in(self._name, error, secrets=self._secrets) from error
        return read_answer(self._name, _require_message(message))

    async def stream(self, request: ChatRequest) -> AsyncGenerator[Piece]:
        """The answer in pieces; one that follows a schema comes whole.

        Raises:
            InferenceFailure: There is none, or it broke off.
        """
        if request.response_schema is not None:
            # The text of a structured answer is known only once all of it was parsed.
            answer = await self.complete(request)
            yield TextDelta(answer.text)
            yield answer
            return
        reader = ChunkReader()
        try:
            chunks = self._with_tools(self._model_for(request), request).astream(
                self._messages(request)
            )
            # A reader may leave early, and `aclosing` then ends the stream of the
            # provider at once.
            async with aclosing(chunks):
                async for chunk in chunks:
                    if isinstance(chunk, AIMessageChunk):
                        for piece in reader.add(chunk):
                            yield piece
        except Exception as error:
            raise failure_in(
                self._name, error, secrets=self._secrets, has_pieces=bool(reader.chunks)
            ) from error
        if not reader.chunks:
            raise InferenceFailure(
                "stream_interrupted", f"{self._name}: the stream had no pieces"
            )
        yield read_answer(self._name, add_ai_message_chunks(*reader.chunks))

    async def _structured(
        self, model: BaseChatModel, request: ChatRequest
    ) -> ChatAnswer:
        """The answer that follows a schema: LangChain knows how each provider is made to give one."""
        if request.tools:
            raise InferenceFailure(
                "invalid_request",
                f"{self._name}: a request has tools or a schema, and not both",
            )
        # LangChain asks for a title, since some providers are shown the schema as a
        # tool.
        schema = {
            "title": "answer",
            "description": "The answer.",
            **(request.response_schema or {}),
        }
        asked = model.with_structured_output(schema, include_raw=True)
        found = await asked.ainvoke(self._messages(request))
        if not isinstance(found, Mapping):
            raise InferenceFailure(
                "provider", f"{self._name}: the answer does not follow the schema"
            )
        answer = read_answer(self._name, _require_message(found["raw"]))
        # What cannot be parsed is handed on as it is: the caller checks it against
        # the schema.
        if found["parsed"] is None:
            return answer
        # Some providers answer with a call of a made-up tool.
        text = msgspec.json.encode(found["parsed"]).decode()
        return structs.replace(
            answer,
            text=text,
            calls=(),
            finish="length" if answer.finish == "length" else "stop",
        )

    def _with_tools(self, model: BaseChatModel, request: ChatRequest) -> Any:  # noqa: ANN401 - a runnable
        bound: Any = model
        if request.tools:
            bound = model.bind_tools([write_tool(tool) for tool in request.tools])
        if request.cache_prompt and self._cache_hint == "prompt_cache_key":
            return bound.bind(prompt_cache_key=cache_key(request))
        return bound

    def _messages(self, request: ChatRequest) -> list[BaseMessage]:
        is_marked = request.cache_prompt and self._cache_hint == "cache_control"
        return write_messages(request.messages, marks_beginning=is_marked)

    def _model_for(self, request: ChatRequest) -> BaseChatModel:
        """The model with the settings of a request; connections cannot move to another loop."""
        loop = asyncio.get_running_loop()
        # Settings can have any number of values, so the models that are kept have a
        # bound; all of them are dropped at once.
        if self._loop is not loop or len(self._models) >= _MOST_KEPT:
            self._loop = loop
            self._models = {}
        settings: dict[str, Any] = {}
        if request.temperature is not None:
            settings["temperature"] = request.temperature
        if request.max_output_tokens is not None:
            settings["max_tokens"] = request.max_output_tokens
        # A number of tokens has no word in this parameter, so only named efforts are
        # sent.
        if self._takes_effort and isinstance(request.reasoning_effort, str):
            settings["reasoning_effort"] = EFFORTS[request.reasoning_effort]
        # Settings are those of a model object in LangChain: not every class takes them
        # with a call.
        key = (request.model, *settings.items())
        if key not in self._models:
            self._models[key] = self._make_model(request.model, **settings)
        return self._models[key]


def _require_message(message: object) -> AIMessage:
    if not isinstance(message, AIMessage):
        raise InferenceFailure(
            "provider", f"the answer is a `{type(message).__name__}`, and not a message"
        )
    return message


def known_provider(
    model_provider: str,
    *,
    name: str = "",
    api_key: str = "",
    base_url: str = "",
    seconds: float = 600.0,
) -> LangChainExecutor:
    """The executor of a provider that `init_chat_model` knows by this name.

    Raises:
        MissingExtra: The extra `models` is not installed.
    """
    from agent_resolver._extra import needing_extra

    # The package is an optional extra: only a provider that goes through it needs it.
    with needing_extra("models"):
        from langchain.chat_models import init_chat_model

    # Trying again is left to the section `retry`: two layers of it would multiply the
    # attempts.
    common: dict[str, Any] = {
        "model_provider": model_provider,
        "max_retries": 0,
        "timeout": seconds,
    }
    if api_key:
        common["api_key"] = api_key
    if base_url:
        common["base_url"] = base_url

    def make_model(model: str, **settings: Any) -> BaseChatModel:  # noqa: ANN401 - settings of a model
        try:
            # This call imports the package of the provider, so a missing one shows only
            # here.
            made: BaseChatModel = init_chat_model(model, **common, **settings)
        except ImportError as error:
            # LangChain says which of its packages to install.
            raise InferenceFailure(
                "model_not_found", f"{name or model_provider}: {error}"
            ) from error
        return made

    return LangChainExecutor(
        make_model,
        name=name or model_provider,
        takes_effort=model_provider in _EFFORT_KNOWN,
        cache_hint=_cache_hint_of(model_provider, base_url),
        secrets=(api_key,) if api_key else (),
    )


def _cache_hint_of(model_provider: str, base_url: str) -> CacheHint | None:
    """The settings that ask a provider to keep prompts. A server behind `base_url` may refuse what it does not know."""
    if base_url:
        return None
    hints: dict[str, CacheHint] = {
        "openai": "prompt_cache_key",
        "anthropic": "cache_control",
    }
    return hints.get(model_provider)
