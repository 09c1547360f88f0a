"""An overlay beside the index: it counts in every command, and its faults are errors of every command."""

import json
from pathlib import Path

import pytest

from tests.cli.keeper import keeper
from tests.conftest import Run

AGENT = keeper("constraints:\n  data: {residency: eu-only, sensitivity: internal}\n")
INDEX = [{"id": "acme", "launch": {"command": "acme"}, "categories": ["files"]}]
KNOWN = """\
servers:
  "a*":
    scopes: [read:files]
    data: {residency: [eu-only], maxSensitivity: internal}
"""
COMMANDS = ("resolve", "verify", "why files", "tree", "discover", "resolve --workspace", "report -o report.html")


@pytest.fixture
def unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose only server states next to nothing."""
    folder = tmp_path / "unknown"
    folder.mkdir()
    (folder / "agents.md").write_text(AGENT)
    (folder / "mcp.index.json").write_text(json.dumps(INDEX))
    monkeypatch.chdir(folder)
    return folder


def test_what_is_not_known_is_named_with_the_lines_to_write(unknown: Path, run: Run) -> None:
    """Whoever writes each line that is asked for comes to a lock."""
    overlay = unknown / "mcp.overlay.yaml"
    facts: dict[str, dict[str, object]] = {}
    for code in ("SCOPES_UNKNOWN", "RESIDENCY_UNKNOWN", "SENSITIVITY_UNKNOWN"):
        ran = run("resolve", "--explain")
        assert ran.code == 1
        explanation = json.loads((unknown / "agents.resolution.json").read_bytes())
        (rejected,) = explanation["requirements"][0]["rejected"]
        assert rejected["reason"]["code"] == code
        stated = json.loads(rejected["reason"]["message"].partition("mcp.overlay.yaml: servers: ")[2])["acme"]
        for key, value in stated.items():
            facts[key] = {**facts.get(key, {}), **value} if isinstance(value, dict) else value
        overlay.write_text(json.dumps({"servers": {"acme": facts}}))

    assert run("resolve").code == 0
    (entry,) = json.loads((unknown / "agents.lock").read_bytes())["servers"]
    assert (entry["serverId"], entry["version"], entry["scopes"]) == ("acme", "unversioned", ["read:files"])
    assert run("verify").code == 0


def test_a_lock_does_not_hold_without_its_overlay(unknown: Path, run: Run) -> None:
    (unknown / "mcp.overlay.yaml").write_text(KNOWN)
    assert run("resolve").code == 0
    (unknown / "mcp.overlay.yaml").unlink()

    ran = run("verify")

    assert ran.code == 1
    assert "not known" in ran.stdout + ran.stderr


def test_why_shows_the_place_of_each_value(unknown: Path, run: Run) -> None:
    (unknown / "mcp.overlay.yaml").write_text(KNOWN)

    shown = run("why", "files").stdout

    assert "scopes: read:files (mcp.overlay.yaml:3:5)" in shown
    assert "residency: eu-only (mcp.overlay.yaml:4:12)" in shown
    assert "categories: files (mcp.index.json:1:" in shown


@pytest.mark.parametrize("command", [*COMMANDS, "validate", "catalog list"])
def test_a_fault_in_the_overlay_refuses_every_command(unknown: Path, run: Run, command: str) -> None:
    (unknown / "mcp.overlay.yaml").write_text("servers:\n  acme: {scope: [read:files]}\n")

    ran = run(*command.split())

    assert ran.code == 1, ran
    assert "servers.acme.scope: Unknown key (mcp.overlay.yaml:2:10)" in ran.stderr
    assert "did you mean `scopes`?" in ran.stderr


@pytest.mark.parametrize("command", [*COMMANDS, "validate"])
def test_patterns_that_contradict_each_other_refuse_every_command(unknown: Path, run: Run, command: str) -> None:
    (unknown / "mcp.overlay.yaml").write_text('servers:\n  "a*e": {scopes: [a]}\n  "ac*": {scopes: [b]}\n')

    ran = run(*command.split())

    assert ran.code == 1
    assert "are equally specific, and state different `scopes` (mcp.overlay.yaml:3:3)" in ran.stderr


def test_validate_warns_of_a_pattern_that_fits_nothing(unknown: Path, run: Run) -> None:
    (unknown / "mcp.overlay.yaml").write_text("servers: {akme: {scopes: []}}\n")

    ran = run("validate")

    assert ran.code == 0
    assert "`akme` fits no server of the index" in ran.stderr
    assert run("validate", "--strict").code == 1


@pytest.mark.parametrize("kind", ["folder", "fifo", "huge"])
def test_an_overlay_that_cannot_be_read_is_an_error(unknown: Path, run: Run, kind: str) -> None:
    path = unknown / "mcp.overlay.yaml"
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        import os

        os.mkfifo(path)
    else:
        path.write_bytes(b"#" * (4 * 1024 * 1024 + 1))

    for command in ("resolve", "validate"):
        ran = run(command)
        assert ran.code in {1, 2}
        assert "mcp.overlay.yaml" in ran.stderr
        assert "Traceback" not in ran.stderr


def test_an_index_that_is_an_object_gives_the_same_lock(unknown: Path, run: Run) -> None:
    (unknown / "mcp.overlay.yaml").write_text(KNOWN)
    run("resolve")
    before = (unknown / "agents.lock").read_bytes()
    (unknown / "mcp.index.json").write_text(json.dumps({"servers": INDEX}))

    assert run("resolve").code == 0
    assert (unknown / "agents.lock").read_bytes() == before
    assert "mcp.index.json:1:" in run("why", "files").stdout
