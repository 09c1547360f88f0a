"""A project to begin with, or one proposed from what is in the folder."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import RAW, contents
from tests.conftest import Run

SECRET = "canary-value-of-a-variable"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which is the current one."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr("agent_resolver.connection.launch._PATIENCE_SECONDS", 0.4)
    project = tmp_path / "my project"
    project.mkdir()
    monkeypatch.chdir(project)
    return project


def configure(folder: Path, **servers: dict[str, Any]) -> None:
    """Write a `.mcp.json`."""
    (folder / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))


def raw(**more: Any) -> dict[str, Any]:
    """A server of a client."""
    return {"command": sys.executable, "args": ["-I", str(RAW)], **more}


def agent(folder: Path, name: str, text: str) -> None:
    """Write an agent file of a client."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def lines(report: dict[str, Any]) -> dict[str, str]:
    """What a proposal says, and how certain it is."""
    return {line["what"]: line["certainty"] for line in report["lines"]}


def test_an_empty_folder_gets_a_starter_that_resolves_at_once(folder: Path, run: Run) -> None:
    written = run("init")

    assert written.code == 0, str(written)
    assert sorted(contents(folder)) == ["agents.md", "mcp.index.json"]
    assert run("validate", "--strict").code == 0
    assert run("resolve", "--strict").code == 0
    assert run("verify").code == 0


