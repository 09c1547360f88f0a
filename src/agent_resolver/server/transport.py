"""How the server is reached: over stdio, or at an address."""

import logging
import signal
import socket
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import anyio
from anyio.abc import TaskStatus
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings

from agent_resolver.core.loopback import is_loopback
from agent_resolver.server.http_error import plain_errors
from agent_resolver.server.mcp_server import AgentServer
from agent_resolver.server.notification import Notices
from agent_resolver.server.stdio import PATIENCE_SECONDS, Input, Output

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from agent_resolver.server.auth import Authentication

_LOOPBACK_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")

Beside = Callable[[], Coroutine[Any, Any, None]]
"""What runs as long as the server does."""


async def serve_stdio(
    server: AgentServer, beside: Beside, wire: tuple[Input, Output], on_interrupt: Callable[[], None]
) -> None:
    """Serve the one client at the other end of stdin and stdout, until it closes them or somebody interrupts.

    Raises:
        OSError: What it is sent cannot be written.
    """
    try:
        async with anyio.create_task_group() as group, stdio_server(*wire) as (read, write):

            def end() -> None:
                on_interrupt()
                group.cancel_scope.cancel()

            await group.start(_when_interrupted, end)
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
    return _first_error(error.exceptions[0]) if isinstance(error, ExceptionGroup) else error


def listener(host: str, port: int) -> socket.socket:
    """A socket that listens there.

    Raises:
        OSError: It cannot, as where another server does.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named, since asyncio sends small answers at once only where it sees that it is TCP.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen()
    except OSError:
        listening.close()
        raise
    return listening


async def serve_http(  # noqa: PLR0913 - each is one part of the server
    server: AgentServer,
    listening: socket.socket,
    names: Sequence[str],
    notices: Notices,
    beside: Beside,
    *,
    on_interrupt: Callable[[], None] = lambda: None,
    authentication: "Authentication | None" = None,
) -> None:
    """Serve Streamable HTTP at `/mcp` until interrupted; `names` are the hosts that clients may call it by.

    `on_interrupt` is called once it is, before requests end. With `authentication`, every request needs a valid token,
    and `caller_of_request` says whose it is.
    """
    import uvicorn

    class Running(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            """Leave signals to us: it would raise them again, before tools are closed."""
            yield

    hosts = [pattern for name in (*_loopback_names(listening), *names) for pattern in (name, f"{name}:*")]
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=hosts,
        allowed_origins=[f"{scheme}://{name}" for name in hosts for scheme in ("http", "https")],
    )
    app = _make_application(server, security, authentication)
    config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=PATIENCE_SECONDS)
    running = Running(config)

    def end() -> None:
        on_interrupt()
        running.should_exit = True
        notices.close()
        # It calls it an error when a stream of an older client has to be cut, which cannot be told to close.
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)

    async with anyio.create_task_group() as group:
        # First of all: cancelled while it starts, uvicorn would print where it was.
        await group.start(_when_interrupted, end)
        group.start_soon(beside)
        await running.serve([listening])
        group.cancel_scope.cancel()


def _loopback_names(listening: socket.socket) -> list[str]:
    """The names by which a client on this machine may call the server, as a `Host` header spells them.

    A web page that had its own name resolved to this machine sends that name, which is not among them. The other
    addresses of 127.0.0.0/8 are names only where the operator bound one of them.
    """
    bound = listening.getsockname()[0]
    is_other = is_loopback(bound) and bound not in {"127.0.0.1", "::1"}
    return [*_LOOPBACK_NAMES, *([bound] if is_other else [])]


def _make_application(
    server: AgentServer, security: TransportSecuritySettings, authentication: "Authentication | None"
) -> "ASGIApp":
    if authentication is None:
        return plain_errors(server.streamable_http_app(transport_security=security))
    from agent_resolver.server.auth import authenticated, metadata_routes

    routes = metadata_routes(authentication)
    app = server.streamable_http_app(transport_security=security, custom_starlette_routes=routes)
    return authenticated(plain_errors(app), authentication, security)


async def _when_interrupted(end: Callable[[], None], *, task_status: TaskStatus[None]) -> None:
    # Windows has no such signals.
    with suppress(NotImplementedError), anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        task_status.started()
        async for _ in signals:
            end()
    task_status.started()
