"""A worker whose Postgres is killed under it: its probes say so, and its runs go on once the server is there again."""

import json
import secrets
from pathlib import Path

from tests.integration.test_worker_probe import address_of, get, scrape
from tests.postgres_server import postgres_server
from tests.process import eventually
from tests.worker_project import WorkerProject, wait_until


def reason(url: str) -> str:
    return str(json.loads(get(f"{url}/readyz")[1]).get("reason", ""))


def test_a_worker_is_alive_and_not_ready_while_postgres_is_away_and_ends_its_runs_afterwards(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    with postgres_server() as server:
        variables = {
            "AGENT_STATE_URL": server.new_database(),
            "AGENT_STATE_KEY_ENV": "STATE_KEY",
            "STATE_KEY": secrets.token_hex(32),
            "AGENT_ENGINE_KIND": "memory",
        }
        project = WorkerProject(tmp_path / "project", tmp_path / "shared", **variables)
        project.begin_blueprints("a", "b")
        worker = project.start("worker", "--trust", "--http", "127.0.0.1:0", "--json")
        try:
            url = address_of(worker)
            assert get(f"{url}/readyz")[0] == 200
            assert eventually(lambda: sorted(project.begun(worker.pid)) == ["a-1", "b-1"], 60), project.notes
            server.kill()
            assert eventually(lambda: get(f"{url}/readyz")[0] == 503, 90)
            assert get(f"{url}/healthz")[0] == 200
            assert worker.poll() is None
            assert "STATE_KEY" not in reason(url)
            server.start()
            assert eventually(lambda: get(f"{url}/readyz")[0] == 200, 90), reason(url)
            project.let_go()
            wait_until(project, {"blueprint": ["done", "done"]})
            assert scrape(url)["runs", "done"] == 2.0
        finally:
            worker.kill()
            worker.communicate(timeout=60)

        assert project.done == ["a-1", "a-2", "b-1", "b-2"]
        assert project.agent("audit", "verify", "--trust").startswith("✓")
