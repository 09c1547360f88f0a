"""A lock that pins definitions of tools: what commands say of it that ask no server."""

import json
from pathlib import Path

import pytest

from tests.cli.keeper import keeper
from tests.conftest import Run

AGENT = keeper()
ENTRY = {
    "id": "files",
    "version": "1.0.0",
    "launch": {"command": "files"},
    "categories": ["files"],
    "toolScopes": {"read": ["read:files"], "write": ["write:files"]},
    "tools": {"read": "sha256-1", "write": "sha256-2"},
}


@pytest.fixture
def pinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> Path:
    """A project whose lock pins two tools, of which its scopes open one."""
    folder = tmp_path / "pinned"
    folder.mkdir()
    (folder / "agents.md").write_text(AGENT)
    (folder / "mcp.index.json").write_text(json.dumps([ENTRY]))
    monkeypatch.chdir(folder)
    assert run("resolve").code == 0
    return folder


def test_tree_shows_the_tools_that_the_scopes_open(pinned: Path, run: Run) -> None:
    tree = run("tree").stdout

    assert "read:files" in tree
    assert "read" in tree.partition("read:files")[2]
    assert "TOOL_CHANGED" not in tree


def test_report_shows_the_tools_that_the_scopes_open(pinned: Path, run: Run) -> None:
    assert run("report", "-o", "report.html").code == 0

    assert "has changed the definition" not in (pinned / "report.html").read_text()


def test_plan_has_the_tools_that_the_scopes_open(pinned: Path, run: Run) -> None:
    (pinned / "agents.md").write_text(AGENT.replace("version:", "model: gpt-4o\nversion:"))

    plan = json.loads(run("plan", "keeper", "--json").stdout)

    assert [tool["id"] for tool in plan["tools"]] == ["files.read"]
