"""The command lines of `examples/cluster`, as compose and Kubernetes start them, against a real Postgres."""

import http.client
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.loopback import free_port
from tests.process import end, eventually
from tests.test_deployment import CLUSTER, COMPOSE, objects

_AGENT = [sys.executable, "-m", "agent_resolver"]
_START_SECONDS = 60.0
_ADDRESSES = {"127.0.0.1:8766", "0.0.0.0:8766", "0.0.0.0:8765"}
_POD = "10.1.2.3"
"""A kubelet calls a process by the address of its pod."""


def commands() -> list[tuple[str, list[str], list[str]]]:
    """Each container's name, its command, and its health check in compose or the paths of its probes."""
    found = []
    for name in ("worker", "serve"):
        service = COMPOSE["services"][name]
        found.append((f"compose {name}", service["command"], service["healthcheck"]["test"][1:]))
    for deployment in objects("Deployment"):
        [container] = deployment["spec"]["template"]["spec"]["containers"]
        probes = [container[f"{each}Probe"]["httpGet"]["path"] for each in ("startup", "liveness", "readiness")]
        found.append((f"kubernetes {container['name']}", container["args"], probes))
    return found


@pytest.fixture
def environment(url: str, tmp_path: Path) -> dict[str, str]:
    """What compose sets, with the database of the test for Postgres."""
    names = set(COMPOSE["services"]["serve"]["environment"])
    assert names == {"STATE_KEY", "AGENT_STATE_URL", "AGENT_ENGINE_KIND", "AGENT_ENGINE_ADDRESS", "WAREHOUSE_URL"}
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "STATE_KEY": "c" * 64,
        "AGENT_STATE_URL": f"{url}?sslmode=disable",
        "AGENT_ENGINE_KIND": "dbos",
        "AGENT_ENGINE_ADDRESS": "",
        "WAREHOUSE_URL": url,
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    ignored = shutil.ignore_patterns(".agent", "__pycache__")
    return Path(shutil.copytree(CLUSTER, tmp_path / "project", ignore=ignored))


@contextmanager
def started(folder: Path, environment: dict[str, str], command: list[str], port: int) -> Iterator[None]:
    words = [f"{word.rpartition(':')[0]}:{port}" if word in _ADDRESSES else word for word in command]
    assert words != command
    with (folder / "stderr.txt").open("wb") as errors:
        process = subprocess.Popen([*_AGENT, *words], cwd=folder, env=environment, stderr=errors)
    try:
        yield
        assert process.poll() is None, (folder / "stderr.txt").read_text()
    finally:
        process.terminate()
        try:
            process.wait(60)
        finally:
            end([process.pid])


def probe(port: int, path: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path, headers={"Host": f"{_POD}:{port}"})
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    except OSError:
        return 0, None
    finally:
        connection.close()


@pytest.mark.parametrize(("name", "command", "checks"), commands(), ids=[name for name, _, _ in commands()])
def test_a_container_starts_and_is_found_healthy(
    folder: Path, environment: dict[str, str], name: str, command: list[str], checks: list[str]
) -> None:
    port = free_port()

    def is_healthy() -> bool:
        if name.startswith("kubernetes"):
            return all(probe(port, path) == (200, {"status": "ok"}) for path in checks)
        ported = [word.replace(":8765/", f":{port}/").replace(":8766/", f":{port}/") for word in checks]
        assert ported != checks
        return subprocess.run(ported, capture_output=True, check=False).returncode == 0

    with started(folder, environment, command, port):
        assert eventually(is_healthy, _START_SECONDS), (folder / "stderr.txt").read_text()


def test_processes_that_begin_together_make_the_table_of_an_empty_warehouse(
    folder: Path, environment: dict[str, str]
) -> None:
    def fulfil(number: str) -> subprocess.Popen[bytes]:
        words = [*_AGENT, "blueprint", "run", "orders.fulfil", "--input", json.dumps({"number": number}), "--trust"]
        return subprocess.Popen(words, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    running = [fulfil(f"A-{number}") for number in range(3)]
    deadline = time.monotonic() + 120
    said = [each.communicate(timeout=deadline - time.monotonic())[0].decode() for each in running]

    assert [each.returncode for each in running] == [0, 0, 0], said
