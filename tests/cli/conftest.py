"""Projects whose lock starts servers."""

import json
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Run
from tests.registry.process import assert_none_is_left

RAW = Path(__file__).parent.parent / "registry" / "servers" / "raw.py"

AGENT = """\
---
name: tester
version: 1.0.0
requires:
  mcp:
    - category: tests
      permissions: [use]
constraints:
  data: { sensitivity: internal, residency: eu-only }
  actions:
    forbid: ["d*"]
---
"""

OPEN = ("echo", "environment", "fail", "hang", "promise-broken")


def server(server_id: str = "raw", *arguments: str, **more: Any) -> dict[str, Any]:
    """An entry of the index that starts `raw.py`."""
    return {
        "id": server_id,
        "version": "1.0.0",
        "launch": {"command": sys.executable, "args": ["-I", str(RAW), *arguments], "env": more.pop("env", [])},
        "categories": [more.pop("category", "tests")],
        "scopes": ["use", "other"],
        "toolScopes": {**{tool: ["use"] for tool in OPEN}, "die": ["use"], "process": ["other"]},
        "data": {"residency": ["any"], "maxSensitivity": "confidential"},
        "trust": {"signed": True, "publisher": "tests"},
        **more,
    }


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> Iterator[Callable[..., Path]]:
    """Writes a project with these servers, resolves it and makes it the current folder; nobody trusts it yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr("agent_resolver.registry.launch._PATIENCE_SECONDS", 0.4)
    project = tmp_path / "project"

    def write_project(*servers: dict[str, Any], agent: str = AGENT, config: str = "") -> Path:
        project.mkdir()
        (project / "agents.md").write_text(agent)
        (project / "mcp.index.json").write_text(json.dumps(servers))
        if config:
            (project / "agent.toml").write_text(config)
        monkeypatch.chdir(project)
        assert run("resolve").code == 0
        return project

    yield write_project
    assert_none_is_left(tmp_path)


@pytest.fixture
def untrusted(write: Callable[..., Path]) -> Path:
    """A project with one server."""
    return write(server())


@pytest.fixture
def governed(untrusted: Path, run: Run) -> Path:
    """The same, trusted."""
    assert run("trust-folder").code == 0
    return untrusted


def kinds(project: Path) -> list[str]:
    """What the trail holds, in order."""
    with closing(sqlite3.connect(project / ".agent" / "state.db")) as state:
        return [kind for (kind,) in state.execute("SELECT kind FROM audit ORDER BY position")]


COMMANDS = [
    ("tools", "list"),
    ("tools", "show", "raw.echo"),
    ("tools", "call", "raw.echo", '{"text": "hello"}'),
]
