"""What `agent export` writes, as Claude Code and Codex read it; neither can reach anything but loopback."""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import ROOT, processes
from tests.integration.loopback_model import LoopbackModel, loopback_model
from tests.integration.test_capability import agent
from tests.integration.test_coding_agent import claude_code, codex, offered_to_claude, offered_to_codex, program, ran
from tests.process import eventually

OPEN = ["list_notes", "read_note", "write_note"]
SERVED = {"get_agent", "list_agents", "resolve_agent", "search_agents", *(f"notes__{tool}" for tool in OPEN)}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """The notes, locked and trusted; another server with a token is only called."""
    ignored = shutil.ignore_patterns(".*", "__pycache__", "*.lock")
    project = shutil.copytree(ROOT / "examples" / "governed-agent", tmp_path / "project", ignore=ignored)
    index = json.loads((project / "mcp.index.json").read_text())
    index[0]["launch"] |= {"command": sys.executable, "env": ["NOTES_TOKEN"]}
    (project / "mcp.index.json").write_text(json.dumps(index))
    home = {"HOME": str(tmp_path / "home"), "XDG_CONFIG_HOME": str(tmp_path / "home" / ".config")}
    assert agent(project, "resolve").returncode == 0
    assert agent(project, "trust-folder", **home).returncode == 0
    yield project
    assert eventually(lambda: not processes(tmp_path)), "a process outlived its test"


def exported(folder: Path, *options: str) -> None:
    done = agent(folder, "export", "--client", *options)
    assert done.returncode == 0, done.stderr
    assert agent(folder, "verify", "--clients").returncode == 0


def with_all_open(folder: Path) -> None:
    """Lock a server of which every tool is open, and one that is called."""
    index = json.loads((folder / "mcp.index.json").read_text())
    index[0] |= {"toolScopes": {"list_notes": ["read:notes"]}, "tools": {"list_notes": "sha256-1"}}
    far = {**index[0], "id": "far", "categories": ["far"], "endpoint": "http://127.0.0.1:9/mcp"}
    del far["launch"]
    (folder / "mcp.index.json").write_text(json.dumps([*index, far]))
    text = (folder / "agents.md").read_text()
    more = "  mcp:\n    - { category: far, permissions: [read:notes] }\n"
    (folder / "agents.md").write_text(text.replace("  mcp:\n", more))
    (folder / "agent.toml").write_text('[servers.far]\ntoken_env = "FAR_TOKEN"\n')
    assert agent(folder, "resolve").returncode == 0


def claude(folder: Path, model: LoopbackModel, *line: str, **variables: str) -> str:
    quiet = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    return ran([program("@anthropic-ai/claude-code-*/claude"), *line], folder, model, **quiet, **variables)


def codex_mcp(folder: Path, model: LoopbackModel, *line: str) -> Any:
    """What Codex reads from the project, which its user trusts."""
    home = folder.parent / "home" / ".codex"
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.toml").write_text(f'[projects."{folder}"]\ntrust_level = "trusted"\n')
    return json.loads(ran([program("@openai/codex-*/vendor/*/bin/codex"), "mcp", *line, "--json"], folder, model))


def test_claude_code_reads_the_entry_that_serves_the_agent(folder: Path) -> None:
    exported(folder, "claude-code")
    entry = json.loads((folder / ".mcp.json").read_text())["mcpServers"]["agent-resolver"]

    with loopback_model() as model:
        listed = claude(folder, model, "mcp", "list", NOTES_TOKEN="canary")
        shown = claude(folder, model, "mcp", "get", "agent-resolver", NOTES_TOKEN="canary")

    assert "agent-resolver: " in listed
    assert "Project config" in shown
    assert f"Command: {entry['command']}" in shown
    assert f"Args: {' '.join(entry['args'])}" in shown


def test_claude_code_reads_the_locked_servers(folder: Path) -> None:
    with_all_open(folder)
    exported(folder, "claude-code", "--direct")

    with loopback_model() as model:
        started = claude(folder, model, "mcp", "get", "notes", NOTES_TOKEN="canary", FAR_TOKEN="canary")
        called = claude(folder, model, "mcp", "get", "far", NOTES_TOKEN="canary", FAR_TOKEN="canary")

    assert f"Command: {sys.executable}" in started
    assert "Type: http" in called
    assert "URL: http://127.0.0.1:9/mcp" in called


def test_claude_code_calls_tools_through_the_exported_entry(folder: Path) -> None:
    exported(folder, "claude-code")
    settings = (folder / ".mcp.json").read_text().replace("${NOTES_TOKEN}", "canary")

    with loopback_model(("notes__read_note", {"name": "welcome"})) as model:
        said = claude_code("Call the tool", settings, folder, model)

    assert "Done" in said
    assert [offered_to_claude(body) for body in model.requests] == [SERVED] * 2
    assert "The lock governs the run." in json.dumps(model.requests[-1])


def test_codex_reads_the_entry_that_serves_the_agent(folder: Path) -> None:
    exported(folder, "codex")

    with loopback_model() as model:
        [listed] = codex_mcp(folder, model, "list")

    assert listed["name"] == "agent-resolver"
    assert listed["transport"]["env_vars"] == ["NOTES_TOKEN"]
    assert str(folder / "agents.md") in listed["transport"]["args"]


def test_codex_reads_the_locked_servers_and_the_open_tools(folder: Path) -> None:
    with_all_open(folder)
    exported(folder, "codex", "--direct")

    with loopback_model() as model:
        listed = {server["name"]: server for server in codex_mcp(folder, model, "list")}
        shown = codex_mcp(folder, model, "get", "notes")

    assert sorted(listed) == ["far", "notes"]
    assert listed["far"]["transport"]["bearer_token_env_var"] == "FAR_TOKEN"
    assert shown["enabled_tools"] == ["list_notes"]


def test_codex_calls_tools_through_the_exported_entry(folder: Path) -> None:
    exported(folder, "codex")
    settings = (folder / ".codex" / "config.toml").read_text() + 'env = { NOTES_TOKEN = "canary" }\n'
    (folder / ".codex" / "config.toml").unlink()

    with loopback_model(("notes__read_note", {"name": "welcome"})) as model:
        said = codex("Call the tool", settings, folder, model)

    assert "Done" in said
    assert [offered_to_codex(body) for body in model.requests] == [SERVED] * 2


def test_codex_offers_the_open_tools_of_a_direct_server_alone(folder: Path) -> None:
    exported(folder, "codex", "--direct")
    home = folder.parent / "home" / ".codex"
    home.mkdir(parents=True, exist_ok=True)
    line = [program("@openai/codex-*/vendor/*/bin/codex"), "exec", "--skip-git-repo-check"]
    line += ["-c", "model_provider=loopback", "-c", "model=gpt-5", "-c", "approval_policy=never"]
    line += ["-c", "mcp_servers.notes.required=true", "Say something"]

    with loopback_model() as model:
        provider = f'name = "loopback"\nbase_url = "{model.url}/v1"\nwire_api = "responses"\n'
        trusted = f'[projects."{folder}"]\ntrust_level = "trusted"\n'
        text = f"check_for_update_on_startup = false\n{trusted}[model_providers.loopback]\n{provider}"
        (home / "config.toml").write_text(text)
        said = ran(line, folder, model, NOTES_TOKEN="canary")

    assert "Done" in said
    [space] = [tool for tool in model.requests[0]["tools"] if "notes" in tool.get("name", "")]
    assert sorted(tool["name"] for tool in space["tools"]) == OPEN
