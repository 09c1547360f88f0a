"""Clients of both eras hear of changes on the disk, and nobody keeps another from hearing."""

import json
import shutil
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.stdio import stdio_client
from mcp.client.subscriptions import ResourceUpdated
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp.shared.memory import create_client_server_memory_streams
from mcp.shared.message import SessionMessage

from agent_resolver.schema import Caller
from agent_resolver.server import keep_up
from tests.server.conftest import (
    ERAS,
    INITIALIZE,
    LEGACY,
    META,
    MODERN,
    Address,
    Serve,
    Served,
    over_http,
    over_stdio,
    requiring,
    write_agent,
    write_index,
)

pytestmark = pytest.mark.anyio

PATIENCE_SECONDS = 20.0
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


class Heard:
    """What a client was told, in words; `list` for a list that changed, else the address of an agent."""

    def __init__(self) -> None:
        self._put, self._take = anyio.create_memory_object_stream[str](1000)

    async def on_message(self, message: Any) -> None:
        """What a client with a handshake was told."""
        if isinstance(message, types.ResourceUpdatedNotification):
            await self._put.send(message.params.uri)
        elif isinstance(message, types.ResourceListChangedNotification):
            await self._put.send("list")

    async def on_events(self, subscription: Any) -> None:
        """What a client of the newest revision was told."""
        async for event in subscription:
            await self._put.send(event.uri if isinstance(event, ResourceUpdated) else "list")

    async def until(self, *wanted: str, seconds: float = PATIENCE_SECONDS) -> list[str]:
        """All that is told until everything that is wanted was."""
        heard: list[str] = []
        with anyio.fail_after(seconds):
            while not set(wanted) <= set(heard):
                heard.append(await self._take.receive())
        return heard

    async def first(self, folder: Path) -> None:
        """Change the folder until the client hears of it: from then on nothing is missed."""
        for attempt in range(10):
            write_agent(folder, "first", body=f"Attempt {attempt}.")
            try:
                await self.until("agent://first", seconds=3)
            except TimeoutError:
                continue
            return
        raise AssertionError("the client is never told anything")

    def close(self) -> None:
        self._put.close()
        self._take.close()


@asynccontextmanager
async def hearing(server: Any, mode: str, *uris: str) -> AsyncIterator[tuple[Client, Heard]]:
    """A client that wants to know of the list and of these agents."""
    with closing(Heard()) as heard:
        handler = heard.on_message if mode == LEGACY else None
        async with Client(server, mode=mode, message_handler=handler) as client, anyio.create_task_group() as group:
            if mode == LEGACY:
                await client.list_resources()
                for uri in uris:
                    with pytest.warns(MCPDeprecationWarning):
                        await client.subscribe_resource(uri)
                yield client, heard
            else:
                async with client.listen(resources_list_changed=True, resource_subscriptions=uris) as subscription:
                    group.start_soon(heard.on_events, subscription)
                    yield client, heard
                    group.cancel_scope.cancel()


@asynccontextmanager
async def served_over(transport: str, folder: Path) -> AsyncIterator[Any]:
    """A server in a process of its own, for a client to connect to."""
    if transport == "stdio":
        with (folder / "stderr.txt").open("w") as errors:
            yield stdio_client(over_stdio(folder, "--root", "agents"), errlog=errors)
        assert (folder / "stderr.txt").read_text() == ""
    else:
        with over_http(folder, "--root", "agents") as address:
            yield address.url


async def listing(client: Client) -> dict[str, dict[str, Any]]:
    meta: Any = {"agent-resolver/limit": 100}
    return {agent.name: agent.meta or {} for agent in (await client.list_resources(meta=meta)).resources}


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("mode", ERAS)
async def test_a_client_hears_when_agents_come_change_go_or_resolve_no_longer(
    agents: Path, tmp_path: Path, mode: str, transport: str
) -> None:
    wanted = ["agent://first", "agent://another", "agent://agent-00", "agent://agent-01", "agent://ready"]
    async with served_over(transport, tmp_path) as server, hearing(server, mode, *wanted) as (client, heard):
        await heard.first(agents)

        write_agent(agents, "another")
        await heard.until("agent://another")
        assert "another" in await listing(client)

        write_agent(agents, "agent-00", body="Changed.")
        await heard.until("agent://agent-00")
        assert "Changed." in (await client.read_resource("agent://agent-00")).model_dump_json()

        (agents / "agent-01.md").unlink()
        await heard.until("agent://agent-01")
        assert "agent-01" not in await listing(client)

        assert (await listing(client))["ready"]["agent-resolver/status"] == "resolved"
        write_index(tmp_path / "mcp.index.json", [])
        told = await heard.until("agent://ready", "list")
        assert (await listing(client))["ready"]["agent-resolver/status"] == "unresolved"
        # Nobody is told of what they did not ask for.
        assert "agent://lacking" not in told


