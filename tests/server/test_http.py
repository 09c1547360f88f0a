"""`agent serve --http`: who may call, what is refused, how it ends, and many clients at once."""

import http.client
import json
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from msgspec import Struct

from tests.server.conftest import ERAS, INITIALIZE, META, Address, command, environment, over_http

pytestmark = pytest.mark.slow
"""Each test starts a server in a process of its own."""

HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
LIST = {"jsonrpc": "2.0", "id": 1, "method": "resources/list", "params": {"_meta": META}}
MODERN = {**HEADERS, "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "resources/list"}


@pytest.fixture
def address(agents: Path, tmp_path: Path) -> Iterator[Address]:
    with over_http(tmp_path, "--root", "agents", "--allow-host", "agents.example") as found:
        yield found


class Answer(Struct, frozen=True):
    status: int
    headers: dict[str, str]
    text: str


def connected(address: Address, host: str = "127.0.0.1") -> "closing[http.client.HTTPConnection]":
    return closing(http.client.HTTPConnection(host, address.port, timeout=10))


def call(address: Address, method: str = "POST", path: str = "/mcp", **more: Any) -> Answer:
    headers = {**MODERN, **more.pop("headers", {})}
    body = more.pop("body", json.dumps(LIST) if method == "POST" else None)
    with connected(address, more.pop("host", "127.0.0.1")) as connection:
        sent = {name: value for name, value in headers.items() if value is not None}
        # A server that refuses a body need not wait for the rest of it.
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.request(method, path, body, sent, encode_chunked="Transfer-Encoding" in sent)
        with connection.getresponse() as response:
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read().decode())


def session_of(address: Address) -> dict[str, Any]:
    """The headers of a session that has just begun."""
    legacy = {"MCP-Protocol-Version": "2025-11-25", "Mcp-Method": None}
    opened = call(address, headers=legacy, body=json.dumps(INITIALIZE))
    assert opened.status == 200
    return {**legacy, "Mcp-Session-Id": opened.headers["mcp-session-id"]}


def test_who_calls_it_by_another_name_or_from_another_page_is_refused(address: Address) -> None:
    """A page that has its own name lead here must not get an answer."""
    port = address.port
    hosts = {
        f"127.0.0.1:{port}": 200,
        f"localhost:{port}": 200,
        f"[::1]:{port}": 200,
        "localhost": 200,
        "agents.example": 200,
        "agents.example:443": 200,
        f"evil.example:{port}": 421,
        "evil.example": 421,
        f"127.0.0.1.evil.example:{port}": 421,
        f"localhost.evil.example:{port}": 421,
        f"evil.agents.example:{port}": 421,
        f"0.0.0.0:{port}": 421,
        f"127.0.0.1@evil.example:{port}": 421,
        "": 421,
    }
    assert {host: call(address, headers={"Host": host}).status for host in hosts} == hosts
    origins = {
        None: 200,
        f"http://127.0.0.1:{port}": 200,
        "http://localhost:3000": 200,
        "http://localhost": 200,
        "https://agents.example": 200,
        "https://evil.example": 403,
        "http://evil.example:80": 403,
        "http://localhost.evil.example": 403,
        "http://127.0.0.1.evil.example:80": 403,
        "https://evil.agents.example": 403,
        "null": 403,
        "file://": 403,
    }
    assert {origin: call(address, headers={"Origin": origin}).status for origin in origins} == origins


def test_every_loopback_address_may_be_bound_and_is_then_a_name_of_the_server(agents: Path, tmp_path: Path) -> None:
    with over_http(tmp_path, "--root", "agents", host="127.0.0.2") as address:
        hosts = {
            f"127.0.0.2:{address.port}": 200,
            f"localhost:{address.port}": 200,
            f"127.0.0.3:{address.port}": 421,
            f"127.0.0.2.evil.example:{address.port}": 421,
            f"evil.example:{address.port}": 421,
        }
        found = {host: call(address, host="127.0.0.2", headers={"Host": host}).status for host in hosts}
        page = call(address, host="127.0.0.2", headers={"Origin": "http://evil.example"})

    assert found == hosts
    assert page.status == 403


def test_an_address_that_is_not_bound_is_no_name_of_the_server(address: Address) -> None:
    assert call(address, headers={"Host": f"127.0.0.2:{address.port}"}).status == 421


def test_a_page_that_rebinds_its_name_gets_nothing_by_any_method(address: Address) -> None:
    evil = {"Host": f"evil.example:{address.port}", "Origin": f"http://evil.example:{address.port}"}
    legacy = {"MCP-Protocol-Version": None, "Mcp-Method": None}
    answers = [call(address, method, headers={**evil, **legacy}) for method in ("GET", "DELETE", "PUT", "OPTIONS")]
    answers.append(call(address, headers={**evil, **legacy}, body=json.dumps(INITIALIZE)))

    assert {answer.status for answer in answers} <= {403, 405, 421}
    assert not any("agent-00" in answer.text for answer in answers)
    assert not any("access-control-allow-origin" in answer.headers for answer in answers)


def test_a_body_over_four_megabytes_is_refused_whether_announced_or_not(address: Address) -> None:
    large = b" " * (4 * 1024 * 1024 + 1)

    assert call(address, body=large).status == 413
    pieces = (large[: 1024 * 1024] for _ in range(5))
    assert call(address, body=pieces, headers={"Transfer-Encoding": "chunked"}).status == 413
    assert call(address).status == 200


