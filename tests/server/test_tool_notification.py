"""Clients of both eras hear when tools come and go, also with a locked server that is killed and comes back."""

import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.subscriptions import ToolsListChanged
from mcp.shared.memory import create_client_server_memory_streams
from mcp.shared.message import SessionMessage

from agent_resolver.connection import LockedServers, Surroundings
from agent_resolver.registry import Ports
from agent_resolver.server import tell_of_tools
from agent_resolver.storage import MemoryStore
from tests.connection.conftest import locked, use
from tests.process import assert_none_is_left, started
from tests.registry.sample import MemoryTool
from tests.server.conftest import ERAS, INITIALIZE, LEGACY, MODERN, Serve, Served

pytestmark = pytest.mark.anyio

PATIENCE_SECONDS = 20.0


class Listener:
    """A client that lists its tools when it is told that they changed, and at no other time."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.words = 0
        """How often it was told."""
        self._has_changed = anyio.Event()

    async def on_events(self, subscription: Any) -> None:
        """What a client of the newest revision is told."""
        async for event in subscription:
            assert isinstance(event, ToolsListChanged)
            self.note()

    def note(self) -> None:
        self.words += 1
        self._has_changed.set()

    async def listed(self) -> list[str]:
        return [tool.name for tool in (await self.client.list_tools()).tools]

    async def until(self, *names: str) -> None:
        """Wait until these tools are listed after a word of a change."""
        with anyio.fail_after(PATIENCE_SECONDS):
            while True:
                await self._has_changed.wait()
                self._has_changed = anyio.Event()
                if await self.listed() == list(names):
                    return


@asynccontextmanager
async def listening(served: Served, mode: str) -> AsyncIterator[Listener]:
    """A client of the server, which tells of changes as long as the client is there."""
    listeners: list[Listener] = []

    async def on_message(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            listeners[0].note()

    async with anyio.create_task_group() as group:
        group.start_soon(tell_of_tools, served.registry, served.notices)
        handler = on_message if mode == LEGACY else None
        async with Client(served.server, mode=mode, message_handler=handler, cache=None) as client:
            listeners.append(listener := Listener(client))
            if mode == LEGACY:
                await listener.listed()
                yield listener
            else:
                async with client.listen(tools_list_changed=True) as subscription:
                    group.start_soon(listener.on_events, subscription)
                    yield listener
        group.cancel_scope.cancel()


@pytest.mark.parametrize(("mode", "version"), [(LEGACY, "2025-11-25"), ("auto", MODERN)])
async def test_a_server_says_that_it_tells_of_tools(serve: Serve, mode: str, version: str) -> None:
    async with Client(serve(tools=[MemoryTool()]).server, mode=mode) as client:
        assert client.protocol_version == version
        assert client.server_capabilities.tools == types.ToolsCapability(list_changed=True)


@pytest.mark.parametrize("mode", ERAS)
async def test_a_client_hears_when_tools_come_change_and_go(serve: Serve, mode: str) -> None:
    served = serve(tools=[MemoryTool("a.one", source="a")])
    registry = served.registry
    async with listening(served, mode) as listener:
        assert await listener.listed() == ["a__one"]
        registry.replace("b", (MemoryTool("b.one", source="b"), MemoryTool("b.two", source="b")), {})
        await listener.until("a__one", "b__one", "b__two")
        registry.replace("b", (MemoryTool("b.two", source="b", description="Another."),), {})
        await listener.until("a__one", "b__two")
        registry.replace("b", (), {})
        await listener.until("a__one")
        assert listener.words == 3

        registry.replace("b", (), {})
        registry.replace("a", (MemoryTool("a.one", source="a"),), {})
        registry.add(MemoryTool("c.one"))
        await listener.until("a__one", "c__one")
        assert listener.words == 4


@pytest.mark.parametrize("mode", ERAS)
async def test_many_changes_at_once_are_told_in_few_words(serve: Serve, mode: str) -> None:
    served = serve(tools=[])
    async with listening(served, mode) as listener:
        for number in range(100):
            served.registry.add(MemoryTool(f"a.{number:02}"))
        await listener.until(*(f"a__{number:02}" for number in range(100)))

        assert listener.words <= 2


async def test_a_client_that_has_stopped_to_read_keeps_no_other_from_hearing_of_tools(serve: Serve) -> None:
    served = serve(tools=[])
    async with (
        anyio.create_task_group() as group,
        create_client_server_memory_streams() as ((read, write), (server_read, server_write)),
        listening(served, LEGACY) as listener,
    ):
        group.start_soon(served.server.run, server_read, server_write, served.server.create_initialization_options())
        await write.send(SessionMessage(types.jsonrpc_message_adapter.validate_python(INITIALIZE)))
        await read.receive()
        for message in (
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
        ):
            await write.send(SessionMessage(types.jsonrpc_message_adapter.validate_python(message)))
        await read.receive()
        assert len(served.notices._connections) == 2

        for number in range(2):
            served.registry.add(MemoryTool(f"a.{number}"))
            await listener.until(*(f"a__{known}" for known in range(number + 1)))
        group.cancel_scope.cancel()


# A locked server ------------------------------------------------------------------------------------------------------


@pytest.fixture
def around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Surroundings]:
    """What locked servers are started with: they are looked for again at once, and none of them is left."""
    monkeypatch.setattr("agent_resolver.connection.launch._PATIENCE_SECONDS", 0.4)
    monkeypatch.setattr("agent_resolver.connection.locked_servers._FIRST_WAIT_SECONDS", 0.05)
    monkeypatch.setattr("agent_resolver.connection.locked_servers._LONGEST_WAIT_SECONDS", 0.1)
    with (tmp_path / "stderr.txt").open("w") as errors:
        yield Surroundings(folder=str(tmp_path), environment={}, errors=errors)
    assert_none_is_left(tmp_path)


@pytest.mark.parametrize("mode", ERAS)
async def test_the_tools_of_a_locked_server_come_and_go_with_it(
    serve: Serve, around: Surroundings, tmp_path: Path, mode: str
) -> None:
    store = MemoryStore()
    served = serve(tools=[MemoryTool("a.one")], ports=Ports(store=store))
    entry = locked("raw.py", "needs-up")
    servers = LockedServers((use(entry, "echo", "process"),), served.registry, store, around)
    await servers.connect("run-1")
    servers.keep_connected("run-1")
    async with listening(served, mode) as listener:
        assert await listener.listed() == ["a__one"]
        (tmp_path / "up").touch()
        await listener.until("a__one", "raw__echo", "raw__process")

        (tmp_path / "up").unlink()
        first = started(tmp_path)[-1]
        os.kill(first, signal.SIGKILL)
        await listener.until("a__one")
        (tmp_path / "up").touch()
        await listener.until("a__one", "raw__echo", "raw__process")

        found = (await listener.client.call_tool("raw.process", {})).structured_content
        assert found["pid"] == started(tmp_path)[-1]
        assert started(tmp_path)[-1] != first
    await servers.close()


@pytest.mark.parametrize("mode", ERAS)
async def test_a_locked_server_that_changes_its_tools_is_heard_by_our_clients(
    serve: Serve, around: Surroundings, mode: str
) -> None:
    store = MemoryStore()
    served = serve(tools=[], ports=Ports(store=store))
    uses = (use(locked("raw.py"), "change", "echo", "new-mapped"),)
    servers = LockedServers(uses, served.registry, store, around)
    await servers.connect("run-1")
    async with listening(served, mode) as listener:
        assert await listener.listed() == ["raw__change", "raw__echo"]
        await listener.client.call_tool("raw__change", {"remove": ["echo"], "add": ["new-mapped", "new-unmapped"]})
        await listener.until("raw__change", "raw__new-mapped")
    await servers.close()
