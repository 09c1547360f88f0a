"""The executors of the models of a project's providers; nothing is opened before a run asks one."""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Mapping
from threading import Lock
from typing import Final

from agent_resolver._extra import MissingExtra, needing_extra
from agent_resolver.identity.issuer_address import address
from agent_resolver.project.config import Provider
from agent_resolver.project.errors import UnusableProvider
from agent_resolver.project.session import Session
from agent_resolver.runtime.executor import (
    InferenceFailure,
    LlmExecutor,
    close_executor,
    close_stream,
)
from agent_resolver.runtime.inference import ChatAnswer, ChatRequest, Piece
from agent_resolver.runtime.known_model import known_models
from agent_resolver.runtime.model import DataFacts, Modalities, ModelSpec
from agent_resolver.runtime.provider.scripted import ResumingScript, read_script
from agent_resolver.runtime.spec import DEFAULT_MODEL
from agent_resolver.schema.errors import ResolverError
from agent_resolver.storage.file import read_bounded

LOCAL: Final = "local"
"""The provider that is this machine, and its model; both need no entry in the settings."""
LOCAL_MODEL: Final = ModelSpec(
    id=LOCAL,
    provider_id=LOCAL,
    upstream_model="smollm2",
    context_window=8192,
    max_output_tokens=1024,
    modalities=Modalities(input=("text",), output=("text",)),
    input_price=0,
    output_price=0,
    # What it is asked does not leave this machine.
    data=DataFacts(residency=("any",), max_sensitivity="pii.high"),
)
_MAX_SCRIPT_BYTES: Final = 1024 * 1024
_DECIDED_BY_FILE: Final = ("api_key_env", "base_url", "model_path")
"""The settings by which an author could send secrets and data away, or have this machine read what it should not."""
_LANGCHAIN_NAMES: Final = {"google": "google_genai"}
"""What LangChain calls providers that have another name here."""


def local_model_names(session: Session) -> tuple[str, ...]:
    """The names that mean the local model.

    Agents that name no model get it where nothing else is set up: no model in the settings, and no key of a known
    provider in the environment.
    """
    config = session.config
    has_key = any(
        session.environment.get(known.api_key_env)
        for known in known_models().providers.values()
    )
    is_default = not (config.models or config.pools or has_key)
    return (LOCAL, DEFAULT_MODEL) if is_default else (LOCAL,)


def provider_executor(session: Session, name: str) -> "ProviderExecutor":
    """The executor of a provider of the settings, or of one that needs no entry; it opens itself when it is asked."""
    return ProviderExecutor(name, lambda: _open_provider(session, name))


class ProviderExecutor:
    """Opens a provider with the first request.

    What keeps it from being opened is a failure of the model then. A command that wants to say it better, with a hint
    and before anything else happens, calls `open` first.
    """

    def __init__(self, name: str, opening: Callable[[], LlmExecutor]) -> None:
        self._name = name
        self._opening = opening
        self._executor: LlmExecutor | None = None
        self._lock = Lock()

    def open(self) -> LlmExecutor:
        """The executor, opened once.

        Raises:
            MissingExtra: It needs packages that are not installed.
            UntrustedFolder: The settings decide where data and secrets go, and no person trusts them.
            UnusableProvider: Its settings, its key or its script are not right.
        """
        # Several runs may open it at the same time, each in a thread of its own.
        with self._lock:
            if self._executor is None:
                self._executor = self._opening()
            return self._executor

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """The whole answer to a request.

        Raises:
            InferenceFailure: There is none.
        """
        return await (await self._opened()).complete(request)

    async def stream(self, request: ChatRequest) -> AsyncGenerator[Piece]:
        """The answer in pieces.

        Raises:
            InferenceFailure: There is none, or it broke off.
        """
        pieces = (await self._opened()).stream(request)
        try:
            async for piece in pieces:
                yield piece
        finally:
            await close_stream(pieces)

    async def close(self) -> None:
        """Close what was opened."""
        # It is taken out before the first await, so that closing it twice closes it
        # once.
        executor, self._executor = self._executor, None
        if executor is not None:
            await close_executor(executor)

    async def _opened(self) -> LlmExecutor:
        if self._executor is not None:
            return self._executor
        try:
            # Some adapters take seconds to import.
            return await asyncio.to_thread(self.open)
        except MissingExtra as error:
            # Another member of a pool may have what it needs.
            raise InferenceFailure(
                "model_not_found", f"{self._name}: {error}; {error.hint}"
            ) from error
        except ResolverError as error:
            raise InferenceFailure("unauthorized", f"{self._name}: {error}") from error


