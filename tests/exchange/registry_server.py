"""A registry on this machine that misbehaves as its address says."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

OFFICIAL = "io.modelcontextprotocol.registry/official"


def listed(name: str, version: str = "1.0.0", updated: str = "2026-01-01T00:00:00Z") -> dict[str, Any]:
    """A server as a page of the API has it."""
    return {"server": {"name": name, "version": version}, "_meta": {OFFICIAL: {"updatedAt": updated}}}


class RegistryServer(ThreadingHTTPServer):
    """Serves its list of servers in pages of two, and remembers what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.servers: list[dict[str, Any]] = []
        self.asked: list[str] = []
        self.has_newest = True
        self.after_page: Callable[[], None] | None = None
        """Called once, after the first page was sent."""
        self.is_over = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: RegistryServer

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        parts = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        mode = parts.path.strip("/").partition("/")[0].replace("-", "_").replace(".", "_")
        handle = getattr(self, f"on_{mode}", None)
        if handle is None:
            self.reply(b"", status=404)
        else:
            handle(query)

    def on_v0_1(self, query: dict[str, str]) -> None:
        if self.server.has_newest:
            self.on_v0(query)
        else:
            self.reply(b"", status=404)

    def on_v0(self, query: dict[str, str]) -> None:
        since = query.get("updated_since", "")
        found = [each for each in self.server.servers if each["_meta"][OFFICIAL]["updatedAt"] > since]
        if not since and query.get("include_deleted") != "true":
            found = [each for each in found if each["_meta"][OFFICIAL].get("status") != "deleted"]
        if "version" in query:
            found = [each for each in found if each["server"]["version"] == query["version"]]
        start = int(query.get("cursor", "0"))
        metadata = {"nextCursor": str(start + 2)} if start + 2 < len(found) else {}
        self.page({"servers": found[start : start + 2], "metadata": metadata})
        if self.server.after_page and query.get("limit") != "1":
            self.server.after_page()
            self.server.after_page = None

    def on_endless(self, query: dict[str, str]) -> None:
        following = str(int(query.get("cursor", "0")) + 1)
        self.page({"servers": [listed(f"s{following}")], "metadata": {"nextCursor": following}})

    def on_circle(self, _: dict[str, str]) -> None:
        self.page({"servers": [listed("a")], "metadata": {"next_cursor": "same"}})

    def on_html(self, _: dict[str, str]) -> None:
        self.reply(b"<html>Sign in</html>", headers={"Content-Type": "text/html; charset=utf-8"})

    def on_garbage(self, _: dict[str, str]) -> None:
        self.reply(b'{"servers": 1}')

    def on_deep(self, _: dict[str, str]) -> None:
        self.reply(b'{"servers": ' + b"[" * 100_000 + b"]" * 100_000 + b"}")

    def on_nameless(self, _: dict[str, str]) -> None:
        self.page({"servers": [{"server": {"version": "1"}}]})

    def on_broken(self, _: dict[str, str]) -> None:
        self.reply(b"", status=500)

    def on_half(self, query: dict[str, str]) -> None:
        """One page, and then half of the next."""
        if "cursor" not in query:
            self.page({"servers": [listed("a")], "metadata": {"nextCursor": "2"}})
            return
        self.reply(b'{"servers": [', headers={"Content-Length": "5000"})
        self.close_connection = True

    def on_unmeasured(self, _: dict[str, str]) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"servers": []}')
        self.close_connection = True

    def on_packed(self, _: dict[str, str]) -> None:
        self.reply(b"x", headers={"Content-Encoding": "gzip"})

    def on_large(self, _: dict[str, str]) -> None:
        self.reply(b"", headers={"Content-Length": str(10**12)})

    def on_stream(self, _: dict[str, str]) -> None:
        """A body in pieces that does not end."""
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        piece = b"x" * 65_536
        try:
            while not self.server.is_over.is_set():
                self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        except OSError:
            self.close_connection = True

    def on_drip(self, _: dict[str, str]) -> None:
        """A header of which a byte comes now and then, for ever."""
        try:
            self.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
            while not self.server.is_over.wait(0.05):
                self.wfile.write(b"x")
        except OSError:
            self.close_connection = True

    def on_to(self, query: dict[str, str]) -> None:
        self.reply(b"", status=302, headers={"Location": query["url"]})

    def on_around(self, _: dict[str, str]) -> None:
        self.reply(b"", status=302, headers={"Location": "/around/servers"})

    def on_file(self, _: dict[str, str]) -> None:
        self.reply(b"servers:\n  - a\n", headers={"Content-Type": "application/yaml"})

    def on_empty(self, _: dict[str, str]) -> None:
        self.reply(b"")

    def page(self, content: dict[str, Any]) -> None:
        self.reply(json.dumps(content).encode())

    def reply(self, body: bytes, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            **(headers or {}),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def registry_server() -> Iterator[RegistryServer]:
    """The server, while the block runs."""
    server = RegistryServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.is_over.set()
        server.shutdown()
        server.server_close()
        thread.join()
