"""The commands of a project whose state is in Postgres, and of one that is moved there while tasks wait."""

import json
import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from agent_resolver.storage import PostgresAddress, PostgresStore
from tests.cli.test_rotate_key import DIES, finish, rotate
from tests.cli.test_sealed_task import TEAM, WORDS, SealedDesk, answered, desk as desk  # noqa: PLC0414 - a fixture
from tests.conftest import Run

ON_DBOS = pytest.mark.parametrize("desk", ["dbos"], indirect=True)


@pytest.fixture
def on_postgres(url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Lets every command keep the state in an empty database."""
    monkeypatch.setenv("AGENT_STATE_URL", url)
    return url


def everything(url: str) -> str:
    """Every cell of every table of the database."""
    with psycopg.connect(url) as connection:
        tables = connection.execute(
            "SELECT quote_ident(schemaname) || '.' || quote_ident(tablename) FROM pg_tables"
            " WHERE schemaname LIKE 'agent%'"
        ).fetchall()
        found = [connection.execute(f"SELECT * FROM {table}".encode()).fetchall() for (table,) in tables]  # noqa: S608
    return repr(found)


@ON_DBOS
def test_a_task_goes_through_every_command_on_postgres(on_postgres: str, desk: SealedDesk, run: Run) -> None:
    task = answered(desk)
    listed = desk.json("ben", "inbox", "list")
    assert desk.by("ben", "inbox", "show", desk.open_action(task)).code == 0
    task = finish(desk, task)

    assert (task["status"], task["output"]) == ("done", {"team": TEAM, "ticket_id": 1}), task
    assert len(listed) > 0
    runs = desk.json("ada", "runs", "list")
    blueprints = desk.json("ada", "blueprint", "list")
    assert len(str(runs)) > 2
    assert len(str(blueprints)) > 2
    for command in (
        ("task", "list"),
        ("task", "show", task["task_id"]),
        ("task", "export", task["task_id"], "--output", "evidence.json"),
        ("task", "verify", "evidence.json", "--state"),
        ("audit", "verify"),
        ("audit", "show", "--last", "3"),
        ("state", "info"),
        ("state", "prune", "--older-than", "30d"),
        ("state", "prune", "--older-than", "0m", "--dry-run"),
        ("runs", "list"),
        ("inbox", "list"),
        ("tools", "list"),
        ("doctor",),
        ("blueprint", "list"),
    ):
        ran = desk.by("ada", *command)
        assert ran.code == 0, ran
    assert not (desk.folder / ".agent" / "state.db").exists()
    assert not (desk.folder / ".agent" / "engine.db").exists()
    assert [word for word in WORDS if word in everything(on_postgres)] == []
    assert "tickets.open" in everything(on_postgres)


@ON_DBOS
def test_pruning_on_postgres_removes_tasks_with_their_checkpoints(on_postgres: str, desk: SealedDesk, run: Run) -> None:
    task = finish(desk, answered(desk))
    assert task["status"] == "done"

    pruned = json.loads(run("state", "prune", "--older-than", "0m", "--json").stdout)

    assert pruned["removed"]["runs"] >= 2
    with psycopg.connect(on_postgres) as connection:
        left = connection.execute(
            "SELECT (SELECT count(*) FROM agent_resolver.checkpoints),"
            " (SELECT count(*) FROM agent_resolver.checkpoint_blobs),"
            " (SELECT count(*) FROM agent_resolver.checkpoint_writes), (SELECT count(*) FROM agent_resolver.run)"
        ).fetchone()
    assert left == (0, 0, 0, 0)
    assert run("audit", "verify").code == 0


def test_a_backup_of_postgres_names_the_command_that_makes_one(on_postgres: str, desk: SealedDesk, run: Run) -> None:
    assert run("tools", "list").code == 0

    refused = run("state", "backup", "copy.db")

    assert refused.code in {1, 2}
    assert "pg_dump" in refused.stderr
    assert not Path("copy.db").exists()


# Keys -----------------------------------------------------------------------------------------------------------------


@ON_DBOS
def test_a_waiting_task_on_postgres_goes_on_after_two_rotations(on_postgres: str, desk: SealedDesk, run: Run) -> None:
    task = answered(desk)

    first = rotate(run)
    second = rotate(run)

    assert first["values"] > 20
    assert second["before"] == first["key"]
    assert f"ares1.{first['before']}" not in everything(on_postgres)
    assert f"ares1.{first['key']}" not in everything(on_postgres)
    for key in (desk.folder / ".agent").glob("state.key.*"):
        key.unlink()
    assert finish(desk, task)["status"] == "done"
    assert run("audit", "verify").code == 0


@ON_DBOS
@pytest.mark.parametrize("step", ["engine commit", "state commit", "vacuum", "end"])
def test_a_rotation_on_postgres_that_is_killed_loses_nothing(
    on_postgres: str, desk: SealedDesk, run: Run, step: str
) -> None:
    task = answered(desk)
    first = json.loads(run("state", "info", "--json").stdout)["keyId"]

    killed = subprocess.run([sys.executable, "-c", DIES, step], cwd=desk.folder, check=False)

    assert killed.returncode == -signal.SIGKILL
    assert desk.json("ada", "task", "show", task["task_id"])["status"] == "waiting"
    rotate(run)
    assert f"ares1.{first}" not in everything(on_postgres)
    assert finish(desk, task)["status"] == "done"
    assert run("audit", "verify").code == 0


def test_a_state_on_postgres_that_is_in_use_is_not_rotated(on_postgres: str, desk: SealedDesk, run: Run) -> None:
    assert run("tools", "list").code == 0
    with closing(PostgresStore(PostgresAddress(on_postgres))):
        refused = run("state", "rotate-key")

    assert refused.code == 1
    assert "is in use by another process" in refused.stderr


# The move -------------------------------------------------------------------------------------------------------------


@ON_DBOS
def test_a_task_that_waits_goes_on_after_its_state_was_moved(
    desk: SealedDesk, run: Run, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = answered(desk)
    other = desk.start()
    root = json.loads(run("audit", "verify", "--json").stdout)["root"]

    moved = run("state", "migrate", "--to", url)

    assert moved.code == 0, moved
    assert "verified" in moved.stdout
    assert f"Root: {root}" in moved.stdout
    assert '[state]\n  url = "postgresql://' in moved.stdout
    # The engine's own file is not needed: the truth is in the state.
    for file in (desk.folder / ".agent").glob("*.db*"):
        if not file.name.startswith("helpdesk"):
            file.unlink()
    monkeypatch.setenv("AGENT_STATE_URL", url)
    assert run("audit", "verify", "--root", root).code == 0
    assert finish(desk, task)["output"] == {"team": TEAM, "ticket_id": 1}
    assert desk.answer(other, "another")["status"] == "waiting"
    assert run("audit", "verify").code == 0


def test_a_move_says_what_is_wrong_with_its_target(desk: SealedDesk, run: Run, url: str) -> None:
    assert desk.start()["status"] == "waiting"
    assert run("state", "migrate", "--to", "sqlite:///other.db").code == 2
    assert run("state", "migrate", "--to", "postgresql://127.0.0.1:1/x").code != 0
    first = run("state", "migrate", "--to", url, "--json")
    assert first.code == 0
    document: Any = json.loads(first.stdout)
    assert document["target"].startswith("postgresql://127.0.0.1:")

    again = run("state", "migrate", "--to", url)

    assert again.code == 1
    assert "holds a state already" in again.stderr
    assert os.path.exists(document["source"])  # noqa: PTH110 - a path as text
