"""A command reads settings, index and agent files once."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from agent_resolver import parse_agent_file, parse_index, resolve, servers_of, to_json

ROOT = Path(__file__).parents[2]
PROGRAM = """
import json, sys
opened = []
def hook(event, arguments):
    # Whatever opens a file ends in `os.open`, which has no mode.
    if event == "open" and isinstance(arguments[0], str) and arguments[1] is None:
        opened.append(arguments[0])
sys.addaudithook(hook)
from agent_resolver.cli import main
code = main(sys.argv[1:])
sys.stderr.write("\\n" + json.dumps([code, opened]))
"""
AGENT = """---
name: keeper
version: "1.0.0"
description: Keeps notes.
model: default
requires:
  mcp:
    - category: notes
      permissions: [notes.read]
---
Keep notes.
"""
INDEX = """[{"id": "notes", "version": "1.0.0", "endpoint": "https://notes.example", "categories": ["notes"],
  "scopes": ["notes.read"], "toolScopes": {"read": ["notes.read"]},
  "data": {"residency": ["any"], "maxSensitivity": "internal"}, "trust": {"publisher": "us", "signed": true}}]"""
SETTINGS = """
[models.default]
provider = "local"
upstream_model = "m"
[providers.local]
adapter = "scripted"
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "project"
    (folder / "agents").mkdir(parents=True)
    (folder / "agents" / "keeper.md").write_text(AGENT)
    (folder / "mcp.index.json").write_text(INDEX)
    (folder / "agent.toml").write_text(SETTINGS)
    lockfile = resolve(parse_agent_file(AGENT.encode()), servers_of(parse_index(INDEX.encode()))).lockfile
    (folder / "agents" / "keeper.lock").write_bytes(to_json(lockfile))
    return folder


def reads(folder: Path, *command: str) -> Counter[str]:
    """How often each file of the project was opened."""
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, *command], cwd=folder, capture_output=True, text=True, check=True
    )
    code, opened = json.loads(ran.stderr.rpartition("\n")[2])
    assert code == 0, ran.stdout + ran.stderr
    real = (os.path.realpath(os.path.join(folder, path)) for path in opened)  # noqa: PTH118 - as the product does
    files = {folder / "agent.toml", folder / "mcp.index.json", folder / "agents" / "keeper.md"}
    return Counter(Path(path).name for path in real if Path(path) in files)


def test_a_plan_reads_each_file_once(project: Path) -> None:
    first, second = reads(project, "plan", "keeper"), reads(project, "plan", "keeper")

    assert second == {"agent.toml": 1, "mcp.index.json": 1, "keeper.md": 1}
    # The first time, the catalog also looks into the file for its index, and whether it resolves.
    assert first == {"agent.toml": 1, "mcp.index.json": 1, "keeper.md": 3}
