"""What a newcomer runs into first: each message says what to do next."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.tool_project import ToolProject, tool_project
from tests.conftest import Run

HINT = "run `agent init` to begin here, change to the folder that has it, or name another file with `--agents`"


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ToolProject:
    return tool_project(tmp_path, monkeypatch)


@pytest.mark.parametrize("command", [["validate"], ["resolve"], ["verify"], ["why", "crm"], ["tools", "list"]])
def test_an_empty_folder_is_told_where_to_begin(empty: Path, run: Run, command: list[str]) -> None:
    ran = run(*command)

    assert ran.code == 2
    assert "`./agents.md` does not exist\n" in ran.stderr
    assert f"hint: {HINT}\n" in ran.stderr


def test_the_command_that_an_empty_folder_hints_at_writes_files_that_resolve(empty: Path, run: Run) -> None:
    assert "`agent init`" in run("resolve").stderr

    assert run("init").code == 0
    assert run("resolve").code == 0


def test_a_folder_with_one_of_the_two_files_is_not_sent_to_init(empty: Path, run: Run) -> None:
    (empty / "agents.md").write_text("---\nname: lone\nversion: 1.0.0\n---\n")

    ran = run("resolve")

    assert "`./mcp.index.json` does not exist\n" in ran.stderr
    assert ran.stderr.endswith("name another file with `--index`; docs/quick-start.md shows how to write one\n")
    assert run("init").code != 0


def test_a_named_file_that_is_missing_is_a_wrong_path(empty: Path, run: Run) -> None:
    hint = "hint: check the path, or name another file with `--agents`\n"

    assert run("resolve", "--agents", "other.md").stderr.endswith(hint)
    assert run("validate", "--agents", "other.md").stderr.endswith(hint)


def test_nothing_waits_in_a_project_that_was_never_called(tools: ToolProject, run: Run) -> None:
    listed, as_json = run("inbox", "list"), run("inbox", "list", "--json")

    assert (listed.code, listed.stdout, listed.stderr) == (0, "", "Nothing waits\n")
    assert (as_json.code, as_json.stdout) == (0, "[]\n")
    assert not (tools.folder / ".agent").exists()


def test_no_inbox_is_looked_for_where_there_is_no_project(empty: Path, run: Run) -> None:
    ran = run("inbox", "list")

    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr.endswith(
        "hint: nothing was recorded here yet; name another project's agent file with `--agents`\n"
    )


def test_arguments_that_are_wrong_are_not_called_a_file(tools: ToolProject, run: Run) -> None:
    ran = run("tools", "call", "tickets.create", "{title: x}", "--trust")

    assert ran.code == 2
    assert ran.stderr == (
        "error: The arguments are not a JSON object: Expected a key in double quotes (1:2)\n"
        """hint: write them as '{"name": "value"}'\n"""
    )


def test_a_person_who_types_serve_is_told_that_it_waits_for_a_client(empty: Path) -> None:
    (empty / "agents").mkdir()
    (empty / "agents" / "reviewer.md").write_text("---\nname: reviewer\n---\n")
    ours, theirs = pty.openpty()
    line = [sys.executable, "-m", "agent_resolver", "serve"]
    with subprocess.Popen(line, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as serving:
        assert serving.stderr is not None
        first, second = serving.stderr.readline(), serving.stderr.readline()
        os.close(theirs)
        os.write(ours, b"\x04")  # Ctrl-D ends the input.
        serving.communicate(timeout=60)
    os.close(ours)

    assert first == "Waiting for messages of an MCP client on stdin; Ctrl-C ends it\n"
    assert second.startswith("hint: `agent serve --print-config CLIENT` prints")
