"""The HTTP client for locked servers: no answer of theirs takes more memory or time than it may.

Every response goes through it, those of an issuer of tokens included. Bodies are taken as they come: the client asks
for no compression and refuses a body that is compressed all the same, so the bytes on the wire are the bytes in memory.
A stream of events has no end of its own; there, each event is an answer.
"""

from collections.abc import AsyncIterator
from time import monotonic
from typing import Any

import anyio
import httpx2
import mcp_types
import msgspec
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from agent_resolver.identity.issuer_address import past_any_proxy

MAX_ANSWER_BYTES = 16 * 1024 * 1024
"""The most that a server may say in one answer: a line, a JSON body or an event of a stream."""
MAX_ANSWER_VALUES = 1_000_000
"""The most values that an answer may hold: a list takes three bytes to send, and hundreds to keep."""
_MAX_DOCUMENT_BYTES = 256 * 1024
"""The most that an issuer may say: its metadata, or a token."""
_GOODBYE_SECONDS = 2.0
_STEP_SECONDS = 30.0


class UnusableAnswer(httpx2.SSEError, httpx2.StreamError):
    """An answer that is too large, too slow or compressed.

    The SDK turns these two kinds of errors into the failure of one request, and any other into the end of the
    connection.
    """


class AnswerSize:
    """The size of one answer so far.

    Values are counted by the characters before them, also in texts: an estimate that is never too low.
    """

    def __init__(self, limit: int | None = MAX_ANSWER_BYTES) -> None:
        self._limit = limit
        self._size = 0
        self._values = 0

    def add(self, piece: bytes) -> None:
        """Count another piece of the answer.

        Raises:
            UnusableAnswer: It makes the answer too large.
        """
        self._size += len(piece)
        self._values += piece.count(b",") + piece.count(b"[") + piece.count(b"{")
        if self._limit is not None and self._size > self._limit:
            raise UnusableAnswer(f"it is larger than {self._limit:,} bytes")
        if self._values > MAX_ANSWER_VALUES:
            raise UnusableAnswer(f"it has more than {MAX_ANSWER_VALUES:,} values")


class HttpClient(httpx2.AsyncClient):
    """Bounds what servers answer, and says in words of the protocol what the SDK takes for any other bad status."""

    def __init__(
        self,
        url: str,
        headers: dict[str, str],
        auth: httpx2.Auth | None,
        *,
        answer_seconds: float,
    ) -> None:
        self._endpoint = httpx2.URL(url)
        self._answer_seconds = answer_seconds
        super().__init__(
            headers={**headers, "Accept-Encoding": "identity"},
            auth=auth,
            # A stream of events may be silent for long. Other answers have a deadline
            # of their own.
            timeout=httpx2.Timeout(_STEP_SECONDS, read=None),
            mounts=past_any_proxy(),
            event_hooks={"response": [self._bound_body]},
        )

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:  # noqa: ANN401
        """Send a request; a refusal, or the end of the session, becomes an error of the protocol."""
        if request.method == "DELETE":
            # The SDK ends its session when it closes: a server that hangs must not keep
            # us.
            with anyio.fail_after(_GOODBYE_SECONDS):
                return await super().send(request, **options)
        response = await self._send_in_time(request, **options)
        if response.status_code in {401, 403}:
            return await _error_response_instead(
                response, response.status_code, f"HTTP {response.status_code}"
            )
        if "mcp-session-id" in request.headers and await _is_session_over(response):
            return await _error_response_instead(
                response,
                mcp_types.CONNECTION_CLOSED,
                "Connection closed: the session is over",
            )
        return response

    async def _send_in_time(
        self,
        request: httpx2.Request,
        **options: Any,  # noqa: ANN401
    ) -> httpx2.Response:
        """Send a request, and answer it in place of a server that does not.

        In the older protocol the SDK goes on waiting after the caller gave up, so the deadline is here. An error would
        end the connection, and with it the calls of others.
        """
        # The request for events is a GET, and may be answered when there is an event.
        seconds = None if request.method == "GET" else self._answer_seconds
        try:
            with anyio.fail_after(seconds):
                return await super().send(request, **options)
        except TimeoutError:
            return _error_response(
                request,
                504,
                mcp_types.INTERNAL_ERROR,
                f"no answer within {seconds:g} s",
            )

    async def _bound_body(self, response: httpx2.Response) -> None:
        """Replace the body of a response, of which nothing has been read, by one with limits."""
        # The protocol is in UTF-8. A server could name an encoding that decompresses,
        # such as `bz2`.
        response.encoding = "utf-8"
        encoding = response.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in {"", "identity"}:
            problem = f"it is compressed ({encoding[:20]}), which was not asked for"
            response.stream = _Refused(response.stream, problem)
            return
        # Every other address is that of an issuer of tokens, whose documents are small.
        is_of_server = response.request.url == self._endpoint
        limit = MAX_ANSWER_BYTES if is_of_server else _MAX_DOCUMENT_BYTES
        is_events = (
            response.headers.get("content-type", "")
            .lower()
            .startswith("text/event-stream")
        )
        seconds = (
            None if is_events and _may_last(response.request) else self._answer_seconds
        )
        response.stream = _Bounded(response.stream, limit, seconds, is_events=is_events)


