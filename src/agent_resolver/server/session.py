"""Sessions of clients with a handshake, at whichever server of the project a request arrives.

Since 2026-07-28 a request says everything itself. Before that, a client opens a session, and names it with every later
request. The name is a sealed token: any server that has the key of the project opens it, and it opens only for the
caller that it was given to. So nothing has to be kept of a session, except its end and the agents that it subscribes
to, which are in the state. A stream for notifications belongs to the server that has it.
"""

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio
import msgspec
from anyio.abc import TaskStatus
from mcp.server.connection import Connection
from mcp.server.runner import ServerRunner, aclose_shielded
from mcp.server.streamable_http import (
    MCP_SESSION_ID_HEADER,
    StreamableHTTPServerTransport,
)
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import (
    TransportSecurityMiddleware,
    TransportSecuritySettings,
)
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import SessionMessage
from mcp.shared.transport_context import TransportContext
from mcp_types import DEFAULT_NEGOTIATED_VERSION, INVALID_REQUEST, JSONRPCNotification
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from agent_resolver.registry.port import Seal
from agent_resolver.schema.caller import Caller
from agent_resolver.server.notification import Notices
from agent_resolver.server.served_note import (
    milliseconds_now,
    put_note,
    read_note,
    short_digest,
)
from agent_resolver.server.tool import CALLER_KEY
from agent_resolver.storage.errors import FileError
from agent_resolver.storage.port import Snapshot, Store, Transaction
from agent_resolver.storage.seal import sealed_as_text, sealed_from_text

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from agent_resolver.server.mcp_server import AgentServer

TOPIC: Final = "mcp-session"
_VALID_MS: Final = 24 * 3600 * 1000
_MOST_SUBSCRIPTIONS: Final = 1000
_MAX_TOKEN: Final = 1000
_WAKE_SECONDS: Final = 60.0
_AWAY_SECONDS: Final = 2.0
"""Seconds after which a state is asked again that could not be read."""
Found = TypeVar("Found")
_log = logging.getLogger(__name__)


class _Agreed(Struct, frozen=True):
    """The content of a session's name."""

    until: int
    version: str
    """The revision that both sides agreed on; some clients do not repeat it."""


