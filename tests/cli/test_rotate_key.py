"""`agent state rotate-key`: all of the state is sealed with another key, and nothing is lost on the way."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent_resolver.project.sealed_place import SQLITE_PLACES
from agent_resolver.schema.state import TABLES
from agent_resolver.storage import AesSeal, id_of_key
from agent_resolver.storage.seal import sealed_from_text
from tests.cli.test_sealed_task import TEAM, SealedDesk, answered, desk as desk  # noqa: PLC0414 - a fixture
from tests.conftest import Run
from tests.state_keys import keys_beside, project_store

STEPS = ("engine", "engine commit", "state", "state commit", "vacuum", "key", "end")
DIES = """
import os, signal, sys
from agent_resolver.project.key_rotation import rotate_key
from agent_resolver.project.session import Session

def reach(step):
    if step == sys.argv[1]:
        os.kill(os.getpid(), signal.SIGKILL)

with Session("agents.md", "mcp.index.json", environment=os.environ, trusts=True) as session:
    rotate_key(session, "r", "2026-01-01T00:00:00.000Z", reach=reach)
"""


def rotate(run: Run, *options: str) -> Any:
    ran = run("state", "rotate-key", "--json", *options)
    assert ran.code == 0, ran.stderr
    return json.loads(ran.stdout)


def finish(desk: SealedDesk, task: Any) -> Any:
    """Approve a task and let it go on."""
    assert desk.by("ben", "inbox", "approve", desk.open_action(task)).code == 0
    return desk.json("ada", "task", "resume", task["task_id"])


def files_with(folder: Path, text: str) -> list[str]:
    """The files of the state whose bytes hold a text."""
    files = (path for path in (folder / ".agent").rglob("*") if path.is_file())
    return sorted(path.name for path in files if text.encode() in path.read_bytes())


def edit(folder: Path, statement: str, *parameters: object) -> None:
    with closing(sqlite3.connect(folder / ".agent" / "state.db")) as state, state:
        state.execute(statement, parameters)


# The key file ---------------------------------------------------------------------------------------------------------


def test_a_waiting_task_goes_on_after_two_rotations_and_the_old_keys_open_nothing(desk: SealedDesk, run: Run) -> None:
    task = answered(desk)
    noted = json.loads(run("audit", "verify", "--json").stdout)["root"]

    first = rotate(run)
    second = rotate(run)

    assert first["values"] > 20
    assert second["before"] == first["key"]
    assert files_with(desk.folder, f"ares1.{first['before']}") == []
    assert files_with(desk.folder, f"ares1.{first['key']}") == []
    # The trail has no key here, so that a root which was noted is still one that it had.
    assert run("audit", "verify", "--root", noted).code == 0
    for key in (desk.folder / ".agent").glob("state.key.*"):
        key.unlink()
    task = finish(desk, task)
    assert (task["status"], task["output"]) == ("done", {"team": TEAM, "ticket_id": 1}), task["reason"]
    assert run("audit", "verify").code == 0
    assert desk.plaintext() == []


def test_the_old_key_is_kept_for_backups_from_before(desk: SealedDesk, run: Run) -> None:
    task = desk.start()
    copy = desk.folder / "copy.db"
    assert run("state", "backup", str(copy)).code == 0

    ran = run("state", "rotate-key")

    [old] = (desk.folder / ".agent").glob("state.key.*")
    assert f"hint: the old key is in `{old}`" in ran.stderr
    assert old.name == f"state.key.{id_of_key(old.read_bytes())}"
    refused = desk.by("ada", "task", "show", task["task_id"], "--config", f"state.url=sqlite:///{copy}")
    assert refused.code == 1
    assert "which is not known here" in refused.stderr
    assert not copy.with_suffix(".key").exists()
    old.rename(copy.with_suffix(".key"))
    assert desk.by("ada", "task", "show", task["task_id"], "--config", f"state.url=sqlite:///{copy}").code == 0


@pytest.mark.parametrize("statement", ["DELETE FROM sealed_with", "UPDATE sealed_with SET key = x'00'"])
def test_a_state_that_names_no_key_is_refused(desk: SealedDesk, run: Run, statement: str) -> None:
    assert run("tools", "list").code == 0
    edit(desk.folder, statement)

    refused = run("state", "rotate-key")

    assert (refused.code, refused.stdout) == (1, "")
    assert refused.stderr.startswith("error: The state does not name the key that seals it")


@pytest.mark.slow
@pytest.mark.parametrize("desk", ["dbos"], indirect=True)
@pytest.mark.parametrize("step", STEPS)
def test_a_rotation_that_is_killed_loses_nothing_and_can_be_run_again(desk: SealedDesk, run: Run, step: str) -> None:
    task = answered(desk)
    first = id_of_key((desk.folder / ".agent" / "state.key").read_bytes())
    # The file of an engine, whose values must be sealed again too.
    with closing(sqlite3.connect(desk.folder / ".agent" / "engine.db")) as engine, engine:
        engine.execute("CREATE TABLE IF NOT EXISTS extra (value TEXT)")
        seal = project_store(desk.folder / ".agent" / "state.db")
        engine.execute("INSERT INTO extra VALUES (?)", (seal.find_seal().close_text("kept", "engine"),))
        seal.close()

    killed = subprocess.run([sys.executable, "-c", DIES, step], cwd=desk.folder, check=False)

    assert killed.returncode == -signal.SIGKILL
    assert desk.json("ada", "task", "show", task["task_id"])["status"] == "waiting"
    assert run("audit", "verify").code == 0
    rotate(run)
    assert files_with(desk.folder, f"ares1.{first}") == []
    with closing(project_store(desk.folder / ".agent" / "state.db")) as store:
        seal_now = store.find_seal()
    with closing(sqlite3.connect(desk.folder / ".agent" / "engine.db")) as engine:
        [(text,)] = engine.execute("SELECT value FROM extra")
    assert seal_now.open_text(text, "engine") == "kept"
    assert finish(desk, task)["status"] == "done"


@pytest.mark.slow
def test_a_state_that_another_process_has_open_is_not_rotated(desk: SealedDesk, run: Run) -> None:
    desk.start()
    with closing(project_store(desk.folder / ".agent" / "state.db")):
        ran = run("state", "rotate-key")

    assert ran.code == 1
    assert "is in use by another process" in ran.stderr
    assert not (desk.folder / ".agent" / "state.key.next").exists()


def test_a_value_that_cannot_be_opened_stops_the_rotation_before_anything_changes(desk: SealedDesk, run: Run) -> None:
    task = desk.start()
    edit(desk.folder, "UPDATE artifact SET body = ? WHERE digest = 'first'", b"ares1.0000000000000000:nonsense")

    ran = run("state", "rotate-key")

    assert ran.code == 1
    assert "`body` of `artifact`" in ran.stderr
    assert desk.by("ada", "inbox", "show", desk.open_action(task)).code == 0


def test_a_trail_that_does_not_verify_is_not_sealed_again(desk: SealedDesk, run: Run) -> None:
    desk.start()
    edit(desk.folder, "UPDATE audit SET at = 'earlier' WHERE position = 1")

    ran = run("state", "rotate-key")

    assert ran.code != 0
    assert "`agent audit verify`" in ran.stderr


def test_a_key_file_that_is_missing_or_another_one_is_refused_and_not_made(desk: SealedDesk, run: Run) -> None:
    task = desk.start()
    key = desk.folder / ".agent" / "state.key"
    content = key.read_bytes()
    for present in (None, bytes(32)):
        key.unlink(missing_ok=True)
        if present is not None:
            key.write_bytes(present)

        ran = desk.by("ada", "task", "show", task["task_id"])

        assert ran.code == 1
        assert f"is sealed with the key {id_of_key(content)}, which is not known here" in ran.stderr
        assert key.exists() == (present is not None)
    key.write_bytes(content)
    assert desk.by("ada", "task", "show", task["task_id"]).code == 0


# Variables ------------------------------------------------------------------------------------------------------------

NEW, OLD = ("--config", "state.key_env=NEW_KEY"), ("--config", "state.old_key_env=OLD_KEY")


@pytest.fixture
def named(desk: SealedDesk, monkeypatch: pytest.MonkeyPatch) -> SealedDesk:
    """A desk whose settings name a variable with the key."""
    settings = desk.folder / "agent.toml"
    settings.write_text(settings.read_text() + '\n[state]\nkey_env = "OLD_KEY"\n', encoding="utf-8")
    monkeypatch.setenv("OLD_KEY", "correct horse")
    monkeypatch.setenv("NEW_KEY", "battery staple")
    return desk


def test_a_key_in_a_variable_is_changed_with_the_old_one_in_a_second_variable(
    named: SealedDesk, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = answered(named)
    root = json.loads(run("audit", "verify", "--json").stdout)["root"]
    # Until the command has run, a process with both keys works with the state as it is.
    assert named.by("ada", "task", "show", task["task_id"], *NEW, *OLD).code == 0
    assert run("audit", "verify", *NEW, *OLD).code == 0

    rotated = rotate(run, *NEW, *OLD)

    assert (rotated["key"], rotated["before"]) == (id_of_key(b"battery staple"), id_of_key(b"correct horse"))
    monkeypatch.setenv("OLD_KEY", "battery staple")
    monkeypatch.delenv("NEW_KEY")
    assert files_with(named.folder, f"ares1.{rotated['before']}") == []
    [*_, record] = json.loads(named.by("olga", "audit", "show", "--json").stdout) or [None]
    assert run("audit", "verify").code == 0
    assert record is None or record["body"]["root"] == root
    assert finish(named, task)["status"] == "done"
    assert rotate(run)["values"] == 0


def test_the_rotation_of_a_variable_says_which_key_is_missing(named: SealedDesk, run: Run) -> None:
    named.start()

    without_old = run("state", "rotate-key", *NEW)
    wrong = run("audit", "verify", *NEW)

    for ran in (without_old, wrong):
        assert ran.code == 1
        assert f"is sealed with the key {id_of_key(b'correct horse')}, which is not known here" in ran.stderr
        assert "`state.old_key_env`" in ran.stderr
        assert "horse" not in ran.stderr
    assert run("audit", "verify").code == 0


def test_an_old_key_whose_variable_is_not_set_is_refused(named: SealedDesk, run: Run) -> None:
    named.start()

    ran = run("state", "rotate-key", *NEW, "--config", "state.old_key_env=NOT_SET")

    assert ran.code != 0
    assert "NOT_SET" in ran.stderr


@pytest.mark.slow
def test_the_key_moves_from_the_file_to_a_variable_and_back(
    desk: SealedDesk, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = answered(desk)
    monkeypatch.setenv("NEW_KEY", "battery staple")
    # A state that names the key of the file is not believed where the settings name a variable.
    refused = run("state", "rotate-key", *NEW)
    assert refused.code == 1
    assert "`agent state rotate-key --from-file`" in refused.stderr
    evidence = desk.by("ada", "task", "export", task["task_id"], "-o", "before.json")
    assert evidence.code == 0

    rotated = rotate(run, *NEW, "--from-file")

    assert rotated["oldKey"] == str(desk.folder / ".agent" / "state.key")
    assert desk.by("ada", "task", "verify", "before.json", "--state", *NEW).code == 0
    assert run("audit", "verify", *NEW).code == 0
    assert run("audit", "verify").code == 1
    without = desk.by("ada", "inbox", "list")
    assert without.code == 1
    assert "or name its variable in `state.key_env`" in without.stderr
    rotate(run, "--config", "state.old_key_env=NEW_KEY")
    assert run("audit", "verify").code == 0
    assert finish(desk, task)["status"] == "done"


# States of earlier versions -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_state_of_an_earlier_version_is_refused_and_can_be_taken_over(desk: SealedDesk, run: Run) -> None:
    task = answered(desk)
    make_earlier(desk.folder / ".agent" / "state.db")

    refused, untold = desk.by("ada", "task", "show", task["task_id"]), run("state", "rotate-key")
    rotated = rotate(run, "--from-earlier-version")

    assert refused.code == untold.code == 1
    assert "agent state rotate-key --from-earlier-version" in refused.stderr
    assert "--from-earlier-version" in untold.stderr
    assert rotated["before"] == "unnamed"
    assert finish(desk, task)["status"] == "done"
    assert run("audit", "verify").code == 0


def make_earlier(path: Path) -> None:
    """Bring a state into the form that earlier versions wrote: values name no key, and words are open."""
    key = keys_beside(path).known_keys()[0]
    seal, earlier = AesSeal(key), _EarlierSeal(key)
    with closing(sqlite3.connect(path)) as state, state:
        state.row_factory = sqlite3.Row
        for place in SQLITE_PLACES:
            for row in state.execute(f"SELECT * FROM {place.table}").fetchall():  # noqa: S608 - ours
                _make_value_earlier(state, place, dict(row), seal, earlier)
        for table in TABLES:
            for column in table.sealed:
                for row in state.execute(f"SELECT * FROM {table.name} WHERE {column} <> ''").fetchall():  # noqa: S608
                    purpose = f"{table.name}.{column}/{row[table.key[0]]}"
                    plain = seal.open(sealed_from_text(row[column]), purpose).decode()
                    is_key = f"{table.key[0]} = ?"
                    state.execute(
                        f"UPDATE {table.name} SET {column} = ? WHERE {is_key}",  # noqa: S608 - ours
                        (plain, row[table.key[0]]),
                    )
        state.execute("UPDATE sealed_with SET key = 'unnamed'")


def _make_value_earlier(state: sqlite3.Connection, place: Any, row: Any, seal: AesSeal, earlier: Any) -> None:
    if row[place.column] is None or place.table == "audit":
        return
    for purpose in place.purposes(row):
        try:
            content = seal.open(row[place.column], purpose)
        except ValueError:
            continue
        changes = {place.column: earlier.close(content, purpose)}
        if place.type:
            changes[place.type] = row[place.type].partition("+")[0] + "+ares1"
        sets = ", ".join(f"{name} = ?" for name in changes)
        is_key = " AND ".join(f"{name} = ?" for name in place.key)
        values = (*changes.values(), *(row[name] for name in place.key))
        state.execute(f"UPDATE {place.table} SET {sets} WHERE {is_key}", values)  # noqa: S608 - ours


class _EarlierSeal:
    """Seals as earlier versions did."""

    def __init__(self, key: bytes) -> None:
        from hashlib import sha256

        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._cipher = AESGCM(sha256(b"agent-resolver seal\0" + key).digest())

    def close(self, content: bytes, purpose: str) -> bytes:
        nonce = os.urandom(12)
        return nonce + self._cipher.encrypt(nonce, content, purpose.encode())
