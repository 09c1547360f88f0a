"""`@modelcontextprotocol/server-filesystem` from npm, held to a lock that lets it read and not write."""

import json
from pathlib import Path

import pytest

from tests.integration.conftest import Project, entry

CANARY = "canary-in-a-file-3f1d"
TOOLS = {
    "read_text_file": ["read:files"],
    "list_directory": ["read:files"],
    "write_file": ["write:files"],
    "move_file": ["read:files", "write:files"],
}


@pytest.fixture
def reader(project: Project, node: str, servers: Path) -> Project:
    """A project that may read the files in `data`."""
    data = project.folder / "data"
    data.mkdir()
    (data / "welcome.txt").write_text(f"Hello, {CANARY}")
    script = servers / "server-filesystem" / "dist" / "index.js"
    launch = {"command": node, "args": [str(script), str(data)]}
    project.write(entry("files", TOOLS, launch=launch), scopes=["read:files"])
    return project


def test_only_what_the_locked_scope_opens_is_listed(reader: Project) -> None:
    listing = reader.listing()

    assert [tool["id"] for tool in listing["tools"]] == ["files.list_directory", "files.read_text_file"]
    codes = {refused["id"]: refused["code"] for refused in listing["refused"]}
    assert codes.pop("files.write_file") == "SCOPE_NOT_LOCKED"
    assert codes.pop("files.move_file") == "SCOPE_NOT_LOCKED"
    assert len(codes) > 5
    assert set(codes.values()) == {"TOOL_NOT_MAPPED"}


def test_a_tool_within_the_lock_answers_and_one_outside_it_does_nothing(reader: Project) -> None:
    data = reader.folder / "data"

    read = reader.call("files.read_text_file", path=str(data / "welcome.txt"))
    write = reader.call("files.write_file", path=str(data / "new.txt"), content="written")
    delete = reader.call("files.move_file", source=str(data / "welcome.txt"), destination=str(data / "gone.txt"))

    assert (read.returncode, json.loads(read.stdout)) == (0, {"content": f"Hello, {CANARY}"})
    assert (write.returncode, write.stdout) == (1, "")
    assert write.stderr.startswith("✗ SCOPE_NOT_LOCKED: It needs scopes that are not locked: write:files\n")
    assert delete.returncode == 1
    assert sorted(path.name for path in data.iterdir()) == ["welcome.txt"]
    assert reader.agent("audit", "verify").returncode == 0
    # The trail keeps what the tool gave, sealed.
    assert reader.holds(CANARY) == [data / "welcome.txt"]


def test_the_server_has_rules_of_its_own_and_they_are_told(reader: Project) -> None:
    outcome = reader.outcome("files.read_text_file", path="/etc/hostname")

    assert outcome["code"] == "TOOL_ERROR"
    assert "outside allowed directories" in outcome["message"]


def test_arguments_are_checked_before_the_server_sees_them(reader: Project) -> None:
    outcome = reader.outcome("files.read_text_file", path=["a", "b"], head="ten")

    assert outcome["code"] == "INPUT_VALIDATION_FAILED"
    assert outcome["details"] == ['head: the value is not of type "number"', 'path: the value is not of type "string"']


def test_one_edited_byte_of_the_lock_stops_everything(reader: Project) -> None:
    lock = reader.folder / "agents.lock"
    lock.write_bytes(lock.read_bytes().replace(b"write:files", b"read:files", 1))

    ran = reader.call("files.read_text_file", path=str(reader.folder / "data" / "welcome.txt"))

    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith("error: `./agents.lock` does not hold\n")
