"""A server that leaves while others stay: what reaches it in its last moments is answered, and nothing keeps it."""

import asyncio
import http.client
import json
import signal
import socket
import sys
import time
from pathlib import Path

import anyio
import httpx2
import pytest
from mcp import Client, MCPError

from agent_resolver.server.transport import Drain
from tests.cli.blueprint_project import write_packing_shop
from tests.process import comes_true, eventually
from tests.server.conftest import META, MODERN, over_http

HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": MODERN,
    "Mcp-Method": "subscriptions/listen",
}
_SOON_SECONDS = 15.0
"""Half of the time for which the server waits for calls."""


def listen(connection: http.client.HTTPConnection) -> http.client.HTTPResponse:
    params = {"notifications": {"resourcesListChanged": True}, "_meta": META}
    message = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
    connection.request("POST", "/mcp", json.dumps(message), HEADERS)
    response = connection.getresponse()
    assert response.status == 200
    return response


@pytest.mark.slow
def test_a_stream_that_is_opened_at_a_server_which_leaves_ends_at_once(agents: Path, tmp_path: Path) -> None:
    with over_http(tmp_path, "--root", "agents", "--shared") as address:
        connection = http.client.HTTPConnection("127.0.0.1", address.port, timeout=60)
        first = listen(connection)
        address.process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        ended = first.read()
        # The connection stays, and is used again.
        again = listen(connection).read()
        connection.close()
        took = time.monotonic() - began

        assert eventually(lambda: address.process.poll() is not None, 10.0)
    assert took < _SOON_SECONDS
    for body in (ended, again):
        assert b"notifications/subscriptions/acknowledged" in body
        assert b'"result"' in body


class Answering(asyncio.Protocol):
    """Answers a byte with a byte."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._transport.write(data)
        self._transport.close()


@pytest.mark.anyio
@pytest.mark.parametrize("ticks", range(5))
async def test_a_connection_is_served_whenever_the_server_leaves(ticks: int) -> None:
    """By the server that leaves or by the next one, however far the loop is with the connection."""
    loop = asyncio.get_running_loop()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        leaving = await loop.create_server(Answering, sock=listening.dup())
        clients = [socket.create_connection(listening.getsockname(), 10) for _ in range(5)]
        for _ in range(ticks):
            await asyncio.sleep(0)
        await Drain().begin([leaving])
        staying = await loop.create_server(Answering, sock=listening.dup())
        answers = [await anyio.to_thread.run_sync(_exchange, client) for client in clients]
        staying.close()

    assert answers == [b"x"] * len(clients)


def _exchange(client: socket.socket) -> bytes:
    with client:
        try:
            client.sendall(b"x")
            return client.recv(1)
        except ConnectionError:
            return b"lost"


IMPATIENT = """\
from agent_resolver.server import transport
transport.DRAIN_SECONDS = 1
from agent_resolver.cli import entry
entry()
"""
"""The command, which waits for calls no longer than a second."""


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("options", [[], ["--shared"]])
async def test_a_call_that_does_not_end_does_not_keep_a_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    """The call could take a minute, and counts as interrupted instead."""
    monkeypatch.setattr(
        "tests.server.conftest.command", lambda *given: [sys.executable, "-c", IMPATIENT, "serve", *given]
    )
    shop = write_packing_shop(tmp_path)
    with over_http(tmp_path, "--trust", *options) as address:

        async def call() -> None:
            with pytest.raises((MCPError, httpx2.HTTPError, ExceptionGroup)):
                async with Client(address.url) as client:
                    await client.call_tool("shop__pack", {"id": "lamp-1"})

        async with anyio.create_task_group() as group:
            group.start_soon(call)
            await comes_true(lambda: shop.notes == ["pack lamp-1"])
            address.process.send_signal(signal.SIGTERM)
            code = await anyio.to_thread.run_sync(address.process.wait, 40)

    assert code == 0
    assert "Traceback" not in address.said()
