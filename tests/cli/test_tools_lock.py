"""`agent tools` starts nothing before the folder is trusted and the lock holds, to the byte."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_resolver.project import LockRefused, Session
from tests.cli.conftest import AGENT, COMMANDS, kinds, server
from tests.conftest import Run
from tests.process import started


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_folder_that_nobody_trusts_starts_nothing(untrusted: Path, run: Run, command: list[str]) -> None:
    ran, as_json = run(*command), run(*command, "--json")

    assert ran.code == as_json.code == 1
    assert ran.stdout == ""
    assert ran.stderr == (
        f"error: `{untrusted}` is not trusted, and its lock starts commands\n"
        f"hint: read what would run, then run `agent trust-folder {untrusted}`; in CI give `--trust`\n"
    )
    assert json.loads(as_json.stdout)["success"] is False
    assert started(untrusted) == []


def test_trust_is_given_for_once_or_until_it_is_taken_back(untrusted: Path, run: Run) -> None:
    assert run("tools", "list", "--trust").code == 0
    assert run("tools", "list").code == 1
    run("trust-folder")
    assert run("tools", "list").code == 0
    run("trust-folder", "--remove")
    assert run("tools", "list").code == 1
    assert len(started(untrusted)) == 2


def test_settings_that_send_secrets_need_trust_as_much_as_commands_do(write: Callable[..., Path], run: Run) -> None:
    entry = {**server(), "endpoint": "http://127.0.0.1:9/mcp"}
    del entry["launch"]
    project = write(entry, config='[servers.raw]\ntoken_env = "HOME"\n')

    ran = run("tools", "list")

    assert ran.code == 1
    assert ran.stderr.startswith(
        f"error: `{project}` is not trusted, and its settings send secrets of this machine to servers\n"
    )


EDITED = "the lock was edited: find out by whom and why before you run `agent resolve`"
CHANGED = "review what changed, then run `agent resolve`"

EDITS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "scope": (lambda raw: raw.replace(b'"use"', b'"usf"', 1), EDITED),
    "command": (lambda raw: raw.replace(b"raw.py", b"rav.py", 1), EDITED),
    "hash": (lambda raw: re.sub(rb'("hash": "[0-9a-f]{63})[0-9a-f]', rb"\1x", raw), EDITED),
    "space": (lambda raw: raw.replace(b"{\n", b"{ \n", 1), CHANGED),
    "end": (lambda raw: raw + b"\n", CHANGED),
    "cut": (lambda raw: raw[:-2], CHANGED),
    "tool map": (lambda raw: raw.replace(b'"other"', b'"use"', 1), EDITED),
}


@pytest.mark.parametrize("name", EDITS)
def test_a_lock_that_was_edited_stops_everything(governed: Path, run: Run, name: str) -> None:
    edit, hint = EDITS[name]
    lock = governed / "agents.lock"
    assert edit(lock.read_bytes()) != lock.read_bytes()
    lock.write_bytes(edit(lock.read_bytes()))

    for command in COMMANDS:
        ran, as_json = run(*command), run(*command, "--json")
        assert ran.code == as_json.code == 1
        assert (ran.stdout, as_json.stderr) == ("", "")
        assert ran.stderr.startswith("error: `./agents.lock` does not hold\n  - ")
        assert ran.stderr.endswith(f"\nhint: {hint}\n")
        assert json.loads(as_json.stdout)["success"] is False
    assert started(governed) == []
    assert set(kinds(governed)) == {"lock.refused"}


@pytest.mark.slow
def test_no_byte_of_the_lock_but_its_time_can_be_another(governed: Path) -> None:
    lock = governed / "agents.lock"
    original = lock.read_bytes()
    time = re.search(rb'"resolvedAt": "(.*)"', original)
    assert time
    for position in range(len(original)):
        # Nothing vouches for when a lock was written, and nothing depends on it.
        if time.start(1) <= position < time.end(1):
            continue
        edited = bytearray(original)
        edited[position] ^= 1
        lock.write_bytes(edited)
        with pytest.raises(LockRefused):
            _ = Session("agents.md", "mcp.index.json", environment={}).lockfile


def test_a_missing_lock_stops_everything(governed: Path, run: Run) -> None:
    (governed / "agents.lock").unlink()

    ran = run("tools", "list")

    assert (ran.code, ran.stdout) == (1, "")
    assert ran.stderr == "error: `./agents.lock` is missing\nhint: run `agent resolve`\n"
    assert started(governed) == []


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "permissions: [use]",
            "permissions: [use, other]",
            "raw@1.0.0: Locked without scopes the agent file asks for: other",
        ),
        (
            "permissions: [use]",
            "permissions: [other]",
            "raw@1.0.0: Locked with scopes the agent file does not ask for: use",
        ),
        ("version: 1.0.0", "version: 1.0.1", "agent: Locked for 'tester@1.0.0', but the file says 'tester@1.0.1'"),
        ('forbid: ["d*"]', 'forbid: ["use"]', "raw@1.0.0: Agent forbids 'use' which matches 'use'"),
    ],
)
def test_an_agent_file_that_moved_on_stops_everything(governed: Path, run: Run, old: str, new: str, words: str) -> None:
    (governed / "agents.md").write_text(AGENT.replace(old, new))

    ran = run("tools", "list")

    assert (ran.code, ran.stdout) == (1, "")
    assert ran.stderr.startswith("error: `./agents.lock` does not hold\n")
    assert f"  - {words}\n" in ran.stderr
    assert started(governed) == []


def test_an_index_that_moved_on_stops_everything(governed: Path, run: Run) -> None:
    (governed / "mcp.index.json").write_text(json.dumps([server("raw", "other-argument")]))

    ran = run("tools", "list")

    assert ran.code == 1
    assert "  - raw@1.0.0: Locked as '" in ran.stderr
    assert "raw.py other-argument over stdio'\n" in ran.stderr
    assert started(governed) == []


def test_files_that_cannot_be_read_are_told_as_everywhere(governed: Path, run: Run) -> None:
    (governed / "agents.md").write_text("---\nname: 5\n---\n")
    invalid = run("tools", "list")
    (governed / "agents.md").unlink()
    missing = run("tools", "list")

    assert invalid.code == 1
    assert invalid.stderr.startswith("✗ agents.md validation failed:\n")
    assert missing.code == 2
    assert missing.stderr.startswith("error: `./agents.md` does not exist\n")
    assert started(governed) == []


def test_settings_that_are_refused_stop_everything(governed: Path, run: Run) -> None:
    (governed / "agent.toml").write_text("[tools]\nadmitt = []\n")

    ran = run("tools", "list")

    assert ran.code == 1
    assert "agent.toml" in ran.stderr
    assert started(governed) == []


def test_a_tool_may_be_admitted_by_name(governed: Path, run: Run) -> None:
    ran = run("tools", "call", "raw.text-only", "{}", "--config", 'tools.admit=["raw.text-only"]')

    assert (ran.code, json.loads(ran.stdout)) == (0, [{"type": "text", "text": "only text"}])
