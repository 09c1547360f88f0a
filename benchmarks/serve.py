"""Compare `agent serve` with a bare server of the same SDK: `serve.py AGENT FOLDER PAIRS REQUESTS SOAK`, JSON out.

Both answer `resources/list` and `resources/read` with the same bytes; a pair times one after the other, and odd pairs
go the other way round. The client is a loop over a pipe or one HTTP connection, and reads nothing but the answer.
"""

import http.client
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, cast

_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
}
_AGENT = "agent://agent-00007"
_BARE = Path(__file__).with_name("bare_server.py")
_PAGE_BYTES = 4096


class Stdio:
    """A server at the other end of a pipe."""

    def __init__(self, line: list[str]) -> None:
        self.started = time.perf_counter()
        self.process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self._number = 0
        self._in, self._out = cast("BinaryIO", self.process.stdin), cast("BinaryIO", self.process.stdout)

    def ask(self, method: str, **params: object) -> Any:  # noqa: ANN401 - a JSON value
        """The result of a request."""
        self._number += 1
        self._in.write(_request(self._number, method, params) + b"\n")
        self._in.flush()
        while True:
            answer = json.loads(self._out.readline())
            if answer.get("id") == self._number:
                return answer["result"]

    def wake(self) -> None:
        """Make ready after a pause."""

    def close(self) -> None:
        """End the server."""
        self.process.terminate()
        self.process.wait()


class Http:
    """A server at an address."""

    def __init__(self, line: list[str], port: int) -> None:
        self.process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._port = port
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
        self._connection = http.client.HTTPConnection("127.0.0.1", port)
        self._number = 0

    def ask(self, method: str, **params: object) -> Any:  # noqa: ANN401 - a JSON value
        """The result of a request."""
        self._number += 1
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": method,
            **({"Mcp-Name": str(params["uri"])} if "uri" in params else {}),
        }
        self._connection.request("POST", "/mcp", _request(self._number, method, params), headers)
        body = self._connection.getresponse().read()
        if body.startswith((b"event:", b"data:", b":", b"id:")):
            body = next(line[5:] for line in body.splitlines() if line.startswith(b"data:") and len(line) > 6)  # noqa: PLR2004
        return json.loads(body)["result"]

    def wake(self) -> None:
        """Make ready after a pause: a server may have ended a connection that was idle for some seconds."""
        self._connection.close()
        self._connection.connect()

    def close(self) -> None:
        """End the server."""
        self._connection.close()
        self.process.terminate()
        self.process.wait()


def _request(number: int, method: str, params: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": {**params, "_meta": _META}}).encode()


Server = Stdio | Http
OPERATIONS: dict[str, Callable[[Server], object]] = {
    "list": lambda server: server.ask("resources/list"),
    "read": lambda server: server.ask("resources/read", uri=_AGENT),
}


def main() -> None:
    """Measure everything."""
    agent, folder, pairs, requests, soak = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
    ours = [agent, "serve", "--root", folder]
    answers = _answers(ours)
    bare = [sys.executable, str(_BARE), answers]
    document: dict[str, Any] = {"first": _first_replies(ours, bare, pairs)}
    for transport in ("stdio", "http"):
        servers = _pair(transport, ours, bare)
        for name, operation in OPERATIONS.items():
            document[f"{transport} {name}"] = _compared(servers, operation, pairs, requests)
        for server in servers.values():
            server.close()
    document["growth"] = _growth(ours, soak)
    print(json.dumps(document))


def _answers(ours: list[str]) -> str:
    """What the bare server answers: what ours did."""
    server = Stdio(ours)
    kept = {name: operation(server) for name, operation in OPERATIONS.items()}
    server.close()
    with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as file:
        json.dump(kept, file)
    return file.name


def _pair(transport: str, ours: list[str], bare: list[str]) -> dict[str, Server]:
    if transport == "stdio":
        return {"ours": Stdio(ours), "bare": Stdio(bare)}
    ports = _free_port(), _free_port()
    return {
        "ours": Http([*ours, "--http", f"127.0.0.1:{ports[0]}"], ports[0]),
        "bare": Http([*bare, str(ports[1])], ports[1]),
    }


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _compared(
    servers: dict[str, Server], operation: Callable[[Server], object], pairs: int, requests: int
) -> dict[str, float]:
    """Requests a second of both, and the median over the pairs of the bare server's time divided by ours."""
    taken: dict[str, list[float]] = {name: [] for name in servers}
    for server in servers.values():
        for _ in range(50):
            operation(server)
    for number in range(pairs):
        for name in list(servers) if number % 2 else list(servers)[::-1]:
            servers[name].wake()
            start = time.perf_counter()
            for _ in range(requests):
                operation(servers[name])
            taken[name].append(time.perf_counter() - start)
    ratios = [bare / ours for ours, bare in zip(taken["ours"], taken["bare"], strict=True)]
    rates = {name: requests / statistics.median(times) for name, times in taken.items()}
    return {**rates, "ratio": statistics.median(ratios)}


def _first_replies(ours: list[str], bare: list[str], pairs: int) -> dict[str, float]:
    """Seconds from the start of the process to its first answer."""
    taken: dict[str, list[float]] = {"ours": [], "bare": []}
    for number in range(pairs + 1):
        for name, line in (("ours", ours), ("bare", bare)) if number % 2 else (("bare", bare), ("ours", ours)):
            server = Stdio(line)
            OPERATIONS["list"](server)
            if number:  # The first pair warms the disk.
                taken[name].append(time.perf_counter() - server.started)
            server.close()
    ratios = [mine / other for mine, other in zip(taken["ours"], taken["bare"], strict=True)]
    return {name: statistics.median(times) for name, times in taken.items()} | {"ratio": statistics.median(ratios)}


def _growth(ours: list[str], requests: int) -> dict[str, float]:
    """Megabytes that the server holds more after so many requests than after a first thousand."""
    server = Stdio(ours)
    memory = []
    for count in (1000, requests):
        for number in range(count):
            uri = f"agent://agent-{number % 10_000:05d}"
            server.ask("resources/read", uri=uri) if number % 2 else server.ask("resources/list")
        memory.append(_resident(server.process.pid))
    server.close()
    return {"megabytes": (memory[1] - memory[0]) / 1e6, "requests": requests}


def _resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES


if __name__ == "__main__":
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    main()
