"""The probes and metrics of `agent worker --http`."""

import argparse
import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Final

from agent_resolver._extra import needing_extra
from agent_resolver.core.loopback import is_loopback

if TYPE_CHECKING:
    from agent_resolver.project.session import Session
    from agent_resolver.project.worker import ProjectWorker

_MOST_CONNECTIONS: Final = 50
_MOST_HEADER_BYTES: Final = 16 * 1024
_CLOSING_SECONDS: Final = 2


@asynccontextmanager
async def serve_probes(
    session: "Session", worker: "ProjectWorker", options: argparse.Namespace
) -> AsyncIterator[str]:
    """Answer probes at the address of `--http` while the worker works; yields the address.

    Raises:
        CannotServe: The address cannot be used, or other machines can reach it and that was not asked for.
        MissingExtra: The package that serves HTTP is not installed.
    """
    with needing_extra("serve"):
        import uvicorn

        from agent_resolver.server.errors import CannotServe
        from agent_resolver.server.listening import open_listener
        from agent_resolver.server.metric import WorkerProcess
        from agent_resolver.server.probe import Probes

    host, port = options.http
    # The probes ask for no token, so other machines reach them only if the operator
    # says so.
    if not (is_loopback(host) or options.allow_remote):
        message = f"`{host}` can be reached from other machines"
        raise CannotServe(
            message, "bind 127.0.0.1, or say that they may with `--allow-remote`"
        )

    class Running(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            """Leave signals to the worker."""
            yield

    with open_listener(host, port) as listening:
        bound, free_port = listening.getsockname()[:2]
        # A web page could have its own name resolve to this machine; requests under
        # other names are refused then.
        names = (
            {"127.0.0.1", "localhost", "[::1]", bound} if is_loopback(host) else None
        )
        app = Probes(WorkerProcess(session, worker, options.capacity), names)
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            http="h11",
            # A client must not hold the worker up: headers are short, connections few,
            # and open ones end soon after the worker.
            h11_max_incomplete_event_size=_MOST_HEADER_BYTES,
            limit_concurrency=_MOST_CONNECTIONS,
            timeout_graceful_shutdown=_CLOSING_SECONDS,
        )
        running = Running(config)
        serving = asyncio.create_task(running.serve([listening]))
        shown = f"[{bound}]" if ":" in bound else bound
        try:
            yield f"http://{shown}:{free_port}"
        finally:
            # The server ends with the worker, and its task is awaited so that no error
            # of it is lost.
            running.should_exit = True
            await serving
