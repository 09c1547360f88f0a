"""Who may read tasks and the trail, where an issuer vouches for callers: one's own, or all for an auditor."""

import asyncio
import json
import re
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent_resolver.schema import RUNS, Run as RunRow
from tests.cli.test_run_worker import Handler
from tests.conftest import Ran, Run
from tests.identity.issued import AUDIENCE, token
from tests.loopback import loopback_server
from tests.state_keys import project_store

HELPDESK = Path(__file__).parent.parent.parent / "examples" / "helpdesk" / "helpdesk.py"
SETTINGS = """\
[project]
name = "helpdesk"

[tools]
modules = ["helpdesk"]
blueprints = ["blueprints"]

[identity]
issuer = "{issuer}"
audience = "{audience}"
"""
CLAIMS = {"division": "retail", "clearance_level": "INTERNAL", "cost_center": "CC-17", "scope": "use"}
ROLES = {"olga": ["auditor"], "ben": ["approver"]}


class Desk:
    """A help desk whose commands are run by people with tokens."""

    def __init__(self, issuer: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        self.issuer, self._run, self._monkeypatch = issuer, run, monkeypatch

    def by(self, person: str, *command: str, **claims: Any) -> Ran:
        """Run a command for a person; for nobody if the name is empty."""
        payload = {"iss": self.issuer, "aud": AUDIENCE, "sub": person, "exp": time.time() + 300, **CLAIMS}
        with self._monkeypatch.context() as patch:
            if person:
                patch.setenv("AGENT_TOKEN", token({**payload, "roles": ROLES.get(person, []), **claims}))
            return self._run(*command)

    def json(self, person: str, *command: str) -> Any:
        return json.loads(self.by(person, *command, "--json").stdout)

    def add_run(self, run: str, kind: Any, caller: str, issuer: str = "") -> None:
        """Add the row of a run that a person started."""
        at = "2026-01-01T00:00:00.000Z"
        row = RunRow(
            id=run, kind=kind, status="done", trace_id=run, started_at=at, changed_at=at, caller=caller,
            issuer=issuer or self.issuer,
        )  # fmt: skip
        with closing(project_store(".agent/state.db")) as store:
            asyncio.run(store.write(lambda transaction: transaction.put(RUNS, row)))

    def start(self, person: str) -> str:
        """A task of a person that waits for an answer."""
        return str(self.json(person, "task", "start", "Open a ticket")["task_id"])


@pytest.fixture
def desk(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    shutil.copy(HELPDESK, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    with loopback_server(Handler) as issuer:
        (tmp_path / "agent.toml").write_text(SETTINGS.format(issuer=issuer, audience=AUDIENCE))
        assert run("trust-folder").code == 0
        yield Desk(issuer, run, monkeypatch)
    sys.modules.pop("helpdesk", None)


# Tasks ----------------------------------------------------------------------------------------------------------------


def test_people_list_their_own_tasks_and_an_auditor_all(desk: Desk) -> None:
    task, other = desk.start("ada"), desk.start("eve")

    listed = {
        who: [each["task_id"] for each in desk.json(who, "task", "list")] for who in ("ada", "eve", "olga", "ben")
    }

    assert listed == {"ada": [task], "eve": [other], "olga": [other, task], "ben": []}


def test_a_task_of_another_person_is_as_if_there_were_none(desk: Desk) -> None:
    task = desk.start("ada")
    commands = [("show",), ("export",), ("resume",), ("cancel",)]

    for command in commands:
        for given in (task, task[:4]):
            refused = desk.by("eve", "task", *command, given)
            unknown = desk.by("eve", "task", *command, "0" * len(given))
            assert refused.code == unknown.code == 1
            assert refused.stderr.replace(given, "ID") == unknown.stderr.replace("0" * len(given), "ID")
            assert task[4:] not in refused.stderr.replace(given, "")
    assert desk.json("ada", "task", "show", task)["status"] == "waiting"


def test_an_auditor_reads_every_task_and_changes_none(desk: Desk) -> None:
    task = desk.start("ada")

    assert desk.json("olga", "task", "show", task)["initiator_id"] == "ada"
    exported = json.loads(desk.by("olga", "task", "export", task).stdout)
    assert exported["task"]["task_id"] == task
    for command in ("resume", "cancel"):
        assert desk.json("olga", "task", command, task)["error"]["code"] == "UNKNOWN_TASK"


@pytest.mark.parametrize("command", [("list",), ("show", "4f1c"), ("export", "4f1c"), ("cancel", "4f1c")])
def test_with_an_issuer_looking_at_tasks_takes_a_token(desk: Desk, command: tuple[str, ...]) -> None:
    desk.start("ada")
    refused = desk.by("", "task", *command)

    assert refused.code == 1
    assert "no token was given" in refused.stderr


# Runs -----------------------------------------------------------------------------------------------------------------

READING = (("runs", "show"), ("runs", "export"), ("runs", "replay"), ("blueprint", "status"), ("blueprint", "history"))


def listed_runs(desk: Desk, person: str, group: str) -> list[str]:
    return [each["caller"] for each in desk.json(person, group, "list")]


def test_people_list_their_own_runs_and_an_auditor_all(desk: Desk) -> None:
    desk.start("ada")
    desk.start("eve")
    desk.add_run("blueprint-run", "blueprint", "ada")
    desk.add_run("agent-run", "agent", "eve")
    desk.add_run("namesake", "blueprint", "ada", issuer="https://other.example.com")

    runs = {who: sorted(listed_runs(desk, who, "runs")) for who in ("ada", "eve", "olga", "ben")}
    blueprints = {who: listed_runs(desk, who, "blueprint") for who in ("ada", "eve", "olga", "ben")}

    assert runs == {"ada": ["ada"] * 2, "eve": ["eve"] * 2, "olga": ["ada"] * 3 + ["eve"] * 2, "ben": []}
    assert blueprints == {"ada": ["ada"], "eve": [], "olga": ["ada", "ada"], "ben": []}


def test_a_task_of_a_person_of_the_same_name_at_another_issuer_is_not_listed(desk: Desk) -> None:
    desk.start("ada")
    desk.add_run("4f1c0a9e", "task", "ada", issuer="https://other.example.com")

    assert "4f1c0a9e" not in [each["task_id"] for each in desk.json("ada", "task", "list")]
    assert desk.by("ada", "task", "show", "4f1c0a9e").code == 1


@pytest.mark.parametrize("command", [*READING, ("runs", "cancel")])
def test_a_run_of_another_person_is_as_if_there_were_none(desk: Desk, command: tuple[str, ...]) -> None:
    desk.start("ada")
    desk.add_run("deadbeef", "blueprint" if command[0] == "blueprint" else "agent", "ada")

    for given in ("deadbeef", "dead"):
        foreign, unknown = (desk.by("eve", *command, each) for each in (given, "0" * len(given)))
        assert (foreign.code, unknown.code, foreign.stdout) == (1, 1, "")
        assert foreign.stderr.replace(given, "ID") == unknown.stderr.replace("0" * len(given), "ID")


@pytest.mark.parametrize("command", [("runs", "list"), ("blueprint", "list"), *((*each, "4f1c") for each in READING)])
def test_with_an_issuer_looking_at_runs_takes_a_token_that_is_valid(desk: Desk, command: tuple[str, ...]) -> None:
    desk.start("ada")

    nobody = desk.by("", *command)
    expired = desk.by("olga", *command, exp=time.time() - 3600)
    for_others = desk.by("olga", *command, aud="https://other.example.com")
    of_others = desk.by("olga", *command, iss="https://other.example.com")

    assert "no token was given" in nobody.stderr
    for refused in (nobody, expired, for_others, of_others):
        assert (refused.code, refused.stdout) == (1, "")


@pytest.mark.parametrize("command", [("task", "list"), ("audit", "show"), ("inbox", "list", "--all")])
def test_a_token_that_expired_or_is_for_others_reads_nothing(desk: Desk, command: tuple[str, ...]) -> None:
    desk.start("ada")

    for claims in ({"exp": time.time() - 3600}, {"aud": "https://other.example.com"}):
        refused = desk.by("olga", *command, **claims)
        assert (refused.code, refused.stdout) == (1, "")


# The inbox ------------------------------------------------------------------------------------------------------------


def test_people_read_what_concerns_them_in_the_inbox_and_an_auditor_all(desk: Desk) -> None:
    desk.start("ada")
    [action] = [each["id"] for each in desk.json("ada", "inbox", "list")]

    seen = {who: len(desk.json(who, "inbox", "list", "--all")) for who in ("ada", "ben", "eve", "olga")}

    assert seen == {"ada": 1, "ben": 1, "eve": 0, "olga": 1}
    foreign, unknown = desk.by("eve", "inbox", "show", action), desk.by("eve", "inbox", "show", "0" * 12)
    assert foreign.stderr.replace(action, "ID") == unknown.stderr.replace("0" * 12, "ID")
    assert desk.by("olga", "inbox", "answer", action, "words of an auditor").code == 1
    # Once it was answered, a refusal would quote the answer.
    assert desk.by("ada", "inbox", "answer", action, "zebra").code == 0
    late, none = desk.by("eve", "inbox", "answer", action, "x"), desk.by("eve", "inbox", "answer", "0" * 12, "x")
    assert late.stderr.replace(action, "ID") == none.stderr.replace("0" * 12, "ID")
    assert "zebra" in desk.by("olga", "inbox", "show", action).stdout


# The trail ------------------------------------------------------------------------------------------------------------


def callers(records: Any) -> set[str]:
    return {record["body"].get("caller", "") for record in records}


def test_people_read_their_own_records_and_an_auditor_all(desk: Desk) -> None:
    task, other = desk.start("ada"), desk.start("eve")

    assert callers(desk.json("ada", "audit", "show")) == {"ada"}
    assert callers(desk.json("eve", "audit", "show", "--run", other[:6])) == {"eve"}
    assert callers(desk.json("olga", "audit", "show")) == {"ada", "eve"}
    assert {record["run"] for record in desk.json("olga", "audit", "show", "--run", task)} == {task}
    assert len(desk.json("ada", "audit", "show", "--last", "2")) == 2
    assert desk.by("ben", "audit", "show").stdout == ""


def test_records_of_another_person_are_as_if_there_were_none(desk: Desk) -> None:
    task = desk.start("ada")
    trace = desk.json("ada", "task", "show", task)["trace_id"]
    asked = [("--run", task), ("--run", task[:6]), ("--trace", trace)]

    refused = [desk.by("eve", "audit", "show", *options) for options in asked]

    assert [each.code for each in refused] == [1, 1, 1]
    assert "No run has an id that begins with" in refused[0].stderr
    assert f"No record has the trace {trace}" in refused[2].stderr
    assert all(each.stdout == "" for each in refused)


def test_a_role_that_nobody_vouches_for_reads_nothing_more(desk: Desk) -> None:
    """Another issuer has people of the same name; and without a token nobody reads anything."""
    desk.start("ada")
    foreign = desk.by("ada", "audit", "show", iss="https://other.example.com", roles=["auditor"])
    nobody = desk.by("", "audit", "show")

    assert (foreign.code, foreign.stdout) == (1, "")
    assert (nobody.code, nobody.stdout) == (1, "")
    assert "no token was given" in nobody.stderr


def test_everybody_may_verify_the_trail_and_sees_nothing_of_it(desk: Desk) -> None:
    desk.start("ada")
    verified = desk.by("", "audit", "verify")

    assert verified.code == 0
    assert re.fullmatch("✓ [0-9]+ records verify, root [0-9a-f]{64}\n", verified.stdout)
