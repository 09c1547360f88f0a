"""Servers that are called over Streamable HTTP: one that is not ours, and one of the newest revision."""

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_resolver.project import OpenTools, Session, open_tools
from agent_resolver.schema import Done, Failed, FailureCode, Outcome, local_caller
from tests.integration.conftest import HERE, Project, Served, Service, entry

ECHO = {"echo": ["use"], "trigger-long-running-operation": ["use"], "hang": ["use"]}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def everything(service: Served, node: str, servers: Path, tmp_path: Path) -> Service:
    """`@modelcontextprotocol/server-everything` on a free port of loopback."""
    script = servers / "server-everything" / "dist" / "index.js"
    preload = HERE / "servers" / "loopback.cjs"
    return service(node, "--require", str(preload), str(script), "streamableHttp", str(tmp_path))


def at(service: Service, server_id: str = "remote") -> dict[str, Any]:
    return entry(server_id, ECHO, endpoint=service.url)


def test_a_server_of_the_older_revision_answers(project: Project, everything: Service) -> None:
    project.write(at(everything))

    assert [tool["id"] for tool in project.listing()["tools"]] == [
        "remote.echo",
        "remote.trigger-long-running-operation",
    ]
    assert project.outcome("remote.echo", message="hello")["result"] == [{"type": "text", "text": "Echo: hello"}]
    assert project.agent("audit", "verify").returncode == 0


def test_a_server_of_the_newest_revision_answers(project: Project, http: Served) -> None:
    project.write(at(http()))

    assert project.outcome("remote.echo", message="hello")["result"] == {"message": "hello"}


def test_a_server_that_is_called_needs_no_trust_in_the_folder(project: Project, http: Served) -> None:
    project.write(at(http()))

    assert project.agent("tools", "call", "remote.echo", "{}").returncode == 0


def test_a_port_where_nobody_listens_is_told(project: Project, http: Served) -> None:
    remote = http()
    project.write(at(remote))
    remote.stop()

    outcome = project.outcome("remote.echo", message="hello")

    assert outcome["code"] == "SERVER_UNAVAILABLE"
    assert outcome["message"].startswith("remote cannot be reached: ")


@pytest.mark.parametrize("which", ["everything", "http"])
def test_a_server_that_stops_in_a_call_does_not_keep_us(
    project: Project, which: str, request: pytest.FixtureRequest, stopwatch: Callable[[], float]
) -> None:
    fixture = request.getfixturevalue(which)
    remote = fixture if which == "everything" else fixture()
    project.write(at(remote))
    tool, arguments = ("hang", "{}") if which == "http" else ("trigger-long-running-operation", '{"duration": 600}')
    command = project.start("tools", "call", f"remote.{tool}", arguments, "--timeout", "5")
    while "call.started" not in project.agent("audit", "show").stdout:
        assert stopwatch() < 30
    remote.process.send_signal(signal.SIGSTOP)

    _, stderr = command.communicate(timeout=30)

    assert command.returncode == 1
    assert stderr.startswith("✗ TIMEOUT: ")


@pytest.fixture
def listener() -> Iterator[tuple[str, list[bytes]]]:
    """Somebody who notes what comes in, and never answers."""
    heard: list[bytes] = []

    def hear(server: socket.socket) -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(5)
                heard.append(connection.recv(100_000))

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=hear, args=(server,))
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", heard
        server.shutdown(socket.SHUT_RDWR)
    thread.join()


def test_no_proxy_sees_what_is_sent_to_this_machine(
    project: Project, http: Served, listener: tuple[str, list[bytes]]
) -> None:
    address, heard = listener
    project.write(
        entry("remote", ECHO, endpoint=http("token", "canary-token").url), config='[servers.remote]\ntoken_env = "T"\n'
    )
    project.environment |= {"T": "canary-token", "HTTP_PROXY": address, "http_proxy": address, "ALL_PROXY": address}

    assert project.outcome("remote.echo", message="hello")["status"] == "done"
    assert heard == []


def test_a_redirect_does_not_carry_the_token_away(
    project: Project, http: Served, listener: tuple[str, list[bytes]]
) -> None:
    address, heard = listener
    project.write(
        entry("remote", ECHO, endpoint=http("redirect", f"{address}/mcp").url),
        config='[servers.remote]\ntoken_env = "T"\n',
    )
    project.environment["T"] = "canary-token"

    outcome = project.outcome("remote.echo", message="hello")

    assert (outcome["status"], outcome["code"]) == ("failed", "PROTOCOL_ERROR")
    assert "not followed" in outcome["message"]
    assert heard == []


async def call(tools: OpenTools) -> Outcome:
    return await tools.registry.call("remote.echo", {"message": "hello"}, tools.context)


@pytest.mark.anyio
@pytest.mark.parametrize("which", ["everything", "http"])
async def test_a_server_that_is_started_again_is_found_again(
    project: Project, which: str, request: pytest.FixtureRequest
) -> None:
    fixture = request.getfixturevalue(which)
    remote = fixture if which == "everything" else fixture()
    project.write(at(remote))
    opened = Session(str(project.folder / "agents.md"), str(project.folder / "mcp.index.json"), environment={})

    async with open_tools(opened, caller=local_caller("tests")) as tools:
        before = await call(tools)
        remote.stop()
        without = await call(tools)
        remote.start()
        # A session of the older revision is lost with its server; whoever calls then learns it once.
        again = [await call(tools), await call(tools)]
    opened.close()

    assert isinstance(before, Done)
    assert isinstance(without, Failed)
    assert without.code is FailureCode.SERVER_UNAVAILABLE
    assert isinstance(again[1], Done)


@pytest.mark.anyio
async def test_a_session_that_is_lost_is_opened_again(project: Project, everything: Service) -> None:
    project.write(at(everything))
    opened = Session(str(project.folder / "agents.md"), str(project.folder / "mcp.index.json"), environment={})

    async with open_tools(opened, caller=local_caller("tests")) as tools:
        assert isinstance(await call(tools), Done)
        everything.stop()
        everything.start()
        lost, found = await call(tools), await call(tools)
    opened.close()

    assert isinstance(lost, Failed)
    assert lost.code is FailureCode.SERVER_UNAVAILABLE
    assert isinstance(found, Done)
