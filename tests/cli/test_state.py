"""`agent state`: what is kept, a copy of it, and the removal of what is old."""

import asyncio
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from agent_resolver.registry import Ledger, PendingActions
from agent_resolver.schema import RUNS, AuditKind, PendingAction, Record, Run as RunRow, Start
from agent_resolver.storage import MIGRATIONS, id_of_key
from tests.cli.state_file import record_all
from tests.conftest import Run
from tests.state_keys import project_store

OLD = "2026-01-31T10:00:00.000Z"
CALLED = Record("4f1c", AuditKind.CALL_DONE, {"tool": "a.b", "trace": "old"})


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def filled(project: Path) -> Path:
    """A state with two old calls, an old answer, an open question and three records."""
    path = record_all(project, (OLD, CALLED), (OLD, CALLED), (OLD, CALLED))
    store = project_store(path)

    async def fill() -> None:
        ledger, pending = Ledger(store), PendingActions(store)
        for key in ("done", "failed"):
            await ledger.start(start(key, trace_id=key))
            await ledger.finish(key, key, OLD, b"sealed", None)
        await ledger.start(start("running"))
        for name in ("closed", "open"):
            await pending.ask(action(name))
        answered = action("closed", answer="rejected", answered_by="local:ada", answered_at=OLD)
        await pending.answer(answered, Record("4f1c", AuditKind.ACTION_REJECTED, {}))

    asyncio.run(fill())
    store.close()
    return path


def start(key: str, **more: Any) -> Start:
    given = {"trace_id": "x", **more}
    return Start(key=key, tool="a.b", arguments="", is_idempotent=True, caller="ada", at=OLD, record=None, **given)


def action(name: str, **more: Any) -> PendingAction:
    return PendingAction(
        id=name, type="APPROVAL", subject="a.b", message="May it?", asked_at=OLD, binding=name, trace_id=name, **more
    )


def keep_run(path: Path, **more: Any) -> None:
    given = {"id": "r", "kind": "agent", "started_at": OLD, "changed_at": OLD, **more}
    store = project_store(path)
    asyncio.run(store.write(lambda transaction: transaction.put(RUNS, RunRow(**given))))
    store.close()


def info(run: Run) -> Any:
    return json.loads(run("state", "info", "--json").stdout)


def test_info_says_what_is_kept(project: Path, run: Run) -> None:
    path = filled(project)

    ran = run("state", "info")

    assert (ran.code, ran.stderr) == (0, "")
    head, *rest = ran.stdout.splitlines()
    assert head == f"{path}: {path.stat().st_size} bytes, schema {len(MIGRATIONS)}"
    assert rest[:5] == [
        f"  Key: state.key, {id_of_key((path.parent / 'state.key').read_bytes())}",
        "  Calls: 1 done, 1 failed, 1 started",
        "  Inbox: 1 open, 1 rejected",
        "  Runs: none",
        "  Journal: 0 steps, 0 plans, 0 threads",
    ]
    assert rest[5].startswith("  Audit: 4 records, 2026-01-31T10:00:00.000Z to ")
    found = info(run)
    assert (found["ledger"], found["trail"]["records"]) == ({"done": 1, "failed": 1, "started": 1}, 4)


@pytest.mark.parametrize("command", [["info"], ["backup", "copy.db"], ["prune"]])
def test_where_nothing_was_kept_nothing_is_made(project: Path, run: Run, command: list[str]) -> None:
    ran = run("state", *command)

    assert (ran.code, ran.stdout) == (2, "")
    assert "does not exist" in ran.stderr
    assert list(project.iterdir()) == []


def test_a_copy_is_a_whole_state_that_verifies(project: Path, run: Run) -> None:
    filled(project)

    ran = run("state", "backup", "copies/state.db")

    copy = project / "copies" / "state.db"
    assert (ran.code, ran.stdout) == (0, f"✓ copies/state.db: {copy.stat().st_size} bytes\n")
    assert "state.key" in ran.stderr
    assert copy.stat().st_mode & 0o777 == 0o600
    assert list(copy.parent.iterdir()) == [copy]
    copied = run("audit", "verify", "--config", "state.url=sqlite:///copies/state.db")
    assert copied.stdout == run("audit", "verify").stdout
    as_json = run("state", "backup", "copies/other.db", "--json")
    assert json.loads(as_json.stdout) == {
        "success": True,
        "path": "copies/other.db",
        "bytes": copy.with_name("other.db").stat().st_size,
    }


def test_a_copy_replaces_nothing(project: Path, run: Run) -> None:
    filled(project)
    (project / "notes.txt").write_text("mine")

    ran = run("state", "backup", "notes.txt")

    assert ran.code == 2
    assert ran.stderr == "error: `notes.txt` is there already: name another file, or move it away\n"
    assert (project / "notes.txt").read_text() == "mine"


