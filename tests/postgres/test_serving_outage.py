"""A server whose Postgres is away for longer than it waits: it stays, and goes on with its sessions afterwards."""

import sys
from pathlib import Path

import anyio
import pytest

from tests.cli.blueprint_project import PACK
from tests.postgres.test_serving import KEY, machine
from tests.postgres_server import postgres_server
from tests.process import comes_true
from tests.server.conftest import over_http, write_agent
from tests.server.test_processes import opened_at

PROGRAM = """\
from agent_resolver.server import session
from agent_resolver.storage.postgres import database, store
session._WAKE_SECONDS = database.RETURN_SECONDS = store.RETURN_SECONDS = 1
from agent_resolver.cli import entry
entry()
"""
"""The command, with less patience than the real half a minute."""
AWAY_SECONDS = 8.0


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.anyio
async def test_a_server_outlasts_a_long_absence_of_postgres(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent changes meanwhile: who subscribed to it hears of that once the state can be read again."""

    def command(*options: str) -> list[str]:
        return [sys.executable, "-c", PROGRAM, "serve", *options]

    monkeypatch.setattr("tests.server.conftest.command", command)
    with postgres_server() as server:
        shop = machine(tmp_path / "one", server.new_database())
        shop.write("pack.yaml", PACK)
        agents = shop.folder / "agents"
        write_agent(agents, "watched")
        options = ("--trust", "--shared")
        with over_http(shop.folder, *options, **KEY) as here, over_http(shop.folder, *options, **KEY) as there:
            async with opened_at(here) as session, session.stream(here) as stream, anyio.create_task_group() as group:
                heard: list[str] = []
                answers: list[str] = []

                async def listen() -> None:
                    async for line in stream.aiter_lines():
                        heard.append(line)  # noqa: PERF401 - others look at it meanwhile

                async def call() -> None:
                    answered = await session.ask(here, "tools/call", 7, name="shop__pack", arguments={"id": "lamp-1"})
                    answers.append(answered.text)

                subscribed = await session.ask(there, "resources/subscribe", uri="agent://watched")
                assert "error" not in subscribed.text
                group.start_soon(listen)
                server.kill()
                write_agent(agents, "watched", body="Changed.")
                await anyio.sleep(AWAY_SECONDS)
                assert (here.process.poll(), there.process.poll()) == (None, None)
                assert not any("resources/updated" in line for line in heard)
                server.start()
                await comes_true(lambda: any("resources/updated" in line for line in heard), 60.0)

                # What other servers ask for is heard again as well.
                group.start_soon(call)
                await comes_true(lambda: shop.notes == ["pack lamp-1"], 60.0)
                await session.tell(there, "notifications/cancelled", requestId=7)
                await comes_true(lambda: bool(answers), 30.0)
                group.cancel_scope.cancel()
            (shop.folder / "packed").touch()

    assert "-32800" in answers[0]
