"""`agent runs`: what became of runs, and how they go on, end and are taken elsewhere."""

import json
import os
import signal
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import kinds
from tests.cli.scripted_model import AGENT, asking, saying, write_script
from tests.conftest import Run
from tests.process import eventually

CANARY = "canary-4711"


def listed(run: Run, *options: str) -> list[dict[str, Any]]:
    """The runs, as programs see them."""
    found: list[dict[str, Any]] = json.loads(run("runs", "list", "--json", *options).stdout)
    return found


def waiting_run(folder: Path, run: Run) -> str:
    """The id of a run that waits for an approval."""
    write_script(folder, asking("notes__write", "I write.", name="welcome", pin=CANARY))
    assert run("run", "Write it").code == 1
    return str(listed(run)[0]["id"])


def action_of(run: Run, run_id: str) -> str:
    """The id of what a run waits for."""
    (found,) = [each["waitsFor"]["id"] for each in listed(run) if each["id"] == run_id]
    return str(found)


def interrupted_run(folder: Path, run: Run, sign: int = signal.SIGKILL) -> str:
    """The id of a run whose process was ended in the middle of a call."""
    write_script(folder, asking("notes__hang", name="welcome"))
    line = [sys.executable, "-m", "agent_resolver", "run", "Hang"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as command:
        assert eventually((folder / "hanging").exists, 30.0)
        os.kill(command.pid, sign)
        command.communicate(timeout=30)
    (folder / "hanging").unlink()
    return str(listed(run)[0]["id"])


def edit(folder: Path, statement: str, *values: object) -> None:
    """Edit the state behind the program's back."""
    with closing(sqlite3.connect(folder / ".agent" / "state.db")) as connection, connection:
        connection.execute(statement, values)


# List -----------------------------------------------------------------------------------------------------------------


def test_where_nothing_ran_no_run_is_listed_and_nothing_is_made(notes: Path, run: Run) -> None:
    plain, as_json = run("runs", "list"), run("runs", "list", "--json")

    assert (plain.code, plain.stdout, plain.stderr) == (0, "", "No runs\n")
    assert as_json.stdout == "[]\n"
    assert not (notes / ".agent").exists()


def test_runs_are_listed_newest_first_with_what_each_waits_for(trusted: Path, run: Run) -> None:
    write_script(trusted, saying("Hello."))
    assert run("run", "Say hello").code == 0
    done = listed(run)[0]["id"]
    waiting = waiting_run(trusted, run)

    lines = run("runs", "list").stdout.splitlines()

    first, second = lines
    assert first.startswith(f"{waiting} waiting keeper 20")
    assert first.endswith(f"1 round, cost unknown, waits for APPROVAL {action_of(run, waiting)}")
    assert second.startswith(f"{done} done keeper 20")
    assert [each["id"] for each in listed(run, "--status", "done")] == [done]
    assert [each["id"] for each in listed(run, "--limit", "1")] == [waiting]
    assert "hint: there are more than 1" in run("runs", "list", "--limit", "1").stderr
    assert listed(run, "--agent", "other") == []
    assert all(key.isalpha() for key in listed(run)[0])


def test_an_answered_question_is_shown_as_such(trusted: Path, run: Run) -> None:
    waiting = waiting_run(trusted, run)
    assert run("inbox", "approve", action_of(run, waiting)).code == 0

    assert run("runs", "list").stdout.endswith(" (approved)\n")
    assert listed(run)[0]["waitsFor"]["state"] == "approved"


def test_a_cost_that_is_not_certain_is_shown_as_such(trusted: Path, run: Run) -> None:
    waiting_run(trusted, run)
    edit(trusted, "UPDATE run SET cost = 0.0123, uncertain = 2")

    shown = run("runs", "list").stdout

    assert "~$0.0123 (2 questions may have been paid without an answer here)" in shown


def test_an_edited_row_steers_no_terminal(trusted: Path, run: Run) -> None:
    waiting_run(trusted, run)
    edit(trusted, "UPDATE run SET agent = ?", "\x1b[2Jkeeper\nforged")

    shown = run("runs", "list").stdout

    assert "\x1b" not in shown
    assert shown.count("\n") == 1


@pytest.mark.parametrize("options", [("--status", "lost"), ("--limit", "0"), ("--limit", "9" * 30), ("--limit", "x")])
def test_what_no_list_can_be_of_is_usage(trusted: Path, run: Run, options: tuple[str, ...]) -> None:
    assert run("runs", "list", *options).code == 2


# Show -----------------------------------------------------------------------------------------------------------------


def test_show_says_what_happened_and_what_is_next(trusted: Path, run: Run) -> None:
    waiting = waiting_run(trusted, run)
    action = action_of(run, waiting)

    ran = run("runs", "show", waiting[:6])

    assert ran.code == 0
    lines = ran.stdout.splitlines()
    assert lines[0] == f"{waiting} waiting keeper"
    assert "  Used: 1 round, 25 tokens, cost unknown" in lines
    (asked,) = [line for line in lines if line.startswith("  Round 1: ")]
    assert ", 20 tokens in, 5 out, cost unknown" in asked
    assert '    notes.write {"name":"welcome","pin":"[redacted]"} → pending APPROVAL_REQUIRED' in lines
    assert "  Said: I write." in lines
    assert f"  Waits for approval {action}" in lines
    expected = f"hint: `agent inbox approve {action}`, or `reject`; then `agent runs resume {waiting}`\n"
    assert ran.stderr == expected


def test_each_call_is_shown_with_its_outcome(trusted: Path, run: Run) -> None:
    write_script(
        trusted,
        asking("notes__read", name="welcome"),
        asking("notes__read", nome="welcome"),
        asking("nothing__there", name="welcome"),
        saying("Done."),
    )
    assert run("run", "Read").code == 0

    shown = json.loads(run("runs", "show", listed(run)[0]["id"], "--json").stdout)

    calls = [(call["round"], call["tool"], call["outcome"], call["code"]) for call in shown["calls"]]
    assert calls == [
        (1, "notes.read", "done", ""),
        (2, "notes.read", "answered", ""),
        (3, "nothing.there", "failed", "UNKNOWN_TOOL"),
    ]
    assert [each["outcome"] for each in shown["questions"]] == ["answered"] * 4
    assert shown["text"] == "Done."
    assert shown["termination"]["reason"] == "natural_end"


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_no_secret_field_of_a_call_is_shown_or_exported(trusted: Path, run: Run, form: tuple[str, ...]) -> None:
    write_script(
        trusted,
        asking("notes__read", f"The pin is {CANARY}.", name="welcome", pin=CANARY),
        asking("notes__write", f"Again {CANARY}.", name=CANARY, pin=CANARY),
    )
    assert run("run", "Write it").code == 1
    chosen = str(listed(run)[0]["id"])

    shown, exported = run("runs", "show", chosen, *form), run("runs", "export", chosen, *form)

    assert (shown.code, exported.code) == (0, 0)
    assert CANARY not in shown.stdout + shown.stderr + exported.stdout
    assert "[redacted]" in exported.stdout


def test_a_secret_field_stays_hidden_after_the_tool_is_gone(trusted: Path, run: Run) -> None:
    """The tools of today do not decide what of a run of yesterday is secret."""
    waiting = waiting_run(trusted, run)
    (trusted / "agent.toml").write_text((trusted / "agent.toml").read_text().split("[tools]", maxsplit=1)[0])

    assert CANARY not in run("runs", "export", waiting).stdout
    # Without the plan it is not known which fields are secret, so that no arguments are shown.
    edit(trusted, "DELETE FROM plan")
    exported = run("runs", "export", waiting).stdout
    assert CANARY not in exported
    assert "welcome" not in exported


def test_the_beginning_of_an_id_is_enough_if_one_run_has_it(trusted: Path, run: Run) -> None:
    chosen = waiting_run(trusted, run)
    row = "SELECT NULL, id || 'x', kind, status"
    columns = [name for name in _columns(trusted) if name not in {"position", "id", "kind", "status"}]
    # The words in a row are sealed for its id.
    copied = ["''" if name == "reason" else name for name in columns]
    edit(trusted, f"INSERT INTO run {row}, {', '.join(copied)} FROM run")

    exact, several, none = (run("runs", "show", given) for given in (chosen, chosen[:8], "zz"))

    assert exact.code == 0
    assert (several.code, f"Several runs begin with {chosen[:8]}: {chosen}, {chosen}x" in several.stderr) == (1, True)
    assert (none.code, "There is no run zz" in none.stderr) == (1, True)
    slip = chosen[:-2] + ("00" if chosen[-2:] != "00" else "11")
    assert "did you mean `" in run("runs", "show", slip).stderr


def _columns(folder: Path) -> list[str]:
    with closing(sqlite3.connect(folder / ".agent" / "state.db")) as connection:
        return [row[1] for row in connection.execute("PRAGMA table_info(run)")]


@pytest.mark.parametrize("given", ["\x1b[2J", "a\nb", "", "x" * 65, "\udcff"])
@pytest.mark.parametrize("command", ["show", "resume", "cancel", "export", "replay"])
def test_what_cannot_be_an_id_is_usage(trusted: Path, run: Run, command: str, given: str) -> None:
    ran = run("runs", command, given)

    assert ran.code == 2
    assert "no run has an id like that" in ran.stderr
    assert "\x1b" not in ran.stderr


# Resume ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("verdict", "outcome"), [("approve", "done"), ("reject", "failed: APPROVAL_REJECTED")])
def test_a_run_goes_on_once_a_person_has_answered(trusted: Path, run: Run, verdict: str, outcome: str) -> None:
    waiting = waiting_run(trusted, run)
    action = action_of(run, waiting)
    still = run("runs", "resume", waiting)
    answered = run("inbox", verdict, action)
    write_script(trusted, saying("All right."))

    ran = run("runs", "resume", waiting)

    assert still.code == 1
    assert f"error: Run {waiting} still waits for APPROVAL {action}" in still.stderr
    assert f"hint: `agent inbox approve {action}`" in still.stderr
    assert f"Run {waiting} goes on with `agent runs resume {waiting}`" in answered.stdout
    assert (ran.code, ran.stdout) == (0, "All right.\n")
    assert f'· notes.write {{"name":"welcome","pin":"[redacted]"}} → {outcome}' in ran.stderr
    assert run("audit", "verify").code == 0


def test_a_run_that_has_ended_does_not_go_on(trusted: Path, run: Run) -> None:
    waiting = waiting_run(trusted, run)
    assert run("inbox", "approve", action_of(run, waiting)).code == 0
    write_script(trusted, saying("Done."))
    assert run("runs", "resume", waiting).code == 0

    again = run("runs", "resume", waiting)

    assert again.code == 1
    assert "has ended: natural_end" in again.stderr
    assert kinds(trusted).count("call.started") == 1


def test_a_prompt_takes_the_place_of_the_call_that_waits(trusted: Path, run: Run) -> None:
    waiting = waiting_run(trusted, run)
    write_script(trusted, saying("I leave it."))

    ran = run("runs", "resume", waiting, "Leave it")

    assert (ran.code, ran.stdout) == (0, "I leave it.\n")
    assert "call.started" not in kinds(trusted)


def test_a_run_does_not_go_on_under_another_plan_unless_that_is_meant(trusted: Path, run: Run) -> None:
    waiting = waiting_run(trusted, run)
    (trusted / "agents.md").write_text(AGENT.replace("You keep notes.", "You burn notes."))
    write_script(trusted, saying("Done."))

    refused = run("runs", "resume", waiting, "Go on")
    meant = run("runs", "resume", waiting, "Go on", "--with-changes")

    assert refused.code == 1
    assert "changed since" in refused.stderr
    assert "`--with-changes`" in refused.stderr
    assert meant.code == 0


def test_a_budget_that_is_used_up_is_raised_and_the_run_goes_on(trusted: Path, run: Run) -> None:
    write_script(trusted, asking("notes__read", name="welcome"), saying("It says hello."))

    stopped = run("run", "What does it say?", "--max-rounds", "1", "--max-tokens", "1000")
    chosen = listed(run)[0]["id"]
    write_script(trusted, saying("It says hello."))
    same, more = run("runs", "resume", chosen), run("runs", "resume", chosen, "--max-rounds", "3")

    assert stopped.code == 1
    assert "budget_rounds" in stopped.stderr
    assert stopped.stderr.endswith(f"hint: `agent runs resume {chosen} --max-rounds` with more than before\n")
    assert (same.code, "budget_rounds" in same.stderr) == (1, True)
    assert (more.code, more.stdout) == (0, "It says hello.\n")


def test_the_hint_names_the_options_that_the_run_began_with(trusted: Path, run: Run) -> None:
    with (trusted / "agent.toml").open("a") as config:
        config.write('\n[models.other]\nprovider = "script"\n')
    write_script(trusted, asking("notes__write", name="welcome"))

    ran = run("run", "Write it", "--model", "other", "--config", "models.other.upstream_model=big one")

    hint = ran.stderr.splitlines()[-1]
    assert hint.endswith("--model other --config 'models.other.upstream_model=big one'`")


@pytest.mark.slow
def test_an_interrupted_run_goes_on_and_pays_for_no_answer_twice(trusted: Path, run: Run) -> None:
    interrupted = interrupted_run(trusted, run)
    (before,) = listed(run)
    module = next(trusted.glob("notes_of_test.py"))
    write_script(trusted, saying("Done."))

    shown = run("runs", "show", interrupted)
    ready = run("runs", "resume", "--ready", "--json")

    assert before["status"] == "interrupted"
    assert f"hint: `agent runs resume {interrupted}`\n" in shown.stderr
    assert module.exists()
    # Whether the call that hung was done, only a person knows.
    (after,) = listed(run)
    assert after["status"] == "waiting"
    assert after["waitsFor"]["type"] == "CLARIFICATION"
    assert (ready.code, after["rounds"]) == (1, 1)


@pytest.mark.slow
def test_ctrl_c_says_how_the_run_goes_on(trusted: Path, run: Run) -> None:
    write_script(trusted, asking("notes__hang", "I hang.", name="welcome"))
    line = [sys.executable, "-m", "agent_resolver", "run", "Hang"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as command:
        assert eventually((trusted / "hanging").exists, 30.0)
        os.kill(command.pid, signal.SIGINT)
        stdout, stderr = command.communicate(timeout=30)

    (row,) = listed(run)
    assert (command.returncode, stdout) == (130, "")
    assert stderr.endswith(f"interrupted: `agent runs resume {row['id']}` goes on\n")
    assert row["status"] == "interrupted"


def test_every_run_that_was_answered_goes_on_and_the_others_do_not(trusted: Path, run: Run) -> None:
    first, second, third = waiting_run(trusted, run), waiting_run(trusted, run), waiting_run(trusted, run)
    for each in (first, second):
        assert run("inbox", "approve", action_of(run, each)).code == 0
    write_script(trusted, saying("Done."), saying("Done."))

    ran, nothing = run("runs", "resume", "--ready"), run("runs", "resume", "--ready")

    assert (ran.code, ran.stdout) == (0, "Done.\nDone.\n")
    assert ran.stderr.endswith("2 runs: 2 done\n")
    statuses = {each["id"]: each["status"] for each in listed(run)}
    assert statuses == {first: "done", second: "done", third: "waiting"}
    assert (nothing.code, nothing.stderr) == (0, "No run can go on now\n")


def test_a_run_that_cannot_go_on_does_not_stop_the_others(trusted: Path, run: Run) -> None:
    first, second = waiting_run(trusted, run), waiting_run(trusted, run)
    for each in (first, second):
        assert run("inbox", "approve", action_of(run, each)).code == 0
    edit(trusted, "UPDATE journal SET body = x'00' WHERE run = ? AND number = 1", first)
    write_script(trusted, saying("Done."))

    ran = run("runs", "resume", "--ready")

    assert (ran.code, ran.stdout) == (1, "Done.\n")
    assert f"✗ the journal of run {first} cannot be read" in ran.stderr
    assert ran.stderr.endswith("2 runs: 1 done, 1 refused\n")


def test_a_part_of_another_run_goes_on_with_that_one_alone(trusted: Path, run: Run) -> None:
    part = waiting_run(trusted, run)
    assert run("inbox", "approve", action_of(run, part)).code == 0
    edit(trusted, "UPDATE run SET parent = 'whole'")

    refused, ready = run("runs", "resume", part), run("runs", "resume", "--ready")

    assert refused.code == 1
    assert f"error: Run {part} is a part of run whole, and goes on with it\n" in refused.stderr
    assert "hint: `agent runs resume whole`\n" in refused.stderr
    assert ready.stderr == "No run can go on now\n"
    assert run("runs", "list").stdout.endswith(", part of whole\n")


def test_a_run_that_was_to_end_ends_and_does_not_go_on(trusted: Path, run: Run) -> None:
    """Its process was gone before it heard of that."""
    chosen = waiting_run(trusted, run)
    edit(trusted, "UPDATE run SET status = 'cancelling', waits_for = NULL")
    before = listed(run)[0]["status"]

    ran = run("runs", "resume", "--ready")

    assert (before, ran.code, listed(run)[0]["status"]) == ("interrupted", 1, "cancelled")
    assert ran.stderr == f"Run {chosen} of keeper was to end\n1 run: 1 cancelled\n"


@pytest.mark.slow
def test_a_watcher_goes_on_with_a_run_when_its_answer_comes(trusted: Path, run: Run) -> None:
    waiting = waiting_run(trusted, run)
    write_script(trusted, saying("Done."))
    line = [sys.executable, "-m", "agent_resolver", "runs", "resume", "--watch"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watcher:
        assert run("inbox", "approve", action_of(run, waiting)).code == 0
        assert eventually(lambda: listed(run)[0]["status"] == "done", 60.0)
        os.kill(watcher.pid, signal.SIGINT)
        stdout, stderr = watcher.communicate(timeout=30)

    assert (watcher.returncode, stdout) == (130, "Done.\n")
    assert "✓ keeper" in stderr


WRONG: dict[str, tuple[str, ...]] = {
    "no run": (),
    "a run and all": ("4f1c", "--ready"),
    "a model for all": ("--ready", "--model", "other"),
    "a budget of nothing": ("4f1c", "--max-rounds", "0"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_resumed_like_that_is_usage(trusted: Path, run: Run, case: str) -> None:
    waiting_run(trusted, run)

    assert run("runs", "resume", *WRONG[case]).code == 2


# Threads --------------------------------------------------------------------------------------------------------------


def test_a_thread_goes_on_over_runs_and_refuses_another_while_one_waits(trusted: Path, run: Run) -> None:
    write_script(trusted, saying("First."))
    assert run("run", "One", "--thread", "talk").code == 0
    first = listed(run)[0]["id"]
    write_script(trusted, asking("notes__write", name="welcome"))
    assert run("run", "Two", "--thread", "talk").code == 1
    second = listed(run)[0]["id"]

    refused = run("run", "Three", "--thread", "talk")

    assert (refused.code, f"run {second} of thread talk has not ended" in refused.stderr) == (1, True)
    shown = run("runs", "show", second).stdout
    assert f"  Thread: talk, after run {first}\n" in shown
    exported = json.loads(run("runs", "export", second).stdout)
    said = [block["text"] for message in exported["conversation"] for block in message["content"]]
    assert said == ["One", "First.", "Two"]


# Cancel ---------------------------------------------------------------------------------------------------------------


def test_a_run_that_waits_is_cancelled_for_good(trusted: Path, run: Run) -> None:
    first, second = waiting_run(trusted, run), waiting_run(trusted, run)

    ran = run("runs", "cancel", first, second, first)

    assert (ran.code, ran.stdout) == (0, f"✓ {first} cancelled\n✓ {second} cancelled\n")
    assert {each["status"] for each in listed(run)} == {"cancelled"}
    again = run("runs", "cancel", first)
    assert (again.code, f"run {first} has ended: cancelled" in again.stderr) == (1, True)
    assert run("runs", "resume", first, "Go on").code == 1


def test_no_run_is_cancelled_where_one_of_them_is_not_there(trusted: Path, run: Run) -> None:
    waiting = waiting_run(trusted, run)

    assert run("runs", "cancel", waiting, "zz").code == 1
    assert listed(run)[0]["status"] == "waiting"


@pytest.mark.slow
def test_a_run_of_another_process_is_cancelled_there(trusted: Path, run: Run) -> None:
    write_script(trusted, asking("notes__hang", name="welcome"))
    line = [sys.executable, "-m", "agent_resolver", "run", "Hang"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as command:
        assert eventually((trusted / "hanging").exists, 30.0)
        (running,) = listed(run)
        asked = run("runs", "cancel", running["id"])
        assert eventually(lambda: listed(run)[0]["status"] == "cancelled", 30.0)
        # The call that hangs would be waited for as long as it may take.
        command.kill()
        command.communicate(timeout=30)

    assert running["status"] == "running"
    assert asked.stdout == f"✓ {running['id']} cancelling: the process that has it ends it\n"


# Export ---------------------------------------------------------------------------------------------------------------


def test_an_export_holds_all_of_a_run_and_is_the_same_each_time(trusted: Path, run: Run) -> None:
    write_script(trusted, asking("notes__read", name="welcome", pin=CANARY), saying("It says hello."))
    assert run("run", "Read it").code == 0
    chosen = listed(run)[0]["id"]

    first, second = (run("runs", "export", chosen, "-o", name) for name in ("one.json", "two.json"))

    content = (trusted / "one.json").read_bytes()
    assert (first.code, second.code, first.stdout) == (0, 0, "")
    assert content == (trusted / "two.json").read_bytes() == run("runs", "export", chosen).stdout.encode()
    assert stat.S_IMODE((trusted / "one.json").stat().st_mode) == 0o600
    document = json.loads(content)
    assert document["run"]["id"] == chosen
    assert document["plan"]["spec"]["id"] == "keeper"
    assert [entry["kind"] for entry in document["journal"]] == [
        "run.started",
        "model.asked",
        "model.answered",
        "model.asked",
        "model.answered",
        "run.ended",
    ]
    assert [message["role"] for message in document["conversation"]] == ["user", "assistant", "tool", "assistant"]
    assert [(call["tool"], call["outcome"]) for call in document["calls"]] == [("notes.read", "done")]
    assert [record["kind"] for record in document["audit"]] == kinds(trusted)
    assert list(document) == sorted(document)


def test_an_export_that_fails_leaves_the_file_that_was_there(trusted: Path, run: Run) -> None:
    chosen = waiting_run(trusted, run)
    (trusted / "run.json").write_text("mine")
    edit(trusted, "UPDATE journal SET body = x'0011' WHERE number = 2")

    ran = run("runs", "export", chosen, "-o", "run.json")

    assert ran.code == 1
    assert (trusted / "run.json").read_text() == "mine"
    assert run("runs", "export", chosen, "-o", "-").code == 2


def test_an_export_writes_through_no_link_out_of_the_project_and_not_over_the_state(trusted: Path, run: Run) -> None:
    write_script(trusted, saying("Hello."))
    assert run("run", "Say hello").code == 0
    chosen = listed(run)[0]["id"]
    outside = trusted.parent / "mine.txt"
    outside.write_text("mine")
    (trusted / "run.json").symlink_to(outside)

    linked = run("runs", "export", chosen, "-o", "run.json")
    over_state = [run("runs", "export", chosen, "-o", f".agent/state.{name}") for name in ("db", "key")]

    assert (linked.code, outside.read_text()) == (1, "mine")
    assert [ran.code for ran in over_state] == [1, 1]
    assert run("runs", "show", chosen).code == 0


# Damaged --------------------------------------------------------------------------------------------------------------

DAMAGE = {
    "an edited entry": "UPDATE journal SET body = x'00112233' WHERE number = 2",
    "a missing entry": "DELETE FROM journal WHERE number = 2",
    "no entries": "DELETE FROM journal",
    "swapped entries": "UPDATE journal SET body = (SELECT body FROM journal AS other WHERE other.number = 1)",
}


@pytest.mark.parametrize("case", DAMAGE)
@pytest.mark.parametrize("command", ["show", "export", "resume", "cancel"])
def test_a_journal_that_was_edited_is_an_error_and_not_a_run(trusted: Path, run: Run, command: str, case: str) -> None:
    chosen = waiting_run(trusted, run)
    assert run("inbox", "approve", action_of(run, chosen)).code == 0
    edit(trusted, DAMAGE[case])

    ran = run("runs", command, chosen)

    assert (ran.code, ran.stdout) == (1, "")
    assert f"error: the journal of run {chosen} cannot be read" in ran.stderr
    assert "hint: put back the state and its key from a backup" in ran.stderr
    assert run("runs", "list").code == 0


@pytest.mark.parametrize("command", ["show", "export", "cancel"])
def test_a_state_of_another_key_shows_no_run(trusted: Path, run: Run, command: str) -> None:
    chosen = waiting_run(trusted, run)
    (trusted / ".agent" / "state.key").write_bytes(os.urandom(32))

    ran = run("runs", command, chosen)

    assert (ran.code, ran.stdout) == (1, "")
    assert ran.stderr.startswith("error: ")
    assert "Traceback" not in ran.stderr


# Runs of blueprints ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["cancel", "resume", "show", "export"])
def test_a_run_of_a_blueprint_is_listed_and_has_commands_of_its_own(trusted: Path, run: Run, command: str) -> None:
    run_id = waiting_run(trusted, run)
    edit(trusted, "UPDATE run SET kind = 'blueprint', agent = 'notes.keep@1' WHERE id = ?", run_id)
    (found,) = listed(run)
    refused = run("runs", command, run_id)

    assert (found["kind"], found["agent"]) == ("blueprint", "notes.keep@1")
    assert refused.code == 1
    assert "the blueprint notes.keep@1" in refused.stderr
    assert "agent blueprint" in refused.stderr
