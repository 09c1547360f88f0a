"""`agent verify`: whether a lock still holds, and what about it does not."""

import json
import os
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_resolver.core import DifferenceKind, remedy
from tests.cli.conftest import Snapshot, agent_process, contents, edit
from tests.conftest import Ran, Run

START = '"launch": {"command": "acme-analytics", "args": ["--stdio"]},\n    "toolScopes": {"report": ["read:metrics"]},'


@pytest.fixture
def locked(project: Path, run: Run) -> Path:
    """The quick-start project with its lock; one server is started and says which scopes open its tools."""
    edit(project / "mcp.index.json", '"endpoint": "https://mcp.acme.com/analytics",', START)
    assert run("resolve").code == 0
    return project


def found(ran: Ran) -> list[tuple[str, str]]:
    """The kind and the subject of each difference."""
    document = json.loads(ran.stdout)
    assert document["success"] is (ran.code == 0)
    return [(found["kind"], found["subject"]) for lock in document["locks"] for found in lock["differences"]]


def move_on(project: Path) -> None:
    """The agent file and the index change after the lock was written."""
    edit(project / "agents.md", "version: 1.0.0", "version: 1.1.0")
    edit(project / "agents.md", "- read:dashboards", "- write:metrics")
    edit(project / "agents.md", "us-only", "eu-only")
    edit(project / "mcp.index.json", "mcp.acme.com/reporting", "mcp.elsewhere.com/reporting")


def test_verify_of_a_lock_that_holds(project: Path, run: Run, snapshot: Snapshot) -> None:
    run("resolve")
    snapshot(run("verify"))


def test_verify_of_a_lock_that_holds_as_json(project: Path, run: Run, snapshot: Snapshot) -> None:
    run("resolve")
    snapshot(run("verify", "--json"))


def test_verify_names_every_difference(project: Path, run: Run, snapshot: Snapshot) -> None:
    run("resolve")
    move_on(project)
    snapshot(run("verify"))


def test_verify_names_every_difference_as_json(project: Path, run: Run, snapshot: Snapshot) -> None:
    run("resolve")
    move_on(project)
    snapshot(run("verify", "--json"))


def test_verify_of_an_edited_lock(project: Path, run: Run, snapshot: Snapshot) -> None:
    run("resolve")
    edit(project / "agents.lock", "write:reports", "admin:reports")
    snapshot(run("verify"))


def test_verify_shows_how_to_use_it(run: Run) -> None:
    ran = run("verify", "--help")

    assert (ran.code, ran.stderr) == (0, "")
    assert "examples:\n  agent verify " in ran.stdout
    assert all(f"  {option}" in ran.stdout or f", {option}" in ran.stdout for option in ("--lock", "--workspace"))


Change = tuple[str, str, str]
KINDS: dict[DifferenceKind, tuple[Change, str]] = {
    DifferenceKind.AGENT_CHANGED: (("agents.md", "version: 1.0.0", "version: 1.0.1"), "agent"),
    DifferenceKind.ENDPOINT_MOVED: (
        ("mcp.index.json", "mcp.acme.com/reporting", "mcp.acme.org/reporting"),
        "acme-reporting@3.0.0",
    ),
    DifferenceKind.FOREIGN_FILE: (("agents.lock", '"agentName"', '"other"'), "lock"),
    DifferenceKind.FORMAT_EDITED: (("agents.lock", "{\n", "{ \n"), "lock"),
    DifferenceKind.HASH_EDITED: (("agents.lock", '"hash": "', '"hash": "0'), "acme-analytics@2.0.0"),
    DifferenceKind.LAUNCH_CHANGED: (("mcp.index.json", "--stdio", "--tcp"), "acme-analytics@2.0.0"),
    DifferenceKind.MALFORMED: (("agents.lock", '"servers": [', '"servers": ['[:-1]), "lock"),
    DifferenceKind.MERGE_CONFLICT: (
        ("agents.lock", '  "agentVersion"', '<<<<<<< a\n=======\n>>>>>>> b\n  "agentVersion"'),
        "lock",
    ),
    DifferenceKind.NEWER_FORMAT: (("agents.lock", '"lockVersion": 2', '"lockVersion": 3'), "lock"),
    DifferenceKind.NOT_ELIGIBLE: (("agents.md", "us-only", "eu-only"), "acme-reporting@3.0.0"),
    DifferenceKind.REQUIREMENT_CHANGED: (("agents.md", "category: reporting", "category: other"), "other"),
    DifferenceKind.SCOPES_NARROWED: (
        ("agents.md", "- read:dashboards", "- read:dashboards\n        - write:metrics"),
        "acme-analytics@2.0.0",
    ),
    DifferenceKind.SCOPES_WIDENED: (("agents.md", "        - read:dashboards\n", ""), "acme-analytics@2.0.0"),
    DifferenceKind.SERVER_VANISHED: (
        ("mcp.index.json", '"version": "3.0.0"', '"version": "3.0.1"'),
        "acme-reporting@3.0.0",
    ),
    DifferenceKind.TOOL_CHANGED: (
        ("mcp.index.json", '"id": "acme-analytics"', '"tools": {"read": "sha256-1"}, "id": "acme-analytics"'),
        "acme-analytics@2.0.0",
    ),
    DifferenceKind.TOOL_SCOPES_CHANGED: (
        ("mcp.index.json", '["read:metrics"]}', '["read:metrics"], "erase": ["read:metrics"]}'),
        "acme-analytics@2.0.0",
    ),
}