_EVENT_ENDS = (b"\n\n", b"\r\r", b"\r\n\r\n")
_LONGEST_END = 4


def _may_last(request: httpx2.Request) -> bool:
    """True for a stream of events that may stay open, because it is not the answer to a call or ends with the call."""
    return (
        request.method == "GET"
        or request.headers.get("mcp-protocol-version") in MODERN_PROTOCOL_VERSIONS
    )


class _Bounded(httpx2.AsyncByteStream):
    """A body that fails when it is longer or takes longer than it may."""

    def __init__(
        self,
        body: Any,  # noqa: ANN401
        limit: int,
        seconds: float | None,
        *,
        is_events: bool,
    ) -> None:
        self._body = body
        self._limit = limit
        self._is_events = is_events
        self._seconds = seconds
        # The deadline is for the whole body: a limit for each piece would let an answer
        # trickle for ever.
        self._deadline = None if seconds is None else monotonic() + seconds

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pieces = aiter(self._body)
        size = AnswerSize(self._limit)
        before = b""
        while (piece := await self._next_piece(pieces)) is not None:
            if self._is_events and any(end in before + piece for end in _EVENT_ENDS):
                # Pieces are small: what of this one is left to the next event does not
                # matter.
                size = AnswerSize(self._limit)
            # The end of an event may lie across two pieces, so the last bytes are
            # looked at again with the next piece.
            before = (before + piece)[-_LONGEST_END:]
            size.add(piece)
            yield piece

    async def _next_piece(self, pieces: AsyncIterator[bytes]) -> bytes | None:
        seconds = None if self._deadline is None else self._deadline - monotonic()
        try:
            with anyio.fail_after(seconds):
                return await anext(pieces, None)
        except TimeoutError:
            raise UnusableAnswer(f"it did not end within {self._seconds:g} s") from None

    async def aclose(self) -> None:
        await self._body.aclose()


class _Refused(httpx2.AsyncByteStream):
    """A body that is not read."""

    def __init__(self, body: Any, problem: str) -> None:  # noqa: ANN401 - as above
        self._body = body
        self._problem = problem

    def __aiter__(self) -> AsyncIterator[bytes]:
        raise UnusableAnswer(self._problem)

    async def aclose(self) -> None:
        await self._body.aclose()


async def _is_session_over(response: httpx2.Response) -> bool:
    # The specification says 404; servers built like the examples of the TypeScript SDK
    # say 400 and this code.
    if response.status_code != 400:  # noqa: PLR2004 - HTTP says what it means
        return response.status_code == 404  # noqa: PLR2004
    try:
        body = msgspec.json.decode(await response.aread(), type=_ErrorBody)
    except (httpx2.HTTPError, msgspec.MsgspecError):
        return False
    return body.error.code == mcp_types.CONNECTION_CLOSED


async def _error_response_instead(
    response: httpx2.Response, code: int, message: str
) -> httpx2.Response:
    await response.aclose()
    return _error_response(response.request, response.status_code, code, message)


def _error_response(
    request: httpx2.Request,
    status: int,
    code: int,
    message: str,
) -> httpx2.Response:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}
    return httpx2.Response(status, json=error, request=request)


class _Error(msgspec.Struct):
    code: int


class _ErrorBody(msgspec.Struct):
    error: _Error
