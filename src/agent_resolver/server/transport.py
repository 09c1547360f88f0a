"""Serves clients over stdio, or at an address."""

import asyncio
import logging
import secrets
import signal
import socket
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from math import inf
from typing import TYPE_CHECKING, Any, Final

import anyio
from anyio.abc import TaskStatus
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from msgspec import Struct

from agent_resolver.core.loopback import is_loopback
from agent_resolver.registry.port import Seal
from agent_resolver.server.http_error import plain_errors
from agent_resolver.server.mcp_server import AgentServer
from agent_resolver.server.notification import Notices
from agent_resolver.server.probe import Probes
from agent_resolver.server.stdio import PATIENCE_SECONDS, Input, Output
from agent_resolver.storage.memory import MemoryStore
from agent_resolver.storage.port import Store
from agent_resolver.storage.seal import AesSeal

if TYPE_CHECKING:
    import uvicorn
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from agent_resolver.server.auth import Authentication
    from agent_resolver.server.probe import Probed
    from agent_resolver.server.session import SharedSessions

_LOOPBACK_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")

DRAIN_SECONDS: Final = 30.0
"""The longest time that a server takes for the calls that it still has when it is asked to end."""
_LOOK_SECONDS: Final = 0.05

Beside = Callable[[], Coroutine[Any, Any, None]]
"""Work that runs as long as the server does."""


class Keeping(Struct, frozen=True, kw_only=True):
    """The things that a server shares with the others of its project."""

    store: Store | None = None
    """The state; None for a server that is alone."""
    seal: Seal | None = None
    """Seals the names of sessions; None for names that this process alone opens."""
    is_shared: bool = False
    """True if other servers answer at the same address, while this one ends."""
    channel: socket.socket | None = None
    """Leads to the program that started this process, where it is one of several."""


async def serve_stdio(
    server: AgentServer,
    beside: Beside,
    wire: tuple[Input, Output],
    on_interrupt: Callable[[], None],
) -> None:
    """Serve the one client at the other end of stdin and stdout, until it closes them or the operator interrupts.

    Raises:
        OSError: An answer cannot be written.
    """
    try:
        async with (
            anyio.create_task_group() as group,
            stdio_server(*wire) as (read, write),
        ):

            def end() -> None:
                on_interrupt()
                group.cancel_scope.cancel()

            await group.start(_on_signal, lambda _: end())
            group.start_soon(beside)
            await server.run(read, write, server.create_initialization_options())
            group.cancel_scope.cancel()
    except ExceptionGroup as group:
        error = _first_error(group)
        if not isinstance(error, OSError):
            raise
        # A client that no longer reads has gone as well.
        if not isinstance(error, BrokenPipeError | ConnectionResetError):
            raise error from None


def _first_error(error: Exception) -> Exception:
    if isinstance(error, ExceptionGroup):
        return _first_error(error.exceptions[0])
    return error


async def serve_http(  # noqa: PLR0913 - each is one part of the server
    server: AgentServer,
    listening: socket.socket,
    names: Sequence[str],
    notices: Notices,
    beside: Beside,
    *,
    on_interrupt: Callable[[], None] = lambda: None,
    authentication: "Authentication | None" = None,
    probed: "Probed | None" = None,
    keeping: Keeping | None = None,
) -> float:
    """Serve Streamable HTTP at `/mcp` until interrupted; `names` are the hosts that clients may call it by.

    Returns the seconds that calls may still take.

    `on_interrupt` is called once it is, before requests end. With `authentication`, every request needs a valid token,
    and `caller_of_request` says whose it is. Probes of `probed` take none. `keeping` says what this server shares with
    others.
    """
    import uvicorn

    from agent_resolver.server.session import SharedSessions

    class Running(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            """Leave signals to us: it would raise them again, before tools are closed."""
            yield

    known = (*_loopback_names(listening), *names)
    security = _security_of(known)
    keeping = keeping or Keeping()
    sessions = SharedSessions(
        server,
        notices,
        keeping.seal or _own_seal(),
        keeping.store or MemoryStore(),
        security,
    )
    drain = Drain()
    app = drain.closing_connections(
        _make_application(sessions, security, authentication)
    )
    if probed is not None:
        app = Probes(probed, known).beside(app)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=PATIENCE_SECONDS,
    )
    running = Running(config)

    def end() -> None:
        on_interrupt()
        running.should_exit = True
        notices.close()
        # It calls it an error when a stream of an older client has to be cut, which
        # cannot be told to close.
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)

    async def finish() -> None:
        """Take no further connections, and end once those that are there have what they asked for."""
        await drain.begin(running.servers)
        notices.close()
        await sessions.close_streams()
        with anyio.move_on_after(DRAIN_SECONDS):
            await _until_idle(running)
        end()

    ends_at = inf

    async with anyio.create_task_group() as group:

        def stop(number: int) -> None:
            nonlocal ends_at
            ends_at = min(ends_at, anyio.current_time() + DRAIN_SECONDS)
            if keeping.is_shared and number == signal.SIGTERM and not drain.has_begun:
                drain.has_begun = True
                group.start_soon(finish)
            else:
                end()

        # First of all: cancelled while it starts, uvicorn would print where it was.
        await group.start(_on_signal, stop)
        group.start_soon(beside)
        group.start_soon(sessions.follow)
        if keeping.channel is not None:
            group.start_soon(_when_left_alone, keeping.channel, stop)
        await running.serve([listening])
        group.cancel_scope.cancel()
    return max(ends_at - anyio.current_time(), 0.0)


