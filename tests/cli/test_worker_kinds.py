"""`agent worker` with runs of every kind: shared, handed over, adopted, and out of reach of a frozen worker."""

import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.process import eventually
from tests.worker_project import WorkerProject, end_process, wait_until

if TYPE_CHECKING:
    import subprocess

pytestmark = pytest.mark.slow


class Workers:
    """Starts workers, and ends those that are left."""

    def __init__(self, project: WorkerProject) -> None:
        self._project = project
        self._started: list[subprocess.Popen[str]] = []

    def start(self, *options: str, is_short: bool = False) -> "subprocess.Popen[str]":
        worker = self._project.start("worker", "--trust", *options, is_short=is_short)
        self._started.append(worker)
        return worker

    def end(self) -> None:
        for worker in self._started:
            worker.kill()
            worker.communicate(timeout=60)


@pytest.fixture
def project(tmp_path: Path) -> WorkerProject:
    (tmp_path / "shared").mkdir()
    return WorkerProject(tmp_path / "project", tmp_path / "shared", AGENT_ENGINE_KIND="memory")


@pytest.fixture
def workers(project: WorkerProject) -> Iterator[Workers]:
    made = Workers(project)
    yield made
    made.end()


def rows_of_runs(project: WorkerProject) -> list[str]:
    """Every row of the state that is about runs: not what workers say of themselves, and no lease."""
    with closing(sqlite3.connect(project.folder / ".agent" / "state.db")) as connection:
        lines = list(connection.iterdump())
    return [line for line in lines if not line.startswith(('INSERT INTO "worker"', 'INSERT INTO "lease"'))]


def wait_for_begin(project: WorkerProject, worker: "subprocess.Popen[str]", *names: str) -> None:
    assert eventually(lambda: set(project.begun(worker.pid)) >= set(names), 90), (project.notes, worker.poll())


def wait_for_losses(worker: "subprocess.Popen[str]", count: int) -> None:
    """Wait until a worker has said of so many runs that it lost them."""
    assert worker.stderr is not None
    lost: list[str] = []
    while len(lost) < count:
        line = worker.stderr.readline()
        assert line, f"the worker ended after {lost}"
        lost += [line] if line.startswith("warning: run") else []


def test_one_worker_brings_runs_of_every_kind_to_their_ends(project: WorkerProject) -> None:
    project.begin_agents("a", "b")
    project.begin_blueprints("c")
    project.begin_task("VPN down")
    assert project.approve_all() == 3
    project.let_go()
    project.agent("worker", "--until-idle", "--trust")

    assert project.code == 0, project.complaint
    assert project.statuses() == {"agent": ["done", "done"], "blueprint": ["done", "done"], "task": ["done"]}
    assert project.done == ["a", "b", "c-1", "c-2"]
    assert "warning" not in project.complaint


def test_a_worker_takes_only_the_kinds_that_it_was_told(project: WorkerProject) -> None:
    project.begin_agents("a")
    project.begin_blueprints("c")
    project.approve_all()
    project.let_go()
    project.agent("worker", "--until-idle", "--trust", "--kind", "agent")

    assert project.statuses() == {"agent": ["done"], "blueprint": ["waiting"]}


def test_a_killed_worker_loses_no_run_and_doubles_no_effect(project: WorkerProject, workers: Workers) -> None:
    project.begin_agents("a")
    project.begin_blueprints("c")
    project.approve_all()
    killed = workers.start()
    wait_for_begin(project, killed, "a", "c-1")
    killed.kill()
    other = workers.start("--json")
    wait_for_begin(project, other, "a", "c-1")
    project.let_go()
    wait_until(project, {"agent": ["done"], "blueprint": ["done"]})
    states = project.workers()

    assert project.done == ["a", "c-1", "c-2"]
    assert (states[killed.pid], states[other.pid]) == ("gone", "working")
    other.send_signal(signal.SIGTERM)
    printed, _ = other.communicate(timeout=60)
    assert printed.count('"adopted":true') == 2


