"""`agent task` in `examples/helpdesk`: what it prints, what it changes, and how it ends."""

import asyncio
import importlib
import io
import json
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_resolver.schema import RUNS, Run as RunRow
from agent_resolver.storage import Transaction
from tests.cli.test_run_worker import Handler
from tests.conftest import Ran, Run
from tests.identity.issued import AUDIENCE, token
from tests.loopback import loopback_server
from tests.state_keys import project_store

EXAMPLE = Path(__file__).parents[2] / "examples" / "helpdesk"
TICKET = "Open a ticket titled 'VPN down'"
WITH_PAGE = f"{TICKET}, assign it to team 'network' and page team 'network'"
COMMANDS = ("start", "list", "show", "resume", "run", "cancel", "export", "verify")
LOOKING = (("show",), ("cancel",), ("export",), ("resume",))
MEMORY_ENGINE = '\n[engine]\nkind = "memory"\n'


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> Path:
    """The example in a folder of its own, which is trusted and the current one."""
    folder = tmp_path / "helpdesk"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns(".agent", "__pycache__"))
    settings = folder / "agent.toml"
    settings.write_text(settings.read_text(encoding="utf-8") + MEMORY_ENGINE, encoding="utf-8")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("AGENT_TOKEN", raising=False)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.chdir(folder)
    sys.modules.pop("helpdesk", None)
    importlib.invalidate_caches()
    assert run("trust-folder").code == 0
    return folder


def started(run: Run, request: str, *options: str) -> Any:
    """A task that was just started."""
    return document(run("task", "start", request, "--json", *options))


def document(ran: Ran) -> Any:
    """What a command printed as JSON, if it printed nothing else."""
    assert ran.stderr == ""
    return json.loads(ran.stdout)