@pytest.mark.parametrize("kind", DifferenceKind)
def test_each_kind_of_difference_is_named_with_what_it_is_about(locked: Path, run: Run, kind: DifferenceKind) -> None:
    (name, old, new), subject = KINDS[kind]
    edit(locked / name, old, new)

    ran, as_json = run("verify"), run("verify", "--json")

    assert ran.code == as_json.code == 1
    assert (kind, subject) in found(as_json)
    assert ran.stdout == ""
    assert ran.stderr.startswith("✗ ./agents.lock does not hold\n  - ")
    assert f"  - {kind}: " in ran.stderr
    assert f"hint: {remedy(kind)}\n" in ran.stderr


def test_a_command_that_changed_is_told_once_with_both_commands(locked: Path, run: Run) -> None:
    edit(locked / "mcp.index.json", "--stdio", "--tcp")

    assert found(run("verify", "--json")) == [("launch-changed", "acme-analytics@2.0.0")]
    commands = "'acme-analytics --stdio over stdio', but the index says 'acme-analytics --tcp over stdio'"
    assert f"  - launch-changed: acme-analytics@2.0.0: Locked as {commands}\n" in run("verify").stderr


def test_an_edited_lock_is_to_be_cleared_up_before_anything_else(locked: Path, run: Run) -> None:
    move_on(locked)
    edit(locked / "agents.lock", '"hash": "', '"hash": "0')

    ran = run("verify")

    assert "  - endpoint-moved: " in ran.stderr
    assert [line for line in ran.stderr.splitlines() if line.startswith("hint:")] == [
        "hint: the lock was edited: find out by whom and why before you run `agent resolve`"
    ]


def turn_around(text: str) -> str:
    lock = json.loads(text)
    return json.dumps({**lock, "servers": lock["servers"][::-1]}, indent=2, ensure_ascii=False) + "\n"


REWRITTEN: dict[str, Callable[[str], str]] = {
    "entries out of order": turn_around,
    "a time that is no instant": lambda text: text.replace("1970-01-01T", "1970-01-01 "),
    "a time without milliseconds": lambda text: text.replace(".000Z", "Z"),
    "the version of a format that it does not need": lambda text: text.replace(
        "\n  ]\n}", '\n  ],\n  "lockVersion": 2\n}'
    ),
    "other spaces": lambda text: text.replace("  ", "    "),
    "no line end": str.rstrip,
}


@pytest.mark.parametrize("name", REWRITTEN)
def test_what_says_the_same_in_other_bytes_is_told(project: Path, run: Run, name: str) -> None:
    run("resolve")
    lock = project / "agents.lock"
    original = lock.read_text()
    lock.write_text(REWRITTEN[name](original))
    assert lock.read_text() != original

    assert found(run("verify", "--json")) == [("format-edited", "lock")]


@pytest.mark.slow
def test_every_byte_of_an_entry_counts(locked: Path, run: Run) -> None:
    lock = locked / "agents.lock"
    original = lock.read_bytes()
    time = re.search(rb'"resolvedAt": "(.*)"', original)
    assert time
    for position in range(len(original)):
        # Nothing vouches for when a lock was written, and nothing depends on it; only that it is an instant shows.
        if time.start(1) <= position < time.end(1) and original[position : position + 1].isdigit():
            continue
        edited = bytearray(original)
        edited[position] ^= 1
        lock.write_bytes(edited)
        assert run("verify").code == 1, (position, bytes(edited))


def test_a_lock_of_any_time_and_with_other_line_ends_holds(locked: Path, run: Run) -> None:
    run("resolve", "--resolved-at", "2025-01-15T10:30:00Z")
    lock = locked / "agents.lock"
    lock.write_bytes(lock.read_bytes().replace(b"\n", b"\r\n"))

    assert run("verify").code == 0


