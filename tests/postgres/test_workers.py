"""Four workers on four machines, as far as files go, on one Postgres: killed, stopped, frozen and drained."""

import secrets
import signal
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.process import eventually
from tests.worker_project import WorkerProject

if TYPE_CHECKING:
    import subprocess

RUN_TABLES = ("audit", "pending", "ledger", "run", "journal", "artifact", "checkpoints", "checkpoint_writes")


class Machines:
    """Copies of one project in folders of their own, which share nothing but the state and its key."""

    def __init__(self, folder: Path, url: str, **engine: str) -> None:
        """Copies of a project; `engine` has the variables that choose what drives its blueprints."""
        self._folder, self._engine = folder, engine
        (folder / "shared").mkdir()
        self._url = url
        self.here = self._made("here")
        self.started: list[subprocess.Popen[str]] = []

    def _made(self, name: str) -> WorkerProject:
        variables = {
            "AGENT_STATE_URL": self._url,
            "AGENT_STATE_KEY_ENV": "STATE_KEY",
            "STATE_KEY": self._key,
            **self._engine,
        }
        made = WorkerProject(self._folder / name, self._folder / "shared", **variables)
        # Else a person would have to decide about a ticket that was being opened when its worker was killed.
        helpdesk = made.folder / "helpdesk.py"
        opening = '@capability("tickets.open", '
        helpdesk.write_text(helpdesk.read_text().replace(opening, f"{opening}idempotent=True, "))
        return made

    _key = secrets.token_hex(32)

    def start_worker(self, *options: str) -> "subprocess.Popen[str]":
        """Start a worker on a machine of its own."""
        machine = self.here.copy(self._folder / f"machine{len(self.started)}")
        worker = machine.start("worker", "--trust", "--capacity", "3", *options, is_short=True)
        self.started.append(worker)
        return worker

    def rows_of_runs(self) -> dict[str, list[tuple[object, ...]]]:
        """Every row that is about runs: not what workers say of themselves, and no lease."""
        with psycopg.connect(self._url) as connection:
            connection.execute("SET search_path TO agent_resolver")
            found = {}
            for table in RUN_TABLES:
                rows = connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall()  # noqa: S608
                found[table] = rows
            return found

    def tickets(self) -> list[str]:
        """The titles of the tickets that tasks opened on any machine, sorted."""
        found: list[str] = []
        for file in self._folder.glob("*/.agent/helpdesk.db"):
            with closing(sqlite3.connect(file)) as connection:
                found += [title for (title,) in connection.execute("SELECT title FROM ticket")]
        return sorted(found)

    def end(self) -> None:
        for worker in self.started:
            worker.kill()
            worker.communicate(timeout=60)


@pytest.fixture(params=["memory", "dbos"])
def machines(tmp_path: Path, url: str, request: pytest.FixtureRequest) -> Iterator[Machines]:
    made = Machines(tmp_path, url, AGENT_ENGINE_KIND=request.param)
    yield made
    made.end()


def has_ended(here: WorkerProject) -> bool:
    """True once every run is done. With Temporal a worker begins the plan of a task, which asks only then."""
    here.approve_all()
    # The plan of a task is a blueprint too.
    return here.statuses() == {"agent": ["done"] * 4, "blueprint": ["done"] * 8, "task": ["done"] * 3}


def lines_of(worker: "subprocess.Popen[str]") -> list[str]:
    """The lines that a worker writes to stderr, more with time."""
    lines: list[str] = []

    def read() -> None:
        for line in worker.stderr or ():
            lines.append(line)  # noqa: PERF402 - each is seen as soon as it comes

    threading.Thread(target=read, daemon=True).start()
    return lines


def test_four_workers_end_every_run_once_though_one_is_killed_stopped_and_frozen(machines: Machines) -> None:
    """Each of three workers holds runs when it is killed, stopped or frozen; the fourth comes late and ends them."""
    here = machines.here
    agents, blueprints = [f"a{n}" for n in range(4)], [f"b{n}" for n in range(5)]
    here.begin_agents(*agents)
    here.begin_blueprints(*blueprints)
    for number in range(3):
        here.begin_task(f"VPN {number} down")
    assert here.approve_all() >= len(agents)
    killed, stopped, frozen = (machines.start_worker() for _ in range(3))
    held_by = (killed, stopped, frozen)
    assert eventually(lambda: all(len(here.begun(each.pid)) >= 2 for each in held_by), 90), here.notes
    said = lines_of(frozen)
    frozen.send_signal(signal.SIGSTOP)
    stopped.send_signal(signal.SIGTERM)
    killed.kill()
    last = machines.start_worker()
    held = set(here.begun(frozen.pid)) | set(here.begun(killed.pid))
    assert eventually(lambda: len(here.begun(last.pid)) >= 1, 90), here.notes
    here.let_go()
    assert eventually(lambda: has_ended(here), 180), (here.statuses(), here.notes)
    assert stopped.wait(timeout=60) == 0
    before = machines.rows_of_runs()
    frozen.send_signal(signal.SIGCONT)
    assert eventually(lambda: any("warning: run" in line for line in said), 90), (said, here.notes)
    states = here.workers()
    here.agent("worker", "drain", "--all", "--wait", "--trust")

    assert here.code == 0, here.complaint
    assert machines.rows_of_runs() == before
    assert (frozen.wait(timeout=60), last.wait(timeout=60)) == (0, 0), said
    # A frozen worker was in the middle of its calls: their effects may follow once more, and are nowhere in the state.
    repeated = {line.split()[1] for line in here.notes if line.startswith("done") and here.notes.count(line) > 1}
    assert repeated <= held
    assert set(here.done) == {*agents, *(f"{name}-{step}" for name in blueprints for step in (1, 2))}
    assert set(machines.tickets()) == {f"VPN {number} down" for number in range(3)}
    assert (states[killed.pid], states[stopped.pid], states[last.pid]) == ("gone", "stopped", "working")
