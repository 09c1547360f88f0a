"""Servers that are started for a test, and are gone after it."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_resolver.connection import Credentials, ServerUse, Surroundings
from agent_resolver.core import Grant
from agent_resolver.schema import Launch, LockedServer
from tests.process import assert_none_is_left

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