@pytest.mark.slow
async def test_without_an_index_or_with_a_broken_one_changes_are_still_seen(agents: Path, tmp_path: Path) -> None:
    index = tmp_path / "mcp.index.json"
    with (tmp_path / "stderr.txt").open("w") as errors:
        server = stdio_client(over_stdio(tmp_path, "--root", "agents"), errlog=errors)
        async with hearing(server, MODERN, "agent://first", "agent://while-broken", "agent://ready") as (client, heard):
            await heard.first(agents)

            index.write_text("[{")
            write_agent(agents, "while-broken")
            await heard.until("agent://while-broken")
            known = await listing(client)
            assert "while-broken" in known
            assert known["ready"]["agent-resolver/status"] == "resolved"

            index.unlink()
            await heard.until("agent://ready")
            assert (await listing(client))["ready"]["agent-resolver/reason"] == "there is no index"
            assert (await client.call_tool("resolve_agent", {"agent": "ready"})).structured_content == {
                "agent": "agent://ready",
                "status": "unresolved",
                "reason": "there is no index of servers",
                "lock": None,
                "requirements": [],
            }
    assert "mcp.index.json" in (tmp_path / "stderr.txt").read_text()


@pytest.mark.slow
async def test_a_root_below_a_folder_that_watchers_leave_out_is_watched(tmp_path: Path) -> None:
    folder = tmp_path / "node_modules" / ".venv" / "agents"
    write_agent(folder, "one")
    with (tmp_path / "stderr.txt").open("w") as errors:
        server = stdio_client(over_stdio(tmp_path, "--root", str(folder)), errlog=errors)
        async with hearing(server, MODERN, "agent://first") as (_, heard):
            await heard.first(folder)


@pytest.mark.slow
async def test_a_folder_that_is_replaced_by_another_is_watched_on(agents: Path, tmp_path: Path) -> None:
    """As a checkout or a deployment does it."""
    with (tmp_path / "stderr.txt").open("w") as errors:
        server = stdio_client(over_stdio(tmp_path, "--root", "agents"), errlog=errors)
        async with hearing(server, MODERN, "agent://first", "agent://ready", "agent://deep") as (client, heard):
            await heard.first(agents)
            shutil.copytree(agents, tmp_path / "next")
            (tmp_path / "next" / "ready.md").unlink()
            shutil.rmtree(agents)
            (tmp_path / "next").rename(agents)
            await heard.until("agent://ready")
            assert "ready" not in await listing(client)

            write_agent(agents / "team", "deep")
            await heard.until("agent://deep")


@asynccontextmanager
async def watched(folders: Sequence[Path], *servers: Served) -> AsyncIterator[None]:
    """Servers in this process that keep up with the disk."""
    async with anyio.create_task_group() as group:
        for served in servers:
            group.start_soon(keep_up, served.catalog.refresh, list(map(str, folders)), [], served.notices)
        yield
        group.cancel_scope.cancel()


@pytest.mark.slow
@pytest.mark.parametrize("mode", ERAS)
async def test_of_two_servers_over_one_folder_the_clients_of_both_hear_of_each_change(
    serve: Serve, agents: Path, mode: str
) -> None:
    one, other = serve(agents), serve(agents)
    wanted = ["agent://first", "agent://ready"]
    async with (
        watched([agents], one, other),
        hearing(one.server, mode, *wanted) as (_, heard),
        hearing(other.server, mode, *wanted) as (_, also_heard),
    ):
        await heard.first(agents)
        await also_heard.first(agents)
        for number in range(3):
            write_agent(agents, "ready", requiring("data"), body=f"Edit {number}.")
            await heard.until("agent://ready", "list", seconds=5)
            await also_heard.until("agent://ready", "list", seconds=5)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ERAS)
