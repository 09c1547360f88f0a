"""A connection to one MCP server: one task owns it, calls reach it through a queue."""

import asyncio
import contextvars
import logging
import math
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, Self
from unicodedata import normalize

import anyio
import mcp_types
from mcp import Client, MCPError
from mcp.client.auth import OAuthFlowError
from mcp.client.subscriptions import SubscriptionLost
from msgspec import Struct
from pydantic import TypeAdapter, ValidationError

from agent_resolver._version import __version__
from agent_resolver.connection.http_client import MAX_ANSWER_BYTES, UnusableAnswer
from agent_resolver.core.count import counted
from agent_resolver.registry.errors import ToolFailure
from agent_resolver.schema.outcome import FailureCode

_MAX_PAGES = 1_000
_MAX_TOOLS = 10_000
_LISTEN_AGAIN_SECONDS = 1.0
_LOOK_AT_LOG = "add `--verbose` to see what the server says"
_LIST_WITH_LOG = "`agent tools list --verbose` shows what the server says"
_START_IT = "start it, and check its `endpoint` or `launch` in the index"
_LOOK_FIRST = "it may have done its work all the same: look before you call it again"
_REFUSED = frozenset({401, 403})
_CLOSED = ("Connection closed", "SSE stream ended")
_UNUSABLE = ("Failed to parse JSON response: ", "SSE stream failed: ")
"""How the SDK begins to say that it could not use an answer."""
_RESULT: TypeAdapter[mcp_types.CallToolResult | mcp_types.InputRequiredResult] = (
    TypeAdapter(mcp_types.CallToolResult | mcp_types.InputRequiredResult)
)

OpenTransport = Callable[[], AbstractAsyncContextManager[Any]]


class _Unanswered(ToolFailure):
    """A call got no answer, so that it is unknown whether the server did what it was asked."""

    def __init__(self, code: FailureCode, message: str) -> None:
        super().__init__(code, message, _LOOK_FIRST)


class _Request(Struct, eq=False):
    """One call on its way to the owner of the connection."""

    tool: str
    arguments: dict[str, Any]
    seconds: float
    traceparent: str | None
    answer: "asyncio.Future[mcp_types.CallToolResult]"
    garbage: int
    """How many lines that are not messages had come before the call."""


