"""The probes and metrics of a real `agent worker` and a real `agent serve`, read with Prometheus' own parser."""

import json
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.process import eventually
from tests.worker_project import WorkerProject, wait_until

if TYPE_CHECKING:
    import subprocess


@pytest.fixture
def project(tmp_path: Path) -> WorkerProject:
    (tmp_path / "shared").mkdir()
    return WorkerProject(tmp_path / "project", tmp_path / "shared", AGENT_ENGINE_KIND="memory")


@pytest.fixture
def worker(project: WorkerProject) -> Iterator["subprocess.Popen[str]"]:
    started = project.start("worker", "--trust", "--http", "127.0.0.1:0", "--json")
    yield started
    started.kill()
    started.communicate(timeout=60)


def address_of(worker: "subprocess.Popen[str]") -> str:
    assert worker.stdout is not None
    for line in worker.stdout:
        event = json.loads(line)
        if event["event"] == "worker.probes":
            return str(event["url"])
    pytest.fail("the worker ended without an address")


def get(url: str, host: str = "", seconds: float = 30) -> tuple[int, bytes]:
    request = urllib.request.Request(url, headers={"Host": host} if host else {})  # noqa: S310 - loopback
    try:
        with urllib.request.urlopen(request, timeout=seconds) as answer:  # noqa: S310 - as above
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def scrape(url: str) -> dict[tuple[str, ...], float]:
    """The samples of a scrape, by name and the values of their labels."""
    status, body = get(f"{url}/metrics")
    assert status == 200
    families = list(text_string_to_metric_families(body.decode()))
    assert all(family.name.startswith("agent_resolver_") for family in families)
    found: dict[tuple[str, ...], float] = {}
    for sample in (each for family in families for each in family.samples):
        found[sample.name.removeprefix("agent_resolver_"), *sample.labels.values()] = sample.value
    return found


def has(url: str, **expected: Any) -> bool:
    found = scrape(url)
    return all(found.get(tuple(name.split("__"))) == value for name, value in expected.items())


def test_a_worker_shows_what_it_does_in_numbers(project: WorkerProject, worker: "subprocess.Popen[str]") -> None:
    url = address_of(worker)
    assert (get(f"{url}/healthz")[0], get(f"{url}/readyz")[0]) == (200, 200)
    project.begin_agents("secret-canary")
    project.begin_blueprints("c")
    assert eventually(lambda: has(url, worker_driven_runs__blueprint=1.0, pending_actions=1.0), 60), scrape(url)
    project.approve_all()
    assert eventually(lambda: has(url, worker_driven_runs__agent=1.0), 60), scrape(url)
    project.let_go()
    wait_until(project, {"agent": ["done"], "blueprint": ["done"]})
    assert eventually(lambda: has(url, worker_ended_runs_total__agent__done=1.0), 30), scrape(url)
    found = scrape(url)

    assert found["worker_taken_runs_total", "agent"] == found["worker_taken_runs_total", "blueprint"] == 1.0
    assert found["runs", "done"] == 2.0
    assert found["workers", "working"] == 1.0
    assert found["commits_total",] > 0
    assert "canary" not in get(f"{url}/metrics")[1].decode()
    assert [get(f"{url}/{path}")[0] for path in ("", "mcp", "metrics/x")] == [404, 404, 404]
    assert get(f"{url}/metrics", "evil.example")[0] == 421


def test_a_draining_worker_lives_and_is_not_ready(project: WorkerProject, worker: "subprocess.Popen[str]") -> None:
    url = address_of(worker)
    project.begin_blueprints("c")
    assert eventually(lambda: project.begun(worker.pid) == ["c-1"], 60)
    worker.send_signal(signal.SIGTERM)
    assert eventually(lambda: get(f"{url}/readyz")[0] == 503, 30)

    assert json.loads(get(f"{url}/readyz")[1])["reason"] == "draining"
    assert get(f"{url}/healthz")[0] == 200
    project.let_go()
    assert worker.wait(timeout=60) == 0


def test_an_address_for_other_machines_has_to_be_asked_for(project: WorkerProject) -> None:
    project.agent("worker", "--until-idle", "--trust", "--http", "0.0.0.0:0")

    assert project.code == 2
    assert "can be reached from other machines" in project.complaint


def test_a_server_answers_the_same_three_paths(project: WorkerProject) -> None:
    project.begin_blueprints("c")
    served = project.start("serve", "--http", "127.0.0.1:0", "--trust")
    try:
        assert served.stderr is not None
        line = next(line for line in served.stderr if " at http" in line)
        url = line.rsplit(" at ", 1)[1].strip().removesuffix("/mcp")
        statuses = [get(f"{url}/{path}")[0] for path in ("healthz", "readyz", "metrics")]
        found = scrape(url)
    finally:
        served.terminate()
        served.communicate(timeout=60)

    assert statuses == [200, 200, 200]
    assert found["runs", "waiting"] == 1.0
    assert ("worker_capacity",) not in found
