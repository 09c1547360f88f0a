"""An MCP server over HTTP that gives a bad answer to every call; which one is the path of its address."""

import gzip
import json
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MIB = 1024 * 1024
BOMB_MIB = 300
JSON_TYPE, EVENTS_TYPE = "application/json", "text/event-stream"


@cache
def bomb(*, is_gzip: bool) -> bytes:
    """An answer of `BOMB_MIB`, compressed to a thousandth."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31 if is_gzip else 15)
    parts = [packer.compress(b'{"jsonrpc":"2.0","id":1,"result":"')]
    parts += [packer.compress(b"x" * MIB) for _ in range(BOMB_MIB)]
    return b"".join([*parts, packer.compress(b'"}'), packer.flush()])


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """The good answer to all that is no call."""
    info = {"name": "hostile", "version": "1.0.0"}
    tools = [{"name": "call", "inputSchema": {"type": "object"}}]
    match request["method"]:
        case "initialize":
            version = request["params"]["protocolVersion"]
            return {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}}
        case "tools/list":
            return {"result": {"tools": tools}}
        case "tools/call":
            return {"result": {"content": [], "structuredContent": {"good": True}}}
    return {"error": {"code": -32601, "message": "Method not found"}}


class Handler(BaseHTTPRequestHandler):
    """Answers requests one after another, until told to stop."""

    protocol_version = "HTTP/1.1"
    is_over = threading.Event()

    def do_POST(self) -> None:
        length = int(self.headers["content-length"])
        request = json.loads(self.rfile.read(length))
        if "id" not in request:
            self.reply(b"", status=202)
            return
        good = json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer(request)}).encode()
        mode = self.path.strip("/").replace("-", "_")
        if mode.startswith("any_token"):
            self.reply(b"", status=401)
        elif mode.startswith("any_") or (request["method"] == "tools/call" and self.is_bad(request)):
            getattr(self, mode.removeprefix("any_"))(good)
        else:
            self.reply(good)

    def is_bad(self, request: dict[str, Any]) -> bool:
        return not (request["params"].get("arguments") or {}).get("good")

    def do_GET(self) -> None:
        """Metadata about tokens is as bad as the path says; there is no stream of events."""
        mode = self.path.rpartition("/")[2].removeprefix("any-token-")
        if self.path.startswith("/.well-known/oauth-protected-resource/"):
            getattr(self, mode)(b"{}")
        else:
            self.reply(b"", status=405)

    def do_DELETE(self) -> None:
        self.reply(b"", status=405)

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def reply(self, body: bytes, kind: str = JSON_TYPE, status: int = 200, **headers: str) -> None:
        self.begin(kind, status, {"content-length": str(len(body)), **headers})
        self.wfile.write(body)

    def begin(self, kind: str, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"content-type": kind, **(headers or {})}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    # What goes wrong, by its name.

    def gzip(self, _: bytes) -> None:
        self.reply(bomb(is_gzip=True), content_encoding="gzip")

    def deflate(self, _: bytes) -> None:
        self.reply(bomb(is_gzip=False), content_encoding="deflate")

    def twice(self, _: bytes) -> None:
        self.reply(gzip.compress(bomb(is_gzip=True)), content_encoding="gzip, gzip")

    def zstd(self, good: bytes) -> None:
        self.reply(good, content_encoding="zstd")

    def br(self, good: bytes) -> None:
        self.reply(good, content_encoding="br")

    def gzip_events(self, _: bytes) -> None:
        self.reply(bomb(is_gzip=True), EVENTS_TYPE, content_encoding="gzip")

    def gzip_error(self, _: bytes) -> None:
        self.reply(bomb(is_gzip=True), status=500, content_encoding="gzip")

    def charset(self, _: bytes) -> None:
        self.reply(bomb(is_gzip=False), f"{EVENTS_TYPE}; charset=zlib")

    def large(self, _: bytes) -> None:
        self.begin(JSON_TYPE, headers={"connection": "close"})
        self.pour(b"x" * MIB)

    def large_event(self, _: bytes) -> None:
        self.begin(EVENTS_TYPE, headers={"connection": "close"})
        self.wfile.write(b"data: ")
        self.pour(b"x" * MIB)

    def lists(self, _: bytes) -> None:
        self.reply(b'{"jsonrpc": "2.0", "id": 1, "result": [' + b"[]," * 5_000_000 + b"[]]}")

    def lists_event(self, _: bytes) -> None:
        self.reply(b"data: [" + b"[]," * 5_000_000 + b"[]]\n\n", EVENTS_TYPE)

    def large_header(self, good: bytes) -> None:
        self.reply(good, x_large="x" * MIB)

    def pour(self, piece: bytes) -> None:
        for _ in range(BOMB_MIB):
            self.wfile.write(piece)

    def drip(self, _: bytes) -> None:
        self.begin(JSON_TYPE, headers={"content-length": "1000000"})
        self.drip_for_ever(b" ")

    def drip_events(self, _: bytes) -> None:
        self.begin(EVENTS_TYPE, headers={"connection": "close"})
        self.drip_for_ever(b": still there\n")

    def drip_headers(self, _: bytes) -> None:
        self.drip_for_ever(b"HTTP/1.1 100 Continue\r\n\r\n")

    def drip_for_ever(self, piece: bytes) -> None:
        while not self.is_over.is_set():
            self.wfile.write(piece)
            self.wfile.flush()
            time.sleep(0.02)

    def many_events(self, good: bytes) -> None:
        self.begin(EVENTS_TYPE, headers={"connection": "close"})
        note = {"level": "info", "data": "x" * MIB}
        noted = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": note}).encode()
        for _ in range(20):
            self.wfile.write(b"data: " + noted + b"\n")
            self.wfile.flush()
            time.sleep(0.005)
            self.wfile.write(b"\n")
            self.wfile.flush()
            time.sleep(0.005)
        self.wfile.write(b"data: " + good + b"\n\n")

    def events(self, good: bytes) -> None:
        self.reply(b"data: " + good + b"\n\n", EVENTS_TYPE)


class Server(ThreadingHTTPServer):
    """Serves every connection in a thread."""

    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """A client that hung up is what the tests want to see."""
        self.hung_up = True


@contextmanager
def hostile_server() -> Iterator[str]:
    """The address of a server on loopback that ends with the block."""
    Handler.is_over.clear()
    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            Handler.is_over.set()
            server.shutdown()
            thread.join()
