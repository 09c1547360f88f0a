"""`agent index coverage`: what is usable, and which facts to fill in first."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Snapshot
from tests.conftest import Run

KNOWN: dict[str, Any] = {
    "id": "known",
    "version": "1.0.0",
    "endpoint": "https://known.example",
    "categories": ["crm"],
    "scopes": ["read"],
    "data": {"residency": ["us-only"], "maxSensitivity": "internal"},
    "trust": {"signed": True, "publisher": "Acme"},
}
BARE = {"version": "1.0.0", "endpoint": "https://bare.example", "categories": ["crm", "sales"]}
AGENT = """\
---
name: a
version: 1.0.0
requires:
  mcp:
    - {category: crm, permissions: [read]}
    - {category: mail, permissions: [send]}
constraints:
  data: {residency: eu-only, sensitivity: internal}
---
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an index, as the current one."""
    servers = [KNOWN, *({**BARE, "id": f"bare-{number}"} for number in range(5))]
    (tmp_path / "mcp.index.json").write_text(json.dumps(servers))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_coverage_of_an_index(folder: Path, run: Run, snapshot: Snapshot) -> None:
    snapshot(run("index", "coverage"))


def test_coverage_of_one_server_uses_the_singular(folder: Path, run: Run) -> None:
    (folder / "mcp.index.json").write_text(json.dumps([KNOWN]))

    assert run("index", "coverage").stdout.splitlines()[0] == "1 of 1 server has every fact"


def test_coverage_for_an_agent_file(folder: Path, run: Run, snapshot: Snapshot) -> None:
    (folder / "agents.md").write_text(AGENT)
    snapshot(run("index", "coverage"))


def test_coverage_for_an_agent_file_as_json(folder: Path, run: Run) -> None:
    (folder / "agents.md").write_text(AGENT)
    answer = json.loads(run("index", "coverage", "--json").stdout)

    assert (answer["total"], answer["usable"]) == (6, 1)
    assert answer["lacking"] == {"categories": 0, "scopes": 5, "residency": 5, "maxSensitivity": 5, "signed": 5}
    assert [(each["category"], len(each["remedies"])) for each in answer["unresolved"]] == [("crm", 5), ("mail", 0)]


def test_every_line_that_is_suggested_lets_the_requirement_resolve(folder: Path, run: Run) -> None:
    (folder / "agents.md").write_text(AGENT.replace("    - {category: mail, permissions: [send]}\n", ""))
    answer = json.loads(run("index", "coverage", "--json").stdout)

    for remedy in answer["unresolved"][0]["remedies"]:
        (folder / "mcp.overlay.yaml").write_text(remedy["overlay"])
        assert run("resolve").code == 0
        assert "every requirement" in run("index", "coverage").stdout.lower()


def test_an_agent_file_that_is_named_must_be_there(folder: Path, run: Run) -> None:
    assert run("index", "coverage", "-a", "absent.md").code == 2


def test_versions_of_one_server_need_one_line(folder: Path, run: Run) -> None:
    servers = [{**BARE, "id": "bare", "version": f"1.0.{number}"} for number in range(3)]
    (folder / "mcp.index.json").write_text(json.dumps(servers))
    (folder / "agents.md").write_text(AGENT)

    ran = run("index", "coverage")

    assert ran.stdout.count('servers: {"bare":') == 1
    assert "more: --all" not in ran.stdout
