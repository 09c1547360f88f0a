"""A task whose planner asks a real model on this machine: a small one, which is often wrong and never dangerous."""

import importlib
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Run

EXAMPLE = Path(__file__).parents[2] / "examples" / "helpdesk"
SETTINGS = """\
[project]
name = "helpdesk"

[tools]
modules = ["helpdesk"]
blueprints = ["blueprints"]

[reasoner]
tools = ["tickets.*"]
model = "local"

[engine]
kind = "memory"
"""


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> Path:
    """The help desk with the local model, trusted and the current folder."""
    folder = tmp_path / "helpdesk"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns(".agent", "__pycache__"))
    (folder / "agent.toml").write_text(SETTINGS, encoding="utf-8")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.chdir(folder)
    monkeypatch.delitem(sys.modules, "helpdesk", raising=False)
    importlib.invalidate_caches()
    assert run("trust-folder").code == 0
    return folder


def decided(run: Run, task: Any) -> dict[str, list[str]]:
    """The codes of the newest decision of each stage."""
    exported = json.loads(run("task", "export", task["task_id"]).stdout)
    bodies = [record["body"] for record in exported["records"] if record["kind"] == "task.decided"]
    return {body["stage"]: body["codes"] for body in bodies}


def test_a_task_with_a_real_model_ends_as_offline_or_better(desk: Path, run: Run) -> None:
    """Offline the request ends in a missing tool. A model may find one that does it; the person has the last word."""
    task = json.loads(run("task", "start", "What is broken right now?", "--json").stdout)

    codes = decided(run, task)
    assert task["tokens"] > 0
    assert {"PLANNER_MODEL", "PLANNER_FALLBACK"} & set(codes["intent_classification"])
    if task["stage"] == "intent_classification":
        (action,) = task["pending_actions"]
        assert run("inbox", "answer", action["id"], "tickets.search").code == 0
        before = task["tokens"]
        task = json.loads(run("task", "resume", task["task_id"], "--json").stdout)
        assert task["tokens"] > before, "Ops asked the model too"
    if task["status"] == "done":
        assert task["output"] == {"tickets": []}
    else:
        assert task["pending_actions"][-1]["message"].startswith("Missing dependency: ")


def test_what_the_rules_plan_is_executed_whatever_a_real_model_notes(desk: Path, run: Run) -> None:
    task = json.loads(run("task", "start", "Open a ticket titled 'VPN down'", "--json").stdout)

    assert task["status"] == "done"
    assert decided(run, task)["ops_audit"][0] in {"PLANNER_MODEL", "PLANNER_FALLBACK"}
    assert task["output"] == {"ticket_id": 1, "title": "VPN down"}
    assert task["tokens"] > 0
