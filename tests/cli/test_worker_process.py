"""`agent worker` and `agent blueprint run` as processes: signals, and the end of a process in the middle."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.blueprint_project import BlueprintProject, packing_shop
from tests.cli.conftest import on_terminal
from tests.process import eventually

pytestmark = pytest.mark.slow

PACKING = """
import sys, threading, time
from pathlib import Path
from agent_resolver.cli import entry

def pack():
    while not Path("notes.txt").exists():
        time.sleep(0.02)
    time.sleep(1.5)
    Path("packed").touch()

threading.Thread(target=pack, daemon=True).start()
entry()
"""
"""Ends the packing some time after it began, so that a terminal shows it for a while."""
ENGINES = ("memory", "dbos")


@pytest.fixture(params=ENGINES)
def shop(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BlueprintProject:
    """A project with a blueprint that packs until there is a file, with each engine."""
    return packing_shop(tmp_path, monkeypatch, request.param)


def agent(shop: BlueprintProject, *command: str) -> "subprocess.Popen[str]":
    line = [sys.executable, "-m", "agent_resolver", *command]
    pipe = subprocess.PIPE
    # A group of its own, as a terminal gives it: a signal is meant for the command alone.
    return subprocess.Popen(
        line, cwd=shop.folder, stdout=pipe, stderr=pipe, encoding="utf-8", env=os.environ, start_new_session=True
    )


def finished(shop: BlueprintProject, *command: str) -> str:
    process = agent(shop, *command)
    printed, complaint = process.communicate(timeout=120)
    assert process.returncode == 0, complaint
    return printed


def only_run(shop: BlueprintProject) -> Any:
    [row] = json.loads(finished(shop, "blueprint", "list", "--json"))
    return row


def statuses(shop: BlueprintProject) -> set[str]:
    return {row["status"] for row in json.loads(finished(shop, "blueprint", "list", "--json"))}


def wait_for_packing(shop: BlueprintProject, times: int = 1) -> None:
    assert eventually(lambda: shop.notes.count("pack lamp-1") == times, 60)


def wait_for_words(process: "subprocess.Popen[str]", words: str) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if words in line:
            return
    pytest.fail(f"the process ended without saying: {words}")


def test_a_stopped_worker_ends_its_call_and_another_goes_on(shop: BlueprintProject) -> None:
    finished(shop, "blueprint", "run", "shop.pack_and_send", "--detach", "--trust")
    first = agent(shop, "worker", "--trust")
    wait_for_packing(shop)
    first.send_signal(signal.SIGTERM)
    wait_for_words(first, "second signal")
    (shop.folder / "packed").touch()
    first.communicate(timeout=60)
    between = list(shop.notes)
    finished(shop, "worker", "--until-idle", "--trust")

    assert first.returncode == 0
    assert between == ["pack lamp-1"]
    assert only_run(shop)["status"] == "done"
    assert shop.notes == ["pack lamp-1", "send lamp-1"]


def test_the_second_signal_ends_a_worker_at_once_and_nothing_is_lost(shop: BlueprintProject) -> None:
    finished(shop, "blueprint", "run", "shop.pack_and_send", "--detach", "--trust")
    first = agent(shop, "worker", "--trust")
    wait_for_packing(shop)
    first.send_signal(signal.SIGINT)
    wait_for_words(first, "second signal")
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=30)
    interrupted = only_run(shop)["status"]
    (shop.folder / "packed").touch()
    finished(shop, "worker", "--until-idle", "--trust")

    assert (first.returncode, interrupted) == (130, "interrupted")
    assert only_run(shop)["status"] == "done"
    assert shop.notes == ["pack lamp-1", "pack lamp-1", "send lamp-1"]


def test_an_interrupted_command_says_how_its_run_goes_on(shop: BlueprintProject) -> None:
    process = agent(shop, "blueprint", "run", "shop.pack_and_send", "--trust")
    wait_for_packing(shop)
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate(timeout=60)
    (shop.folder / "packed").touch()
    run_id = only_run(shop)["id"]
    finished(shop, "worker", "--until-idle", "--trust")

    assert process.returncode == 130
    assert f"interrupted: `agent worker` goes on with run {run_id}" in complaint
    assert only_run(shop)["status"] == "done"
    assert shop.notes[-1] == "send lamp-1"


@pytest.mark.parametrize("is_cancelled", [False, True], ids=["interrupted", "to be cancelled"])
def test_a_command_does_not_turn_in_a_circle_for_a_run_that_nothing_drives(
    shop: BlueprintProject, monkeypatch: pytest.MonkeyPatch, *, is_cancelled: bool
) -> None:
    """With Temporal only workers drive runs, and the one that had this run was killed."""
    command = ("blueprint", "run", "shop.pack_and_send", "--trust", "--key", "one")
    first = agent(shop, *command)
    wait_for_packing(shop)
    first.kill()
    first.communicate(timeout=60)
    if is_cancelled:
        finished(shop, "blueprint", "cancel", only_run(shop)["id"], "--trust")
    monkeypatch.setenv("AGENT_ENGINE_KIND", "temporal")
    before = len(audited(shop))
    again = agent(shop, *command)
    _, complaint = again.communicate(timeout=60)

    assert only_run(shop)["status"] == "interrupted"
    assert again.returncode == 1
    assert "hint: `agent worker`" in complaint
    assert len(audited(shop)) - before < 10


def audited(shop: BlueprintProject) -> list[Any]:
    """The newest records of the trail."""
    records: list[Any] = json.loads(finished(shop, "audit", "show", "--last", "1000", "--json"))
    return records


def test_two_workers_share_the_runs_and_a_killed_one_loses_none(shop: BlueprintProject) -> None:
    (shop.folder / "packed").touch()
    for number in range(10):
        finished(shop, "blueprint", "run", "shop.pack_and_send", "--detach", "--trust", "--key", str(number))
    (shop.folder / "packed").unlink()
    workers = [agent(shop, "worker", "--trust", "--capacity", "4") for _ in range(2)]
    wait_for_packing(shop, 8)
    workers[0].kill()
    (shop.folder / "packed").touch()
    assert eventually(lambda: statuses(shop) == {"done"}, 120)
    workers[1].send_signal(signal.SIGTERM)
    for worker in workers:
        worker.communicate(timeout=60)

    assert shop.notes.count("send lamp-1") == 10


def test_a_terminal_shows_which_step_runs(shop: BlueprintProject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shop.folder)
    shown = on_terminal(PACKING, "blueprint", "run", "shop.pack_and_send", "--trust")

    assert "Running shop.pack_and_send: pack…" in shown
    assert "send shop.send done" in shown
