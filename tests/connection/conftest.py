"""Servers that are started for a test, and are gone after it."""

import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent_resolver.connection import Credentials, LockedServers, ServerUse, Surroundings
from agent_resolver.core import Grant
from agent_resolver.registry import CallContext, Ports, ToolRegistry
from agent_resolver.schema import Done, Failed, FailureCode, Launch, LockedServer
from agent_resolver.storage import MemoryStore
from tests.process import assert_none_is_left
from tests.registry.sample import CONTEXT

SERVERS = Path(__file__).parent / "servers"


@pytest.fixture
def anyio_backend() -> str:
    """The loop that the product runs in."""
    return "asyncio"


@pytest.fixture(autouse=True)
def _little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server is asked politely before it is ended; most of them here never listen."""
    monkeypatch.setattr("agent_resolver.connection.launch._PATIENCE_SECONDS", 0.4)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where servers are started; when the test is over, none of them runs."""
    yield tmp_path
    assert_none_is_left(tmp_path)


@pytest.fixture
def around(folder: Path) -> Iterator[Surroundings]:
    """What servers are started with."""
    with (folder / "stderr.txt").open("w") as errors:
        yield Surroundings(folder=str(folder), environment={}, errors=errors, connect_seconds=10.0, call_seconds=10.0)


def locked(script: str, *arguments: str, server_id: str = "raw", env: tuple[str, ...] = ()) -> LockedServer:
    """The entry of a server that is started from a script in `servers/`."""
    launch = Launch(command=sys.executable, args=("-I", str(SERVERS / script), *arguments), env=env)
    return LockedServer(
        category="tests",
        server_id=server_id,
        version="1.0.0",
        endpoint=launch.endpoint,
        scopes=("use",),
        hash="not looked at here",
        launch=launch,
    )


def use(entry: LockedServer, *tools: str, credentials: Credentials | None = None) -> ServerUse:
    """That server, with a map in which the locked scope opens these tools."""
    grant = Grant(
        server=entry.server_id,
        scopes=frozenset({"use"}),
        tool_scopes=dict.fromkeys(tools, ("use",)),
        forbid=(),
        admitted=frozenset(),
    )
    return ServerUse(entry=entry, grant=grant, credentials=credentials or Credentials())


class Offer:
    """A registry with the tools of some servers, none of which is connected yet."""

    def __init__(
        self, uses: tuple[ServerUse, ...], around: Surroundings, store: MemoryStore | None = None, **ports: Any
    ) -> None:
        self.store = store or MemoryStore()
        self.registry = ToolRegistry(Ports(store=self.store, **ports))
        self.servers = LockedServers(uses, self.registry, self.store, around)
        self.changes: list[list[str]] = []
        """The tools after each change of which the registry has told."""
        self.registry.on_change = lambda: self.changes.append(self.listed())

    async def call(self, tool_id: str, context: CallContext = CONTEXT, /, **arguments: Any) -> Any:
        return await self.registry.call(tool_id, arguments, context)

    async def result(self, tool_id: str, **arguments: Any) -> Any:
        outcome = await self.call(tool_id, **arguments)
        assert isinstance(outcome, Done), outcome
        return outcome.result

    async def failure(self, tool_id: str, **arguments: Any) -> tuple[FailureCode, str]:
        outcome = await self.call(tool_id, **arguments)
        assert isinstance(outcome, Failed), outcome
        return outcome.code, outcome.message

    def listed(self) -> list[str]:
        return [descriptor.id for descriptor in self.registry.list()]

    def refused(self) -> dict[str, str]:
        return {tool.id: tool.why.code.value for tool in self.registry.refused()}

    def records(self, *kinds: str) -> list[Mapping[str, Any]]:
        return [record.body for record in self.store.trail if record.kind in kinds]


Offered = Callable[..., AbstractAsyncContextManager[Offer]]


@pytest.fixture
def offered(around: Surroundings) -> Offered:
    """Connects servers unless told otherwise, and closes them when the block ends."""

    @asynccontextmanager
    async def offer(
        *uses: ServerUse,
        store: MemoryStore | None = None,
        is_connected: bool = True,
        ports: Mapping[str, Any] | None = None,
        **other: Any,
    ) -> AsyncIterator[Offer]:
        made = Offer(uses, msgspec.structs.replace(around, **other), store, **(ports or {}))
        try:
            if is_connected:
                await made.servers.connect("run-1")
            yield made
        finally:
            await made.servers.close()

    return offer