async def _until_idle(running: "uvicorn.Server") -> None:
    """Wait until every connection is closed; uvicorn closes those that are not used after some seconds."""
    state = running.server_state
    while state.connections or state.tasks:  # noqa: ASYNC110 - uvicorn says nothing when they end
        await anyio.sleep(_LOOK_SECONDS)


def _security_of(names: Sequence[str]) -> TransportSecuritySettings:
    """The rules for `Host` and `Origin` of a request: only these names, at any port."""
    hosts = [pattern for name in names for pattern in (name, f"{name}:*")]
    schemes = ("http", "https")
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=hosts,
        allowed_origins=[f"{scheme}://{name}" for name in hosts for scheme in schemes],
    )


def _loopback_names(listening: socket.socket) -> list[str]:
    """The names by which a client on this machine may call the server, as a `Host` header spells them.

    A web page that had its own name resolved to this machine sends that name, which is not among them. The other
    addresses of 127.0.0.0/8 are names only where the operator bound one of them.
    """
    bound = listening.getsockname()[0]
    is_other = is_loopback(bound) and bound not in {"127.0.0.1", "::1"}
    return [*_LOOPBACK_NAMES, *([bound] if is_other else [])]


class Drain:
    """Lets the connections of a server end without cutting one on which a request is on its way.

    A client may send a request at the very moment in which its unused connection is closed, and that request would be
    lost. So connections stay open, and each answer says that its connection is the client's last one here.
    """

    def __init__(self) -> None:
        self.has_begun = False

    async def begin(self, servers: "Sequence[asyncio.Server]") -> None:
        """Take no further connections: they wait in the queue of the socket, for the others that listen on it."""
        self.has_begun = True
        loop = asyncio.get_running_loop()
        for listening in chain.from_iterable(each.sockets for each in servers):
            # Not every loop of Windows has readers.
            with suppress(NotImplementedError):
                loop.remove_reader(listening.fileno())
        # asyncio drops a connection that it has accepted, and not yet set up, when its
        # server closes.
        await asyncio.sleep(_LOOK_SECONDS)
        for each in servers:
            each.close()

    def closing_connections(self, app: "ASGIApp") -> "ASGIApp":
        """The application, whose answers end their connections once this has begun."""

        async def answer(scope: "Scope", receive: "Receive", send: "Send") -> None:
            async def send_closing(message: "Message") -> None:
                if self.has_begun and message["type"] == "http.response.start":
                    others = [
                        pair
                        for pair in message.get("headers", ())
                        if pair[0].lower() != b"connection"
                    ]
                    message = {
                        **message,
                        "headers": [*others, (b"connection", b"close")],
                    }
                await send(message)

            await app(scope, receive, send_closing)

        return answer


def _own_seal() -> Seal:
    """A seal that no other process has, for sessions that end with this one."""
    return AesSeal(secrets.token_bytes(32))


async def _when_left_alone(channel: socket.socket, stop: Callable[[int], None]) -> None:
    """Finish once the program that started this process is gone."""
    channel.settimeout(0)
    with suppress(ConnectionError):
        await asyncio.get_running_loop().sock_recv(channel, 1)
    stop(signal.SIGTERM)


def _make_application(
    sessions: "SharedSessions",
    security: TransportSecuritySettings,
    authentication: "Authentication | None",
) -> "ASGIApp":
    from mcp.server.streamable_http_manager import StreamableHTTPASGIApp
    from starlette.applications import Starlette
    from starlette.routing import Route

    # A place for further routes, such as probes.
    routes = [Route("/mcp", endpoint=StreamableHTTPASGIApp(sessions))]
    if authentication is None:
        return plain_errors(Starlette(routes=routes, lifespan=lambda _: sessions.run()))
    from agent_resolver.server.auth import authenticated, metadata_routes

    app = Starlette(
        routes=[*routes, *metadata_routes(authentication)],
        lifespan=lambda _: sessions.run(),
    )
    return authenticated(plain_errors(app), authentication, security)


async def _on_signal(
    stop: Callable[[int], None], *, task_status: TaskStatus[None]
) -> None:
    # Windows has no such signals.
    with (
        suppress(NotImplementedError),
        anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals,
    ):
        task_status.started()
        async for number in signals:
            stop(number)
    task_status.started()
