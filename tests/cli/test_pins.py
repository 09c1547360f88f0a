"""Warnings about chosen servers that can change: `agent validate`, `agent resolve` and `--strict`."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Run

AGENT = """\
---
name: tester
version: 1.0.0
requires:
  mcp:
    - category: files
      permissions: [read]
constraints:
  data: { residency: any }
---
"""


def entry(server_id: str = "files", **more: Any) -> dict[str, Any]:
    return {
        "id": server_id,
        "version": "1.2.3",
        "categories": ["files"],
        "scopes": ["read"],
        "data": {"residency": ["any"], "maxSensitivity": "internal"},
        "trust": {"signed": True, "publisher": "acme"},
        "launch": {"command": "npx", "args": ["-y", "@acme/files"]},
        **more,
    }


def write(folder: Path, *servers: dict[str, Any], agent: str = AGENT) -> None:
    (folder / "agents.md").write_text(agent)
    (folder / "mcp.index.json").write_text(json.dumps(servers, indent=2))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_resolve_warns_of_a_chosen_floating_package_and_writes_the_lock(here: Path, run: Run) -> None:
    write(here, entry(), entry("zother"))

    ran = run("resolve")

    assert ran.code == 0
    assert ran.stderr == (
        "warning: 0.launch: `files@1.2.3` is chosen, and can be another program tomorrow: `@acme/files` is fetched "
        "without a version; pin it: `npx -y @acme/files@1.2.3` (mcp.index.json:21:5)\n"
    )
    assert (here / "agents.lock").exists()


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"launch": {"command": "docker", "args": ["run", "-i", "acme/files:latest"]}},
        {"launch": {"command": "bash", "args": ["-c", "npx -y @acme/files"]}},
        {"launch": {"command": "npx", "args": ["--unknown", "x@1.0.0", "@acme/files"]}},
        {"launch": {"command": "sh", "args": ["-c", "DEBUG=1 npx -y evil"]}},
        {"launch": {"command": "bash", "args": ["-cx", "npx -y evil"]}},
        {"launch": {"command": "env", "args": ["-S", "npx -y evil"]}},
        {"launch": {"command": "nohup", "args": ["npx", "-y", "evil"]}},
        {"launch": {"command": "server"}, "status": "deprecated"},
        {"launch": {"command": "server"}, "toolScopes": {"a": ["read"]}, "drafted": ["a"]},
    ],
)
def test_strict_writes_no_lock_while_a_chosen_server_can_change(here: Path, run: Run, more: dict[str, Any]) -> None:
    write(here, entry(**more))

    ran, as_json = run("resolve", "--strict"), run("resolve", "--strict", "--json")

    assert ran.code == as_json.code == 1
    assert "✗ mcp.index.json validation failed:\n" in ran.stderr
    assert json.loads(as_json.stdout)["error"]["files"][0]["issues"][0]["severity"] == "warning"
    assert not (here / "agents.lock").exists()


def test_strict_writes_the_lock_of_pinned_servers(here: Path, run: Run) -> None:
    pinned = {"command": "npx", "args": ["-y", "@acme/files@1.2.3"]}
    write(here, entry(launch=pinned), entry("zother"))

    assert run("resolve", "--strict").code == 0
    assert (here / "agents.lock").exists()


def test_strict_refuses_a_warning_about_the_agent_file_too(here: Path, run: Run) -> None:
    pinned = {"command": "npx", "args": ["-y", "@acme/files@1.2.3"]}
    write(here, entry(launch=pinned), agent=AGENT.replace("constraints:", "constraint:"))

    ran = run("resolve", "--strict")

    assert ran.code == 1
    assert "✗ agents.md validation failed:\n" in ran.stderr
    assert not (here / "agents.lock").exists()


def test_a_tag_without_a_digest_passes_strict_with_a_hint(here: Path, run: Run) -> None:
    write(here, entry(launch={"command": "docker", "args": ["run", "-i", "acme/files:1.2"]}))

    ran = run("resolve", "--strict")

    assert ran.code == 0
    assert ran.stderr.startswith("hint: 0.launch: `files@1.2.3` is chosen")


def test_validate_warns_of_chosen_servers_alone(here: Path, run: Run) -> None:
    write(here, entry(), entry("zother"))

    ran, strict = run("validate"), run("validate", "--strict")

    assert ran.code == 0
    assert ran.stderr.count("can be another program tomorrow") == 1
    assert "    hint: pin it" not in ran.stderr
    assert "  hint: pin it: `npx -y @acme/files@1.2.3`\n" in ran.stderr
    assert strict.code == 1


def test_validate_reports_an_overlay_with_faults(here: Path, run: Run) -> None:
    write(here, entry())
    (here / "mcp.overlay.yaml").write_text("servers:\n  files:\n    scope: [read]\n")

    ran = run("validate")

    assert ran.code == 1
    assert "✗ mcp.overlay.yaml validation failed:\n" in ran.stderr
    assert "✓ agents.md frontmatter is valid\n" in ran.stdout


def test_validate_reports_an_overlay_that_is_not_a_file(here: Path, run: Run) -> None:
    write(here, entry())
    (here / "mcp.overlay.yaml").mkdir()

    ran = run("validate")

    assert ran.code == 2
    assert "mcp.overlay.yaml" in ran.stderr


def test_a_draft_that_the_overlay_confirms_is_no_warning(here: Path, run: Run) -> None:
    write(here, entry(launch={"command": "server"}, toolScopes={"a": ["read"]}, drafted=["a"]))
    (here / "mcp.overlay.yaml").write_text("servers:\n  files:\n    toolScopes:\n      a: [read]\n")

    assert run("resolve", "--strict").code == 0


def test_many_like_warnings_are_counted(here: Path, run: Run) -> None:
    needs = "".join(f"    - {{category: c{number}, permissions: [read]}}\n" for number in range(12))
    agent = AGENT.replace("    - category: files\n      permissions: [read]\n", needs)
    write(here, *(entry(f"s{number}", categories=[f"c{number}"]) for number in range(12)), agent=agent)

    few, every = run("resolve"), run("resolve", "--all")

    assert few.stderr.count("can be another program tomorrow") == 3
    assert "… and 9 more of `floating-package`, at `*.launch`: `agent validate --all` shows each\n" in few.stderr
    assert every.stderr.count("can be another program tomorrow") == 12


def test_a_workspace_refuses_agents_of_floating_servers_under_strict(here: Path, run: Run) -> None:
    pinned = {"command": "npx", "args": ["-y", "@acme/files@1.2.3"]}
    write(here, entry(), entry("other", categories=["others"], launch=pinned))
    (here / "other.md").write_text(AGENT.replace("category: files", "category: others"))

    ran = run("resolve", "--workspace", "--strict")

    assert ran.code == 1
    assert "✗ agents.md: `--strict` refuses 1 warning\n" in ran.stderr
    assert ran.stderr.count("can be another program tomorrow") == 1
    assert not (here / "agents.lock").exists()
    assert (here / "other.lock").exists()
    document = json.loads(run("resolve", "--workspace", "--json").stdout)
    assert [warning["code"] for warning in document["warnings"]] == ["floating-package"]
