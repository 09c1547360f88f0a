"""HTTP servers on loopback that end with a block."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
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


def free_port() -> int:
    """A port of loopback that no process has at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
