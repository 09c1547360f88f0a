"""A task under a lock: the planner sees what the lock, the agent file and the settings open together, and no more."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_resolver.project import Session
from agent_resolver.project.task import kept_tasks
from agent_resolver.schema import local_caller
from tests.cli.conftest import AGENT, edit, kinds, server
from tests.conftest import Run
from tests.process import started

CONFIG = '[tools]\nblueprints = ["blueprints"]\n'
OPEN = ("raw.echo", "raw.environment", "raw.fail", "raw.hang", "raw.promise-broken")
LISTS = "tools: [raw.echo, raw.fail, raw.die]\ndisallowedTools: [raw.fail]\n"


def surface(project: Path, task: dict[str, Any]) -> tuple[str, ...]:
    """The tools that the planner of a task sees."""
    with Session(str(project / "agents.md"), "mcp.index.json", environment={}) as session:
        view = asyncio.run(kept_tasks(session).view(task["task_id"], local_caller("lin")))
    return view.state.tools


def start(run: Run, *options: str) -> Any:
    ran = run("task", "start", "Echo the text 'hello'", "--json", *options)
    return json.loads(ran.stdout)


@pytest.fixture
def locked(write: Callable[..., Path], run: Run) -> Path:
    """A trusted project whose agent is locked to one server."""
    project = write(server("raw"), config=CONFIG)
    assert run("trust-folder").code == 0
    return project


def test_the_planner_sees_what_the_lock_opens_and_nothing_that_is_forbidden(locked: Path, run: Run) -> None:
    """`raw.process` takes a scope that is not locked, and `raw.die` is forbidden by `d*`."""
    task = start(run)

    assert surface(locked, task) == OPEN
    assert len(started(locked)) == 1
    assert kinds(locked)[:3] == ["lock.verified", "server.connected", "server.tools"]


def test_the_settings_narrow_what_the_lock_opens(locked: Path, run: Run) -> None:
    task = start(run, "--config", 'reasoner.tools=["raw.e*", "raw.die", "raw.process"]')

    assert surface(locked, task) == ("raw.echo", "raw.environment")


def test_the_lists_of_the_agent_file_narrow_it_too(write: Callable[..., Path], run: Run) -> None:
    project = write(server("raw"), config=CONFIG, agent=AGENT.replace("constraints:", f"{LISTS}constraints:"))
    assert run("trust-folder").code == 0

    assert surface(project, start(run)) == ("raw.echo",)


def test_more_that_is_forbidden_hides_more(locked: Path, run: Run) -> None:
    edit(locked / "agents.md", '["d*"]', '["d*", "raw.echo"]')
    assert run("resolve").code == 0
    assert run("trust-folder").code == 0
    task = start(run)

    assert surface(locked, task) == OPEN[1:]


def test_a_lock_that_does_not_hold_refuses_a_task_before_anything_starts(locked: Path, run: Run) -> None:
    edit(locked / "agents.md", "[use]", "[use, other]")
    refused = run("task", "start", "Echo the text 'hello'")

    assert (refused.code, refused.stdout) == (1, "")
    assert "agent resolve" in refused.stderr
    assert started(locked) == []
    assert kinds(locked) == ["lock.refused"]


def test_a_task_that_waits_does_not_go_on_under_a_lock_that_no_longer_holds(locked: Path, run: Run) -> None:
    task = start(run)
    edit(locked / "agents.md", "[use]", "[use, other]")
    refused = run("task", "resume", task["task_id"])

    assert refused.code == 1
    assert "agent resolve" in refused.stderr
    assert kinds(locked)[-1] == "lock.refused"
