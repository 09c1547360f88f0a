"""HTTP servers on loopback that end with a block."""

import secrets
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def loopback_server(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """The address of a server on a free port, whose requests are handled in threads."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        # Looks often whether it shall end, so that no test waits for that.
        serving = threading.Thread(target=server.serve_forever, args=(0.02,))
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            serving.join()


_PORTS = range(10_000, 30_000)
"""Ports that no system hands to connections which leave it: a server that is started again finds its port free."""


def free_port() -> int:
    """A port of loopback that no process has at this moment, chosen at random so that tests do not meet on it."""
    while True:
        port = secrets.choice(_PORTS)
        with socket.socket() as probe, suppress(OSError):
            # As servers do, so that connections of an earlier one do not count.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return port