class SessionNotes:
    """The notes on sessions in the state."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def is_ended(self, session: str) -> bool:
        """True if the client has ended the session."""
        key = f"ended/{short_digest(session)}"
        return (
            await self._store.read(lambda snapshot: read_note(snapshot, key))
            is not None
        )

    async def end(self, session: str, until: int) -> None:
        """Note the end of a session, and let the servers that have a stream of it close the stream."""
        digest = short_digest(session)

        def write(transaction: Transaction) -> None:
            put_note(transaction, f"ended/{digest}", until)
            transaction.wake(TOPIC, f"ended/{digest}")

        await self._store.write(write)

    async def wanted(self, sessions: list[str]) -> dict[str, set[str]]:
        """The agents that each of these sessions subscribes to, once the state can be read."""

        def read(snapshot: Snapshot) -> dict[str, set[str]]:
            return {
                each: _names_of(read_note(snapshot, f"wanted/{short_digest(each)}"))
                for each in sessions
            }

        return await _once_there_is_state(partial(self._store.read, read))

    async def change(
        self,
        session: str,
        name: str,
        *,
        is_wanted: bool,
    ) -> bool:
        """Subscribe to an agent, or no longer; False if the session has too many subscriptions."""
        key = f"wanted/{short_digest(session)}"
        until = milliseconds_now() + _VALID_MS

        def write(transaction: Transaction) -> bool:
            names = _names_of(read_note(transaction, key))
            changed = names | {name} if is_wanted else names - {name}
            # A client that repeats its subscription costs no write.
            if changed != names and len(changed) <= _MOST_SUBSCRIPTIONS:
                put_note(
                    transaction,
                    key,
                    until,
                    msgspec.json.encode(sorted(changed)).decode(),
                )
            return len(changed) <= _MOST_SUBSCRIPTIONS

        return await self._store.write(write)

    async def cancel_elsewhere(self, session: str, request: object) -> None:
        """Let the server that has this request of a session cancel it."""
        asked = msgspec.json.encode(["cancel", short_digest(session), request]).decode()
        await self._store.write(lambda transaction: transaction.wake(TOPIC, asked))

    async def woken(self) -> frozenset[str]:
        """The wake-ups that other servers sent."""
        return await self._store.woken(TOPIC, _WAKE_SECONDS)


async def _once_there_is_state(look: Callable[[], Awaitable[Found]]) -> Found:
    """What a look at the state finds, as soon as the state can be used: it may be away, and must not end the server."""
    said = ""
    while True:
        try:
            return await look()
        except (FileError, OSError) as error:
            if str(error) != said:
                said = str(error)
                _log.warning("%s", said)
            await anyio.sleep(_AWAY_SECONDS)


def _names_of(body: str | None) -> set[str]:
    if body:
        return set(msgspec.json.decode(body, type=list[str]))
    return set()


class SharedSessions(StreamableHTTPSessionManager):
    """Serves the requests of sessions, each by itself.

    The SDK keeps sessions in the memory of one process; here it serves single requests, and what makes them a session
    is in their name.
    """

    def __init__(
        self,
        app: "AgentServer",
        notices: Notices,
        seal: Seal,
        store: Store,
        security: TransportSecuritySettings,
    ) -> None:
        super().__init__(app, security_settings=security)
        self._security = TransportSecurityMiddleware(security)
        self._notices = notices
        self._seal = seal
        self._notes = notices.sessions = SessionNotes(store)
        self._in_flight: dict[tuple[str, str], StreamableHTTPServerTransport] = {}
        """The requests that are being served here, by the digest of their session and their own id as JSON."""
        self._is_closing = False
        self._streams: dict[str, StreamableHTTPServerTransport] = {}
        """The streams for notifications that are open here, by the digest of their session."""

    async def follow(self) -> None:
        """Do what other servers ask for, until cancelled."""
        while True:
            for asked in sorted(await _once_there_is_state(self._notes.woken)):
                if asked.startswith("ended/"):
                    await self._close_stream(asked.removeprefix("ended/"))
                else:
                    _, session, request = msgspec.json.decode(asked)
                    await self._cancel(session, request)

    async def close_streams(self) -> None:
        """End all streams, and serve none any more: their clients open them again, at another server."""
        # Set first: a stream that opens while others close would outlive them.
        self._is_closing = True
        for session in list(self._streams):
            await self._close_stream(session)

    async def _close_stream(self, session: str) -> None:
        if (stream := self._streams.pop(session, None)) is not None:
            await stream.terminate()

    async def _cancel(self, session: str, request: object) -> bool:
        """Cancel a request that is being served here; False if it is not."""
        transport = self._in_flight.get((session, _key_of(request)))
        writer = transport._read_stream_writer if transport is not None else None  # noqa: SLF001 - its only way in
        if writer is None:
            return False
        params = {"requestId": request}
        message = JSONRPCNotification(
            jsonrpc="2.0", method="notifications/cancelled", params=params
        )
        await writer.send(SessionMessage(message))
        return True

    # One request ----------------------------------------------------------------------

    async def _handle_stateful_request(
        self,
        scope: "Scope",
        receive: "Receive",
        send: "Send",
    ) -> None:
        request = Request(scope, receive)
        refused = await self._security.validate_request(
            request, is_post=request.method == "POST"
        )
        if refused is not None:
            await refused(scope, receive, send)
            return
        session = request.headers.get(MCP_SESSION_ID_HEADER)
        body = await request.body() if request.method == "POST" else b""
        asked = _decoded(body)
        again = _replay(body, receive)
        if session is None and request.method != "POST":
            await _refusal("Bad Request: Missing session ID", 400)(scope, receive, send)
            return
        if session is None:
            agreed = _Agreed(milliseconds_now() + _VALID_MS, _negotiated(asked))
            session = self._name_of(agreed, scope)
        elif (known := await self._open(session, scope)) is not None:
            agreed = known
        else:
            # Also for a session of another caller: nobody learns that there is one.
            await _refusal("Session not found", 404)(scope, receive, send)
            return
        version = request.headers.get(MCP_PROTOCOL_VERSION_HEADER, agreed.version)
        if request.method == "DELETE":
            await self._end(session, agreed, scope, receive, send)
        elif request.method == "GET":
            await self._serve_stream(session, version, scope, receive, send)
        else:
            if asked.get("method") == "notifications/cancelled":
                await self._pass_on(session, asked)
            await self._serve_post(session, version, asked, scope, again, send)

    def _name_of(self, agreed: _Agreed, scope: "Scope") -> str:
        sealed = self._seal.close(msgspec.json.encode(agreed), _purpose(scope))
        return sealed_as_text(sealed)

    async def _open(self, session: str, scope: "Scope") -> _Agreed | None:
        """The content of a session's name; None for one that was forged, given to another caller, or is over."""
        if len(session) > _MAX_TOKEN:
            return None
        try:
            content = self._seal.open(sealed_from_text(session), _purpose(scope))
            agreed = msgspec.json.decode(content, type=_Agreed)
        except (ValueError, msgspec.MsgspecError):
            return None
        is_over = agreed.until <= milliseconds_now() or await self._notes.is_ended(
            session
        )
        return None if is_over else agreed

    async def _end(
        self,
        session: str,
        agreed: _Agreed,
        scope: "Scope",
        receive: "Receive",
        send: "Send",
    ) -> None:
        await self._notes.end(session, agreed.until)
        await self._close_stream(short_digest(session))
        await Response(status_code=200)(scope, receive, send)

    async def _pass_on(self, session: str, asked: dict[str, Any]) -> None:
        params = asked.get("params")
        request = params.get("requestId") if isinstance(params, dict) else None
        is_id = isinstance(request, str | int) and len(str(request)) <= _MAX_TOKEN
        if is_id and not await self._cancel(short_digest(session), request):
            await self._notes.cancel_elsewhere(session, request)

    async def _serve_post(  # noqa: PLR0913, PLR0917 - a request, and what is known of it
        self,
        session: str,
        version: str,
        asked: dict[str, Any],
        scope: "Scope",
        receive: "Receive",
        send: "Send",
    ) -> None:
        """Serve one message. A client that goes does not cancel its request: it may come back in no other way."""
        transport = self._transport(session)
        opening = asked.get("method") == "initialize"
        answered = anyio.Event()

        def connection(dispatcher: JSONRPCDispatcher[TransportContext]) -> Connection:
            if opening:
                return Connection.for_loop(dispatcher, session_id=session)
            made = Connection.from_envelope(version, None, None)
            made.session_id = session
            return made

        key = (short_digest(session), _key_of(asked.get("id")))
        is_request = "id" in asked and "method" in asked
        if is_request:
            self._in_flight[key] = transport
        group: Any = self._task_group  # The SDK checks before that it is there.
        try:
            await group.start(partial(self._run, transport, connection, answered))
            await transport.handle_request(scope, receive, send)
        except BaseException:
            answered.set()
            raise
        finally:
            if not is_request or transport.is_terminated:
                answered.set()
            group.start_soon(self._finish, key, transport, answered)

    async def _finish(
        self,
        key: tuple[str, str],
        transport: StreamableHTTPServerTransport,
        answered: anyio.Event,
    ) -> None:
        await answered.wait()
        if self._in_flight.get(key) is transport:
            del self._in_flight[key]
        with anyio.CancelScope(shield=True):
            await transport.terminate()

    async def _serve_stream(
        self,
        session: str,
        version: str,
        scope: "Scope",
        receive: "Receive",
        send: "Send",
    ) -> None:
        """Serve the stream on which a session hears of changes."""
        digest = short_digest(session)
        if self._is_closing:
            await Response(media_type="text/event-stream")(scope, receive, send)
            return
        if digest in self._streams:
            await _refusal("Conflict: There is a stream of this session already", 409)(
                scope, receive, send
            )
            return
        transport = self._streams[digest] = self._transport(session)
        caller = scope.get(CALLER_KEY)

        def connection(dispatcher: JSONRPCDispatcher[TransportContext]) -> Connection:
            made = Connection.for_loop(
                dispatcher, session_id=session, protocol_version_hint=version
            )
            made.initialized.set()
            self._notices.remember_stream(
                made, session, caller if isinstance(caller, Caller) else None
            )
            return made

        group: Any = self._task_group  # The SDK checks before that it is there.
        try:
            await group.start(partial(self._run, transport, connection, anyio.Event()))
            await transport.handle_request(scope, receive, send)
        finally:
            if self._streams.get(digest) is transport:
                del self._streams[digest]
            with anyio.CancelScope(shield=True):
                await transport.terminate()

    def _transport(self, session: str) -> StreamableHTTPServerTransport:
        return StreamableHTTPServerTransport(
            mcp_session_id=session, security_settings=self.security_settings
        )

    async def _run(
        self,
        transport: StreamableHTTPServerTransport,
        connection_of: Callable[[JSONRPCDispatcher[TransportContext]], Connection],
        answered: anyio.Event,
        *,
        task_status: TaskStatus[None],
    ) -> None:
        async with transport.connect() as (read, write):
            dispatcher: JSONRPCDispatcher[TransportContext] = JSONRPCDispatcher(
                read,
                write,
                inline_methods=frozenset({"initialize"}),
                # The answer of a client would reach any server, and not the one that
                # asks.
                transport_builder=lambda _: TransportContext(
                    kind="streamable-http", can_send_request=False
                ),
            )
            connection = connection_of(dispatcher)
            runner = ServerRunner(self.app, connection, self._lifespan_state)

            async def on_request(*request: Any) -> dict[str, Any]:  # noqa: ANN401 - as the SDK has it
                try:
                    return await runner.on_request(*request)
                finally:
                    answered.set()

            task_status.started()
            try:
                await dispatcher.run(on_request, runner.on_notify)
            finally:
                await aclose_shielded(connection)


