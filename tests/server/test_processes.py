"""Several servers of one project: the same answers and sessions, a rolling restart, and processes that die."""

import asyncio
import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from agent_resolver.schema import Caller
from agent_resolver.server import CALLER_KEY, Notices
from agent_resolver.server.served_note import milliseconds_now
from agent_resolver.server.session import SharedSessions, _Agreed
from agent_resolver.storage import AesSeal, MemoryStore
from tests.cli.blueprint_project import write_packing_shop
from tests.process import comes_true, eventually, is_running
from tests.server.conftest import (
    ERAS,
    INITIALIZE,
    Address,
    Serve,
    command,
    environment,
    over_http,
    write_agent,
)
from tests.server.test_http import HEADERS

pytestmark = pytest.mark.slow
VERSION = {"MCP-Protocol-Version": "2025-11-25"}


def children_of(pid: int) -> list[int]:
    shown = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(word) for word in shown.stdout.split()]


@contextmanager
def two_servers(folder: Path, *options: str) -> Iterator[tuple[Address, Address]]:
    """Two servers that know of each other through the state alone."""
    with over_http(folder, *options, "--shared") as here, over_http(folder, *options, "--shared") as there:
        yield here, there


class RawSession:
    """A session with a handshake, whose requests may go to any server."""

    def __init__(self, http: httpx2.AsyncClient, token: str) -> None:
        self._http = http
        self.headers = {**HEADERS, **VERSION, "Mcp-Session-Id": token}

    async def ask(self, address: Address, method: str, number: int = 1, **params: Any) -> httpx2.Response:
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        return await self._http.post(address.url, json=message, headers=self.headers)

    async def tell(self, address: Address, method: str, **params: Any) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        assert (await self._http.post(address.url, json=message, headers=self.headers)).status_code == 202

    async def end(self, address: Address) -> int:
        return (await self._http.delete(address.url, headers=self.headers)).status_code

    @asynccontextmanager
    async def stream(self, address: Address) -> AsyncIterator[httpx2.Response]:
        async with self._http.stream("GET", address.url, headers=self.headers) as response:
            yield response


@asynccontextmanager
async def opened_at(address: Address) -> AsyncIterator[RawSession]:
    async with httpx2.AsyncClient(timeout=30) as http:
        opened = await http.post(address.url, json=INITIALIZE, headers={**HEADERS, **VERSION})
        assert opened.status_code == 200
        yield RawSession(http, opened.headers["mcp-session-id"])


def result_in(response: httpx2.Response) -> Any:
    [data] = [line for line in response.text.splitlines() if line.startswith("data: ")]
    return json.loads(data.removeprefix("data: "))["result"]


@pytest.mark.anyio
async def test_a_session_is_the_same_at_every_server_until_it_ends(agents: Path, tmp_path: Path) -> None:
    with two_servers(tmp_path, "--root", "agents") as (here, there):
        async with opened_at(here) as session:
            first = result_in(await session.ask(here, "resources/list"))
            cursor = first["nextCursor"]
            elsewhere = result_in(await session.ask(there, "resources/list", cursor=cursor))
            again = result_in(await session.ask(here, "resources/list", cursor=cursor))
            ended = await session.end(there)
            after = [(await session.ask(each, "resources/list")).status_code for each in (here, there)]

    assert elsewhere == again
    assert (ended, after) == (200, [404, 404])


@pytest.mark.anyio
async def test_a_stream_hears_of_what_its_session_subscribed_to_at_another_server(agents: Path, tmp_path: Path) -> None:
    with two_servers(tmp_path, "--root", "agents") as (here, there):
        async with opened_at(there) as session, session.stream(here) as stream:
            assert "error" not in (await session.ask(there, "resources/subscribe", uri="agent://agent-01")).text
            write_agent(agents, "agent-01", body="Changed.")
            write_agent(agents, "agent-02", body="Changed.")
            heard = []
            # Once the session has ended, the server that has the stream closes it.
            with anyio.fail_after(60):
                async for line in stream.aiter_lines():
                    if line.startswith("data: "):
                        heard.append(json.loads(line.removeprefix("data: ")))
                    methods = [each["method"] for each in heard]
                    # The list may also change because the other server has just started.
                    if methods[-2:] == ["notifications/resources/updated", "notifications/resources/list_changed"]:
                        await session.end(there)

    updated = [each["params"]["uri"] for each in heard if each["method"] == "notifications/resources/updated"]
    assert updated == ["agent://agent-01"]


@pytest.mark.anyio
async def test_a_request_is_cancelled_through_another_server(tmp_path: Path) -> None:
    shop = write_packing_shop(tmp_path)
    with two_servers(tmp_path, "--trust") as (here, there):
        async with opened_at(here) as session, anyio.create_task_group() as group:
            answers = []

            async def call() -> None:
                answers.append(await session.ask(here, "tools/call", 7, name="shop__pack", arguments={"id": "lamp-1"}))

            group.start_soon(call)
            await comes_true(lambda: shop.notes == ["pack lamp-1"])
            await session.tell(there, "notifications/cancelled", requestId=7)
            with anyio.fail_after(30):
                while not answers:  # noqa: ASYNC110 - the answer comes over HTTP
                    await anyio.sleep(0.02)
            (tmp_path / "packed").touch()

    assert "-32800" in answers[0].text


