"""A worker whose Postgres is killed or frozen: its probes say so, and its runs go on once the server is there again."""

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from agent_resolver.storage.postgres.database import RETURN_SECONDS
from agent_resolver.storage.postgres.lock import OWNERS
from tests.integration.test_worker_probe import address_of, get, scrape
from tests.postgres_server import PostgresServer, postgres_server
from tests.process import eventually
from tests.worker_project import WorkerProject, wait_until


def reason(url: str) -> str:
    return str(json.loads(get(f"{url}/readyz")[1]).get("reason", ""))


STUCK_SECONDS = 6.0
SOON_STUCK = f"""\
from agent_resolver.server import metric
metric._STUCK_SECONDS = {STUCK_SECONDS}
from agent_resolver.cli import entry
entry()
"""
"""The command, with less patience for a loop that does not turn than the real minute."""


@contextmanager
def working(
    folder: Path, server: PostgresServer, engine: str = "memory"
) -> Iterator[tuple[WorkerProject, "subprocess.Popen[str]", str]]:
    """A worker in the middle of two runs, and the address of its probes."""
    (folder / "shared").mkdir()
    variables = {
        "AGENT_STATE_URL": server.new_database(),
        "AGENT_STATE_KEY_ENV": "STATE_KEY",
        "STATE_KEY": secrets.token_hex(32),
        "AGENT_ENGINE_KIND": engine,
    }
    project = WorkerProject(folder / "project", folder / "shared", **variables)
    project.begin_blueprints("a", "b")
    with started(project, project.environment) as worker:
        url = address_of(worker)
        assert get(f"{url}/readyz")[0] == 200
        assert eventually(lambda: sorted(project.begun(worker.pid)) == ["a-1", "b-1"], 60), project.notes
        yield project, worker, url


@contextmanager
def started(project: WorkerProject, environment: dict[str, str]) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-c", SOON_STUCK, "worker", "--trust", "--http", "127.0.0.1:0", "--json"]
    pipe = subprocess.PIPE
    worker = subprocess.Popen(command, cwd=project.folder, env=environment, stdout=pipe, stderr=pipe, encoding="utf-8")
    try:
        yield worker
    finally:
        worker.kill()
        worker.communicate(timeout=60)


def check_end(project: WorkerProject, url: str) -> None:
    """Both runs come to their end, in the same worker."""
    assert eventually(lambda: get(f"{url}/readyz")[0] == 200, 90), reason(url)
    project.let_go()
    wait_until(project, {"blueprint": ["done", "done"]})
    assert scrape(url)["runs", "done"] == 2.0
    assert project.done == ["a-1", "a-2", "b-1", "b-2"]
    assert project.agent("audit", "verify", "--trust").startswith("✓")


@pytest.mark.parametrize("engine", ["memory", "dbos"])
def test_a_worker_is_alive_and_not_ready_while_postgres_is_away(tmp_path: Path, engine: str) -> None:
    """For longer than what reads and writes the state waits for it."""
    with postgres_server() as server, working(tmp_path, server, engine) as (project, worker, url):
        server.kill()
        assert eventually(lambda: get(f"{url}/readyz")[0] == 503, 90)
        time.sleep(RETURN_SECONDS + 5)
        assert get(f"{url}/healthz")[0] == 200
        assert worker.poll() is None
        assert "STATE_KEY" not in reason(url)
        server.start()
        check_end(project, url)


def test_a_worker_is_alive_and_not_ready_while_postgres_is_frozen(tmp_path: Path) -> None:
    """Its look at the state takes as long as that; to start it again would only lose the calls under way."""
    with postgres_server() as server, working(tmp_path, server) as (project, worker, url):
        frozen = server.process_ids()
        tell_all(frozen, signal.SIGSTOP)
        try:
            assert eventually(lambda: reason(url) == "state_slow", 60)
            end = time.monotonic() + 2 * STUCK_SECONDS
            while time.monotonic() < end:
                assert get(f"{url}/healthz")[0] == 200
                time.sleep(0.5)
            assert reason(url) == "state_slow"
        finally:
            tell_all(frozen, signal.SIGCONT)
        check_end(project, url)
        assert worker.poll() is None


def tell_all(processes: list[int], number: int) -> None:
    for each in processes:
        os.kill(each, number)


def test_a_worker_whose_session_for_words_is_frozen_is_alive(tmp_path: Path) -> None:
    """It asks by that session whether other processes are there, and answers probes meanwhile."""
    with postgres_server() as server, working(tmp_path, server) as (project, _, _):
        environment = dict(project.environment)
        environment["AGENT_STATE_URL"] += "?application_name=other"
        with started(project, environment) as other:
            url = address_of(other)
            assert get(f"{url}/readyz")[0] == 200
            session = session_for_words(environment["AGENT_STATE_URL"])
            os.kill(session, signal.SIGSTOP)
            try:
                assert eventually(lambda: reason(url) == "state_slow", 60)
                end = time.monotonic() + 2 * STUCK_SECONDS
                while time.monotonic() < end:
                    assert get(f"{url}/healthz", seconds=2)[0] == 200
                    time.sleep(0.5)
            finally:
                os.kill(session, signal.SIGCONT)
            assert eventually(lambda: get(f"{url}/readyz")[0] == 200, 60)


def session_for_words(url: str) -> int:
    """The server's process for the session of a worker that shows that it is there."""
    statement = """
        SELECT pid FROM pg_locks JOIN pg_stat_activity USING (pid)
        WHERE locktype = 'advisory' AND classid = %s::bigint::oid AND application_name = 'other'
    """
    with psycopg.connect(url, application_name="looking") as connection:
        [(pid,)] = connection.execute(statement, (OWNERS,)).fetchall()
        return int(pid)