def given(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    """Give a command something on its stdin."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))


# Start ----------------------------------------------------------------------------------------------------------------


def test_a_plain_request_is_executed(desk: Path, run: Run) -> None:
    done = run("task", "start", TICKET)

    assert done.code == 0
    assert done.stderr == ""
    first, *artifacts, output = done.stdout.splitlines()
    assert first.startswith("✓ Task ")
    assert first.endswith(" done: The plan was executed")
    assert [line.split()[0::2] for line in artifacts] == [["BLUEPRINT", "CERTIFIED"], ["EVAL", "AUDITED"]]
    assert output == '  Output: {"ticket_id":1,"title":"VPN down"}'
    assert [path.suffix for path in (desk / "blueprints").iterdir()] == [".json"]


def test_the_request_may_come_from_stdin(desk: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    given(monkeypatch, f"\n{TICKET}\n".encode())

    assert started(run, "-")["intent"] == TICKET


def test_a_rejected_draft_waits_with_the_command_that_answers_it(desk: Path, run: Run) -> None:
    waits = run("task", "start", WITH_PAGE)

    assert waits.code == 1
    assert waits.stdout.startswith("◇ Task ")
    assert "waiting at ops_audit: CLARIFICATION" in waits.stdout
    assert "Ops rejects the plan (OPS-EGR-001, UIM-001)" in waits.stdout
    answer, resume = waits.stderr.splitlines()
    assert answer.startswith("hint: `agent inbox answer ")
    assert resume.startswith("hint: then `agent task resume ")


def test_an_answer_revises_the_draft_and_the_plan_is_executed(desk: Path, run: Run) -> None:
    task = started(run, WITH_PAGE)
    (action,) = task["pending_actions"]
    assert (task["status"], action["type"], action["resolved"]) == ("waiting", "CLARIFICATION", False)

    answered = run("inbox", "answer", action["id"], "leave-out")
    done = run("task", "resume", task["task_id"][:6], "--json")

    assert f"`agent task resume {task['task_id']}`" in answered.stdout
    assert done.code == 0
    ended = document(done)
    assert ended["output"] == {"ticket_id": 1, "team": "network"}
    assert all(action["resolved"] for action in ended["pending_actions"])
    assert not (desk / ".agent" / "pages.json").exists()
    (plan,) = (desk / "blueprints").iterdir()
    assert "pager" not in plan.read_text(encoding="utf-8"), "what was left out is not described either"
    assert run("tools", "certify").code == 0
    assert run("audit", "verify").code == 0


def test_answers_that_are_missing_are_asked_for_and_never_guessed(desk: Path, run: Run) -> None:
    task = started(run, "Assign a ticket")

    assert task["stage"] == "builder"
    assert [action["message"].split("`")[1] for action in task["pending_actions"]] == ["ticket_id", "team"]
    for action, words in zip(task["pending_actions"], ("3", "devices"), strict=True):
        assert run("inbox", "answer", action["id"], words).code == 0
    assert document(run("task", "resume", task["task_id"], "--json"))["output"] == {"ticket_id": 3, "team": "devices"}


def test_a_missing_tool_is_drafted_on_request(desk: Path, run: Run) -> None:
    task = started(run, "Reboot the server 'web-1'")
    (action,) = task["pending_actions"]
    assert action["message"].startswith("Missing dependency: ")

    run("inbox", "answer", action["id"], "draft it")
    done = run("task", "resume", task["task_id"])

    assert done.code == 0
    assert "Implement the draft in drafts/server_reboot_server.py, then certify it" in done.stdout
    assert (desk / "drafts" / "server_reboot_server.py").is_file()


def test_a_limit_halts_the_task_and_a_higher_one_lets_it_go_on(desk: Path, run: Run) -> None:
    halted = run("task", "start", TICKET, "--max-iterations", "1")
    (listed,) = document(run("task", "list", "--json"))

    assert halted.code == 1
    assert halted.stdout == f"◇ Task {listed['task_id']} waiting at builder: MAX_ITERATIONS_EXCEEDED\n"
    command = f"`agent task resume {listed['task_id']} --max-iterations N`"
    assert halted.stderr == f"hint: {command} goes on with a higher limit\n"
    assert run("task", "resume", listed["task_id"]).code == 0, "the settings allow 25"


def test_an_incident_and_a_trace_belong_to_the_task(desk: Path, run: Run) -> None:
    (desk / "incident.json").write_text('{"incident_id": "INC-7", "incident_severity": "P2"}')
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"

    task = started(run, TICKET, "--incident", "incident.json", "--trace-id", trace)

    assert task["trace_id"] == trace
    assert run("audit", "show", "--trace", trace).code == 0


# Refused --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"", b" \n\t", b"x" * 4_001, b"\xf0\x9f\x94\xa5" * 4_001])
def test_a_request_on_stdin_is_neither_empty_nor_too_long(
    desk: Path, run: Run, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    given(monkeypatch, content)

    refused = run("task", "start", "-")

    assert (refused.code, refused.stdout) == (2, "")
    assert refused.stderr.startswith("error: ")
    assert not (desk / ".agent").exists()


@pytest.mark.parametrize("words", ["", "  ", "x" * 4_001])
def test_a_request_is_neither_empty_nor_too_long(desk: Path, run: Run, words: str) -> None:
    assert run("task", "start", words).code == 2


@pytest.mark.parametrize("content", ["[", "[]", '{"id": 1}', '{"incident_severity": "bad"}'])
def test_a_wrong_incident_is_refused_with_the_keys_that_there_are(desk: Path, run: Run, content: str) -> None:
    (desk / "incident.json").write_text(content)

    refused = run("task", "start", TICKET, "--incident", "incident.json")

    assert (refused.code, refused.stdout) == (1, "")
    assert refused.stderr.startswith("error: `incident.json` is not an incident: ")
    assert "hint: its keys are incident_id, " in refused.stderr


def test_an_incident_that_is_not_there_is_a_missing_file(desk: Path, run: Run) -> None:
    assert run("task", "start", TICKET, "--incident", "absent.json").code == 2


@pytest.mark.parametrize("trace", ["", "0" * 32, "abc", "4BF92F3577B34DA6A3CE929D0E0E4736"])
def test_a_trace_id_that_is_none_is_wrong_usage(desk: Path, run: Run, trace: str) -> None:
    assert run("task", "start", TICKET, "--trace-id", trace).code == 2


def test_production_takes_an_issuer(desk: Path, run: Run) -> None:
    refused = run("task", "start", TICKET, "--environment", "prd")

    assert refused.code == 1
    assert refused.stderr.startswith("error: A task cannot act in `prd`: no issuer vouches for local:")
    assert run("task", "list").stdout == ""


def test_a_folder_that_is_not_trusted_runs_nothing(desk: Path, run: Run) -> None:
    run("trust-folder", "--remove")

    assert run("task", "start", TICKET).code == 1
    assert not (desk / "blueprints").exists()


@pytest.mark.parametrize("command", LOOKING)
def test_without_a_state_there_is_no_task_to_look_at(desk: Path, run: Run, command: tuple[str, ...]) -> None:
    refused = run("task", *command, "4f1c0a9e")

    assert (refused.code, refused.stdout) == (2, "")
    assert not (desk / ".agent" / "state.db").exists()


@pytest.mark.parametrize("command", LOOKING)
def test_an_unknown_task_is_refused(desk: Path, run: Run, command: tuple[str, ...]) -> None:
    keep_rows(desk, "aaaa1111")

    refused = run("task", *command, "4f1c0a9e")

    assert (refused.code, refused.stdout) == (1, "")
    assert refused.stderr == "error: There is no task 4f1c0a9e\nhint: `agent task list` shows those there are\n"


@pytest.mark.parametrize("command", LOOKING)
def test_a_beginning_that_fits_several_tasks_is_refused(desk: Path, run: Run, command: tuple[str, ...]) -> None:
    keep_rows(desk, "aaaa1111", "aaaa2222")

    refused = run("task", *command, "aaaa", "--json")

    assert refused.code == 1
    assert json.loads(refused.stdout)["error"]["code"] == "AMBIGUOUS_TASK"


def keep_rows(desk: Path, *ids: str) -> None:
    """Keep rows of tasks, of which nothing else is there."""
    (desk / ".agent").mkdir(exist_ok=True)
    store = project_store(desk / ".agent" / "state.db")
    rows = [RunRow(id=each, kind="task", status="waiting", trace_id="", started_at="", changed_at="") for each in ids]

    def put(transaction: Transaction) -> None:
        for row in rows:
            transaction.put(RUNS, row)

    asyncio.run(store.write(put))
    store.close()


# Look, cancel, export -------------------------------------------------------------------------------------------------


def test_no_tasks_are_listed_where_none_was_started(desk: Path, run: Run) -> None:
    listed = run("task", "list")

    assert (listed.code, listed.stdout, listed.stderr) == (0, "", "No tasks\n")
    assert document(run("task", "list", "--json")) == []
    assert not (desk / ".agent").exists(), "looking makes no state"


def test_tasks_are_listed_with_what_they_wait_for(desk: Path, run: Run) -> None:
    waiting = started(run, WITH_PAGE)
    done = started(run, TICKET)
    action = waiting["pending_actions"][0]["id"]

    newest, oldest = run("task", "list").stdout.splitlines()

    assert newest.startswith(f"{done['task_id']} done in dev ")
    assert oldest.startswith(f"{waiting['task_id']} waiting at ops_audit in dev ")
    assert oldest.endswith(f", waits for CLARIFICATION {action}")
    (listed,) = document(run("task", "list", "--status", "waiting", "--json"))
    assert (listed["task_id"], listed["waits_for"]["id"]) == (waiting["task_id"], action)
    limited = run("task", "list", "--limit", "1")
    assert (len(limited.stdout.splitlines()), "`--limit`" in limited.stderr) == (1, True)


def test_a_task_is_shown_with_the_request_and_what_it_waits_for(desk: Path, run: Run) -> None:
    task = started(run, WITH_PAGE)

    shown = run("task", "show", task["task_id"][:8])

    assert shown.code == 0
    assert f"  Request: {WITH_PAGE}" in shown.stdout.splitlines()
    assert "  Tools: tickets.open, tickets.assign, pager.page" in shown.stdout.splitlines()
    assert document(run("task", "show", task["task_id"], "--json")) == task


def test_a_task_that_has_ended_does_not_go_on(desk: Path, run: Run) -> None:
    task = started(run, TICKET)["task_id"]

    for command in ("resume", "cancel"):
        refused = run("task", command, task)
        assert (refused.code, refused.stdout) == (1, "")
        assert refused.stderr == f"error: Task {task} has ended: done\nhint: `agent task show {task}`\n"


def test_a_cancelled_task_stays_cancelled(desk: Path, run: Run) -> None:
    task = started(run, WITH_PAGE)["task_id"]

    cancelled = run("task", "cancel", task, task[:10])

    assert (cancelled.code, cancelled.stdout) == (0, f"✓ {task} cancelled\n")
    again = run("task", "cancel", task)
    assert (again.code, again.stdout) == (0, cancelled.stdout)
    assert run("task", "resume", task).code == 1
    assert document(run("task", "show", task, "--json"))["status"] == "cancelled"


def test_cancelling_says_in_json_what_became_of_each(desk: Path, run: Run) -> None:
    tasks = [started(run, WITH_PAGE)["task_id"] for _ in range(2)]

    cancelled = document(run("task", "cancel", *tasks, "--json"))

    assert cancelled == {"success": True, "tasks": dict.fromkeys(tasks, "cancelled")}


def test_an_export_has_everything_and_is_for_its_owner(desk: Path, run: Run) -> None:
    task = started(run, WITH_PAGE)

    printed = json.loads(run("task", "export", task["task_id"]).stdout)
    written = run("task", "export", task["task_id"], "-o", "task.json")

    assert printed["task"] == task
    assert printed["contents"].keys() == {*printed["references"].values()}
    assert {record["kind"] for record in printed["records"]} >= {"run.started", "task.decided", "run.waiting"}
    assert [action["id"] for action in printed["actions"]] == [each["id"] for each in task["pending_actions"]]
    assert (written.code, written.stdout) == (0, "")
    assert json.loads((desk / "task.json").read_bytes()) == printed
    assert stat.S_IMODE((desk / "task.json").stat().st_mode) == 0o600


def test_the_trail_has_no_word_of_the_request(desk: Path, run: Run) -> None:
    task = started(run, "Open a ticket titled 'Grandmother' and brew mocha")

    records = json.loads(run("task", "export", task["task_id"]).stdout)["records"]

    assert task["status"] == "waiting"
    assert not {word for word in ("Grandmother", "mocha") if word in json.dumps(records)}


# Run ------------------------------------------------------------------------------------------------------------------


def test_run_goes_on_with_what_was_answered_and_nothing_else(desk: Path, run: Run) -> None:
    answered, open_one = started(run, WITH_PAGE), started(run, WITH_PAGE)
    run("inbox", "answer", answered["pending_actions"][0]["id"], "leave-out")

    ran = run("task", "run", "--json")

    assert (ran.code, ran.stderr) == (0, "")
    (ended,) = map(json.loads, ran.stdout.splitlines())
    assert (ended["task_id"], ended["status"]) == (answered["task_id"], "done")
    again = run("task", "run")
    assert (again.code, again.stdout) == (0, "")
    (waiting,) = document(run("task", "list", "--status", "waiting", "--json"))
    assert waiting["task_id"] == open_one["task_id"]


def test_resuming_a_task_that_still_waits_changes_nothing(desk: Path, run: Run) -> None:
    task = started(run, WITH_PAGE)

    again = run("task", "resume", task["task_id"], "--json")

    assert again.code == 1
    assert {**document(again), "changed_at": ""} == {**task, "changed_at": ""}


# People ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def issuer(desk: Path) -> Iterator[str]:
    """An issuer on this machine, which the project believes."""
    with loopback_server(Handler) as url:
        settings = desk / "agent.toml"
        identity = f'\n[identity]\nissuer = "{url}"\naudience = "{AUDIENCE}"\n'
        settings.write_text(settings.read_text(encoding="utf-8") + identity, encoding="utf-8")
        yield url


def as_person(desk: Path, issuer: str, name: str, **claims: Any) -> tuple[str, str]:
    """The option that says who asks, with a fresh token."""
    stated = {"division": "support", "clearance_level": "RESTRICTED", "cost_center": "CC-17", **claims}
    known = {claim: value for claim, value in stated.items() if value}
    said = {"iss": issuer, "aud": AUDIENCE, "sub": name, "exp": time.time() + 300}
    file = desk / f"{name}.jwt"
    file.write_text(token({**said, **known}))
    return "--token-file", str(file)


WITHOUT_TOOLS = """
import sys
sys.modules["cryptography"] = None
from agent_resolver.cli import main
sys.exit(main())
"""


def test_without_the_other_extras_the_hint_names_all_that_tasks_need(desk: Path, run: Run) -> None:
    started(run, TICKET)

    command = [sys.executable, "-c", WITHOUT_TOOLS, "task", "list"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)

    assert ran.returncode == 2
    assert ran.stderr.endswith("hint: pip install 'agent-resolver[tools,engine,reasoner]'\n")


@pytest.mark.slow
def test_people_of_two_cost_centers_can_ask_for_the_same(desk: Path, issuer: str, run: Run) -> None:
    first = started(run, TICKET, *as_person(desk, issuer, "ada", cost_center="CC-1"))
    second = started(run, TICKET, *as_person(desk, issuer, "bob", cost_center="CC-2"))

    assert (first["status"], second["status"]) == ("done", "done")
    assert not set(first["artifacts"]) & set(second["artifacts"])


def test_in_production_a_second_person_approves(desk: Path, issuer: str, run: Run) -> None:
    ada = as_person(desk, issuer, "ada", roles=["approver"])
    eve = as_person(desk, issuer, "eve", roles=["approver"])
    task = started(run, TICKET, "--environment", "prd", *ada)
    (action,) = task["pending_actions"]
    assert (action["type"], [each["status"] for each in task["artifacts"].values()]) == ("APPROVAL", ["AUDITED"] * 2)

    own = run("inbox", "approve", action["id"], *ada)
    assert (own.code, own.stderr.startswith("error: OWN_CALL: ")) == (1, True)
    assert run("inbox", "approve", action["id"], *eve).code == 0
    done = run("task", "resume", task["task_id"], *ada, "--json")

    assert done.code == 0
    assert '"cost_center": "CC-17"' in next((desk / "blueprints").iterdir()).read_text(encoding="utf-8")


def test_a_rejected_approval_ends_the_task(desk: Path, issuer: str, run: Run) -> None:
    ada = as_person(desk, issuer, "ada")
    task = started(run, "Unlock the account of user 'bob'", *ada)
    (action,) = task["pending_actions"]

    run("inbox", "reject", action["id"], *as_person(desk, issuer, "eve", roles=["approver"]))
    ended = run("task", "resume", task["task_id"], *ada)

    assert ended.code == 1
    assert f"✗ Task {task['task_id']} failed" in ended.stderr
    assert not (desk / "blueprints").exists()


@pytest.mark.slow
def test_only_a_new_token_brings_a_missing_claim(desk: Path, issuer: str, run: Run) -> None:
    task = started(run, TICKET, *as_person(desk, issuer, "ada", cost_center=""))
    (action,) = task["pending_actions"]
    assert (task["stage"], action["type"], "cost_center" in action["message"]) == (
        "context_bind",
        "CLARIFICATION",
        True,
    )

    typed = run("inbox", "answer", action["id"], "CC-17", *as_person(desk, issuer, "ada", cost_center=""))
    assert typed.stderr.startswith("error: ANSWERED_BY_READINESS: ")
    assert run("task", "resume", task["task_id"], *as_person(desk, issuer, "ada")).code == 0


def test_tasks_of_others_are_not_there_except_for_auditors(desk: Path, issuer: str, run: Run) -> None:
    task = started(run, WITH_PAGE, *as_person(desk, issuer, "ada"))["task_id"]
    bob = as_person(desk, issuer, "bob")

    for command in ("show", "resume", "cancel", "export"):
        assert run("task", command, task, *bob).stderr.startswith(f"error: There is no task {task}\n")
    assert document(run("task", "list", "--json", *bob)) == []
    auditor = as_person(desk, issuer, "bob", roles=["auditor"])
    assert [each["task_id"] for each in document(run("task", "list", "--json", *auditor))] == [task]
    assert run("task", "show", task, *auditor).code == 0
    assert run("task", "resume", task, *auditor).code == 1


def test_a_task_is_started_with_a_token_where_there_is_an_issuer(desk: Path, issuer: str, run: Run) -> None:
    refused = run("task", "start", TICKET)

    assert (refused.code, refused.stdout) == (1, "")
    assert refused.stderr.splitlines()[-1] == "hint: set AGENT_TOKEN, or give --token-file"


# Help -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_has_examples(run: Run, command: str) -> None:
    shown = run("task", command, "--help")

    assert shown.code == 0
    assert f"  agent task {command}" in shown.stdout.partition("examples:")[2]
