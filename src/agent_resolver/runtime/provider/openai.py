"""Any provider that speaks OpenAI's chat completions, over HTTP alone.

No answer takes more memory or time than it may: bodies are taken as they come, without compression, and are counted.
A redirect is refused, since the key would follow it.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from time import monotonic
from typing import Any, Final

import httpx2
import msgspec

from agent_resolver.identity.issuer_address import address, past_any_proxy
from agent_resolver.runtime.executor import InferenceFailure
from agent_resolver.runtime.inference import ChatAnswer, ChatRequest, Piece
from agent_resolver.runtime.provider.http_failure import (
    ProviderError,
    clean_words,
    failure_of,
    read_error,
    retry_after_of,
)
from agent_resolver.runtime.provider.openai_wire import (
    MAX_ANSWER_BYTES,
    Document,
    GatheredAnswer,
    answer_of,
    read_completion,
    request_body,
)

OPENAI_URL: Final = "https://api.openai.com/v1"
MAX_ANSWER_OBJECTS: Final = 500_000
"""The most objects and lists of an answer: one takes two bytes to send and a hundred to keep."""
MAX_EVENT_BYTES: Final = 1024 * 1024
_MAX_STREAM_BYTES: Final = 256 * 1024 * 1024
_MAX_ERROR_BYTES: Final = 64 * 1024
_CONNECT_SECONDS: Final = 10.0
_JSON: Final = "application/json"
_EVENTS: Final = "text/event-stream"
_DONE: Final = b"[DONE]"
_SILENT: Final = "nothing of the answer came for too long"


class OpenAiExecutor:
    """Lets the models of one server answer."""

    def __init__(
        self,
        base_url: str = OPENAI_URL,
        *,
        api_key: Callable[[], str] | None = None,
        name: str = "openai",
        answer_seconds: float = 600.0,
        idle_seconds: float = 300.0,
    ) -> None:
        """The executor of a server; nothing is opened until it is asked.

        Args:
            base_url: The address before `/chat/completions`: `https`, or `http` on this machine.
            api_key: Gives the key when a request is made; None if the server wants none.
            name: What failures call the provider.
            answer_seconds: How long a whole answer may take.
            idle_seconds: How long a stream may be silent.

        Raises:
            ValueError: The address is not one that a key may be sent to.
        """
        parts = address(base_url)
        if parts is None:
            raise ValueError(
                "the address must be `https`, or `http` on this machine, without user and password"
            )
        self._url = f"{base_url.rstrip('/')}/chat/completions"
        self._has_tls = parts.scheme == "https"
        # Other servers may refuse what they do not know.
        self._is_openai = base_url.rstrip("/") == OPENAI_URL
        self._api_key = api_key
        self._name = name
        self._answer_seconds = answer_seconds
        self._idle_seconds = idle_seconds
        self._client: httpx2.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """The whole answer to a request.

        Raises:
            InferenceFailure: There is none.
        """
        body = self._body(request, is_stream=False)
        # The client bounds each step, and a server that sends a byte now and then would
        # pass them all.
        patience = asyncio.timeout(self._answer_seconds)
        try:
            async with patience, self._answering(body, _JSON) as (response, key):
                content = await _read_body(response)
        except TimeoutError:
            # A timeout other than this one was raised within, and means something else.
            if not patience.expired():
                raise
            raise self._failure(
                "timeout", f"no answer within {self._answer_seconds:g} s"
            ) from None
        self._refuse_error(content, key)
        completion = read_completion(content)
        if completion is None:
            raise self._failure("provider", "the answer is not a chat completion")
        return answer_of(self._name, completion)

    async def stream(self, request: ChatRequest) -> AsyncGenerator[Piece]:
        """The answer in pieces.

        Raises:
            InferenceFailure: There is none, or it broke off.
        """
        body = self._body(request, is_stream=True)
        gathered = GatheredAnswer(self._name)
        # Closed also where the reader leaves early, so that the connection is free at
        # once.
        async with (
            self._answering(body, _EVENTS) as (response, key),
            aclosing(_read_events(response, self._idle_seconds)) as events,
        ):
            async for event in events:
                self._refuse_error(event, key)
                completion = read_completion(event)
                if completion is None:
                    raise self._failure(
                        "stream_interrupted",
                        "an event of the stream is not a chat completion",
                    )
                for piece in gathered.add(completion):
                    yield piece
        # Servers may leave out `[DONE]`; that the model stopped is what makes an answer
        # whole.
        if not gathered.is_whole:
            raise self._failure(
                "stream_interrupted", "the stream ended before the answer did"
            )
        yield gathered.answer()

    async def close(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        # Those of a loop that is over are closed already.
        if client is not None and self._loop is asyncio.get_running_loop():
            await client.aclose()

    def _body(self, request: ChatRequest, *, is_stream: bool) -> Document:
        # OpenAI's newest models refuse the older name of the limit, and other servers
        # may not know the newer one.
        limit_name = "max_completion_tokens" if self._is_openai else "max_tokens"
        return request_body(
            request,
            is_stream=is_stream,
            limit_name=limit_name,
            takes_cache_key=self._is_openai,
        )

    @asynccontextmanager
    async def _answering(
        self, body: Document, kind: str
    ) -> AsyncIterator[tuple[httpx2.Response, str]]:
        """The response to a request, with the key that was sent, once its status and its type are right."""
        key = self._usable_key()
        # Not compressed: a few bytes could unpack into more than the bounds allow.
        headers = {"Accept": kind, "Content-Type": _JSON, "Accept-Encoding": "identity"}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        content = self._encode(body)
        with self._in_our_words(key):
            client = self._open_client()
            request = client.build_request(
                "POST", self._url, content=content, headers=headers
            )
            # A server that sends a byte of its headers or of an error now and then
            # passes the limits of the client.
            async with asyncio.timeout(self._answer_seconds):
                response = await client.send(request, stream=True)
            try:
                async with asyncio.timeout(self._answer_seconds):
                    await self._check_response(response, kind, key)
                yield response, key
            finally:
                await response.aclose()

    def _usable_key(self) -> str:
        """The key, empty if the server wants none. One that no header can hold would be quoted by the HTTP client."""
        key = self._api_key().strip() if self._api_key else ""
        if not (key.isascii() and key.isprintable()):
            raise self._failure(
                "unauthorized", "the key has characters that no key has"
            )
        return key

    def _encode(self, body: Document) -> bytes:
        try:
            return msgspec.json.encode(body)
        except (TypeError, ValueError, RecursionError) as error:
            # Without its cause, whose words may quote the request.
            raise self._failure(
                "invalid_request",
                f"the request cannot be written: {type(error).__name__}",
            ) from None

    def _refuse_error(self, content: bytes, key: str) -> None:
        """Stop if a body or an event tells of a failure, though its status says that all is well."""
        # Few bodies have the word, and to look for it costs less than to parse each of
        # them twice.
        if b'"error"' in content and (error := read_error(content)):
            raise failure_of(self._name, error, secrets=(key,))

    def _open_client(self) -> httpx2.AsyncClient:
        """The client of this loop: connections cannot move to another."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            timeout = httpx2.Timeout(self._idle_seconds, connect=_CONNECT_SECONDS)
            # Without TLS there is nothing to verify, and the certificates of the
            # machine take long to read.
            self._client = httpx2.AsyncClient(
                timeout=timeout, mounts=past_any_proxy(), verify=self._has_tls
            )
            self._loop = loop
        return self._client

    async def _check_response(
        self, response: httpx2.Response, kind: str, key: str
    ) -> None:
        """Stop unless the response is an answer.

        Raises:
            InferenceFailure: It is not.
        """
        status = response.status_code
        if response.headers.get("content-encoding", "identity").strip().lower() not in {
            "",
            "identity",
        }:
            raise self._failure(
                "provider", "the answer is compressed, which was not asked for"
            )
        # Before the body is looked at: what a redirect says is of no interest.
        if response.is_redirect:
            raise self._failure(
                "provider", f"HTTP {status}: it wants to redirect, which is refused"
            )
        if status != httpx2.codes.OK:
            content = await _read_error_body(response)
            error = read_error(content, status) or ProviderError(status=status)
            raise failure_of(
                self._name,
                error,
                retry_after_ms=retry_after_of(response.headers),
                secrets=(key,),
            )
        # A portal in between answers in HTML, and some servers cannot stream.
        found = (
            response.headers.get("content-type", "").partition(";")[0].strip().lower()
        )
        if found != kind:
            said = clean_words(found, (key,)) or "no type"
            raise self._failure("provider", f"the answer is {said}, and not {kind}")

    @contextmanager
    def _in_our_words(self, key: str) -> Iterator[None]:
        """Turn what the HTTP client raises into a failure."""
        try:
            yield
        except httpx2.ConnectTimeout:
            # Before `TimeoutException`, of which this is one.
            raise self._failure(
                "timeout", f"no connection within {_CONNECT_SECONDS:g} s"
            ) from None
        except TimeoutError:
            raise self._failure(
                "timeout", f"no answer within {self._answer_seconds:g} s"
            ) from None
        except httpx2.TimeoutException:
            raise self._failure(
                "timeout", f"nothing came for {self._idle_seconds:g} s"
            ) from None
        # Before the general case: a body that broke off may be asked for again.
        except _BrokenOff as error:
            raise self._failure("stream_interrupted", str(error)) from None
        except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL) as error:
            # The words may hold the address, and what was sent.
            said = clean_words(str(error), (key,))
            raise self._failure(
                "provider",
                f"{type(error).__name__}: {said}" if said else type(error).__name__,
            ) from None

    def _failure(self, kind: Any, message: str) -> InferenceFailure:  # noqa: ANN401 - a kind of failure
        return InferenceFailure(kind, f"{self._name}: {message}")