def _open_provider(session: Session, name: str) -> LlmExecutor:
    provider = session.config.providers.get(name)
    if provider is None:
        return _open_known(session, name)
    # The author of the project chose both the secret and where it is sent. What an
    # operator sets is their own.
    if any(
        session.is_set_by_file(f"providers.{name}.{key}") for key in _DECIDED_BY_FILE
    ):
        session.require_trust(
            "its settings send data and secrets of this machine to providers"
        )
    # For every adapter: LangChain takes any address.
    if provider.base_url and address(provider.base_url) is None:
        raise UnusableProvider(
            name, "`base_url` must be `https`, or `http` on this machine"
        )
    return _ADAPTERS[provider.adapter](session, name, provider)


def _open_known(session: Session, name: str) -> LlmExecutor:
    """A provider that needs no entry."""
    if name == LOCAL:
        return _open_local(session, name, Provider(adapter="local"))
    known = known_models().providers[name]
    made = Provider(adapter=known.adapter, api_key_env=known.api_key_env)
    return _ADAPTERS[known.adapter](session, name, made)


def _open_local(session: Session, name: str, provider: Provider) -> LlmExecutor:
    with needing_extra("local"):
        from agent_resolver.runtime.provider.local import LocalExecutor

    path = (
        os.path.join(session.root, provider.model_path) if provider.model_path else ""
    )
    if path and not os.path.isfile(path):
        raise UnusableProvider(name, f"there is no file `{path}`")
    return LocalExecutor(path, name=name)


def _open_openai(session: Session, name: str, provider: Provider) -> LlmExecutor:
    with needing_extra("models"):
        from agent_resolver.runtime.provider.openai import OPENAI_URL, OpenAiExecutor

    # A server of one's own gets no key that was not meant for it.
    usual = known_models().providers["openai"].api_key_env
    variable = provider.api_key_env or ("" if provider.base_url else usual)
    if variable:
        _require_key(session, name, variable)
    # The environment is looked at again for each request, so that a key can be renewed.
    api_key = (lambda: session.environment.get(variable, "")) if variable else None
    return OpenAiExecutor(provider.base_url or OPENAI_URL, api_key=api_key, name=name)


def _open_langchain(session: Session, name: str, provider: Provider) -> LlmExecutor:
    with needing_extra("models"):
        from agent_resolver.runtime.provider.langchain import known_provider

    key = (
        _require_key(session, name, provider.api_key_env)
        if provider.api_key_env
        else ""
    )
    model_provider = provider.model_provider or _LANGCHAIN_NAMES.get(name, name)
    return known_provider(
        model_provider, name=name, api_key=key, base_url=provider.base_url or ""
    )


def _open_scripted(session: Session, name: str, provider: Provider) -> LlmExecutor:
    if not provider.script:
        raise UnusableProvider(name, "`script` names no file")
    path = os.path.join(session.root, provider.script)
    try:
        script = read_script(read_bounded(path, _MAX_SCRIPT_BYTES, session.users))
    except ValueError as error:
        raise UnusableProvider(
            name, f"`{provider.script}` is not a script: {error}"
        ) from error
    return ResumingScript(script)


def _require_key(session: Session, name: str, variable: str) -> str:
    """The key of a provider.

    Raises:
        UnusableProvider: It is not set.
    """
    if key := session.environment.get(variable):
        return key
    raise UnusableProvider(
        name,
        f"the environment variable {variable} is not set",
        f"set {variable} to the key",
    )


_ADAPTERS: Final[Mapping[str, Callable[[Session, str, Provider], LlmExecutor]]] = {
    "langchain": _open_langchain,
    LOCAL: _open_local,
    "openai": _open_openai,
    "scripted": _open_scripted,
}