def test_what_ended_long_ago_is_removed_and_the_rest_stays(project: Path, run: Run) -> None:
    filled(project)
    trial = run("state", "prune", "--dry-run")
    before = info(run)

    ran = run("state", "prune")

    assert trial.stdout == "Would remove 2 calls, 1 inbox item, 0 runs and 0 audit records\n"
    assert before["ledger"] == {"done": 1, "failed": 1, "started": 1}
    assert ran.stdout == "✓ Removed 2 calls, 1 inbox item, 0 runs and 0 audit records\n"
    after = info(run)
    assert (after["ledger"], after["pending"], after["trail"]["records"]) == ({"started": 1}, {"open": 1}, 5)
    shown = run("audit", "show", "--last", "1").stdout
    assert " state.pruned " in shown
    assert run("audit", "verify").code == 0


def test_what_is_young_stays(project: Path, run: Run) -> None:
    filled(project)

    ran = run("state", "prune", "--older-than", "99999d", "--json")

    found = json.loads(ran.stdout)
    assert found["removed"] == {"ledger": 0, "pending": 0, "runs": 0, "plans": 0, "audit": 0}
    assert (found["success"], found["dryRun"]) == (True, False)
    assert info(run)["trail"]["records"] == 4, "what removes nothing records nothing"


def test_records_are_removed_only_on_request_and_the_rest_verifies(project: Path, run: Run) -> None:
    filled(project)
    noted = run("audit", "verify", "--json")

    ran = run("state", "prune", "--audit-before", "2026-06-01T00:00:00Z")

    assert ran.stdout == "✓ Removed 2 calls, 1 inbox item, 0 runs and 3 audit records\n"
    assert info(run)["trail"]["pruned"] == 3
    verified = run("audit", "verify")
    assert (verified.code, verified.stdout.partition(",")[0]) == (0, "✓ 2 records verify after 3 pruned")
    root = json.loads(noted.stdout)["root"]
    assert run("audit", "verify", "--root", root).code == 0, "the root after the last record is still on the way"
    assert json.loads(run("audit", "verify", "--json").stdout)["pruned"] == 3


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit_seal SET anchor = 2",
        "UPDATE audit_seal SET anchor_root = ''",
        "UPDATE audit_seal SET anchor_heads = '{}'",
        "UPDATE audit_seal SET anchor_heads = 'x'",
        "DELETE FROM audit WHERE position = 4",
        "UPDATE audit SET body = '{}' WHERE position = 4",
    ],
)
def test_an_anchor_that_was_edited_is_found(project: Path, run: Run, statement: str) -> None:
    path = record_all(project, *[(OLD, CALLED)] * 3, ("2027-01-01T00:00:00.000Z", CALLED))
    run("state", "prune", "--audit-before", "2026-06-01T00:00:00Z")
    assert run("audit", "verify").code == 0
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(statement)
    connection.close()

    assert run("audit", "verify").code == 1


def test_nothing_that_an_unfinished_run_refers_to_is_removed(project: Path, run: Run) -> None:
    path = filled(project)
    keep_run(path, id="1", status="waiting", trace_id="done", waits_for="closed")
    keep_run(path, id="2", status="running", trace_id="old")
    keep_run(path, id="3", status="done", trace_id="failed")

    ran = run("state", "prune", "--audit-before", "0m")

    assert ran.stdout == "✓ Removed 1 call, 0 inbox items, 1 run and 0 audit records\n"
    assert info(run)["ledger"] == {"done": 1, "started": 1}


@pytest.mark.parametrize("age", ["", "30", "d", "-1d", "1.5h", "30 d", "9999999d", "1y", "٣d"])
def test_what_is_no_age_is_refused(project: Path, run: Run, age: str) -> None:
    filled(project)

    ran = run("state", "prune", f"--older-than={age}")

    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr == (
        f"error: `--older-than` takes an age, not `{age}`\n"
        "hint: give a number and a unit, such as `12h`, `30d` or `8w`\n"
    )


def test_an_age_before_all_time_is_refused(project: Path, run: Run) -> None:
    filled(project)

    ran = run("state", "prune", "--older-than", "999999w")

    assert ran.code == 2
    assert "is too long ago" in ran.stderr


@pytest.mark.parametrize("moment", ["", "yesterday", "2026-01-01", "2026-01-01T00:00:00"])
def test_what_is_no_time_is_refused(project: Path, run: Run, moment: str) -> None:
    filled(project)

    ran = run("state", "prune", f"--audit-before={moment}")

    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr.startswith(f"error: `--audit-before` takes a time, not `{moment}`\n")
