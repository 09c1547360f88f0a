"""`@modelcontextprotocol/server-everything` from npm, started by its launch record."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_resolver.storage import children_of
from tests.integration.conftest import Project, entry, processes, raw
from tests.process import eventually

TOOLS = {
    name: ["use"]
    for name in (
        "echo",
        "get-sum",
        "get-env",
        "get-structured-content",
        "get-tiny-image",
        "trigger-long-running-operation",
    )
}


@pytest.fixture
def everything(node: str, servers: Path, tmp_path: Path) -> dict[str, object]:
    """Its entry in an index; the folder in its arguments is only there to be seen in the list of processes."""
    script = servers / "server-everything" / "dist" / "index.js"
    return entry("everything", TOOLS, launch={"command": node, "args": [str(script), "stdio", str(tmp_path)]})


def test_tools_of_many_kinds_answer(project: Project, everything: dict[str, object]) -> None:
    project.write(everything)

    assert [tool["id"] for tool in project.listing()["tools"]] == sorted(f"everything.{name}" for name in TOOLS)
    assert project.outcome("everything.echo", message="grüße")["result"] == [{"type": "text", "text": "Echo: grüße"}]
    weather = project.outcome("everything.get-structured-content", location="New York")["result"]
    assert set(weather) == {"temperature", "conditions", "humidity"}
    image = project.outcome("everything.get-tiny-image")["result"]
    assert "image/png" in [block.get("mimeType") for block in image]
    assert project.outcome("everything.get-sum", a=1)["code"] == "INPUT_VALIDATION_FAILED"


def test_only_declared_names_reach_its_environment(project: Project, everything: dict[str, object]) -> None:
    project.write(everything)
    project.environment["CANARY"] = "canary-in-the-environment"

    ran = project.call("everything.get-env")

    assert ran.returncode == 0
    assert "canary" not in ran.stdout
    assert set(json.loads(json.loads(ran.stdout)[0]["text"])) <= {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"}


def test_a_call_that_takes_too_long_is_given_up(
    project: Project, everything: dict[str, object], stopwatch: Callable[[], float]
) -> None:
    project.write(everything)

    outcome = project.outcome("everything.trigger-long-running-operation", "--timeout", "5", duration=600, steps=2)

    assert outcome["code"] == "TIMEOUT"
    assert stopwatch() < 30


def test_a_server_that_is_killed_in_a_call_is_told(project: Project, everything: dict[str, object]) -> None:
    project.write(everything)
    arguments = '{"duration": 600, "steps": 2}'
    command = project.start("tools", "call", "--trust", "everything.trigger-long-running-operation", arguments)
    assert eventually(lambda: "call.started" in project.agent("audit", "show").stdout, 30)

    # A supervisor stands between the command and the server.
    (supervisor,) = [pid for pid in processes(project.folder.parent) if children_of(pid)]
    (server,) = children_of(supervisor)
    os.kill(server, signal.SIGKILL)
    stdout, stderr = command.communicate(timeout=30)

    assert (command.returncode, stdout) == (1, "")
    assert stderr.startswith("✗ SERVER_UNAVAILABLE: everything closed the connection\n")
    assert '"code":"SERVER_UNAVAILABLE"' in project.agent("audit", "show", "--last", "1").stdout
    assert project.agent("audit", "verify").returncode == 0


def test_a_server_that_hangs_does_not_keep_the_other(
    project: Project, everything: dict[str, object], stopwatch: Callable[[], float]
) -> None:
    project.write(everything, raw("slow", "hang"))

    ran = project.agent("tools", "list", "--trust", "--timeout", "5")

    assert ran.returncode == 1
    assert ran.stdout.splitlines()[1] == "  everything.echo [use]: Echoes back the input string"
    assert "✗ slow@1.0.0: slow did not answer in time\n" in ran.stderr
    assert stopwatch() < 40