def test_a_stopped_worker_hands_its_runs_over(project: WorkerProject, workers: Workers) -> None:
    """What is under way comes to its end in the first worker; the second asks the model, and makes the next call."""
    project.begin_agents("a")
    project.begin_blueprints("c")
    project.approve_all()
    first = workers.start()
    wait_for_begin(project, first, "a", "c-1")
    first.send_signal(signal.SIGTERM)
    assert first.stderr is not None
    assert any("second signal" in line for line in first.stderr)
    project.let_go()
    _, said = first.communicate(timeout=60)
    assert first.returncode == 0, said
    assert project.statuses() == {"agent": ["interrupted"], "blueprint": ["waiting"]}
    project.agent("worker", "--until-idle", "--trust")

    assert project.statuses() == {"agent": ["done"], "blueprint": ["done"]}
    assert sorted(line.split()[1] for line in project.notes if line.startswith("begin")) == ["a", "c-1", "c-2"]
    assert project.done == ["a", "c-1", "c-2"]


def test_an_operator_drains_a_worker_from_another_process(project: WorkerProject, workers: Workers) -> None:
    project.begin_agents("a")
    project.approve_all()
    worker = workers.start()
    wait_for_begin(project, worker, "a")
    [listed] = project.json("worker", "list", "--trust")
    project.agent("worker", "drain", listed["name"][:6], "--trust")
    asked = project.complaint
    assert eventually(lambda: project.workers() == {worker.pid: "draining"}, 30)
    project.let_go()
    project.agent("worker", "drain", "--all", "--wait", "--trust")

    assert project.code == 0, project.complaint
    assert "draining" in asked
    assert worker.wait(timeout=30) == 0
    assert project.workers() == {worker.pid: "stopped"}
    assert project.statuses() == {"agent": ["interrupted"]}


def test_a_person_reads_a_line_about_each_worker(project: WorkerProject, workers: Workers) -> None:
    """What changes from one moment to the next is read from the list for programs, or left out."""
    project.begin_agents("a")
    without = (project.agent("worker", "list", "--trust"), project.complaint)
    worker = workers.start("--capacity", "7", "--kind", "blueprint", "--kind", "agent")
    assert eventually(lambda: project.workers() == {worker.pid: "working"}, 60)
    [listed] = project.json("worker", "list", "--trust")
    printed = project.agent("worker", "list", "--trust")

    assert without == ("", "No workers\n")
    assert project.code == 0, project.complaint
    line, _, seen = printed.rpartition(", seen ")
    assert line == (
        f"{listed['name']}  working, 0 of 7 runs, agent, blueprint, {listed['host']} pid {worker.pid}, "
        f"version {listed['version']}, since {listed['startedAt']}"
    )
    assert seen.removesuffix(" s ago\n").isdecimal()


def test_a_worker_that_is_not_there_cannot_be_drained(project: WorkerProject) -> None:
    project.begin_blueprints("c")
    project.agent("worker", "drain", "abc", "--trust")
    unknown = (project.code, project.complaint)
    project.agent("worker", "drain", "--trust")
    unnamed = (project.code, project.complaint)
    project.agent("worker", "drain", "--all", "--wait", "--trust")

    assert unknown[0] == 1
    assert "No worker that is there has the name abc" in unknown[1]
    assert unnamed[0] == 2
    assert (project.code, project.complaint) == (0, "No worker is there\n")


def test_a_frozen_worker_writes_nothing_and_goes_on_with_other_runs(project: WorkerProject, workers: Workers) -> None:
    """It is stopped in the middle of two calls until its leases have run out, and another worker is done with both."""
    project.begin_agents("a")
    project.begin_blueprints("c")
    project.approve_all()
    frozen = workers.start(is_short=True)
    wait_for_begin(project, frozen, "a", "c-1")
    frozen.send_signal(signal.SIGSTOP)
    other = workers.start(is_short=True)
    wait_for_begin(project, other, "a", "c-1")
    project.let_go()
    wait_until(project, {"agent": ["done"], "blueprint": ["done"]})
    end_process(other)
    before = rows_of_runs(project)
    frozen.send_signal(signal.SIGCONT)
    wait_for_losses(frozen, 2)
    assert rows_of_runs(project) == before
    project.begin_blueprints("d")
    wait_until(project, {"agent": ["done"], "blueprint": ["done", "done"]})

    end_process(frozen)
    assert frozen.returncode == 0
    assert project.notes.count("done d-2") == 1