class _BrokenOff(Exception):
    """A body ended, stalled or grew beyond its limits before it was whole."""


async def _read_body(response: httpx2.Response) -> bytes:
    # Counted while it comes: what is too large is never in memory as a whole.
    pieces, size, objects = [], 0, 0
    async for piece in _raw_pieces(response):
        size += len(piece)
        # Objects are counted as bytes come; braces inside of texts only make the count
        # too high.
        objects += piece.count(b"{") + piece.count(b"[")
        if size > MAX_ANSWER_BYTES or objects > MAX_ANSWER_OBJECTS:
            raise _BrokenOff("the answer is too large")
        pieces.append(piece)
    return b"".join(pieces)


async def _read_error_body(response: httpx2.Response) -> bytes:
    """The beginning of a body that says what went wrong; an error is no place for a large document."""
    content = b""
    async for piece in _raw_pieces(response):
        content += piece
        if len(content) > _MAX_ERROR_BYTES:
            # The status says enough.
            return b""
    return content


async def _read_events(
    response: httpx2.Response, idle_seconds: float
) -> AsyncGenerator[bytes, None]:
    """The data of each event up to the last, which says `[DONE]`.

    Lines end in LF or CRLF, and no provider spreads the data of one event over several lines. Other lines keep the
    connection alive; the time that they fill counts as silence.
    """
    pending, size, latest = bytearray(), 0, monotonic()
    async for piece in _raw_pieces(response):
        size += len(piece)
        pending += piece
        # One bound is for the whole stream, the other for an event that never ends.
        if size > _MAX_STREAM_BYTES or len(pending) > MAX_EVENT_BYTES:
            raise _BrokenOff("the answer is too large")
        lines: list[bytes] = []
        # A line that comes byte by byte is cut once, and not after each byte.
        if b"\n" in piece:
            *lines, rest = bytes(pending).split(b"\n")
            pending = bytearray(rest)
        for data in _data_of(lines):
            if data == _DONE:
                return
            yield data
            latest = monotonic()
        if monotonic() - latest > idle_seconds:
            raise _BrokenOff(_SILENT)


def _data_of(lines: Iterable[bytes]) -> Iterator[bytes]:
    for line in lines:
        # In server-sent events, a line that begins with a colon is a comment: its name
        # is empty here.
        name, _, data = line.partition(b":")
        if name.strip() == b"data":
            yield data.strip()


async def _raw_pieces(response: httpx2.Response) -> AsyncIterator[bytes]:
    """The bytes of a body as they come.

    Raises:
        _BrokenOff: The connection ended before the body did, or was silent for too long.
    """
    try:
        async for piece in response.aiter_raw():
            yield piece
    except httpx2.TimeoutException:
        raise _BrokenOff(_SILENT) from None
    except httpx2.TransportError as error:
        raise _BrokenOff(f"the connection broke off ({type(error).__name__})") from None
