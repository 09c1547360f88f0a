"""`agent state prune` on tasks: by age and by status, with all that belongs to them, and an anchor that is sealed."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_task import TICKET, WITH_PAGE, desk as desk, started  # noqa: PLC0414 - a fixture
from tests.conftest import Run

PRUNE = ("state", "prune", "--older-than", "0m")
OF_TASKS = {"artifact": "task", "checkpoints": "thread_id", "writes": "thread_id", "pending": "trace_id"}


def kept(folder: Path, task: Any) -> dict[str, int]:
    """The number of rows of each table that belong to a task."""
    values = {
        "task": task["task_id"],
        "thread_id": f"{task['trace_id']}/{task['task_id']}",
        "trace_id": task["trace_id"],
    }
    with closing(sqlite3.connect(folder / ".agent" / "state.db")) as state:
        counts = {
            table: state.execute(f"SELECT count(*) FROM {table} WHERE {column} = ?", (values[column],)).fetchone()[0]  # noqa: S608
            for table, column in OF_TASKS.items()
        }
        [(row,)] = state.execute("SELECT count(*) FROM run WHERE id = ?", (task["task_id"],))
    return {**counts, "run": row}


def removed(run: Run, *options: str) -> int:
    pruned = run(*PRUNE, "--json", *options)
    assert pruned.code == 0, pruned.stderr
    return int(json.loads(pruned.stdout)["removed"]["runs"])


def edit(folder: Path, statement: str) -> None:
    with closing(sqlite3.connect(folder / ".agent" / "state.db")) as state, state:
        state.execute(statement)


@pytest.fixture
def ended(desk: Path, run: Run) -> dict[str, Any]:
    """A task of each status."""
    cancelled = started(run, WITH_PAGE)
    assert run("task", "cancel", cancelled["task_id"]).code == 0
    failed = started(run, f"{TICKET} and assign it to team 'nobody'")
    assert failed["status"] == "failed"
    return {"waiting": started(run, WITH_PAGE), "cancelled": cancelled, "done": started(run, TICKET), "failed": failed}


def test_a_status_removes_tasks_that_ended_so_with_all_that_they_have(
    desk: Path, run: Run, ended: dict[str, Any]
) -> None:
    before = {status: kept(desk, task) for status, task in ended.items()}

    for number, status in enumerate(("cancelled", "failed", "done"), 1):
        assert removed(run, "--status", status, "--dry-run") >= 1
        assert removed(run, "--status", status) >= 1
        assert set(kept(desk, ended[status]).values()) == {0}
        others = [each for each in ended if each not in ("cancelled", "failed", "done")[:number]]
        assert {each: kept(desk, ended[each]) for each in others} == {each: before[each] for each in others}


def test_nothing_of_a_task_that_waits_is_removed_however_old_it_is(desk: Path, run: Run, ended: dict[str, Any]) -> None:
    before = kept(desk, ended["waiting"])
    edit(desk, "UPDATE run SET changed_at = '2020-01-01T00:00:00.000Z' WHERE status = 'waiting'")

    assert removed(run) >= 3
    assert removed(run, "--status", "done", "--status", "failed", "--status", "cancelled") == 0

    assert kept(desk, ended["waiting"]) == before
    assert run("task", "show", ended["waiting"]["task_id"]).code == 0
    assert run("state", "prune", "--status", "waiting").code == 2


def test_the_trail_of_pruned_tasks_leaves_an_anchor_and_a_forged_one_is_found(desk: Path, run: Run) -> None:
    started(run, TICKET)
    removed(run, "--audit-before", "0m")
    assert run("audit", "verify").code == 0

    edit(desk, "UPDATE audit_seal SET anchor_root = 'forged'")

    forged = run("audit", "verify")
    assert forged.code == 1
    assert "the anchor that pruning left was changed" in forged.stderr
    assert run("state", "prune", "--older-than", "0m", "--audit-before", "0m").code != 0
