"""Servers on two machines over one Postgres: the same sessions and tasks, and what outlives a server."""

from pathlib import Path

import anyio
import pytest
from mcp import MCPError

from tests.cli.blueprint_project import CONFIG, PACK, BlueprintProject, write_shop
from tests.process import comes_true
from tests.server.conftest import over_http
from tests.server.task_client import ask, reach, start, task_client
from tests.server.test_processes import opened_at
from tests.server.test_task_process import kill

KEY = {"STATE_KEY": "6b" * 32}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def machine(folder: Path, url: str, engine: str = "memory") -> BlueprintProject:
    """The shop as a machine has it, with its state in Postgres."""
    folder.mkdir()
    shop = write_shop(folder)
    config = CONFIG.replace('"memory"', f'"{engine}"')
    (folder / "agent.toml").write_text(f'{config}\n[state]\nurl = "{url}"\nkey_env = "STATE_KEY"\n')
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


@pytest.mark.anyio
async def test_a_request_is_cancelled_and_a_stream_ended_through_another_machine(tmp_path: Path, url: str) -> None:
    one, two = machine(tmp_path / "one", url), machine(tmp_path / "two", url)
    options = ("--trust", "--shared")
    answers: list[str] = []
    with over_http(one.folder, *options, **KEY) as here, over_http(two.folder, *options, **KEY) as there:
        async with opened_at(here) as session, session.stream(here) as stream, anyio.create_task_group() as group:

            async def call() -> None:
                answered = await session.ask(here, "tools/call", 7, name="shop__pack", arguments={"id": "lamp-1"})
                answers.append(answered.text)

            group.start_soon(call)
            await comes_true(lambda: one.notes == ["pack lamp-1"])
            await session.tell(there, "notifications/cancelled", requestId=7)
            await comes_true(lambda: bool(answers), 30.0)
            await session.end(there)
            with anyio.fail_after(30):
                async for _ in stream.aiter_lines():
                    pass
        (one.folder / "packed").touch()

    assert "-32800" in answers[0]


@pytest.mark.anyio
@pytest.mark.parametrize("engine", ["memory", "dbos"])
async def test_a_task_of_a_server_that_was_killed_goes_on_at_another_machine(
    tmp_path: Path, url: str, engine: str
) -> None:
    one, two = machine(tmp_path / "one", url, engine), machine(tmp_path / "two", url, engine)
    for each in (one, two):
        each.write("pack.yaml", PACK)
    with over_http(one.folder, "--trust", "--shared", **KEY) as here:
        async with task_client(here.url) as client:
            task = await start(client, "shop__pack_and_send", {})
            await comes_true(lambda: one.notes == ["pack lamp-1"])
        kill(here)
    (two.folder / "packed").touch()
    with over_http(two.folder, "--trust", "--shared", **KEY) as there:
        async with task_client(there.url) as client:
            done = await reach(client, task, "completed", seconds=90)

    assert done["result"]["structuredContent"] == {"sent": "lamp-1"}
    assert [*one.notes, *two.notes] == ["pack lamp-1", "pack lamp-1", "send lamp-1"]


@pytest.mark.anyio
@pytest.mark.parametrize("task", ["\x00", "a\x00b", "é", "x" * 64, "x" * 65])
async def test_an_id_that_no_task_has_is_not_found_in_postgres(tmp_path: Path, url: str, task: str) -> None:
    one = machine(tmp_path / "one", url)
    with over_http(one.folder, "--trust", "--shared", **KEY) as address:
        async with task_client(address.url) as client:
            for method in ("tasks/get", "tasks/cancel"):
                with pytest.raises(MCPError) as refused:
                    await ask(client, method, task)
                assert refused.value.error.code == -32602