def test_a_better_server_in_the_index_is_no_difference(locked: Path, run: Run) -> None:
    index = json.loads((locked / "mcp.index.json").read_bytes())
    better = [{**server, "id": f"a-{server['id']}"} for server in index]
    (locked / "mcp.index.json").write_text(json.dumps(better + index))

    assert run("verify").code == 0
    assert run("resolve", "--locked").code == 1


def test_verify_writes_nothing(locked: Path, run: Run) -> None:
    move_on(locked)
    before = contents(locked)

    run("verify")
    run("verify", "--workspace")

    assert contents(locked) == before


LOCKS: dict[str, tuple[Callable[[Path], object], int, str]] = {
    "nothing": (lambda _: None, 2, "error: `odd.lock` does not exist\nhint: run `agent resolve`, or check the path\n"),
    "a directory": (Path.mkdir, 2, "error: `odd.lock` is a directory, not a regular file\n"),
    "a named pipe": (os.mkfifo, 2, "error: `odd.lock` is a named pipe, not a regular file\n"),
    "an empty file": (Path.touch, 1, "malformed: lock: The file is empty"),
    "another tool's lock": (lambda path: path.write_text('version = 1\n[[package]]\nname = "a"\n'), 1, "foreign-file"),
    "another JSON": (lambda path: path.write_text('{"lockfileVersion": 3, "packages": {}}'), 1, "foreign-file"),
    "half a lock": (lambda path: path.write_text('{"agentName": "a", "agentVersion": '), 1, "malformed"),
    "a list of no servers": (lambda path: path.write_text('{"agentName": "a", "servers": 5}'), 1, "malformed"),
    "bytes that are not UTF-8": (lambda path: path.write_bytes(b'{"agentName": "\xff"}'), 1, "malformed"),
    "deep nesting": (lambda path: path.write_text('{"agentName": ' + "[" * 100_000), 1, "malformed"),
}


@pytest.mark.parametrize("name", LOCKS)
def test_what_is_no_lock_is_told_apart(locked: Path, run: Run, name: str) -> None:
    make, code, words = LOCKS[name]
    make(locked / "odd.lock")

    ran, as_json = run("verify", "--lock", "odd.lock"), run("verify", "--lock", "odd.lock", "--json")

    assert (ran.code, as_json.code) == (code, code)
    assert words in ran.stderr
    assert ran.stdout == as_json.stderr == ""
    assert json.loads(as_json.stdout)["success"] is False


def test_every_fault_of_a_malformed_lock_is_named(locked: Path, run: Run) -> None:
    edit(locked / "agents.lock", '"agentVersion": "1.0.0"', '"agentVersion": 1')
    edit(locked / "agents.lock", '"version": "3.0.0"', '"version": 3')

    assert found(run("verify", "--json")) == [("malformed", "lock")] * 2


def test_paths_may_be_anywhere(locked: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    (locked / "agents.lock").rename(locked / "else.lock")
    paths = ["-a", str(locked / "agents.md"), "-i", str(locked / "mcp.index.json"), "--lock", str(locked / "else.lock")]
    here = run("verify", "--json", *paths)
    monkeypatch.chdir("/")

    assert run("verify", "--json", *paths) == here
    assert here.code == 0


def test_the_order_of_the_files_never_reaches_the_answer(locked: Path, run: Run) -> None:
    move_on(locked)
    before = run("verify", "--json")
    index = json.loads((locked / "mcp.index.json").read_bytes())
    random.Random(4).shuffle(index)
    (locked / "mcp.index.json").write_text(json.dumps([dict(reversed(server.items())) for server in index]))

    assert run("verify", "--json") == before


def test_a_warning_about_the_agent_file_is_no_difference(locked: Path, run: Run) -> None:
    edit(locked / "agents.md", "constraints:", "constraint:")

    ran = run("verify")

    assert ran.code == 0
    assert "warning: constraint: Unknown key" in ran.stderr


def test_nothing_in_a_lock_steers_the_terminal(locked: Path) -> None:
    """A lock may hold any name; a person sees escapes as text."""
    edit(locked / "agents.lock", '"agentName": "my-analytics-agent"', '"agentName": "\\u202egood\\u2066"')
    edit(locked / "agents.lock", '"category": "reporting"', '"category": "\\u202egnitroper"')

    done = agent_process("verify")

    assert done.returncode == 1
    assert "'\\u202egood\\u2066@1.0.0'" in done.stderr
    assert "\u202e" not in done.stderr
