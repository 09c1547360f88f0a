"""Servers on two machines over one Postgres: the same sessions and tasks."""

from pathlib import Path

import pytest

from tests.cli.blueprint_project import CONFIG, BlueprintProject, write_shop
from tests.server.conftest import over_http
from tests.server.task_client import ask, reach, start, task_client
from tests.server.test_processes import opened_at

KEY = {"STATE_KEY": "6b" * 32}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def machine(folder: Path, url: str) -> BlueprintProject:
    folder.mkdir()
    shop = write_shop(folder)
    (folder / "agent.toml").write_text(f'{CONFIG}\n[state]\nurl = "{url}"\nkey_env = "STATE_KEY"\n')
    return shop


@pytest.mark.anyio
async def test_sessions_and_tasks_are_the_same_on_two_machines(tmp_path: Path, url: str) -> None:
    one, two = machine(tmp_path / "one", url), machine(tmp_path / "two", url)
    options = ("--trust", "--shared")
    with over_http(one.folder, *options, **KEY) as here, over_http(two.folder, *options, **KEY) as there:
        async with opened_at(here) as session:
            used = (await session.ask(there, "tools/list")).status_code
            ended = await session.end(there)
            after = (await session.ask(here, "tools/list")).status_code
        async with task_client(here.url) as first, task_client(there.url) as second:
            task = await start(first, "shop__ask", {"item": "lamp"})
            await reach(second, task, "input_required")
            await ask(second, "tasks/cancel", task)
            await reach(first, task, "cancelled")

    assert (used, ended, after) == (200, 200, 404)
    assert sorted([*one.notes, *two.notes]) == ["release lamp-1", "reserve lamp"]
