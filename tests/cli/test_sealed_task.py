"""A whole task leaves none of its words in any file of the state, and goes on after its key was changed."""

import importlib
import json
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_run_worker import Handler
from tests.conftest import Ran, Run
from tests.identity.issued import AUDIENCE, token
from tests.loopback import loopback_server

HELPDESK = Path(__file__).parents[2] / "examples" / "helpdesk" / "helpdesk.py"
SETTINGS = """\
[project]
name = "helpdesk"

[tools]
modules = ["helpdesk"]
blueprints = ["blueprints"]

[reasoner]
tools = ["tickets.*", "pager.*"]
blueprints = "blueprints"
egress = []

[identity]
issuer = "{issuer}"
audience = "{audience}"

[engine]
kind = "{engine}"
"""
CLAIMS = {"division": "retail", "clearance_level": "INTERNAL", "cost_center": "CC-17", "scope": "use"}
TEAM, TITLE, REASON = "zebrateam", "okapititle", "gnureason"
WORDS = (TEAM, TITLE, REASON)
REQUEST = f"Open a ticket, assign it to team '{TEAM}' and page team '{TEAM}'"


class SealedDesk:
    """A help desk with an issuer, and all that its state holds."""

    def __init__(self, folder: Path, issuer: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self._issuer, self._run, self._monkeypatch = folder, issuer, run, monkeypatch

    def by(self, person: str, *command: str) -> Ran:
        """Run a command for a person."""
        roles = ["approver"] if person == "ben" else []
        claims = {"iss": self._issuer, "aud": AUDIENCE, "sub": person, "exp": time.time() + 300, "roles": roles}
        with self._monkeypatch.context() as patch:
            patch.setenv("AGENT_TOKEN", token({**claims, **CLAIMS}))
            return self._run(*command)

    def json(self, person: str, *command: str) -> Any:
        return json.loads(self.by(person, *command, "--json").stdout)

    def open_action(self, task: Any) -> str:
        return next(str(each["id"]) for each in task["pending_actions"] if not each["resolved"])

    def start(self) -> Any:
        """A task that asks for the title of its ticket."""
        return self.json("ada", "task", "start", REQUEST, "--environment", "prd")

    def answer(self, task: Any, words: str) -> Any:
        assert self.by("ada", "inbox", "answer", self.open_action(task), words).code == 0
        return self.json("ada", "task", "resume", task["task_id"])

    def plaintext(self) -> list[str]:
        """Each word of the task that any table or file of the state has as it is, and where."""
        return [f"{word} in {place}" for place, content in self._contents() for word in WORDS if word in content]

    def _contents(self) -> Iterator[tuple[str, str]]:
        state = self.folder / ".agent"
        # What a tool does with its arguments is its own: the tickets themselves are in a file of the help desk.
        files = (each for each in state.rglob("*") if each.is_file() and not each.name.startswith("helpdesk.db"))
        for path in sorted(files):
            yield path.name, path.read_bytes().decode("latin-1")
            if path.suffix == ".db":
                yield from _cells(path)


def _cells(path: Path) -> Iterator[tuple[str, str]]:
    """Every cell of every table, with what is still in the WAL."""
    with closing(sqlite3.connect(path)) as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            for row in database.execute(f'SELECT * FROM "{table}"'):  # noqa: S608 - the names of the file
                for value in row:
                    yield f"{path.name}/{table}", _text(value)


def answered(desk: SealedDesk) -> Any:
    """A task that waits for its approval."""
    return desk.answer(desk.answer(desk.start(), TITLE), "leave-out")


def _text(value: object) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


@pytest.fixture(params=["memory", pytest.param("dbos", marks=pytest.mark.slow)])
def desk(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[SealedDesk]:
    module = HELPDESK.read_text(encoding="utf-8").replace('"network")', f'"{TEAM}")')
    (tmp_path / "helpdesk.py").write_text(module, encoding="utf-8")
    # Another test may have loaded the module from another folder.
    sys.modules.pop("helpdesk", None)
    importlib.invalidate_caches()
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    # Another test of the same process may have left the module of its own folder.
    sys.modules.pop("helpdesk", None)
    with loopback_server(Handler) as issuer:
        settings = SETTINGS.format(issuer=issuer, audience=AUDIENCE, engine=request.param)
        (tmp_path / "agent.toml").write_text(settings, encoding="utf-8")
        assert run("trust-folder").code == 0
        yield SealedDesk(tmp_path, issuer, run, monkeypatch)
    sys.modules.pop("helpdesk", None)


def test_no_word_of_a_task_is_readable_in_the_state_at_any_time(desk: SealedDesk) -> None:
    """Request, question, answer, draft, rejected approval, arguments and result: each only with the key."""
    task = desk.start()
    assert desk.plaintext() == []
    task = desk.answer(task, TITLE)
    assert (task["status"], desk.plaintext()) == ("waiting", [])
    task = desk.answer(task, "leave-out")
    assert (task["code"], desk.plaintext()) == ("APPROVAL", [])

    shown = desk.by("ben", "inbox", "show", desk.open_action(task))
    assert TITLE in shown.stdout  # The approver sees it: the seal is opened for them.
    assert desk.by("ben", "inbox", "approve", desk.open_action(task)).code == 0
    task = desk.json("ada", "task", "resume", task["task_id"])

    assert (task["status"], task["output"]) == ("done", {"team": TEAM, "ticket_id": 1})
    trail = desk.by("ada", "audit", "show")
    assert TITLE in trail.stdout
    assert desk.plaintext() == []
    assert any("tickets.open" in content for _, content in desk._contents())  # The search finds what is readable.


@pytest.mark.parametrize("request_of_task", [f"Reboot the server '{TITLE}'", f"Ticket '{TITLE}' if '{TEAM}'", TITLE])
def test_what_a_task_cannot_plan_is_sealed_too(desk: SealedDesk, request_of_task: str) -> None:
    task = desk.json("ada", "task", "start", request_of_task)

    assert task["status"] == "waiting"
    assert TITLE in desk.by("ada", "task", "show", task["task_id"]).stdout
    assert desk.plaintext() == []


@pytest.mark.slow
def test_a_rejection_and_its_reason_are_sealed(desk: SealedDesk) -> None:
    task = answered(desk)

    assert desk.by("ben", "inbox", "reject", desk.open_action(task), "--reason", REASON).code == 0
    task = desk.json("ada", "task", "resume", task["task_id"])

    assert task["status"] == "failed"
    assert REASON in desk.by("ada", "inbox", "show", task["pending_actions"][-1]["id"]).stdout
    assert desk.plaintext() == []


def test_an_approval_that_was_written_into_the_file_is_refused(desk: SealedDesk) -> None:
    """An answer without the name of our cipher, and one that was sealed for another question, let nothing pass."""
    task = answered(desk)
    second = desk.open_action(task)
    first = next(each["id"] for each in task["pending_actions"] if each["id"] != second)
    copied = "(SELECT answer FROM pending WHERE id = ?)"
    for answer, parameters in (("'approved'", ()), (copied, (first,))):
        with closing(sqlite3.connect(desk.folder / ".agent" / "state.db")) as state, state:
            state.execute(
                f"UPDATE pending SET answer = {answer}, answered_by = 'ben' WHERE id = ?",  # noqa: S608 - ours
                (*parameters, second),
            )

        ran = desk.by("ada", "task", "resume", task["task_id"])

        assert ran.code != 0
        assert "a row of `pending` that was edited" in ran.stdout + ran.stderr
        assert "Traceback" not in ran.stderr
