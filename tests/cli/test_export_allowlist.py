"""`agent export --format allowlist`: managed settings made of the locks of a workspace."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import edit
from tests.cli.test_export import AGENT, entries, launched, remote
from tests.conftest import Run

Write = Callable[..., Path]
LINE = ["export", "--format", "allowlist"]


@pytest.fixture
def workspace(write: Write, run: Run) -> Path:
    far = {**remote(), "id": "far", "categories": ["far"]}
    project = write(launched(launch={"command": "npx", "args": ["-y", "a@1.0.0"]}), far, agent=AGENT)
    (project / "agents").mkdir()
    for name in ("b", "a"):
        (project / "agents" / f"{name}.md").write_text(AGENT.replace("category: tests", "category: far"))
    assert run("resolve", "-w").code == 0
    return project


ALLOWED = [{"serverCommand": ["npx", "-y", "a@1.0.0"]}, {"serverUrl": "https://mcp.example.com/mcp"}]


@pytest.mark.parametrize(
    ("client", "expected"),
    [
        ("claude-code", {"allowManagedMcpServersOnly": True, "allowedMcpServers": ALLOWED}),
        ("vscode", {"allowedMcpServers": ALLOWED}),
    ],
)
def test_every_locked_server_of_a_workspace_is_listed_once(
    workspace: Path, run: Run, client: str, expected: object
) -> None:
    ran = run(*LINE, "--client", client, "-w")

    assert ran.code == 0, ran.stderr
    assert json.loads(ran.stdout) == expected
    assert run(*LINE, "--client", client, "-w").stdout == ran.stdout


def test_the_list_is_the_same_whatever_the_order_of_the_index(workspace: Path, run: Run) -> None:
    before = run(*LINE, "--client", "vscode", "-w").stdout
    index = json.loads((workspace / "mcp.index.json").read_text())
    (workspace / "mcp.index.json").write_text(json.dumps(index[::-1]))

    assert run(*LINE, "--client", "vscode", "-w").stdout == before


def test_one_agent_file_gives_its_own_servers(workspace: Path, run: Run) -> None:
    assert json.loads(run(*LINE, "--client", "vscode").stdout) == {"allowedMcpServers": ALLOWED[:1]}


def test_the_entry_that_serves_under_the_lock_can_be_allowed(workspace: Path, run: Run) -> None:
    assert run("export", "--client", "claude-code").code == 0
    entry = entries(workspace, "claude-code")["agent-resolver"]

    allowed = json.loads(run(*LINE, "--client", "claude-code", "-w", "--governed").stdout)["allowedMcpServers"]

    assert {"serverCommand": [entry["command"], *entry["args"]]} in allowed
    assert len(allowed) == 5


@pytest.mark.parametrize("endpoint", ["https://mcp.example.com/*", "mcp://example.com"])
def test_an_address_that_would_match_others_is_left_out_and_named(write: Write, run: Run, endpoint: str) -> None:
    write(remote(endpoint), agent=AGENT)

    ran = run(*LINE, "--client", "claude-code")

    assert ran.code == 0
    assert json.loads(ran.stdout)["allowedMcpServers"] == []
    assert "raw: left out" in ran.stderr


def test_one_lock_that_does_not_hold_gives_no_list(workspace: Path, run: Run) -> None:
    edit(workspace / "agents" / "a.md", "permissions: [use]", "permissions: [use, other]")

    ran = run(*LINE, "--client", "claude-code", "-w", "-o", "list.json")

    assert ran.code == 1
    assert "a.lock" in ran.stderr
    assert not (workspace / "list.json").exists()


def test_the_list_is_written_where_it_is_asked_for(workspace: Path, run: Run) -> None:
    first = run(*LINE, "--client", "claude-code", "-w", "-o", "list.json")
    second = run(*LINE, "--client", "claude-code", "-w", "-o", "list.json")

    assert (first.stdout, second.stdout) == ("✓ list.json: written\n", "✓ list.json: unchanged\n")
