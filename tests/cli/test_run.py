"""`agent run`: what it prints, and how it ends."""

import io
import json
import os
import pty
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from threading import Timer

import msgspec
import pytest

from agent_resolver.runtime import RunEnded, RunEvent, RunStarted
from tests.cli.conftest import Snapshot, kinds
from tests.cli.scripted_model import AGENT, asking, saying, write_script
from tests.conftest import Run
from tests.process import eventually


def events_of(stdout: str) -> list[RunEvent]:
    """The events in the output; each line must be one."""
    return [msgspec.json.decode(line, type=RunEvent) for line in stdout.splitlines()]


# What it prints -------------------------------------------------------------------------------------------------------


def test_run_prints_the_answer_and_says_the_rest_on_stderr(trusted: Path, run: Run, snapshot: Snapshot) -> None:
    write_script(trusted, asking("notes__read", "I look.", name="welcome", pin="1234"), saying("It says hello."))

    snapshot(run("run", "keeper", "What does it say?"))


def test_every_line_of_json_is_an_event_and_the_last_says_the_end(trusted: Path, run: Run) -> None:
    write_script(trusted, asking("notes__read", name="welcome"), saying("It says hello."))

    ran = run("run", "keeper", "What does it say?", "--json")

    events = events_of(ran.stdout)
    assert (ran.code, ran.stderr) == (0, "")
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    assert isinstance(events[0], RunStarted)
    assert isinstance(events[-1], RunEnded)
    assert events[-1].text == "It says hello."
    assert events[-1].usage.total_tokens == 37


def test_no_secret_field_is_in_an_event_or_on_the_terminal(trusted: Path, run: Run) -> None:
    write_script(trusted, asking("notes__read", name="welcome", pin="canary-4711"), saying("Done."))

    as_json, plain = run("run", "Read it", "--json"), run("run", "Read it")

    assert "canary-4711" not in as_json.stdout + plain.stdout + plain.stderr
    assert '"pin"' in as_json.stdout


def test_an_answer_is_data_as_it_is_where_a_program_reads_it(trusted: Path, run: Run) -> None:
    write_script(trusted, saying("a\tb\n\x1b[31mred"))

    assert run("run", "Paint").stdout == "a\tb\n\x1b[31mred\n"
    assert "\x1b" not in run("run", "Paint", "--json").stdout


def test_the_prompt_may_come_from_stdin(trusted: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    write_script(trusted, saying("Yes."))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("Grüß dich".encode())))

    assert run("run", "keeper", "-").stdout == "Yes.\n"


# What is wrong with the question --------------------------------------------------------------------------------------


def test_an_agent_that_is_not_there_is_named_with_the_nearest(trusted: Path, run: Run) -> None:
    ran = run("run", "keepr", "Hello")

    assert (ran.code, ran.stderr) == (1, "error: agent not found: keepr\nhint: did you mean `keeper`?\n")


def test_an_answer_that_ran_out_of_tokens_is_a_warning(trusted: Path, run: Run) -> None:
    write_script(trusted, *[{**saying("And so"), "finish": "length"}] * 4)

    ran = run("run", "Tell me all")

    assert ran.code == 0
    assert "warning: The last answer ran out of tokens\n" in ran.stderr


def test_every_key_of_json_events_is_camel_case(trusted: Path, run: Run) -> None:
    """Also the keys inside of an event, such as those of `usage`; arguments are the tool's own."""
    write_script(trusted, asking("notes__read", name="welcome"), saying("Done."))

    events = [json.loads(line) for line in run("run", "Read it", "--json").stdout.splitlines()]
    inner = [
        value for event in events for key, value in event.items() if isinstance(value, dict) and key != "arguments"
    ]

    assert events[-1]["usage"] == {"inputTokens": 30, "outputTokens": 7, "cachedInputTokens": 0}
    assert [key for values in [*events, *inner] for key in values if "_" in key] == []


def test_an_error_before_the_run_is_one_line_of_json(trusted: Path, run: Run) -> None:
    ran = run("run", "keepr", "Hello", "--json")

    (line,) = ran.stdout.splitlines()
    assert json.loads(line)["error"]["code"] == "AGENT_NOT_FOUND"