def _purpose(scope: "Scope") -> str:
    """The purpose that binds a session to its caller: the same name of the same issuer, with the same program."""
    caller = scope.get(CALLER_KEY)
    known = (
        [caller.issuer, caller.id, caller.app_id] if isinstance(caller, Caller) else []
    )
    return f"mcp-session {msgspec.json.encode(known).decode()}"


def _negotiated(asked: dict[str, Any]) -> str:
    """The revision that the SDK agrees on with a client that opens a session so."""
    params = asked.get("params")
    wanted = (
        params.get("protocolVersion")
        if isinstance(params, dict)
        else DEFAULT_NEGOTIATED_VERSION
    )
    if wanted in HANDSHAKE_PROTOCOL_VERSIONS:
        return wanted
    return LATEST_HANDSHAKE_VERSION


def _decoded(body: bytes) -> dict[str, Any]:
    """A message, as far as it is one; the SDK refuses what is not."""
    try:
        found = msgspec.json.decode(body)
    except (msgspec.MsgspecError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _key_of(request: object) -> str:
    if isinstance(request, str | int):
        return msgspec.json.encode(request).decode()
    return ""


def _replay(body: bytes, receive: "Receive") -> "Receive":
    """Receives a body that was read, and then what else comes."""
    is_read = False

    async def again() -> Any:  # noqa: ANN401 - a message of ASGI
        nonlocal is_read
        if is_read:
            return await receive()
        is_read = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _refusal(message: str, status: int) -> Response:
    error = {"code": INVALID_REQUEST, "message": message}
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, status)