async def test_a_client_that_reads_an_edit_first_keeps_nobody_from_hearing_of_it(
    serve: Serve, agents: Path, mode: str
) -> None:
    served = serve(agents)
    async with (
        watched([agents], served),
        hearing(served.server, mode, "agent://first", "agent://ready") as (_, heard),
        Client(served.server, mode=mode) as other,
    ):
        await heard.first(agents)
        write_agent(agents, "ready", requiring("data"), body="Edited.")
        assert "Edited." in (await other.read_resource("agent://ready")).model_dump_json()
        await heard.until("agent://ready", "list", seconds=5)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ERAS)
async def test_a_root_that_goes_while_it_is_served_keeps_no_other_from_being_served(
    serve: Serve, agents: Path, tmp_path: Path, mode: str
) -> None:
    write_agent(tmp_path / "lost", "one")
    served = serve(agents, tmp_path / "lost", page_size=100)
    wanted = ["agent://first", "agent://one", "agent://ready", "agent://new"]
    async with (
        watched([agents, tmp_path / "lost"], served),
        hearing(served.server, mode, *wanted) as (client, heard),
    ):
        await heard.first(agents)
        shutil.rmtree(tmp_path / "lost")
        write_agent(agents, "ready", requiring("data"), body="Edited.")
        assert "Edited." in (await client.read_resource("agent://ready")).model_dump_json()
        with pytest.raises(MCPError, match="Resource not found"):
            await client.read_resource("agent://one")
        await heard.until("agent://one", "agent://ready")

        write_agent(agents, "new")
        await heard.until("agent://new")
        assert {"new", "ready"} <= (await listing(client)).keys()

        write_agent(tmp_path / "lost", "one")
        await heard.until("agent://one")


@pytest.mark.slow
@pytest.mark.parametrize("mode", ERAS)
async def test_a_strict_server_says_nothing_of_agents_that_it_hides(serve: Serve, agents: Path, mode: str) -> None:
    served = serve(agents, strict=True)
    async with (
        watched([agents], served),
        hearing(served.server, mode, "agent://first", "agent://lacking", "agent://ready") as (_, heard),
    ):
        await heard.first(agents)
        write_agent(agents, "lacking", requiring("weather"), body="Edited.")
        write_agent(agents, "ready", requiring("data"), body="Edited.")
        assert "agent://lacking" not in await heard.until("agent://ready")

        write_agent(agents, "lacking", requiring("data"))
        await heard.until("agent://lacking")


async def test_an_initialized_client_without_requests_hears_that_the_list_changed(serve: Serve, agents: Path) -> None:
    served = serve(agents)
    with closing(Heard()) as heard:
        async with Client(served.server, mode=LEGACY, message_handler=heard.on_message) as client:
            await client.read_resource("agent://ready")
            await served.notices.tell(["agent://ready"])
            assert await heard.until("list") == ["list"]


async def test_a_stream_is_told_of_an_address_as_it_spells_it(serve: Serve, agents: Path) -> None:
    served = serve(agents)
    async with (
        hearing(served.server, MODERN, "AGENT://re%61dy", "agent://ready?format=markdown", "file:///x") as (_, heard),
        hearing(served.server, MODERN, "agent://ready") as (_, plainly_heard),
    ):
        await served.notices.tell(["agent://ready", "agent://lacking"])
        assert await heard.until("list") == ["AGENT://re%61dy", "agent://ready?format=markdown", "list"]
        assert await plainly_heard.until("list") == ["agent://ready", "list"]


@pytest.mark.parametrize("mode", ERAS)
async def test_a_change_of_an_agent_above_the_clearance_is_not_told(serve: Serve, agents: Path, mode: str) -> None:
    served = serve(agents, caller_of=lambda _: Caller(id="ada", is_verified=True, clearance="INTERNAL"))
    async with hearing(served.server, mode, "agent://ready", "agent://lacking") as (_, heard):
        await served.notices.tell(["agent://ready"], {"agent://ready": 2})
        await served.notices.tell(["agent://ready", "agent://lacking"], {"agent://ready": 2, "agent://lacking": 1})
        assert await heard.until("list") == ["agent://lacking", "list"]


async def test_a_stream_of_too_many_agents_is_refused(serve: Serve, agents: Path) -> None:
    async with Client(serve(agents).server, mode=MODERN) as client:
        with pytest.raises(MCPError, match="At most 1000"):
            async with client.listen(resource_subscriptions=[f"agent://nobody-{number}" for number in range(1001)]):
                pass


