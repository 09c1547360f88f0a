"""A project with settings, an index, and an agent that requires servers."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_resolver.catalog import Catalog, CatalogIndex
from agent_resolver.project import Session, runtime_of
from agent_resolver.runtime import RegistrySet, ResolvedAgent, resolve_local
from tests.conftest import Run

CONFIG = """\
[models.default]
provider = "local"
upstream_model = "small"
context_window = 8000
aliases = ["sonnet", "opus", "haiku", "fable"]
data = { residency = ["eu-only"], maxSensitivity = "confidential" }
[providers.local]
adapter = "scripted"
"""
BOUND = """\
---
name: bound
version: 1.0.0
requires:
  mcp:
    - category: crm
      permissions: [contacts.read, contacts.write]
    - category: mail
      permissions: [send]
constraints:
  data: { sensitivity: internal, residency: eu-only }
  actions: { forbid: ["*delete*"] }
---
You keep contacts.
"""


def server(server_id: str, **facts: Any) -> dict[str, Any]:
    return {
        "id": server_id,
        "version": "1.0.0",
        "endpoint": f"https://{server_id}.example/mcp",
        "categories": [server_id],
        "data": {"residency": ["eu-only"], "maxSensitivity": "confidential"},
        "trust": {"signed": True, "publisher": "tests"},
        **facts,
    }


SERVERS = [
    server(
        "crm",
        scopes=["contacts.read", "contacts.write", "contacts.admin"],
        toolScopes={
            "find": ["contacts.read"],
            "save": ["contacts.read", "contacts.write"],
            "delete": ["contacts.write"],
            "merge": ["contacts.admin"],
        },
    ),
    server("mail", scopes=["send"]),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with settings, an index and one agent that requires servers, as the current folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    project = tmp_path / "project"
    (project / "agents").mkdir(parents=True)
    (project / "agent.toml").write_text(CONFIG)
    (project / "mcp.index.json").write_text(json.dumps(SERVERS))
    (project / "agents" / "bound.md").write_text(BOUND)
    monkeypatch.chdir(project)
    return project


@pytest.fixture
def locked(folder: Path, run: Run) -> Path:
    """The same, with its lock."""
    assert run("resolve", "--agents", "agents/bound.md").code == 0
    return folder


Open = Callable[..., RegistrySet]


@pytest.fixture
def look(folder: Path) -> Iterator[Open]:
    """Opens the project as it is now, and closes it again."""
    opened: list[tuple[Catalog, Session]] = []

    def open_now(*roots: str, flags: tuple[str, ...] = (), trusts: bool = False) -> RegistrySet:
        catalog = Catalog([str(folder / root) for root in roots or ("agents",)], CatalogIndex(None))
        project = Session("./agents.md", "./mcp.index.json", environment={}, flags=flags, trusts=trusts)
        opened.append((catalog, project))
        catalog.refresh()
        return runtime_of(project, catalog).snapshot

    yield open_now
    for catalog, project in opened:
        catalog.close()
        project.close()


def planned(snapshot: RegistrySet, agent_id: str = "bound") -> ResolvedAgent:
    return resolve_local(snapshot, agent_id)