def test_what_is_no_request_is_refused(address: Address) -> None:
    answers = {
        "path": call(address, path="/other").status,
        "put": call(address, "PUT").status,
        "type": call(address, headers={"Content-Type": "text/plain"}).status,
        "json": call(address, body="{").status,
        "batch": call(address, body="[]").status,
        "version": call(address, headers={"MCP-Protocol-Version": "1999-01-01"}).status,
        "header": call(address, headers={"Mcp-Method": "tools/list"}).status,
        "session": call(address, headers={"Mcp-Session-Id": "nobody", "MCP-Protocol-Version": "2025-11-25"}).status,
    }

    assert answers == {
        "path": 404,
        "put": 405,
        "type": 400,
        "json": 400,
        "batch": 400,
        "version": 400,
        "header": 400,
        "session": 404,
    }


@pytest.mark.slow
@pytest.mark.parametrize("body", ["[]", "{", "1", '{"jsonrpc": "1.0"}', '{"jsonrpc": "2.0", "id": 1, "method": 5}'])
def test_a_body_that_is_no_message_is_refused_without_words_of_a_library(address: Address, body: str) -> None:
    for headers in (MODERN, session_of(address)):
        found = call(address, body=body, headers=headers)

        error = json.loads(found.text)["error"]
        assert (found.status, int(found.headers["content-length"])) == (400, len(found.text))
        assert error["code"] in {-32600, -32700}
        assert "pydantic" not in found.text
        assert "\n" not in error["message"]


INTERRUPTING = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "uvicorn":
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
"""
"""Interrupts the server while it starts, always at the same place."""


def test_an_interrupt_while_it_starts_prints_no_traceback(agents: Path, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(INTERRUPTING)
    line = command("--root", "agents", "--http", "127.0.0.1:0")
    variables = {**environment(tmp_path), "PYTHONPATH": str(tmp_path / "site")}

    ran = subprocess.run(line, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False, timeout=60)

    assert ran.returncode == 130
    assert ran.stderr.splitlines()[1:] == ["Interrupted"]


def test_a_session_lives_until_it_is_deleted(address: Address) -> None:
    legacy = {"MCP-Protocol-Version": "2025-11-25", "Mcp-Method": None}
    session = session_of(address)
    initialized = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"})
    listing = json.dumps({"jsonrpc": "2.0", "id": 2, "method": "resources/list"})

    assert call(address, headers=session, body=initialized).status == 202
    assert "agent-00" in call(address, headers=session, body=listing).text
    assert call(address, "GET", headers=legacy).status == 400
    assert call(address, "DELETE", headers=legacy).status == 400
    assert call(address, "DELETE", headers=session).status == 200
    assert call(address, headers=session, body=listing).status == 404
    assert call(address, "GET", headers=session).status == 404


@pytest.mark.slow
@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "localhost"])
def test_it_listens_where_it_says(agents: Path, tmp_path: Path, host: str) -> None:
    if host == "[::1]" and not socket.has_ipv6:
        pytest.skip("there is no IPv6 here")
    with (
        over_http(tmp_path, "--root", "agents", host=host) as address,
        connected(address, host.strip("[]")) as connection,
    ):
        connection.request("POST", "/mcp", json.dumps(LIST), MODERN)
        with connection.getresponse() as response:
            assert response.status == 200


def test_a_port_that_is_in_use_is_named(agents: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = command("--root", "agents", "--http", f"127.0.0.1:{port}")
        ran = subprocess.run(
            line, cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, check=False, timeout=60
        )

    assert ran.returncode == 1
    assert ran.stderr == (
        f"error: Cannot listen on `127.0.0.1:{port}`: Address already in use\n"
        "hint: name another port, or 0 for any that is free\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_quickly_although_streams_are_open(address: Address, how: signal.Signals) -> None:
    listen = {"notifications": {"resourcesListChanged": True}, "_meta": META}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": listen})
    session = {name: value for name, value in session_of(address).items() if value}
    with connected(address) as old, connected(address) as new, connected(address) as idle:
        old.request("GET", "/mcp", headers={**HEADERS, **session})
        new.request("POST", "/mcp", body, {**MODERN, "Mcp-Method": "subscriptions/listen"})
        idle.connect()
        with old.getresponse() as old_stream, new.getresponse() as new_stream:
            assert [old_stream.status, new_stream.status] == [200, 200]
            begin = time.monotonic()
            address.process.send_signal(how)
            assert address.process.wait(timeout=10) == 0
            assert time.monotonic() - begin < 4
            # The newest revision tells a client that its stream was ended on purpose.
            assert b'"result"' in new_stream.read()
    assert address.said() == ""


@pytest.mark.slow
@pytest.mark.anyio
async def test_many_clients_of_both_eras_page_at_once(address: Address) -> None:
    seen: list[list[str]] = []

    async def page(mode: str) -> None:
        async with Client(address.url, mode=mode) as client:
            found = await client.list_resources()
            names = [agent.name for agent in found.resources]
            while found.next_cursor:
                found = await client.list_resources(cursor=found.next_cursor)
                names += [agent.name for agent in found.resources]
            assert (await client.call_tool("get_agent", {"agent": names[-1]})).structured_content is not None
            seen.append(names)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            for number in range(12):
                group.start_soon(page, ERAS[number % 2])

    assert len(seen) == 12
    assert {tuple(names) for names in seen} == {tuple(sorted(seen[0]))}
    assert len(seen[0]) == 45
