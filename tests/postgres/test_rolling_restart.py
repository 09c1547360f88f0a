"""Several server processes on one port and one Postgres: a rolling restart while clients of both eras use it."""

import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ResourceUpdated

from tests.cli.blueprint_project import PACK
from tests.postgres.test_serving import KEY, machine
from tests.process import comes_true, eventually, is_running
from tests.server.conftest import ERAS, LEGACY, MODERN, over_http, write_agent
from tests.server.task_client import reach, start, task_client
from tests.server.test_processes import RawSession, children_of, opened_at

pytestmark = pytest.mark.anyio
_RESTART_SECONDS = 120.0
_SOON_SECONDS = 20.0
"""Far below the time for which a process waits for calls: streams must not keep it."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Clients:
    """Clients that ask and listen all the time, and what became of it."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.is_over = False
        self.answers: Counter[str] = Counter()
        self.failures: list[str] = []
        self.heard: Counter[str] = Counter()
        self.streams: Counter[str] = Counter()

    async def keep_asking(self, mode: str, *, is_fresh: bool) -> None:
        """Call and read, over one connection or over a new one each time."""
        name = f"{mode} {'fresh' if is_fresh else 'lasting'}"

        async def ask() -> None:
            async with self._client(mode) as client:
                while not self.is_over:
                    sent = await client.call_tool("shop__send", {"id": "lamp-1"})
                    assert sent.structured_content == {"id": "lamp-1"}, sent
                    read = await client.read_resource("agent://watched")
                    assert read.contents
                    self.answers[name] += 1
                    if is_fresh:
                        return

        await self._again_and_again(name, ask)

    async def keep_listening(self) -> None:
        """Listen as clients of 2026-07-28 do, and at once again when the server ends the stream."""

        async def listen() -> None:
            async with self._client(MODERN) as client:
                while not self.is_over:
                    async with client.listen(resource_subscriptions=["agent://watched"]) as subscription:
                        self.streams[MODERN] += 1
                        async for event in subscription:
                            assert isinstance(event, ResourceUpdated)
                            self.heard[MODERN] += 1

        await self._again_and_again("listening", listen)

    async def keep_stream(self, session: RawSession, address: Any) -> None:
        """Hold the stream of an older client's session, and open it again when the server ends it."""

        async def hold() -> None:
            async with session.stream(address) as stream:
                assert stream.status_code == 200, stream.status_code
                self.streams[LEGACY] += 1
                async for line in stream.aiter_lines():
                    self.heard[LEGACY] += "resources/updated" in line

        await self._again_and_again("stream", hold)

    async def pack(self, mode: str) -> None:
        """Make the call that takes long."""

        async def call() -> None:
            async with self._client(mode) as client:
                packed = await client.call_tool("shop__pack", {"id": f"{mode}-1"})
                assert packed.structured_content == {"id": f"{mode}-1"}, packed
                self.answers[f"{mode} long"] += 1

        await self._note_failure(f"{mode} long", call)

    @asynccontextmanager
    async def _client(self, mode: str) -> AsyncIterator[Client]:
        async with (
            httpx2.AsyncClient(timeout=60) as http,
            Client(streamable_http_client(self._url, http_client=http), mode=mode) as client,
        ):
            yield client

    async def _again_and_again(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        while not self.is_over:
            await self._note_failure(name, work)

    async def _note_failure(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a failed request
            self.failures.append(f"{name}: {error!r}")
            await anyio.sleep(0.2)


async def test_a_rolling_restart_fails_no_request_call_task_or_subscription(tmp_path: Path, url: str) -> None:
    shop = machine(tmp_path / "one", url)
    shop.write("pack.yaml", PACK)
    write_agent(shop.folder / "agents", "watched")
    with over_http(shop.folder, "--trust", "--processes", "2", **KEY) as address:
        parent = address.process.pid
        assert await anyio.to_thread.run_sync(eventually, lambda: len(children_of(parent)) == 2, 60.0)
        before = children_of(parent)
        clients = Clients(address.url)
        async with opened_at(address) as session, anyio.create_task_group() as group:
            assert "error" not in (await session.ask(address, "resources/subscribe", uri="agent://watched")).text
            async with task_client(address.url) as client:
                task = await start(client, "shop__ask", {"item": "lamp"})
                await reach(client, task, "input_required")
            for mode in ERAS:
                group.start_soon(clients.pack, mode)
                for is_fresh in (True, False):
                    group.start_soon(_keep_asking, clients, mode, is_fresh)
            group.start_soon(clients.keep_listening)
            group.start_soon(clients.keep_stream, session, address)
            await comes_true(lambda: {"pack legacy-1", f"pack {MODERN}-1"} <= set(shop.notes), 60.0)
            await comes_true(lambda: len(clients.answers) == 4 and len(clients.streams) == 2, 60.0)
            await _until_heard(clients, shop.folder)

            os.kill(parent, signal.SIGHUP)
            with suppress(TimeoutError):
                # The long calls are under way while both processes are exchanged.
                await comes_true(lambda: len(set(children_of(parent)) - set(before)) == 2, _RESTART_SECONDS)
            assert len(set(children_of(parent)) - set(before)) == 2
            assert not {key for key in clients.answers if key.endswith("long")}
            (shop.folder / "packed").touch()
            await comes_true(lambda: not any(map(is_running, before)), _SOON_SECONDS)

            done = Counter(clients.answers)
            await comes_true(lambda: all(clients.answers[key] > done[key] for key in done if "long" not in key), 60.0)
            await _until_heard(clients, shop.folder)
            async with task_client(address.url) as client:
                waiting = await reach(client, task, "input_required")
            clients.is_over = True
            group.cancel_scope.cancel()
        after = children_of(parent)

    assert clients.failures == []
    assert {key: number for key, number in clients.answers.items() if key.endswith("long")} == {
        "legacy long": 1,
        f"{MODERN} long": 1,
    }
    assert waiting["taskId"] == task
    assert len(after) == 2
    assert set(before).isdisjoint(after)


async def _keep_asking(clients: Clients, mode: str, is_fresh: bool) -> None:  # noqa: FBT001
    await clients.keep_asking(mode, is_fresh=is_fresh)


async def _until_heard(clients: Clients, folder: Path) -> None:
    """Change the agent until clients of both eras hear of it: the stream of one may just be opened again."""
    known = Counter(clients.heard)
    for attempt in range(20):
        write_agent(folder / "agents", "watched", body=f"Attempt {attempt} {len(known)}.")
        with suppress(TimeoutError):
            await comes_true(lambda: all(clients.heard[era] > known[era] for era in ERAS), 3.0)
            return
    raise AssertionError(f"heard {clients.heard}, before {known}; {clients.failures}")
