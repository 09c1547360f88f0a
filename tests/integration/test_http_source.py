"""A locked server over HTTP as a source of tools: down at the start, lost and regained."""

import io
from pathlib import Path

import pytest

from agent_resolver.connection import Credentials, LockedServers, ServerUse, Surroundings
from agent_resolver.core import Grant
from agent_resolver.registry import CallContext, Ports, ToolRegistry
from agent_resolver.schema import Done, Failed, FailureCode, LockedServer, Outcome, local_caller
from agent_resolver.storage import MemoryStore
from tests.integration.conftest import Served
from tests.process import comes_true

CONTEXT = CallContext(run="run-1", trace_id="0af7651916cd43dd8448eb211c80319c", caller=local_caller("ada"))


def use(url: str) -> ServerUse:
    entry = LockedServer(
        category="tests", server_id="http", version="1.0.0", endpoint=url, scopes=("use",), hash="not looked at"
    )
    grant = Grant(
        server="http",
        scopes=frozenset({"use"}),
        tool_scopes={"echo": ("use",)},
        forbid=(),
        admitted=frozenset(),
    )
    return ServerUse(entry=entry, grant=grant, credentials=Credentials())


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.anyio
async def test_a_lost_server_over_http_is_regained_with_its_tools(
    http: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_resolver.connection.locked_servers._FIRST_WAIT_SECONDS", 0.05)
    monkeypatch.setattr("agent_resolver.connection.locked_servers._LONGEST_WAIT_SECONDS", 0.1)
    monkeypatch.setattr("agent_resolver.connection.locked_servers.SECONDS_BETWEEN", 0.0)
    remote, store = http(), MemoryStore()
    registry = ToolRegistry(Ports(store=store))
    around = Surroundings(folder=str(tmp_path), environment={}, errors=io.StringIO(), call_seconds=5.0)
    servers = LockedServers((use(remote.url),), registry, store, around)

    async def call() -> Outcome:
        return await registry.call("http.echo", {}, CONTEXT)

    def listed() -> list[str]:
        return [tool.id for tool in registry.list()]

    remote.stop()
    try:
        await servers.connect("run-1")
        servers.keep_connected("run-1")
        assert listed() == []
        remote.start()
        await comes_true(lambda: listed() == ["http.echo"])
        assert isinstance(await call(), Done)

        remote.stop()
        gone = await call()
        assert isinstance(gone, Failed)
        assert gone.code is FailureCode.SERVER_UNAVAILABLE
        remote.start()
        await call()  # A call may be the first to notice that its session is over.
        await comes_true(lambda: listed() == ["http.echo"])
        assert isinstance(await call(), Done)
    finally:
        await servers.close()
