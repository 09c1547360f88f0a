"""MCP tasks of agents' runs over one Postgres: they outlive the server that they were started at."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.scripted_model import asking, saying, write_notes, write_script
from tests.postgres.test_serving import KEY
from tests.server.conftest import Address, environment, over_http
from tests.server.task_client import ask, reach, start, task_client
from tests.server.test_task_process import kill

pytestmark = pytest.mark.anyio
OPTIONS = ("--trust", "--shared", "--run", "--inbox")
LEASE_SECONDS = 90.0
"""Longer than the lease of a server that was killed: until it runs out, no other one drives its runs."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def machine(folder: Path, url: str, *answers: dict[str, Any]) -> Path:
    """The notes as a machine has them, with their state in Postgres; `answers` are those of the model there."""
    folder.mkdir()
    write_notes(folder)
    write_script(folder, *answers)
    with (folder / "agent.toml").open("a") as settings:
        settings.write(f'\n[state]\nurl = "{url}"\nkey_env = "STATE_KEY"\n')
    return folder


def agent(folder: Path, *command: str) -> Any:
    """The JSON that a command prints on a machine."""
    line = [sys.executable, "-m", "agent_resolver", *command, "--trust", "--json"]
    variables = {**environment(folder), **KEY}
    ran = subprocess.run(line, cwd=folder, env=variables, capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def calls_of(folder: Path, tool: str) -> int:
    """How often the tool did its work, as the trail has it."""
    records = agent(folder, "audit", "show")
    return sum(record["kind"] == "call.done" and record["body"]["tool"] == tool for record in records)


async def start_at(address: Address) -> tuple[str, dict[str, Any]]:
    """Start a run of the agent and leave once it waits for a person; its id, and the task as it is then."""
    async with task_client(address.url) as client:
        task = await start(client, "run_agent", {"agent": "keeper", "prompt": "Write"})
        waiting = await reach(client, task, "input_required", seconds=60)
    return task, waiting


async def test_a_run_that_was_approved_goes_on_at_another_server(tmp_path: Path, url: str) -> None:
    one = machine(tmp_path / "one", url, asking("notes__write", name="welcome"))
    two = machine(tmp_path / "two", url, saying("Written."))
    with over_http(one, *OPTIONS, **KEY) as here, over_http(two, *OPTIONS, **KEY) as there:
        task, waiting = await start_at(here)
        kill(here)
        agent(two, "inbox", "approve", waiting["_meta"]["agent-resolver/pending"]["id"])
        async with task_client(there.url) as client:
            done = await reach(client, task, "completed", seconds=LEASE_SECONDS)
        async with task_client(there.url) as client:
            again = await ask(client, "tasks/get", task)
        runs = agent(two, "runs", "list")
        count = calls_of(two, "notes.write")

    assert done["result"]["structuredContent"]["text"] == "Written."
    assert again["result"]["structuredContent"] == done["result"]["structuredContent"]
    assert [(run["id"], run["status"]) for run in runs] == [(task, "done")]
    assert count == 1


async def test_a_question_of_a_run_is_answered_at_another_server(tmp_path: Path, url: str) -> None:
    one = machine(tmp_path / "one", url, asking("notes__file", name="welcome"))
    two = machine(tmp_path / "two", url, saying("Filed."))
    with over_http(one, *OPTIONS, **KEY) as here, over_http(two, *OPTIONS, **KEY) as there:
        task, _ = await start_at(here)
        kill(here)
        async with task_client(there.url, can_ask=True) as client:
            waiting = await ask(client, "tasks/get", task)
            [question] = waiting["inputRequests"]
            answer = {"action": "accept", "content": {"answer": "the upper one"}}
            await ask(client, "tasks/update", task, inputResponses={question: answer})
            done = await reach(client, task, "completed", seconds=LEASE_SECONDS)
        runs = agent(two, "runs", "list")
        count = calls_of(two, "notes.file")

    assert done["result"]["structuredContent"]["text"] == "Filed."
    assert [(run["id"], run["status"]) for run in runs] == [(task, "done")]
    assert count == 1