def test_a_session_opens_for_its_caller_alone(serve: Serve, tmp_path: Path) -> None:
    def manager(key: bytes) -> SharedSessions:
        return SharedSessions(served.server, Notices(), AesSeal(key), MemoryStore(), None)  # type: ignore[arg-type]

    served = serve(tmp_path)
    ours, foreign = manager(b"1" * 32), manager(b"2" * 32)
    ada = {CALLER_KEY: Caller(id="ada", issuer="https://one", app_id="desk", is_verified=True)}
    others = [
        {},
        {CALLER_KEY: Caller(id="eve", issuer="https://one", app_id="desk")},
        {CALLER_KEY: Caller(id="ada", issuer="https://two", app_id="desk")},
        {CALLER_KEY: Caller(id="ada", issuer="https://one", app_id="phone")},
    ]
    agreed = _Agreed(milliseconds_now() + 60_000, "2025-06-18")
    token = ours._name_of(agreed, ada)
    late = ours._name_of(_Agreed(milliseconds_now() - 1, "2025-06-18"), ada)
    forged = [token[:-6] + "AAAA==", token[:40], token.upper(), "", "x" * 2000, "ares1.0:é", late]

    assert asyncio.run(ours._open(token, ada)) == agreed
    assert [asyncio.run(ours._open(token, other)) for other in others] == [None] * len(others)
    assert [asyncio.run(ours._open(each, ada)) for each in forged] == [None] * len(forged)
    assert asyncio.run(foreign._open(token, ada)) is None


# The supervisor -------------------------------------------------------------------------------------------------------


class Load:
    """Clients that ask all the time, over connections that stay and over new ones."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.is_over = False
        self.answers: Counter[tuple[str, bool]] = Counter()
        self.failures: list[str] = []

    async def run(self, mode: str, *, is_fresh: bool) -> None:
        while not self.is_over:
            try:
                await self._ask(mode, is_fresh=is_fresh)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is a failed request
                self.failures.append(f"{mode} {is_fresh} {error!r}")

    async def _ask(self, mode: str, *, is_fresh: bool) -> None:
        async with (
            httpx2.AsyncClient(timeout=30) as http,
            Client(streamable_http_client(self._url, http_client=http), mode=mode) as client,
        ):
            while not self.is_over:
                called = await client.call_tool("list_agents", {"limit": 5})
                assert len(called.structured_content["agents"]) == 5
                self.answers[mode, is_fresh] += 1
                if is_fresh:
                    return


@pytest.mark.anyio
async def test_a_rolling_restart_fails_no_request(agents: Path, tmp_path: Path) -> None:
    with over_http(tmp_path, "--root", "agents", "--processes", "3") as address:
        parent = address.process.pid
        assert await anyio.to_thread.run_sync(eventually, lambda: len(children_of(parent)) == 3)
        before = children_of(parent)
        load = Load(address.url)
        async with anyio.create_task_group() as group:
            for mode in ERAS:
                for is_fresh in (True, False):
                    group.start_soon(partial(load.run, mode, is_fresh=is_fresh))
            await comes_true(lambda: len(load.answers) == 4, 90.0)
            os.kill(parent, signal.SIGHUP)
            assert await anyio.to_thread.run_sync(eventually, lambda: not any(map(is_running, before)), 240.0)
            done = Counter(load.answers)
            await comes_true(lambda: all(load.answers[key] > done[key] for key in done), 90.0)
            load.is_over = True
        after = children_of(parent)

    assert load.failures == []
    assert len(after) == 3
    assert set(before).isdisjoint(after)


def test_a_process_that_is_killed_is_replaced_and_the_others_answer(agents: Path, tmp_path: Path) -> None:
    async def ask(url: str, mode: str) -> int:
        async with Client(url, mode=mode) as client:
            return len((await client.list_resources()).resources)

    with over_http(tmp_path, "--root", "agents", "--processes", "2") as address:
        parent = address.process.pid
        assert eventually(lambda: len(children_of(parent)) == 2)
        before = children_of(parent)
        os.kill(before[0], signal.SIGKILL)
        answered = [asyncio.run(ask(address.url, mode)) for mode in ERAS]

        assert eventually(lambda: len(children_of(parent)) == 2 and before[0] not in children_of(parent), 30.0)
        assert before[1] in children_of(parent)
        assert answered == [20, 20]


def test_server_processes_end_when_their_supervisor_is_killed(agents: Path, tmp_path: Path) -> None:
    with over_http(tmp_path, "--root", "agents", "--processes", "2") as address:
        assert eventually(lambda: len(children_of(address.process.pid)) == 2)
        children = children_of(address.process.pid)
        address.process.kill()

        assert eventually(lambda: not any(map(is_running, children)), 30.0)


def test_what_keeps_a_process_from_starting_ends_the_command(tmp_path: Path) -> None:
    (tmp_path / "agent.toml").write_text("[catalog\n")
    line = command("--http", "127.0.0.1:0", "--processes", "2")
    ran = subprocess.run(line, cwd=tmp_path, env=environment(tmp_path), capture_output=True, check=False, timeout=60)

    assert ran.returncode in {1, 2}
    assert b"agent.toml" in ran.stderr
    assert b"Traceback" not in ran.stderr
