"""MCP tasks over stdio and HTTP: they outlive clients, servers that are killed, and waits for a person."""

import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client.stdio import stdio_client

from tests.cli.blueprint_project import BlueprintProject, write_packing_shop
from tests.cli.scripted_model import asking, saying, write_notes, write_script
from tests.process import comes_true
from tests.server.conftest import Address, environment, over_http, over_stdio
from tests.server.task_client import ask, reach, start, task_client
from tests.server.test_run_agent import agent

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
def shop(tmp_path: Path) -> BlueprintProject:
    return write_packing_shop(tmp_path)


def kill(address: Address) -> None:
    address.process.kill()
    address.process.wait()


async def test_a_client_over_stdio_comes_back_to_another_server(shop: BlueprintProject) -> None:
    def connection() -> Any:
        return stdio_client(over_stdio(shop.folder, "--trust"))

    async with task_client(connection()) as client:
        task = await start(client, "shop__ask", {"item": "lamp"})
        waiting = await reach(client, task, "input_required")
    agent(shop.folder, "inbox", "answer", waiting["_meta"]["agent-resolver/pending"]["id"], "yes")
    async with task_client(connection()) as client:
        done = await reach(client, task, "completed")

    assert done["result"]["structuredContent"] == {"answer": "yes", "sent": "lamp-1"}
    assert shop.notes == ["reserve lamp", "send lamp-1"]


async def test_a_task_goes_on_after_its_server_was_killed_in_the_middle(shop: BlueprintProject) -> None:
    with over_http(shop.folder, "--trust") as first:
        async with task_client(first.url) as client:
            task = await start(client, "shop__pack_and_send", {})
            await comes_true(lambda: shop.notes == ["pack lamp-1"])
        kill(first)
    (shop.folder / "packed").touch()
    with over_http(shop.folder, "--trust") as second:
        async with task_client(second.url) as client:
            done = await reach(client, task, "completed")

    assert done["result"]["structuredContent"] == {"sent": "lamp-1"}
    assert shop.notes.count("send lamp-1") == 1


async def test_a_worker_ends_a_task_whose_server_is_gone(shop: BlueprintProject) -> None:
    with over_http(shop.folder, "--trust") as first:
        async with task_client(first.url) as client:
            task = await start(client, "shop__pack_and_send", {})
            await comes_true(lambda: shop.notes == ["pack lamp-1"])
        kill(first)
    (shop.folder / "packed").touch()
    line = [sys.executable, "-m", "agent_resolver", "worker", "--until-idle", "--trust"]
    await anyio.run_process(line, cwd=shop.folder, env=environment(shop.folder))
    with over_http(shop.folder, "--trust") as second:
        async with task_client(second.url) as client:
            done = await ask(client, "tasks/get", task)

    assert done["result"]["structuredContent"] == {"sent": "lamp-1"}


@pytest.mark.parametrize("options", [[], ["--shared"]])
async def test_a_server_that_stops_begins_no_wave_and_hands_its_task_on(
    shop: BlueprintProject, options: list[str]
) -> None:
    with over_http(shop.folder, "--trust", *options) as first:
        async with task_client(first.url) as client:
            task = await start(client, "shop__pack_and_send", {})
            await comes_true(lambda: shop.notes == ["pack lamp-1"])
        first.process.send_signal(signal.SIGTERM)
        # It listens no longer, and so it stops.
        await comes_true(lambda: not is_listening(first.port))
        (shop.folder / "packed").touch()
        code = await anyio.to_thread.run_sync(first.process.wait, 60)
    handed_on = list(shop.notes)
    with over_http(shop.folder, "--trust") as second:
        async with task_client(second.url) as client:
            done = await reach(client, task, "completed")

    assert (code, handed_on) == (0, ["pack lamp-1"])
    assert done["result"]["structuredContent"] == {"sent": "lamp-1"}
    assert shop.notes == ["pack lamp-1", "send lamp-1"]


def is_listening(port: int) -> bool:
    with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port), 10):
        return True
    return False


async def test_two_servers_know_the_same_tasks(shop: BlueprintProject) -> None:
    with over_http(shop.folder, "--trust") as first, over_http(shop.folder, "--trust") as second:
        async with task_client(first.url) as here, task_client(second.url) as there:
            task = await start(here, "shop__ask", {"item": "lamp"})
            waiting = await reach(there, task, "input_required")
            await ask(there, "tasks/cancel", task)
            ended = await reach(here, task, "cancelled")

    assert waiting["taskId"] == ended["taskId"] == task
    assert shop.notes == ["reserve lamp", "release lamp-1"]


async def test_a_run_of_an_agent_waits_for_approval_and_goes_on_elsewhere(tmp_path: Path) -> None:
    write_notes(tmp_path)
    write_script(tmp_path, asking("notes__write", name="welcome"), saying("Written."))
    with over_http(tmp_path, "--trust", "--run") as first:
        async with task_client(first.url) as client:
            task = await start(client, "run_agent", {"agent": "keeper", "prompt": "Write"})
            waiting = await reach(client, task, "input_required")
        kill(first)
    agent(tmp_path, "inbox", "approve", waiting["_meta"]["agent-resolver/pending"]["id"], "--trust")
    write_script(tmp_path, saying("Written."))
    with over_http(tmp_path, "--trust", "--run") as second:
        async with task_client(second.url) as client:
            done = await reach(client, task, "completed")
            again = await ask(client, "tasks/get", task)

    assert waiting["inputRequests"] == {}
    assert done["result"]["structuredContent"]["text"] == "Written."
    assert again["result"]["structuredContent"] == done["result"]["structuredContent"]
    assert [run["id"] for run in agent(tmp_path, "runs", "list")] == [task]


async def test_a_server_that_stops_interrupts_the_run_and_another_cancels_it(tmp_path: Path) -> None:
    write_notes(tmp_path)
    write_script(tmp_path, asking("notes__hang", name="welcome"))
    with over_http(tmp_path, "--trust", "--run") as first:
        async with task_client(first.url) as client:
            task = await start(client, "run_agent", {"agent": "keeper", "prompt": "Hang"})
            await comes_true((tmp_path / "hanging").exists)
    [stopped] = agent(tmp_path, "runs", "list")
    with over_http(tmp_path, "--trust", "--run") as second:
        async with task_client(second.url) as client:
            await ask(client, "tasks/cancel", task)
            ended = await reach(client, task, "cancelled")

    assert stopped["status"] == "interrupted"
    assert ended["taskId"] == task
