"""Projects whose lock starts servers."""

import json
import os
import pty
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.cli.scripted_model import NOTES, write_notes
from tests.conftest import Run
from tests.process import assert_none_is_left

RAW = Path(__file__).parent.parent / "connection" / "servers" / "raw.py"

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

Snapshot = Callable[[object], None]

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
        "data": {"residency": ["eu-only"], "maxSensitivity": "confidential"},
        "trust": {"signed": True, "publisher": "tests"},
        **more,
    }


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the cache of the person who runs it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> Iterator[Callable[..., Path]]:
    """Writes a project with these servers, resolves it and makes it the current folder; nobody trusts it yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr("agent_resolver.connection.launch._PATIENCE_SECONDS", 0.4)
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


def edit(path: Path, *replacement: str) -> None:
    """Replace one text in a file."""
    old, new = replacement
    content = path.read_text(encoding="utf-8")
    assert old in content
    path.write_text(content.replace(old, new, 1), encoding="utf-8")


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def agent_process(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run one command as a process."""
    return script("import sys; from agent_resolver.cli import main; sys.exit(main())", *command, **environment)


def script(text: str, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python text as a process."""
    arguments = [sys.executable, "-c", text, *command]
    return subprocess.run(
        arguments, capture_output=True, encoding="utf-8", check=False, env={**os.environ, **environment}
    )


def on_terminal(text: str, *command: str, **environment: str) -> str:
    """What Python text shows on a terminal."""
    ours, theirs = pty.openpty()
    started = subprocess.Popen(
        [sys.executable, "-c", text, *command],
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", **environment},
    )
    os.close(theirs)
    shown = b""
    # A terminal whose other side is gone is an error to read from, not an end.
    with suppress(OSError):
        while piece := os.read(ours, 65536):
            shown += piece
    os.close(ours)
    started.wait()
    return shown.decode()


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of one agent with tools of its own code, as the current folder; a person trusts it."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("AGENT_TOKEN", raising=False)
    folder = tmp_path / "notes"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    sys.modules.pop(NOTES, None)
    write_notes(folder)
    return folder


@pytest.fixture
def trusted(notes: Path, run: Run) -> Path:
    """The same, trusted."""
    assert run("trust-folder").code == 0
    return notes
