"""From the settings of a client to its settings again: import, overlay, resolve, export, and the client reads it."""

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.integration.loopback_model import loopback_model
from tests.integration.test_capability import agent
from tests.integration.test_export import claude, codex_mcp

AGENT = """\
---
name: keeper
version: 1.0.0
requires:
  mcp:
    - category: notes
      permissions: [read:notes]
    - category: far
      permissions: [read:far]
constraints:
  data: { residency: eu-only }
---
"""
OVERLAY = """\
servers:
  "*":
    data: { residency: [eu-only], maxSensitivity: internal }
  notes:
    toolScopes: { list_notes: [read:notes] }
  far:
    toolScopes: { search: [read:far] }
"""
NOTES = {"command": sys.executable, "args": ["-I", "server.py", "--quiet"]}
FAR = "http://127.0.0.1:9/mcp"
CONFIGS = {
    ".mcp.json": json.dumps({"mcpServers": {"notes": NOTES, "far": {"type": "http", "url": FAR}}}),
    ".vscode/mcp.json": json.dumps({"servers": {"notes": NOTES, "far": {"type": "http", "url": FAR}}}),
    ".codex/config.toml": (
        f"[mcp_servers.notes]\ncommand = {json.dumps(NOTES['command'])}\nargs = {json.dumps(NOTES['args'])}\n"
        f"[mcp_servers.far]\nurl = {json.dumps(FAR)}\n"
    ),
}


def done(folder: Path, *command: str) -> str:
    ran = agent(folder, *command)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(params=sorted(CONFIGS))
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A locked project whose servers come from the settings of one client."""
    source = tmp_path / "source" / request.param
    source.parent.mkdir(parents=True)
    source.write_text(CONFIGS[request.param])
    project = tmp_path / "project"
    project.mkdir()
    (project / "agents.md").write_text(AGENT)
    done(project, "index", "import", str(source))
    assert agent(project, "resolve").returncode == 1  # Nothing is known of the servers yet.
    (project / "mcp.overlay.yaml").write_text(OVERLAY)
    # Only the tools that are pinned are known to be all, and nothing can be asked here.
    index = json.loads((project / "mcp.index.json").read_text())
    pins = {"notes": {"list_notes": "sha256-1"}, "far": {"search": "sha256-1"}}
    (project / "mcp.index.json").write_text(json.dumps([{**entry, "tools": pins[entry["id"]]} for entry in index]))
    done(project, "resolve")
    return project


def how_reached(index: Path) -> list[dict[str, Any]]:
    """How each server of an index is reached."""
    entries = json.loads(index.read_text())
    return [{key: entry.get(key) for key in ("id", "launch", "endpoint")} for entry in entries]


def test_claude_code_reads_what_came_from_any_client(folder: Path) -> None:
    done(folder, "export", "--client", "claude-code", "--direct")
    first = (folder / ".mcp.json").read_bytes()
    done(folder, "export", "--client", "claude-code", "--direct")

    with loopback_model() as model:
        notes = claude(folder, model, "mcp", "get", "notes")
        far = claude(folder, model, "mcp", "get", "far")

    assert (folder / ".mcp.json").read_bytes() == first
    assert f"Command: {sys.executable}" in notes
    assert "Args: -I server.py --quiet" in notes
    assert f"URL: {FAR}" in far
    done(folder, "index", "import", ".mcp.json", "-o", "again.json")
    assert how_reached(folder / "again.json") == how_reached(folder / "mcp.index.json")


def test_codex_reads_what_came_from_any_client(folder: Path) -> None:
    done(folder, "export", "--client", "codex", "--direct")

    with loopback_model() as model:
        listed = {server["name"]: server["transport"] for server in codex_mcp(folder, model, "list")}

    assert sorted(listed) == ["far", "notes"]
    assert (listed["notes"]["command"], listed["notes"]["args"]) == (NOTES["command"], NOTES["args"])
    assert listed["far"]["url"] == FAR
    written = tomllib.loads((folder / ".codex" / "config.toml").read_text())
    assert sorted(written["mcp_servers"]) == ["far", "notes"]