async def test_whoever_unsubscribes_hears_of_that_agent_no_longer(serve: Serve, agents: Path) -> None:
    served = serve(agents)
    async with hearing(served.server, LEGACY, "agent://ready", "agent://lacking") as (client, heard):
        await served.notices.tell(["agent://ready", "agent://lacking"])
        assert await heard.until("list") == ["agent://lacking", "agent://ready", "list"]

        with pytest.warns(MCPDeprecationWarning):
            await client.unsubscribe_resource("agent://ready")
        await served.notices.tell(["agent://ready", "agent://lacking"])
        assert await heard.until("list") == ["agent://lacking", "list"]


async def test_an_address_in_another_spelling_is_the_same_subscription(serve: Serve, agents: Path) -> None:
    served = serve(agents)
    async with hearing(served.server, LEGACY, "AGENT://re%61dy?format=markdown") as (_, heard):
        await served.notices.tell(["agent://ready"])
        assert await heard.until("list") == ["agent://ready", "list"]


@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
async def test_subscriptions_to_no_address_and_too_many_are_refused(serve: Serve, agents: Path) -> None:
    async with Client(serve(agents).server, mode=LEGACY) as client:
        for uri in ("agent://../x", "file:///etc/passwd", ""):
            with pytest.raises(MCPError) as caught:
                await client.subscribe_resource(uri)
            assert caught.value.error.code == types.INVALID_PARAMS
        for number in range(1000):
            await client.subscribe_resource(f"agent://nobody-{number}")
        await client.subscribe_resource("agent://nobody-0")
        with pytest.raises(MCPError, match="At most 1000"):
            await client.subscribe_resource("agent://one-more")


async def test_a_client_that_is_gone_is_forgotten(serve: Serve, agents: Path) -> None:
    served = serve(agents)
    for mode in ERAS * 3:
        async with hearing(served.server, mode, "agent://ready"):
            pass
    await served.notices.tell(["agent://ready"])

    assert served.notices._connections == {}
    assert all(bus._listeners == {} for bus in served.notices._buses.values())
    for listening in served.notices._listening.values():
        assert listening._streams == set()
        assert listening._spellings == {}


@pytest.mark.slow
async def test_a_client_that_has_stopped_to_read_keeps_no_other_from_hearing(serve: Serve, agents: Path) -> None:
    served = serve(agents)
    async with (
        anyio.create_task_group() as group,
        create_client_server_memory_streams() as ((read, write), (server_read, server_write)),
        hearing(served.server, LEGACY, "agent://ready") as (_, heard),
    ):
        group.start_soon(served.server.run, server_read, server_write, served.server.create_initialization_options())
        await write.send(SessionMessage(types.jsonrpc_message_adapter.validate_python(INITIALIZE)))
        await read.receive()
        for message in (INITIALIZED, {"jsonrpc": "2.0", "id": 1, "method": "resources/list"}):
            await write.send(SessionMessage(types.jsonrpc_message_adapter.validate_python(message)))
        await read.receive()
        assert len(served.notices._connections) == 2

        for _ in range(3):
            await served.notices.tell(["agent://ready"])
            assert await heard.until("list", seconds=5) == ["agent://ready", "list"]
        group.cancel_scope.cancel()


def listen_and_vanish(address: Address) -> None:
    """Open a stream of changes, wait until it is acknowledged, and cut the connection."""
    body = json.dumps(
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "subscriptions/listen",
            "params": {"notifications": {"resourcesListChanged": True}, "_meta": META},
        }
    )
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{address.port}\r\nContent-Type: application/json\r\n"
        "Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n"
        f"Mcp-Method: subscriptions/listen\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", address.port), timeout=10) as connection:
        connection.sendall((head + body).encode())
        received = b""
        while b"subscriptions/acknowledged" not in received:
            piece = connection.recv(65536)
            assert piece, received
            received += piece


@pytest.mark.slow
def test_clients_that_vanish_over_http_leave_room_for_others(agents: Path, tmp_path: Path) -> None:
    """The SDK allows 1,024 streams at once: a stream that were kept after its client has gone would use one up."""
    with over_http(tmp_path, "--root", "agents") as address:
        for _ in range(1100):
            listen_and_vanish(address)
