"""How far a call is, on the wire, and clients that do not read or are gone."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
import pytest
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from msgspec import Struct

from agent_resolver.registry import Ports
from agent_resolver.server import AgentServer, tool as under_test
from agent_resolver.storage import MemoryStore
from tests.registry.sample import MemoryTool, echo, kinds_of
from tests.server.conftest import ERAS, INITIALIZE, META, Serve
from tests.server.watched import Watched

CALL = {"name": "memory.echo", "arguments": {}}


class Wire(Struct, frozen=True):
    """Both ends of a connection to a server, and nothing that reads by itself."""

    to_server: MemoryObjectSendStream[SessionMessage | Exception]
    from_server: MemoryObjectReceiveStream[SessionMessage]

    async def send(self, method: str, wanted: str, params: dict[str, Any]) -> None:
        request = types.JSONRPCRequest(jsonrpc="2.0", id=wanted, method=method, params=params)
        await self.to_server.send(SessionMessage(request))

    async def receive(self) -> Any:
        with anyio.fail_after(10):
            return (await self.from_server.receive()).message


@asynccontextmanager
async def wired(server: AgentServer, mode: str) -> AsyncIterator[Wire]:
    """A client that has said hello and now reads what it is told to read."""
    to_server, at_server = anyio.create_memory_object_stream[SessionMessage | Exception](8)
    by_server, from_server = anyio.create_memory_object_stream[SessionMessage]()
    async with anyio.create_task_group() as group, to_server, from_server:
        group.start_soon(server.run, at_server, by_server, server.create_initialization_options())
        wire = Wire(to_server, from_server)
        if mode == "legacy":
            await wire.send("initialize", "initialize", INITIALIZE["params"])  # type: ignore[arg-type]
            assert (await wire.receive()).id == "initialize"
            ready = types.JSONRPCNotification(jsonrpc="2.0", method="notifications/initialized")
            await to_server.send(SessionMessage(ready))
        yield wire
        group.cancel_scope.cancel()


def asking(mode: str, **more: Any) -> dict[str, Any]:
    """The parameters of a call in the words of an era."""
    return {**CALL, "_meta": {**(META if mode != "legacy" else {}), **more}}


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.anyio
async def test_whoever_asks_is_told_how_far_a_call_is_before_its_result(serve: Serve, mode: str) -> None:
    async with wired(serve(tools=[Watched(steps=3)]).server, mode) as wire:
        await wire.send("tools/call", "call", asking(mode, progressToken="t-1"))
        told = [await wire.receive() for _ in range(4)]

    assert [each.params for each in told[:3]] == [
        {"progressToken": "t-1", "progress": step, "total": 3, "message": f"step {step}"} for step in range(3)
    ]
    assert [each.method for each in told[:3]] == ["notifications/progress"] * 3
    assert (told[3].id, told[3].result["isError"]) == ("call", False)


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.anyio
async def test_whoever_does_not_ask_is_told_the_result_alone(serve: Serve, mode: str) -> None:
    async with wired(serve(tools=[Watched(steps=3)]).server, mode) as wire:
        await wire.send("tools/call", "call", asking(mode))
        told = await wire.receive()

    assert told.id == "call"


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.anyio
async def test_a_client_that_asks_and_does_not_read_stops_nothing(
    serve: Serve, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is waited for once, not with each of ten thousand steps."""
    monkeypatch.setattr(under_test, "_PATIENCE_SECONDS", 0.05)
    tool, store = Watched(steps=10_000), MemoryStore()
    async with wired(serve(tools=[tool], ports=Ports(store=store)).server, mode) as wire:
        await wire.send("tools/call", "call", asking(mode, progressToken="t-1"))
        with anyio.fail_after(10):
            await tool.ended.wait()
        while (told := await wire.receive()).model_dump().get("id") != "call":
            pass

    assert told.result["isError"] is False
    assert kinds_of(store) == ["call.started", "call.done"]


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.anyio
async def test_a_client_that_goes_leaves_a_call_that_ends_and_is_recorded(serve: Serve, mode: str) -> None:
    started, go_on = anyio.Event(), anyio.Event()

    async def slow(arguments: dict[str, Any]) -> object:
        started.set()
        await go_on.wait()
        return await echo(arguments)

    store = MemoryStore()
    served = serve(tools=[MemoryTool(work=slow)], ports=Ports(store=store))
    async with wired(served.server, mode) as wire:
        await wire.send("tools/call", "call", asking(mode, progressToken="t-1"))
        await started.wait()
    assert kinds_of(store) == ["call.started"]
    go_on.set()
    with anyio.fail_after(10):
        await served.registry.settle()

    assert kinds_of(store) == ["call.started", "call.done"]