@pytest.mark.parametrize("name", ["2024", "1.0", "null", "true", "-x", "@a", "ä: b", "#x"])
def test_a_starter_resolves_whatever_its_folder_is_called(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (folder / name).mkdir()
    monkeypatch.chdir(folder / name)

    assert run("init").code == 0
    assert run("resolve", "--strict").code == 0


def test_a_starter_guesses_nothing_about_data_and_trust(folder: Path, run: Run) -> None:
    assert run("init").code == 0

    (server,) = json.loads((folder / "mcp.index.json").read_text())
    assert {"data", "trust"} & server.keys() == set()
    assert "data:" not in (folder / "agents.md").read_text()


def test_what_is_there_is_named_and_never_overwritten(folder: Path, run: Run) -> None:
    assert run("init").code == 0
    before = contents(folder)

    again = run("init")

    assert (again.code, again.stdout) == (1, "")
    assert "`agents.md` and `mcp.index.json` are there already" in again.stderr
    assert contents(folder) == before


def test_a_folder_with_an_agent_file_alone_gets_no_starter(folder: Path, run: Run) -> None:
    (folder / "agents.md").write_text("mine")

    refused = run("init")

    assert (refused.code, "`agents.md` is there already" in refused.stderr) == (1, True)
    assert contents(folder) == {"agents.md": b"mine"}


def test_a_dry_run_shows_the_files_and_writes_none(folder: Path, run: Run) -> None:
    shown = run("init", "--dry-run")

    assert shown.code == 0
    assert '+name: "my-project"' in shown.stdout
    assert '+    "id": "example-notes",' in shown.stdout
    assert contents(folder) == {}


def test_a_configuration_becomes_an_index_and_no_scope_is_guessed(folder: Path, run: Run) -> None:
    configure(folder, one=raw(env={"TOKEN": SECRET}))

    proposed = run("init", "--json")

    report = json.loads(proposed.stdout)
    assert (proposed.code, report["kind"], report["unknown"]) == (0, "proposal", ["one"])
    assert lines(report)["server one"] == "stated"
    assert lines(report)["categories of one: one"] == "derived"
    assert lines(report)["requires one: not known yet"] == "stated"
    assert not (folder / "agents.md").exists()
    (entry,) = json.loads((folder / "mcp.index.json").read_text())
    assert entry["launch"]["env"] == ["TOKEN"]
    assert {"scopes", "data", "trust", "toolScopes"} & entry.keys() == set()
    assert SECRET not in proposed.stdout + proposed.stderr + (folder / "mcp.index.json").read_text()


def test_after_probing_the_agent_file_asks_for_what_agents_name(folder: Path, run: Run) -> None:
    configure(folder, one=raw(), two=raw())
    agent(
        folder,
        ".claude/agents/reader.md",
        "---\nname: reader\ntools: Read, mcp__one__echo, mcp__gone__x, search/codebase\n---\nUses mcp__two__echo.\n",
    )
    assert run("init").code == 0
    index = (folder / "mcp.index.json").read_bytes()
    assert run("index", "probe", "--all", "--trust").code == 0
    probed = (folder / "mcp.index.json").read_bytes()

    proposed = run("init", "--json")

    assert proposed.code == 0, str(proposed)
    assert index != probed == (folder / "mcp.index.json").read_bytes()
    certainty = lines(json.loads(proposed.stdout))
    assert certainty["requires one: delete:one, network:one"] == "derived"
    assert certainty["requires two: delete:two, network:two"] == "derived"
    assert certainty["server gone (x)"] == "stated"
    assert certainty["server search (codebase)"] == "guessed"
    assert run("resolve").code == 0


def test_servers_that_an_agent_file_configures_itself_are_proposed(folder: Path, run: Run) -> None:
    agent(
        folder,
        ".github/agents/x.agent.md",
        "---\nname: x\nmcp-servers:\n  tracker:\n    type: local\n    command: tracker\n    args: [serve]\n"
        f"    env: {{ KEY: {SECRET} }}\n---\n",
    )

    proposed = run("init", "--json")

    assert proposed.code == 0, str(proposed)
    (entry,) = json.loads((folder / "mcp.index.json").read_text())
    assert (entry["id"], entry["launch"]["args"], entry["launch"]["env"]) == ("tracker", ["serve"], ["KEY"])
    assert SECRET not in proposed.stdout


def test_a_hand_written_index_is_used_and_its_scopes_are_stated(folder: Path, run: Run) -> None:
    configure(folder, one=raw())
    server = {"id": "one", "endpoint": "https://one.example", "categories": ["one"], "scopes": ["read", "write"]}
    tools = {"toolScopes": {"get": ["read"], "put": ["write"]}}
    (folder / "mcp.index.json").write_text(json.dumps([{**server, **tools}]))
    agent(folder, "agents/x.md", "---\nname: x\ntools: [one/get]\n---\n")
    index = (folder / "mcp.index.json").read_bytes()

    proposed = run("init", "--json")

    assert proposed.code == 0, str(proposed)
    assert lines(json.loads(proposed.stdout))["requires one: read"] == "stated"
    assert (folder / "mcp.index.json").read_bytes() == index
    assert run("resolve").code == 0


def test_a_name_in_an_agent_file_adds_no_line_to_the_proposal(folder: Path, run: Run) -> None:
    configure(folder, one=raw())
    attack = '"one/x\\n    - category: stolen\\n      permissions: [all]"'
    agent(folder, ".claude/agents/x.md", f"---\nname: x\ntools: [{attack}]\n---\n")

    proposed = run("init")

    assert proposed.code == 0
    assert not any(line.lstrip().startswith("- category: stolen") for line in proposed.stdout.splitlines())


def test_a_planted_link_is_not_followed(folder: Path, tmp_path: Path, run: Run) -> None:
    (folder / "mcp.index.json").symlink_to(tmp_path / "outside")

    refused = run("init")

    assert refused.code != 0
    assert not (tmp_path / "outside").exists()


@pytest.mark.slow
def test_a_person_at_a_terminal_is_asked_before_a_proposal_is_written(folder: Path) -> None:
    configure(folder, one=raw())

    def answer(text: bytes, *options: str) -> int:
        ours, theirs = pty.openpty()
        program = [sys.executable, "-m", "agent_resolver", "init", *options]
        with subprocess.Popen(program, stdin=theirs, stdout=subprocess.DEVNULL, stderr=theirs) as started:
            os.close(theirs)
            os.write(ours, text)
            code = started.wait(30)
        os.close(ours)
        return code

    assert answer(b"n\n") == 0
    assert not (folder / "mcp.index.json").exists()
    assert answer(b"y\n") == 0
    assert (folder / "mcp.index.json").exists()


def test_broken_and_huge_agent_files_do_not_stop_the_proposal(folder: Path, run: Run) -> None:
    configure(folder, one=raw())
    agent(folder, ".claude/agents/broken.md", "---\nname: [\n---\n")
    agent(folder, ".claude/agents/prose.md", "no front matter")
    agent(folder, ".claude/agents/list.md", "---\nname: x\ntools: 3\nmcp-servers: [1, {a: 2}, [b]]\n---\n")
    (folder / ".claude/agents/bytes.md").write_bytes(b"---\nname: \xff\n---\n")

    proposed = run("init", "--json")

    assert proposed.code == 0, str(proposed)
    assert json.loads(proposed.stdout)["unknown"] == ["one"]
