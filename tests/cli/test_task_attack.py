"""Attacks on the files that a task installs: links that lead elsewhere, and files that were put there meanwhile."""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Ran, Run

HELPDESK = Path(__file__).parent.parent.parent / "examples" / "helpdesk" / "helpdesk.py"
SETTINGS = '[tools]\nmodules = ["helpdesk"]\nblueprints = ["blueprints"]\n'
REQUEST = "Open a ticket titled 'Login fails'"


@pytest.fixture
def desk(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The help desk as a trusted project."""
    folder = tmp_path / "desk"
    folder.mkdir()
    shutil.copy(HELPDESK, folder)
    (folder / "agent.toml").write_text(SETTINGS)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    assert run("trust-folder").code == 0
    yield folder
    sys.modules.pop("helpdesk", None)


def document(ran: Ran) -> Any:
    assert "Traceback" not in ran.stderr, ran
    return json.loads(ran.stdout)


def plan_file(desk: Path, run: Run) -> Path:
    """The file in which the plan of the request is installed; the same request gives the same one."""
    assert document(run("task", "start", REQUEST, "--json"))["status"] == "done"
    [file] = (desk / "blueprints").iterdir()
    return file


def waiting(task: Any) -> Any:
    [action] = [each for each in task["pending_actions"] if not each["resolved"]]
    return action


def test_a_folder_of_blueprints_that_leads_out_of_the_project_gets_no_file(desk: Path, run: Run) -> None:
    outside = desk.parent / "outside"
    outside.mkdir()
    (desk / "blueprints").symlink_to(outside)
    task = document(run("task", "start", REQUEST, "--json"))

    assert (task["stage"], task["status"]) == ("assembly", "waiting"), task
    assert "is not a folder below the project" in waiting(task)["message"]
    assert list(outside.iterdir()) == []
    # Once that is mended, the task goes on.
    (desk / "blueprints").unlink()
    assert run("inbox", "answer", waiting(task)["id"], "ready").code == 0
    assert document(run("task", "resume", task["task_id"], "--json"))["status"] == "done"


def test_a_file_that_was_put_in_the_place_of_the_plan_is_neither_run_nor_replaced(desk: Path, run: Run) -> None:
    file = plan_file(desk, run)
    planted = file.read_text().replace("Login", "Logout").replace('"version": "1.0.0"', '"version": "6.6.6"')
    file.write_text(planted)
    task = document(run("task", "start", REQUEST, "--json"))

    assert task["status"] in {"failed", "waiting"}, task
    assert task["output"] is None
    assert file.read_text() == planted


def test_a_link_in_the_place_of_the_plan_writes_nothing_elsewhere(desk: Path, run: Run) -> None:
    file = plan_file(desk, run)
    target = desk.parent / "target.json"
    file.unlink()
    file.symlink_to(target)
    ran = run("task", "start", REQUEST, "--json")

    assert ran.code == 1
    assert "Traceback" not in ran.stderr
    assert not target.exists()


def test_a_plan_that_does_not_certify_is_taken_back(desk: Path, run: Run) -> None:
    """A blueprint beside it that breaks the format keeps every tool from passing."""
    task = document(run("task", "start", "Open a ticket", "--json"))
    (desk / "blueprints").mkdir()
    (desk / "blueprints" / "broken.json").write_text("{}")
    assert run("inbox", "answer", waiting(task)["id"], "Login fails").code == 0
    refused = run("task", "resume", task["task_id"], "--json")

    assert refused.code == 1
    assert [path.name for path in (desk / "blueprints").iterdir()] == ["broken.json"]
