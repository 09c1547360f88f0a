"""A program that serves a project, as `agent serve` does."""

import asyncio
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from agent_resolver import Project, Ready, serve
from agent_resolver.server import CannotServe
from tests.server.conftest import environment

SERVER = """\
import asyncio
from agent_resolver import Project, serve
with Project.open({folder!r}) as project:
    asyncio.run(serve(project))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one agent, which is not the current folder."""
    folder = tmp_path / "project"
    (folder / "agents").mkdir(parents=True)
    (folder / "agents" / "writer.md").write_text("---\nname: writer\ndescription: writes\n---\nWrite.\n")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return folder


async def listed_by(client: Client) -> list[str]:
    async with client:
        return [str(resource.uri) for resource in (await client.list_resources()).resources]


def test_a_program_serves_over_http_until_it_is_cancelled(folder: Path) -> None:
    async def work(project: Project) -> tuple[Ready, list[str]]:
        ready: asyncio.Future[Ready] = asyncio.get_running_loop().create_future()
        serving = asyncio.create_task(serve(project, http=("127.0.0.1", 0), on_ready=ready.set_result))
        address = (await ready).url
        assert address is not None
        found = await listed_by(Client(address))
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
        return await ready, found

    with Project.open(folder) as project:
        ready, found = asyncio.run(work(project))

    assert (ready.agents, ready.tools, ready.problems) == (1, 0, {})
    assert found == ["agent://writer"]


@pytest.mark.slow  # It starts a program that serves.
def test_a_program_serves_the_client_at_its_stdin_and_stdout(folder: Path) -> None:
    program = SERVER.format(folder=str(folder))
    server = StdioServerParameters(command=sys.executable, args=["-c", program], env=environment(folder))

    assert asyncio.run(listed_by(Client(server))) == ["agent://writer"]


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])  # noqa: S104 - this is what is refused
def test_an_address_that_others_reach_needs_the_name_that_they_use(folder: Path, host: str) -> None:
    with Project.open(folder) as project, pytest.raises(CannotServe, match="can be reached from other machines"):
        asyncio.run(serve(project, http=(host, 0)))


def test_a_page_has_no_more_agents_than_clients_can_hold(folder: Path) -> None:
    with Project.open(folder) as project, pytest.raises(CannotServe, match="1 to 100"):
        asyncio.run(serve(project, page_size=101))
