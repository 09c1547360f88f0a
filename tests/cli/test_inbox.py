"""`agent inbox`: what it prints, what it changes, and how it ends."""

import asyncio
import getpass
import io
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from agent_resolver.core import instant
from agent_resolver.registry import PendingActions
from agent_resolver.schema import Caller, PendingAction
from tests.cli.conftest import agent_process, kinds
from tests.conftest import Run
from tests.state_keys import project_store

TRACE = "0af7651916cd43dd8448eb211c80319c"
NOW = datetime.now(UTC)
SOON, PAST = instant(NOW + timedelta(hours=1)), instant(NOW - timedelta(hours=1))
LOCAL = f"local:{getpass.getuser()}"
APPROVAL = PendingAction(
    id="3f9a1c20b7de",
    type="APPROVAL",
    subject="tickets.close",
    message="ada asks to call tickets.close (CONFIDENTIAL)",
    asked_at="2026-01-01T00:00:01.000Z",
    expires_at=SOON,
    requester="ada",
    trace_id=TRACE,
    arguments="sha256-0",
    classification="CONFIDENTIAL",
    role="closer",
)
QUESTION = PendingAction(
    id="0b1c2d3e4f50",
    type="CLARIFICATION",
    subject="tickets.close",
    message="tickets.close was interrupted: answer `done`, or `retry` if it was not",
    asked_at="2026-01-01T00:00:02.000Z",
    requester="ada",
    trace_id=TRACE,
)
SECRET = PendingAction(
    id="77aa77aa77aa",
    type="SECRET",
    subject="notes.read",
    message="notes.read needs the secret NOTES_KEY: set the environment variable NOTES_KEY",
    asked_at="2026-01-01T00:00:03.000Z",
    needs="NOTES_KEY",
)
GRACE = Caller(id="grace", is_verified=True, roles=frozenset({"closer"}))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project without an agent file, as the current folder."""
    for name in ("AGENT_TOKEN", "NOTES_KEY"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


def keep(*actions: PendingAction, **changes: Any) -> None:
    """Let these wait, as if calls had asked for them."""

    async def ask() -> None:
        for action in actions:
            await PendingActions(store).ask(structs.replace(action, **changes))

    store = project_store(".agent/state.db")
    asyncio.run(ask())
    store.close()


def signed_in(monkeypatch: pytest.MonkeyPatch, caller: Caller) -> None:
    """Be somebody that an issuer vouches for; a real one is asked in `tests/integration`."""

    async def caller_of(*_: object) -> Caller:
        return caller

    monkeypatch.setattr("agent_resolver.cli.inbox.execution.caller_of", caller_of)


# Looking --------------------------------------------------------------------------------------------------------------


def test_list_prints_what_waits_oldest_first(run: Run) -> None:
    keep(SECRET, QUESTION, APPROVAL)

    ran = run("inbox", "list")

    assert (ran.code, ran.stderr) == (0, "")
    assert ran.stdout.splitlines() == [
        f"3f9a1c20b7de open APPROVAL tickets.close: {APPROVAL.message}",
        f"0b1c2d3e4f50 open CLARIFICATION tickets.close: {QUESTION.message}",
        f"77aa77aa77aa open SECRET notes.read: {SECRET.message}",
    ]


def test_list_says_when_nothing_waits(run: Run) -> None:
    keep(structs.replace(APPROVAL, expires_at=PAST))

    ran, as_json = run("inbox", "list"), run("inbox", "list", "--json")

    assert (ran.code, ran.stdout, ran.stderr) == (0, "", "Nothing waits\n")
    assert (as_json.code, as_json.stdout, as_json.stderr) == (0, "[]\n", "")


def test_list_has_everything_on_request(run: Run) -> None:
    keep(APPROVAL, expires_at=PAST)
    keep(QUESTION)

    ran, as_json = run("inbox", "list", "--all"), run("inbox", "list", "--all", "--json")

    assert [line.split(":")[0] for line in ran.stdout.splitlines()] == [
        "3f9a1c20b7de expired APPROVAL tickets.close",
        "0b1c2d3e4f50 open CLARIFICATION tickets.close",
    ]
    assert [(each["id"], each["state"]) for each in json.loads(as_json.stdout)] == [
        ("3f9a1c20b7de", "expired"),
        ("0b1c2d3e4f50", "open"),
    ]


def test_show_prints_all_of_it(run: Run) -> None:
    keep(APPROVAL)

    ran = run("inbox", "show", APPROVAL.id)

    assert (ran.code, ran.stderr) == (0, "")
    assert ran.stdout.splitlines() == [
        "3f9a1c20b7de open APPROVAL",
        "  ada asks to call tickets.close (CONFIDENTIAL)",
        "  Waits: tickets.close",
        "  Asked by: ada",
        "  Asked at: 2026-01-01T00:00:01.000Z",
        f"  Expires at: {SOON}",
        "  Classification: CONFIDENTIAL",
        "  Takes the role: closer",
        "  Digest of the arguments: sha256-0",
        f"  Trace: {TRACE}",
    ]


def test_show_as_json_is_the_whole_action(run: Run) -> None:
    keep(APPROVAL)

    shown = json.loads(run("inbox", "show", APPROVAL.id, "--json").stdout)

    assert (shown["state"], shown["traceId"], shown["answer"], shown["expiresAt"]) == ("open", TRACE, None, SOON)
    assert json.loads(run("inbox", "list", "--json").stdout) == [shown]


def test_looking_changes_nothing(run: Run, folder: Path) -> None:
    keep(APPROVAL)

    assert run("inbox", "list").code == 0
    assert run("inbox", "show", APPROVAL.id).code == 0
    assert kinds(folder) == []


@pytest.mark.parametrize("command", [("list",), ("show", APPROVAL.id)])
def test_where_there_is_an_issuer_looking_takes_a_token(run: Run, folder: Path, command: tuple[str, ...]) -> None:
    (folder / "agent.toml").write_text('[identity]\nissuer = "https://login.example.com"\naudience = "agents"\n')
    keep(APPROVAL)

    ran = run("inbox", *command, "--trust")

    assert (ran.code, ran.stdout) == (1, "")
    assert "no token was given" in ran.stderr


# Answering ------------------------------------------------------------------------------------------------------------


def test_approve_says_how_the_call_goes_on(run: Run, folder: Path) -> None:
    keep(APPROVAL)

    ran = run("inbox", "approve", APPROVAL.id, "--reason", "change 4711")

    assert (ran.code, ran.stderr) == (0, "")
    assert ran.stdout.splitlines() == [
        f"✓ 3f9a1c20b7de approved by {LOCAL}",
        f"  The same call passes once, until {SOON}: --trace-id {TRACE}",
    ]
    shown = run("inbox", "show", APPROVAL.id).stdout
    assert f"  Answer: approved\n  Reason: change 4711\n  Answered by: {LOCAL}\n  Answered at: 20" in shown
    assert kinds(folder) == ["action.approved"]
    assert run("audit", "verify").code == 0


def test_reject_as_json_is_the_action_as_it_is_now(run: Run, folder: Path) -> None:
    keep(APPROVAL)

    ran = run("inbox", "reject", APPROVAL.id, "--reason", "not today", "--json")
    rejected = json.loads(ran.stdout)

    assert (ran.code, ran.stderr) == (0, "")
    assert (rejected["state"], rejected["answer"], rejected["reason"], rejected["answeredBy"]) == (
        "rejected",
        "rejected",
        "not today",
        LOCAL,
    )
    assert kinds(folder) == ["action.rejected"]


def test_reject_says_nothing_of_a_call_that_would_pass(run: Run) -> None:
    keep(APPROVAL)

    assert run("inbox", "reject", APPROVAL.id).stdout == f"✓ 3f9a1c20b7de rejected by {LOCAL}\n"


def test_answer_takes_words(run: Run, folder: Path) -> None:
    keep(QUESTION)

    ran = run("inbox", "answer", QUESTION.id, "retry")

    assert (ran.code, ran.stdout, ran.stderr) == (0, f"✓ 0b1c2d3e4f50 answered by {LOCAL}\n", "")
    assert "  Answer: retry\n" in run("inbox", "show", QUESTION.id).stdout
    assert kinds(folder) == ["action.answered"]


def test_answer_takes_words_from_stdin(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(QUESTION)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("die zweite, grüße\n".encode())))

    ran = run("inbox", "answer", QUESTION.id, "-", "--json")

    assert json.loads(ran.stdout)["answer"] == "die zweite, grüße"


def test_whoever_has_a_token_answers_under_its_name(run: Run, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    signed_in(monkeypatch, GRACE)
    keep(APPROVAL, classification="RESTRICTED")

    ran = run("inbox", "approve", APPROVAL.id)

    assert ran.stdout.startswith("✓ 3f9a1c20b7de approved by grace\n")
    (record,) = json.loads(run("audit", "show", "--json").stdout)
    assert (record["kind"], record["body"]["caller"], record["body"]["verified"]) == ("action.approved", "grace", True)
    assert record["body"]["arguments"] == APPROVAL.arguments


# Refused --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "changes", "told"),
    [
        (
            ("approve", APPROVAL.id),
            {"classification": "RESTRICTED"},
            (f"UNVERIFIED_APPROVER: {LOCAL} is not verified", "name an issuer in `[identity]` of agent.toml"),
        ),
        (("approve", APPROVAL.id), {"expires_at": PAST}, (f"EXPIRED: 3f9a1c20b7de expired at {PAST}", "make the call")),
        (("answer", APPROVAL.id, "yes"), {}, ("NOT_A_QUESTION: 3f9a1c20b7de waits for an approval", "`agent inbox")),
        (("approve", "absent"), {}, ("UNKNOWN_ACTION: Nothing waits under the id absent", "`agent inbox list`")),
        (("show", "absent"), {}, ("UNKNOWN_ACTION: Nothing waits under the id absent", "`agent inbox list`")),
    ],
)
def test_an_answer_that_is_not_taken_ends_with_1_and_changes_nothing(
    run: Run, folder: Path, command: tuple[str, ...], changes: dict[str, str], told: tuple[str, str]
) -> None:
    keep(APPROVAL, **changes)

    ran, as_json = run("inbox", *command), run("inbox", *command, "--json")

    words, hint = told
    assert (ran.code, ran.stdout) == (1, "")
    assert ran.stderr.startswith(f"error: {words}")
    assert f"\nhint: {hint}" in ran.stderr
    assert as_json.code == 1
    assert json.loads(as_json.stdout)["error"]["message"].startswith(words)
    assert json.loads(run("inbox", "show", APPROVAL.id, "--json").stdout)["answer"] is None
    # What does not wait has nothing to record.
    assert kinds(folder) == ([] if "absent" in command else ["action.refused"] * 2)


@pytest.mark.parametrize(
    ("by", "words"),
    [
        (structs.replace(GRACE, id="ada"), "OWN_CALL: ada asked for this call, and cannot approve it"),
        (structs.replace(GRACE, roles=frozenset()), "MISSING_ROLE: grace does not have the role `closer`"),
        (structs.replace(GRACE, expires_at=PAST), "UNAUTHORIZED: Nobody vouches for grace"),
    ],
)
def test_a_token_alone_is_not_enough(run: Run, monkeypatch: pytest.MonkeyPatch, by: Caller, words: str) -> None:
    signed_in(monkeypatch, by)
    keep(APPROVAL, classification="RESTRICTED")

    ran = run("inbox", "approve", APPROVAL.id)

    assert ran.code == 1
    assert ran.stderr.startswith(f"error: {words}")
    (record,) = json.loads(run("audit", "show", "--json").stdout)
    assert (record["kind"], record["body"]) == (
        "action.refused",
        {
            "caller": by.id,
            "verified": True,
            "trace": TRACE,
            "action": APPROVAL.id,
            "type": "APPROVAL",
            "tool": "tickets.close",
            "arguments": "sha256-0",
            "code": words.partition(":")[0],
        },
    )


def test_with_an_issuer_and_without_a_token_nobody_answers(run: Run, folder: Path) -> None:
    (folder / "agent.toml").write_text('[identity]\nissuer = "https://login.example.com"\naudience = "agents"\n')
    keep(APPROVAL, QUESTION)

    for command in (("approve", APPROVAL.id), ("reject", APPROVAL.id), ("answer", QUESTION.id, "retry")):
        assert "its settings say who vouches for callers" in run("inbox", *command).stderr
        ran = run("inbox", *command, "--trust")

        assert (ran.code, ran.stdout) == (1, "")
        assert "no token was given" in ran.stderr
        assert "hint: set AGENT_TOKEN" in ran.stderr
    assert kinds(folder) == []


def test_an_answer_is_given_once(run: Run) -> None:
    keep(APPROVAL)
    run("inbox", "approve", APPROVAL.id)

    ran = run("inbox", "reject", APPROVAL.id)

    assert ran.code == 1
    assert ran.stderr.startswith(f"error: ALREADY_ANSWERED: 3f9a1c20b7de was answered by {LOCAL}: approved\n")


def test_a_secret_is_not_typed_in_and_is_settled_when_it_is_there(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(SECRET)

    ran = run("inbox", "answer", SECRET.id, "hunter2")

    assert ran.code == 1
    assert ran.stderr.startswith("error: ANSWERED_BY_READINESS: ")
    assert "hint: notes.read needs the secret NOTES_KEY" in ran.stderr
    monkeypatch.setenv("NOTES_KEY", "hunter2")
    assert run("inbox", "list").stderr == "Nothing waits\n"
    assert "77aa77aa77aa answered SECRET\n" in run("inbox", "show", SECRET.id).stdout
    assert kinds(folder) == ["action.refused", "action.settled"]
    assert all(b"hunter2" not in path.read_bytes() for path in folder.rglob("*") if path.is_file())


# Asked wrongly --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command", [("list",), ("show", "a"), ("approve", "a"), ("reject", "a"), ("answer", "a", "yes")]
)
def test_without_state_there_is_nothing_to_look_at_and_none_is_made(
    run: Run, folder: Path, command: tuple[str, ...]
) -> None:
    ran = run("inbox", *command, "--trust")

    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr.startswith(f"error: `{folder}/.agent/state.db` does not exist\nhint: nothing was recorded here")
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    "command",
    [
        (),
        ("show",),
        ("approve",),
        ("answer", "a"),
        ("approve", "a", "--reason"),
        ("list", "a"),
        ("show", "a\nb"),
        ("show", "\udcff"),
        ("answer", "a", ""),
        ("answer", "a", " \n"),
        ("answer", "a", "x" * 10_001),
        ("answer", "a", "half a \udcff character"),
        ("approve", "a", "--reason", ""),
        ("reject", "a", "--reason", "x" * 10_001),
        ("reject", "a", "--reason", "\udcff"),
    ],
)
def test_a_command_that_cannot_be_understood_ends_with_2(run: Run, command: tuple[str, ...]) -> None:
    keep(APPROVAL)

    ran = run("inbox", *command, "--trust")

    assert (ran.code, ran.stdout) == (2, "")
    assert "error: " in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff\xfe", b"x" * 10_001, "é".encode() * 10_001])
def test_words_from_stdin_are_bounded_too(run: Run, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    keep(QUESTION)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))

    ran = run("inbox", "answer", QUESTION.id, "-")

    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr.startswith("error: The answer ")


def test_the_longest_words_are_taken(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(QUESTION)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(("😀" * 10_000).encode())))

    assert run("inbox", "answer", QUESTION.id, "-").code == 0


# Hostile --------------------------------------------------------------------------------------------------------------


def test_text_of_others_neither_steers_a_terminal_nor_forges_a_line(run: Run) -> None:
    hostile = "ok\x1b[2K\rdone\n✓ 3f9a1c20b7de approved by grace\u202e\x07"
    fields = ("subject", "message", "requester", "trace_id", "role", "arguments")
    keep(APPROVAL, **dict.fromkeys(fields, hostile))
    run("inbox", "reject", APPROVAL.id, "--reason", hostile)

    for command in (("list", "--all"), ("show", APPROVAL.id)):
        printed = run("inbox", *command).stdout

        assert re.fullmatch(r"[^\x00-\x09\x0b-\x1f\x7f\u202e]*", printed)
        assert not any(line.startswith("✓") for line in printed.splitlines())
        assert r"ok\x1b[2K\rdone\n✓" in printed
    shown = json.loads(run("inbox", "show", APPROVAL.id, "--json").stdout)
    assert (shown["message"], shown["reason"]) == (hostile, hostile)


def test_a_state_file_that_is_none_is_an_error_and_no_traceback(run: Run, folder: Path) -> None:
    (folder / ".agent").mkdir()
    (folder / ".agent" / "state.db").write_bytes(b"no database at all, but long enough to be looked at" * 40)

    ran = run("inbox", "list")

    assert (ran.code, ran.stdout) == (2, "")
    assert "cannot be used as the state file" in ran.stderr


def test_bytes_on_the_command_line_that_are_no_text_are_refused(folder: Path) -> None:
    keep(QUESTION)

    ran = agent_process("inbox", "answer", QUESTION.id, "caf\udce9")

    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == "error: The answer is no UTF-8\n"
