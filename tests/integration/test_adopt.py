"""The goal of `agent adopt`: from a `.mcp.json` of three servers from npm to the first governed call."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.integration.conftest import Project

MOST_COMMANDS = 4
MOST_SECONDS = 120
SERVERS = ("server-everything", "server-filesystem", "server-memory")


class CountedCommands:
    """Runs commands in a project, and counts them."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.count = 0

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run one command, which must succeed."""
        self.count += 1
        ran = self.project.agent(*command)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran


def configure(project: Project, node: str, servers: Path) -> Path:
    """Write what a person has who uses three servers from npm with a client; the folder has nothing else."""
    data = project.folder / "data"
    data.mkdir()
    (data / "welcome.txt").write_text("The lock governs the run.")
    arguments = {"server-filesystem": [str(data)]}
    entries = {
        name.removeprefix("server-"): {
            "command": node,
            "args": [str(servers / name / "dist" / "index.js"), *arguments.get(name, [])],
        }
        for name in SERVERS
    }
    config = project.folder / ".mcp.json"
    config.write_text(json.dumps({"mcpServers": entries}, indent=2))
    return config


def test_three_servers_of_a_client_are_governed_in_four_commands(
    project: Project, node: str, servers: Path, stopwatch: Callable[[], float]
) -> None:
    config = configure(project, node, servers)
    welcome = project.folder / "data" / "welcome.txt"
    agent = CountedCommands(project)

    # Nothing is written by hand from here to the first governed call.
    agent.run("adopt", "--trust", "--allow", "read:*", "--allow", "network:*")
    agent.run("trust-folder")
    read = agent.run("tools", "call", "filesystem.read_text_file", json.dumps({"path": str(welcome)}))
    seconds = stopwatch()

    print(f"from .mcp.json to the first governed call: {agent.count} commands, {seconds:.1f} s")  # noqa: T201 - the figure is the point
    assert json.loads(read.stdout) == {"content": "The lock governs the run."}
    assert agent.count <= MOST_COMMANDS
    assert seconds < MOST_SECONDS

    written = {"path": str(project.folder / "data" / "new.txt"), "content": "written"}
    refused = project.agent("tools", "call", "filesystem.write_file", json.dumps(written))
    assert refused.returncode == 1
    assert "SCOPE_NOT_LOCKED" in refused.stderr
    assert not (project.folder / "data" / "new.txt").exists()
    records = json.loads(project.agent("audit", "show", "--json").stdout)
    called = [record for record in records if "filesystem.read_text_file" in json.dumps(record)]
    assert called
    assert project.agent("audit", "verify").returncode == 0
    assert project.agent("verify").returncode == 0

    governed = json.loads(config.read_text())["mcpServers"]
    assert list(governed) == ["agent-resolver"]
    before = config.read_bytes()
    assert project.agent("adopt", "--trust").returncode == 0
    assert config.read_bytes() == before


def test_the_servers_keep_all_their_tools_unless_scopes_are_named(project: Project, node: str, servers: Path) -> None:
    configure(project, node, servers)

    adopted = project.agent("adopt", "--trust", "--json")

    assert adopted.returncode == 0, adopted.stdout + adopted.stderr
    assert [item["server"] for item in json.loads(adopted.stdout)["requirements"]] == [
        "everything",
        "filesystem",
        "memory",
    ]
    listing = project.listing()
    assert len({tool["id"].partition(".")[0] for tool in listing["tools"]}) == len(SERVERS)
    assert listing["refused"] == []