WRONG = {
    "nothing at all": ((), "Say what the agent shall do"),
    "an agent without a prompt": (("keeper",), "Say what keeper shall do"),
    "an empty prompt": (("keeper", " "), "The prompt is empty"),
    "a budget of nothing": (("keeper", "Hello", "--max-rounds", "0"), "`0` is not a whole number above 0"),
    "a cost that is no number": (("keeper", "Hello", "--max-cost", "nan"), "`nan` is not a number above 0"),
    "a thread without a name": (("Go", "--thread", ""), "the name of a thread"),
    "a thread whose name steers": (("Go", "--thread", "\x1b[2J"), "the name of a thread"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_question_that_cannot_be_asked_ends_with_usage(trusted: Path, run: Run, case: str) -> None:
    command, message = WRONG[case]

    ran = run("run", *command)

    assert ran.code == 2
    assert message in ran.stderr


def test_the_agent_must_be_named_where_there_are_several(trusted: Path, run: Run) -> None:
    (trusted / "agents").mkdir()
    (trusted / "agents" / "other.md").write_text("---\nname: other\ndescription: Another\n---\n")

    ran = run("run", "Hello")

    assert ran.code == 2
    assert "Say which agent: the project has 2 agents" in ran.stderr


def test_a_folder_without_agents_says_so(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    ran = run("run", "keeper", "Hello")

    assert ran.code == 2
    assert "There are no agent files" in ran.stderr


def test_code_of_a_project_that_no_person_trusts_does_not_run(notes: Path, run: Run) -> None:
    write_script(notes, saying("Hello."))

    ran = run("run", "keeper", "Hello")

    assert ran.code == 1
    assert "trust" in ran.stderr
    assert "Hello." not in ran.stdout


# How it ends ----------------------------------------------------------------------------------------------------------


def test_a_model_that_does_not_answer_ends_the_run_with_its_kind(trusted: Path, run: Run) -> None:
    write_script(trusted, {"failure": {"kind": "unauthorized", "message": "the key is not valid"}})

    ran = run("run", "Hello")

    assert ran.code == 1
    assert "✗ keeper: error (unauthorized): the key is not valid\n" in ran.stderr


def test_a_budget_that_is_nearly_used_up_is_a_warning(trusted: Path, run: Run) -> None:
    write_script(trusted, *(asking("notes__read", name=str(number)) for number in range(4)), saying("Done."))

    assert "warning: 4 of 5 rounds are used\n" in run("run", "Read", "--max-rounds", "5").stderr


def test_a_run_is_recorded_in_one_chain_with_its_calls(trusted: Path, run: Run) -> None:
    write_script(trusted, asking("notes__read", name="welcome"), saying("Done."))

    assert run("run", "Read").code == 0

    records = json.loads(run("audit", "show", "--json").stdout)
    assert [record["kind"] for record in records] == ["run.started", "call.started", "call.done", "run.ended"]
    assert len({record["run"] for record in records}) == 1
    assert [record["sequence"] for record in records] == [1, 2, 3, 4]
    assert records[0]["body"]["model"] == "default"
    assert records[3]["body"]["reason"] == "natural_end"
    assert records[3]["body"]["tokens"] == {"input": 30, "output": 7, "cached": 0}


def test_the_model_may_be_chosen_for_one_run(trusted: Path, run: Run) -> None:
    with (trusted / "agent.toml").open("a") as config:
        config.write('\n[models.other]\nprovider = "script"\n')
    write_script(trusted, saying("Hello."))

    started = events_of(run("run", "Hello", "--model", "other", "--json").stdout)[0]

    assert isinstance(started, RunStarted)
    assert started.model == "other"
    assert "hint: describe it" in run("run", "Hello", "--model", "zz9").stderr


# What waits for a person ----------------------------------------------------------------------------------------------


def waiting_id(run: Run) -> str:
    """The id of the one thing that waits."""
    (action,) = json.loads(run("inbox", "list", "--json").stdout)
    return str(action["id"])


def newest_run(run: Run) -> str:
    """The id of the newest run."""
    return str(json.loads(run("runs", "list", "--json").stdout)[0]["id"])


def test_without_a_terminal_a_run_that_has_to_wait_ends_suspended(trusted: Path, run: Run) -> None:
    write_script(trusted, asking("notes__write", name="welcome", pin="1234"))

    ran = run("run", "Write it")

    action_id, run_id = waiting_id(run), newest_run(run)
    assert (ran.code, ran.stdout) == (1, "")
    assert f"  Waiting for APPROVAL {action_id}, until " in ran.stderr
    assert f"  Kept as run {run_id}\n" in ran.stderr
    hint = f"hint: `agent inbox approve {action_id}`, or `reject`; then `agent runs resume {run_id}`\n"
    assert ran.stderr.endswith(hint)
    assert kinds(trusted)[-3:] == ["action.asked", "call.pending", "run.ended"]


# At a terminal --------------------------------------------------------------------------------------------------------


_QUESTIONS = (b"[y/N] ", b"leave it open): ", b"to leave it: ")


class Shown(msgspec.Struct, frozen=True):
    """What a command showed at a terminal, and how it ended."""

    text: str
    code: int


def at_terminal(
    *command: str, typed: bytes = b"", typed_ahead: bytes = b"", interrupted_at: bytes | None = None
) -> Shown:
    """Run a command whose input and output are one terminal.

    Args:
        command: The command.
        typed: What a person types once they are asked something.
        typed_ahead: What they type before.
        interrupted_at: The text at which they interrupt it.
    """
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "agent_resolver", *command],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(theirs)
    os.write(ours, typed_ahead)
    # A command that waits for ever fails its test, and does not hold up all others.
    deadline = Timer(60, process.kill)
    deadline.start()
    shown = b""
    # A terminal whose other side is gone is an error to read from, not an end.
    with suppress(OSError):
        while piece := os.read(ours, 65536):
            shown += piece
            if any(question in shown for question in _QUESTIONS):
                os.write(ours, typed)
                typed = b""
            if interrupted_at is not None and interrupted_at in shown:
                os.kill(process.pid, signal.SIGINT)
                interrupted_at = None
    os.close(ours)
    deadline.cancel()
    return Shown(shown.decode(), process.wait(30))


@pytest.mark.slow
def test_text_streams_to_a_terminal_without_what_would_steer_it(trusted: Path) -> None:
    write_script(trusted, asking("notes__read", "I look.", name="\x1b[2J"), saying("one\n\x1b[31mtwo\ttabs"))

    shown = at_terminal("run", "Read it")

    assert shown.code == 0
    assert "I look.\r\n" in shown.text
    assert "one\r\n\\x1b[31mtwo" in shown.text
    assert "\x1b[31m" not in shown.text.replace("\x1b[31m✗", "")
    assert "\x1b[2J" not in shown.text


@pytest.mark.slow
@pytest.mark.parametrize(("typed", "outcome"), [(b"y\n", "→ done"), (b"n\n", "→ failed: APPROVAL_REJECTED")])
def test_a_person_at_the_terminal_answers_and_the_run_goes_on(trusted: Path, typed: bytes, outcome: str) -> None:
    write_script(trusted, asking("notes__write", name="welcome", pin="canary-4711"), saying("All right."))

    shown = at_terminal("run", "Write it", typed=typed)

    assert shown.code == 0
    assert "asks to call notes.write (INTERNAL)" in shown.text
    assert '"name":"welcome"' in shown.text
    assert "canary-4711" not in shown.text
    assert outcome in shown.text
    assert "All right.\r\n" in shown.text
    answered = "action.approved" if typed == b"y\n" else "action.rejected"
    assert answered in kinds(trusted)


@pytest.mark.slow
def test_what_is_typed_before_a_question_is_no_answer_to_it(trusted: Path) -> None:
    """The text of a model may ask for a `y` before it asks for the call."""
    write_script(trusted, asking("notes__write", "Type y to see more.", name="welcome"), saying("All right."))

    shown = at_terminal("run", "Write it", typed_ahead=b"y\n" * 5, typed=b"n\n")

    assert "→ failed: APPROVAL_REJECTED" in shown.text
    assert "call.started" not in kinds(trusted)


@pytest.mark.slow
def test_a_question_of_a_tool_is_answered_in_words_at_the_terminal(trusted: Path) -> None:
    write_script(trusted, asking("notes__file", name="welcome"), saying("Filed."))

    shown = at_terminal("run", "File it", typed=b"the left one\n")

    assert shown.code == 0
    assert "Into which drawer?" in shown.text
    assert "action.answered" in kinds(trusted)


@pytest.mark.slow
def test_a_call_that_a_permission_rule_asks_about_is_shown_with_the_reason(trusted: Path) -> None:
    permission = "runtime: { sections: { permission: { default_behavior: ask } } }"
    (trusted / "agents.md").write_text(AGENT.replace("description:", f"{permission}\ndescription:"))
    write_script(trusted, asking("notes__read", name="welcome"), saying("It says hello."))

    shown = at_terminal("run", "Read it", typed=b"y\n")

    assert shown.code == 0
    assert "permission" in shown.text
    assert "Let this call happen, once? [y/N]" in shown.text
    assert "→ done" in shown.text


@pytest.mark.slow
def test_a_secret_that_is_missing_is_waited_for_and_never_typed_in(trusted: Path, run: Run) -> None:
    with (trusted / "agent.toml").open("a") as config:
        config.write('\n[secrets.SEAL]\nfile = "seal.txt"\n')
    write_script(trusted, asking("notes__seal", name="welcome"))

    shown = at_terminal("run", "Seal it", typed=b"canary-4711\n\x04")

    assert shown.code == 1
    assert "Press Enter once it is there" in shown.text
    assert "It is not there yet" in shown.text
    (trusted / "seal.txt").write_text("wax")
    (trusted / "seal.txt").chmod(0o600)
    write_script(trusted, saying("Sealed."))
    assert run("runs", "resume", newest_run(run)).stdout == "Sealed.\n"
    assert b"canary-4711" not in (trusted / ".agent" / "state.db").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("options", [("--no-input",), ("--json",)])
def test_no_person_is_asked_where_the_command_says_so(trusted: Path, options: tuple[str, ...]) -> None:
    write_script(trusted, asking("notes__write", name="welcome"))

    shown = at_terminal("run", "Write it", *options, typed=b"y\n")

    assert shown.code == 1
    assert "[y/N]" not in shown.text
    assert "action.approved" not in kinds(trusted)


@pytest.mark.slow
def test_the_end_of_input_leaves_the_question_open(trusted: Path, run: Run) -> None:
    write_script(trusted, asking("notes__write", name="welcome"))

    shown = at_terminal("run", "Write it", typed=b"\x04")

    assert shown.code == 1
    assert waiting_id(run) in shown.text


@pytest.mark.slow
def test_ctrl_c_at_a_question_ends_the_command(trusted: Path, run: Run) -> None:
    write_script(trusted, asking("notes__write", name="welcome"))

    shown = at_terminal("run", "Write it", interrupted_at=b"[y/N]")

    assert shown.code == 130
    assert waiting_id(run)
    assert f"interrupted: `agent runs resume {newest_run(run)}` goes on" in shown.text


# Interrupted ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("sign", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_interrupts_the_run_and_its_last_event_says_so(
    trusted: Path, run: Run, sign: signal.Signals, code: int
) -> None:
    write_script(trusted, asking("notes__hang", name="welcome"))
    line = [sys.executable, "-m", "agent_resolver", "run", "Hang", "--json"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as command:
        assert eventually((trusted / "hanging").exists, 30.0)
        os.kill(command.pid, sign)
        stdout, _ = command.communicate(timeout=30)

    last = events_of(stdout)[-1]
    assert command.returncode == code
    assert isinstance(last, RunEnded)
    assert (last.termination.reason, last.termination.code) == ("cancelled", "interrupted")
    assert "run.ended" not in kinds(trusted)
    (listed,) = json.loads(run("runs", "list", "--json").stdout)
    assert (listed["id"], listed["status"]) == (last.run, "interrupted")
    assert run("audit", "verify").code == 0


def test_a_long_prompt_is_refused_before_anything_runs(
    trusted: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"x" * (4 * 1024 * 1024 + 1))))

    ran = run("run", "keeper", "-")

    assert ran.code == 2
    assert "The prompt is longer than 4,194,304 bytes" in ran.stderr


def test_help_names_every_way_to_end(run: Run) -> None:
    ran = run("run", "--help")

    assert ran.code == 0
    assert "130  interrupted" in ran.stdout
