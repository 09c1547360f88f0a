"""`agent worker` with a Temporal server, as processes: signals, kills, and what it says where it cannot work."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agent_resolver.engine.temporal_message import WAKE
from tests.cli.blueprint_project import BlueprintProject, packing_shop
from tests.cli.test_worker_process import agent, finished, only_run, wait_for_packing, wait_for_words
from tests.loopback import free_port
from tests.process import eventually
from tests.temporal.places import client_of
from tests.temporal_server import TemporalServer
from tests.worker_project import WorkerProject, end_process, wait_until

ELSEWHERE = "import platform; platform.node = lambda: 'elsewhere'; from agent_resolver.cli import entry; entry()"
WITHOUT_TEMPORAL = "import sys; sys.modules['temporalio'] = None; from agent_resolver.cli import entry; entry()"


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: TemporalServer) -> BlueprintProject:
    """A project with a blueprint that packs until there is a file, on the server."""
    monkeypatch.setenv("AGENT_ENGINE_ADDRESS", server.address)
    return packing_shop(tmp_path, monkeypatch, "temporal")


def run_with(program: str, shop: BlueprintProject, *command: str) -> "subprocess.CompletedProcess[str]":
    """A command in a process that is prepared by a program."""
    line = [sys.executable, "-c", program, *command]
    return subprocess.run(
        line, cwd=shop.folder, check=False, capture_output=True, text=True, timeout=60, env=os.environ
    )


def test_a_worker_with_room_for_one_run_drives_every_kind(tmp_path: Path, server: TemporalServer) -> None:
    """A blueprint that it has asked the server for takes no room before it is taken up."""
    engine = {"AGENT_ENGINE_KIND": "temporal", "AGENT_ENGINE_ADDRESS": server.address}
    (tmp_path / "shared").mkdir()
    project = WorkerProject(tmp_path / "project", tmp_path / "shared", **engine)
    project.begin_agents("a")
    project.begin_blueprints("b")
    project.approve_all()
    project.let_go()
    worker = project.start("worker", "--trust", "--capacity", "1")
    wait_until(project, {"agent": ["done"], "blueprint": ["done"]})
    said = end_process(worker)

    assert worker.returncode == 0, said
    assert project.done == ["a", "b-1", "b-2"]


def test_a_stopped_worker_hands_its_run_on_to_another(shop: BlueprintProject) -> None:
    finished(shop, "blueprint", "run", "shop.pack_and_send", "--detach", "--trust")
    first = agent(shop, "worker", "--trust")
    wait_for_packing(shop)
    first.send_signal(signal.SIGTERM)
    wait_for_words(first, "second signal")
    (shop.folder / "packed").touch()
    _, complaint = first.communicate(timeout=60)
    between = list(shop.notes)
    finished(shop, "worker", "--until-idle", "--trust")

    assert first.returncode == 0, complaint
    assert between == ["pack lamp-1"]
    assert only_run(shop)["status"] == "done"
    assert shop.notes == ["pack lamp-1", "send lamp-1"]


def test_a_killed_worker_is_replaced_by_one_that_runs_beside_it(shop: BlueprintProject) -> None:
    finished(shop, "blueprint", "run", "shop.pack_and_send", "--detach", "--trust")
    first = agent(shop, "worker", "--trust")
    wait_for_packing(shop)
    second = agent(shop, "worker", "--trust")
    wait_for_words(second, "acts as")
    first.kill()
    first.communicate(timeout=30)
    wait_for_packing(shop, 2)
    (shop.folder / "packed").touch()
    assert eventually(lambda: only_run(shop)["status"] == "done", 30)
    second.send_signal(signal.SIGTERM)
    second.communicate(timeout=30)

    assert shop.notes == ["pack lamp-1", "pack lamp-1", "send lamp-1"]


def test_commands_that_only_begin_runs_do_without_temporal(shop: BlueprintProject) -> None:
    begun = run_with(WITHOUT_TEMPORAL, shop, "blueprint", "run", "shop.pack_and_send", "--detach", "--trust", "--json")
    refused = run_with(WITHOUT_TEMPORAL, shop, "worker", "--kind", "blueprint", "--trust")

    assert begun.returncode == 0, begun.stderr
    assert json.loads(begun.stdout)["run"]
    assert refused.returncode == 2
    assert "agent-resolver[temporal]" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_worker_on_another_machine_is_refused_while_the_state_is_a_file(shop: BlueprintProject) -> None:
    """The folder is the same, as a file system that machines share has it."""
    finished(shop, "blueprint", "run", "shop.order", "--input", '{"item": "lamp"}', "--detach", "--trust")
    first = agent(shop, "worker", "--trust")
    wait_for_words(first, "acts as")
    assert eventually(lambda: only_run(shop)["status"] == "done", 60)
    refused = run_with(ELSEWHERE, shop, "worker", "--trust")
    still_works = first.poll() is None
    first.send_signal(signal.SIGTERM)
    first.communicate(timeout=60)

    assert still_works
    assert refused.returncode == 1
    assert "A worker of another machine" in refused.stderr
    assert "set `state.url` to a Postgres database" in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize("flags", [(), ("--until-idle",)])
def test_a_worker_says_which_server_it_cannot_reach(
    shop: BlueprintProject, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...]
) -> None:
    address = f"127.0.0.1:{free_port()}"
    monkeypatch.setenv("AGENT_ENGINE_ADDRESS", address)
    code, complaint = refused(shop, *flags)

    assert code == 2
    assert f"error: The Temporal server at `{address}` cannot be used: nothing listens there" in complaint
    assert "engine.address" in complaint


def refused(shop: BlueprintProject, *flags: str) -> tuple[int, str]:
    """The exit code and the words of a worker that cannot begin."""
    process = agent(shop, "worker", "--trust", *flags)
    printed, complaint = process.communicate(timeout=60)
    assert printed == ""
    for word in ("Traceback", "tonic", "\x1b", "WARN"):
        assert word not in complaint
    return process.returncode, complaint


def test_a_worker_wants_a_host_and_a_port(shop: BlueprintProject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_ENGINE_ADDRESS", "https://temporal.example")
    code, complaint = refused(shop)

    assert code == 2
    assert "is not a host and a port" in complaint


def test_a_worker_says_which_namespace_is_missing(shop: BlueprintProject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_ENGINE_NAMESPACE", "elsewhere")
    code, complaint = refused(shop)

    assert code == 1
    assert "has no namespace `elsewhere`" in complaint
    assert "temporal operator namespace create" in complaint


def test_a_worker_prints_a_line_and_no_trace_over_what_is_forged(
    shop: BlueprintProject, server: TemporalServer
) -> None:
    finished(shop, "blueprint", "run", "shop.pack_and_send", "--detach", "--trust")
    working = agent(shop, "worker", "--trust")
    wait_for_packing(shop)
    run = only_run(shop)["id"]
    asyncio.run(forge(server, run))
    (shop.folder / "packed").touch()
    assert working.stderr is not None
    said: list[str] = []
    while "is not what this program wrote" not in "".join(said[-1:]):
        said.append(working.stderr.readline())
        assert said[-1], said
    working.send_signal(signal.SIGTERM)
    _, rest = working.communicate(timeout=60)
    complaint = "".join(said) + rest

    assert working.returncode == 0
    for word in ("Traceback", "\x1b", 'File "', "temporalio_"):
        assert word not in complaint


async def forge(server: TemporalServer, run: str) -> None:
    """Send a signal to the workflow of a run that its worker has not written."""
    client = await client_of(server)
    async for workflow in client.list_workflows("WorkflowType = 'agent-run'"):
        if workflow.id.endswith(f"/{run}"):
            await client.get_workflow_handle(workflow.id).signal(WAKE, "forged")
            return
    raise AssertionError(run)