class McpConnection:
    """One connection to a server: it is started once, and when it has ended, another one takes its place."""

    def __init__(
        self,
        name: str,
        open_transport: OpenTransport,
        *,
        connect_seconds: float = 20.0,
    ) -> None:
        self.name = name
        self._open_transport = open_transport
        self._connect_seconds = connect_seconds
        self._owner: asyncio.Task[None] | None = None
        self._requests: asyncio.Queue[_Request | None] = asyncio.Queue()
        self._unanswered: set[_Request] = set()
        self._refreshing = asyncio.Lock()
        self._changed = asyncio.Event()
        self._connecting: anyio.CancelScope | None = None
        self._garbage = 0
        self._unusable: UnusableAnswer | None = None
        """The answer that ended the connection."""
        self._is_stale = False
        self._is_closing = False
        self.is_there = False
        """True from the moment in which the server has listed its tools to the one in which the connection ends."""
        self.tools: dict[str, mcp_types.Tool] = {}
        """The tools that the server lists once, by name."""
        self.repeated: frozenset[str] = frozenset()
        """The names that it lists more than once: no call could say which of the tools it means."""
        self.closed: Mapping[str, ToolFailure] = {}
        """The failures of calls to tools that may not be called, as far as the tools were judged."""
        self.on_change: Callable[[], Awaitable[None]] | None = None
        """Called when the tools were listed again, because the server said that they changed."""

    async def start(self) -> None:
        """Connect, and list the tools. A caller that stops waiting must close the connection.

        Raises:
            ToolFailure: The server cannot be reached, or does not speak the protocol.
        """
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # It outlives the call that starts it, and must not carry that call's span into
        # all others.
        context = contextvars.Context()
        self._owner = asyncio.create_task(
            self._own(ready), name=f"owner of {self.name}", context=context
        )
        await ready

    async def lost(self) -> None:
        """Wait until the connection has ended, however it does."""
        # A caller that stops waiting must not stop the owner: it is ending a process.
        if self._owner is not None:
            await asyncio.wait([self._owner])

    async def call(
        self,
        tool: str,
        arguments: dict[str, Any],
        seconds: float,
        traceparent: str | None = None,
    ) -> mcp_types.CallToolResult:
        """Call a tool on the server, and give up after `seconds`; the server is sent the call's place in its trace.

        Raises:
            ToolFailure: The server went away, took too long, or answered what is no answer.
        """
        if not self.is_there:
            message = f"{self.name} closed the connection"
            raise ToolFailure(
                FailureCode.SERVER_UNAVAILABLE, message, "make the call again"
            )
        answer: asyncio.Future[mcp_types.CallToolResult] = (
            asyncio.get_running_loop().create_future()
        )
        await self._requests.put(
            _Request(tool, arguments, seconds, traceparent, answer, self._garbage)
        )
        return await answer

    async def close(self) -> None:
        """End the connection, and the server if we started it; also one that is being started."""
        self._is_closing = True
        # The deadline is finite only while the connection is being made; one in the
        # past ends the attempt at once.
        if self._connecting is not None and self._connecting.deadline < math.inf:
            self._connecting.deadline = -math.inf
        self._note_end()
        await self.lost()

    def _note_end(self) -> None:
        """Let the owner end the connection."""
        self.is_there = False
        # The owner waits in the queue, and takes None as the word to stop.
        self._requests.put_nowait(None)

    async def _own(self, ready: "asyncio.Future[None]") -> None:
        """Hold the connection from its first moment to its last: it must be closed by the task that opened it."""
        why: Exception = anyio.EndOfStream()
        try:
            async with self._connected() as client, anyio.create_task_group() as calls:
                # Whatever ended the connection meanwhile has left its word in the
                # queue.
                self.is_there = self._requests.empty()
                if not ready.done():
                    ready.set_result(None)
                calls.start_soon(self._listen, client)
                calls.start_soon(self._follow, client)
                while (request := await self._requests.get()) is not None:
                    calls.start_soon(self._serve, client, request)
                calls.cancel_scope.cancel()
        except Exception as error:  # noqa: BLE001 - whatever the transport raises, the caller learns it as ours
            why = error
            if not ready.done():
                failure = self._failure(error, self._garbage)
                if isinstance(failure, _Unanswered):  # Nothing was asked of it yet.
                    failure = ToolFailure(
                        failure.code, str(failure), _LOOK_AT_LOG, hint=_LIST_WITH_LOG
                    )
                ready.set_exception(failure)
        finally:
            self.is_there = False
            # Requests that the owner never took from the queue must not wait for ever.
            while not self._requests.empty():
                if request := self._requests.get_nowait():
                    self._unanswered.add(request)
            for request in self._unanswered:
                _fail_request(
                    request, self._failure(why, self._garbage - request.garbage)
                )
            self._unanswered.clear()

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Client]:
        # The SDK logs with tracebacks what we tell in words.
        logging.getLogger("mcp").setLevel(logging.CRITICAL)
        client = Client(
            self._watched_transport(),
            message_handler=self._on_message,
            client_info=mcp_types.Implementation(
                name="agent-resolver", version=__version__
            ),
            cache=None,
        )
        with anyio.fail_after(self._connect_seconds) as self._connecting:
            if self._is_closing:
                raise self._closed()
            async with client:
                await self._list(client)
                # The deadline was for connecting; from here on the connection may last
                # as long as it likes.
                self._connecting.deadline = math.inf
                yield client

    @asynccontextmanager
    async def _watched_transport(self) -> AsyncIterator[Any]:
        async with self._open_transport() as (read, write):
            yield _WatchedStream(read, self._note_end), write

    async def _serve(self, client: Client, request: _Request) -> None:
        """Answer one call. When the connection ends first, its owner does, who knows why it ended."""
        self._unanswered.add(request)
        try:
            with anyio.fail_after(request.seconds):
                result = await self._call(client, request)
        except Exception as error:  # noqa: BLE001 - as above
            _fail_request(
                request, self._failure(error, self._garbage - request.garbage)
            )
            # The owner learns nothing of a connection that ended under a call, so it
            # gets word from here.
            if _is_closed(error):
                self._note_end()
        else:
            if not request.answer.done():
                request.answer.set_result(result)
        self._unanswered.discard(request)

    async def _call(
        self, client: Client, request: _Request
    ) -> mcp_types.CallToolResult:
        await self._refresh(client)
        if request.tool not in self.tools:
            message = f"{self.name} no longer has `{request.tool}`"
            raise ToolFailure(FailureCode.UNKNOWN_TOOL, message, "list the tools again")
        if failure := self.closed.get(request.tool):
            raise failure
        # `Client.call_tool` would check the result against the server's own schema with
        # patterns that can take for ever, in the loop that every other call runs in;
        # the registry checks it with ones that cannot.
        meta: Any = (
            {"traceparent": request.traceparent} if request.traceparent else None
        )
        parameters = mcp_types.CallToolRequestParams(
            name=request.tool, arguments=request.arguments, _meta=meta
        )
        result = await client.session.send_request(
            mcp_types.CallToolRequest(params=parameters), _RESULT
        )
        if isinstance(result, mcp_types.InputRequiredResult):
            message = f"{self.name} asks for more input in the middle of `{request.tool}`, which cannot be given here"
            raise ToolFailure(FailureCode.PROTOCOL_ERROR, message)
        return result

    async def _refresh(self, client: Client) -> None:
        async with self._refreshing:
            if not self._is_stale:
                return
            self._is_stale = False
            try:
                await self._list(client)
                if self.on_change:
                    await self.on_change()
            except BaseException:
                # The list counts as old until it was read and judged to its end.
                self._is_stale = True
                raise

    async def _list(self, client: Client) -> None:
        listed: list[mcp_types.Tool] = []
        size = 0
        cursor = None
        # A server could return another cursor for ever.
        for _ in range(_MAX_PAGES):
            page = await client.list_tools(cursor=cursor)
            listed += page.tools
            # The transport bounds each page, and this the sum of all pages.
            size += len(page.model_dump_json())
            if len(listed) > _MAX_TOOLS:
                raise self._too_long_list(f"{_MAX_TOOLS:,} tools")
            if size > MAX_ANSWER_BYTES:
                raise self._too_long_list(f"{MAX_ANSWER_BYTES:,} bytes")
            cursor = page.next_cursor
            if cursor is None:
                # Names that only Unicode tells apart look the same to the person who
                # reviews them.
                spellings = Counter(normalize("NFKC", tool.name) for tool in listed)
                names = (tool.name for tool in listed)
                self.repeated = frozenset(
                    name for name in names if spellings[normalize("NFKC", name)] > 1
                )
                self.tools = {
                    tool.name: tool for tool in listed if tool.name not in self.repeated
                }
                return
        raise self._too_long_list(f"{_MAX_PAGES:,} pages")

    def _too_long_list(self, limit: str) -> ToolFailure:
        message = f"{self.name} lists too much: more than {limit}"
        return ToolFailure(
            FailureCode.PROTOCOL_ERROR, message, "tell the operator of the server"
        )

    async def _follow(self, client: Client) -> None:
        """List the tools again when they changed; if that fails, the next call tries again, and says why."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            with suppress(Exception), anyio.fail_after(self._connect_seconds):
                await self._refresh(client)

    async def _listen(self, client: Client) -> None:
        """Hear of changes of the tool list where the protocol has a stream for it; older servers send notifications."""
        with suppress(Exception):
            while True:
                with suppress(SubscriptionLost):
                    async with client.listen(tools_list_changed=True) as changes:
                        async for _ in changes:
                            self._note_change()
                    return
                # Nothing is sent twice: what changed meanwhile can only be seen by
                # looking.
                await anyio.sleep(_LISTEN_AGAIN_SECONDS)
                self._note_change()

    async def _on_message(self, message: object) -> None:
        if isinstance(message, UnusableAnswer):
            self._unusable = message
        elif isinstance(message, Exception):
            self._garbage += 1
        elif isinstance(message, mcp_types.ToolListChangedNotification):
            self._note_change()

    def _note_change(self) -> None:
        self._is_stale = True
        self._changed.set()

    def _failure(self, error: BaseException, garbage: int) -> ToolFailure:
        """The failure of a call for an error of the transport or the protocol."""
        cause = _first_cause(error)
        if isinstance(cause, ToolFailure):
            return cause
        # The SDK only reports that the connection closed; the answer that closed it
        # says why.
        if self._unusable is not None and _is_closed(cause):
            cause = self._unusable
        return self._bad_answer(cause) or self._no_answer(cause, garbage)

    def _bad_answer(self, cause: BaseException) -> ToolFailure | None:
        # `HttpClient` turns the HTTP status of a refusal into an error of the protocol
        # with this code.
        if isinstance(cause, OAuthFlowError) or (
            isinstance(cause, MCPError) and cause.code in _REFUSED
        ):
            message = f"{self.name} refused our credentials ({str(cause).partition(chr(10))[0]})"
            return ToolFailure(
                FailureCode.UNAUTHORIZED,
                message,
                f'check `[servers."{self.name}"]` in agent.toml',
            )
        if isinstance(cause, UnusableAnswer):
            return _Unanswered(
                FailureCode.PROTOCOL_ERROR,
                f"{self.name} gave an answer that cannot be used: {cause}",
            )
        if isinstance(cause, MCPError) and cause.message.startswith(_UNUSABLE):
            why = cause.message.partition(": ")[2].partition("\n")[0]
            return _Unanswered(
                FailureCode.PROTOCOL_ERROR,
                f"{self.name} gave an answer that cannot be used: {why}",
            )
        if isinstance(cause, MCPError) and not _is_closed(cause):
            return ToolFailure(
                FailureCode.PROTOCOL_ERROR, f"{self.name} answered: {cause.message}"
            )
        if isinstance(cause, ValidationError):
            first = cause.errors()[0]
            where = ".".join(map(str, first["loc"]))
            message = f"{self.name} answered what the protocol does not allow: {where}: {first['msg']}"
            return _Unanswered(FailureCode.PROTOCOL_ERROR, message)
        return None

    def _no_answer(self, cause: BaseException, garbage: int) -> ToolFailure:
        # Lines outside the protocol that came after the call are the likeliest cause of
        # its failure.
        if garbage:
            message = (
                f"{self.name} wrote {counted(garbage, 'line')} outside the protocol"
            )
            return ToolFailure(
                FailureCode.PROTOCOL_ERROR,
                message,
                "a server must log to stderr, not to stdout",
            )
        if isinstance(cause, TimeoutError):
            return _Unanswered(
                FailureCode.TIMEOUT, f"{self.name} did not answer in time"
            )
        if _is_closed(cause):
            return self._closed()
        if isinstance(cause, FileNotFoundError | PermissionError) and cause.filename:
            message = (
                f"{self.name} cannot be started: `{cause.filename}`: {cause.strerror}"
            )
            return ToolFailure(
                FailureCode.SERVER_UNAVAILABLE,
                message,
                "is the command installed, and in `PATH`?",
            )
        why = (
            cause.strerror
            if isinstance(cause, OSError) and cause.strerror
            else str(cause) or type(cause).__name__
        )
        message = f"{self.name} cannot be reached: {why}"
        return ToolFailure(
            FailureCode.SERVER_UNAVAILABLE,
            message,
            "run `agent doctor`",
            hint=_START_IT,
        )

    def _closed(self) -> ToolFailure:
        return _Unanswered(
            FailureCode.SERVER_UNAVAILABLE, f"{self.name} closed the connection"
        )


class _WatchedStream:
    """The messages of a server, and a sign at their end: the SDK reports the end only to calls on their way."""

    def __init__(self, stream: Any, on_end: Callable[[], None]) -> None:  # noqa: ANN401 - the SDK's, not exported
        self._stream = stream
        self._on_end = on_end

    @property
    def last_context(self) -> contextvars.Context | None:
        """The context that the last message was sent in, where the transport knows it."""
        context: contextvars.Context | None = getattr(
            self._stream, "last_context", None
        )
        return context

    async def receive(self) -> Any:  # noqa: ANN401 - as above
        return await self._stream.receive()

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:  # noqa: ANN401 - as above
        return await self._stream.__anext__()

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        # The SDK reads until the server has said all, and then leaves.
        self._on_end()
        await self._stream.__aexit__(*error)


def _fail_request(request: _Request, failure: ToolFailure) -> None:
    if not request.answer.done():
        request.answer.set_exception(failure)


def _first_cause(error: BaseException) -> BaseException:
    """The first error of a group: the ones after it are its consequences."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _is_closed(error: BaseException) -> bool:
    cause = _first_cause(error)
    if isinstance(cause, MCPError):
        # Servers use the SDK's code for errors of their own.
        return cause.code == mcp_types.CONNECTION_CLOSED and cause.message.startswith(
            _CLOSED
        )
    return isinstance(
        cause, anyio.ClosedResourceError | anyio.BrokenResourceError | anyio.EndOfStream
    )
