"""Which agent file governs the tools of a project: the one that was named, the one here, or that of the project."""

import json
from pathlib import Path

import pytest

from tests.cli.tool_project import ToolProject, tool_project
from tests.conftest import Run

LIST = ("tools", "list", "--trust")
SHOW = ("tools", "show", "tickets.create", "--trust")
CALL = ("tools", "call", "tickets.create", '{"title": "x"}', "--trust")
FORBID = "constraints:\n  actions:\n    forbid: [tickets.create]\n"
REQUIRE = "version: 1.0.0\nrequires: { mcp: [{ category: notes, permissions: [read] }] }\n"


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ToolProject:
    return tool_project(tmp_path, monkeypatch)


def write(tools: ToolProject, front: str, name: str = "agents.md") -> None:
    (tools.folder / name).write_text(f"---\nname: clerk\n{front}---\nYou keep tickets.\n")


def test_without_an_agent_file_nothing_is_forbidden(tools: ToolProject, run: Run) -> None:
    assert run(*CALL).code == 0


@pytest.mark.parametrize("path", ["agent.md", "elsewhere/agents.md", "agents.md"])
@pytest.mark.parametrize("command", [CALL, LIST, SHOW])
def test_an_agent_file_that_is_named_must_be_there(
    tools: ToolProject, run: Run, command: tuple[str, ...], path: str
) -> None:
    ran = run(*command, "-a", path)

    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr == f"error: `{path}` does not exist\nhint: check the path, or name another file with `--agents`\n"


def test_an_agent_file_that_leads_nowhere_is_no_missing_one(tools: ToolProject, run: Run) -> None:
    (tools.folder / "agents.md").symlink_to("nowhere.md")

    assert run(*CALL).code == 2


def test_what_an_agent_file_without_requirements_forbids_holds_without_a_lock(tools: ToolProject, run: Run) -> None:
    write(tools, FORBID)
    ran, listed = run(*CALL), run("tools", "list", "--trust", "--json")

    assert ran.code == 1
    assert ran.stderr.startswith("✗ FORBIDDEN_ACTION: ")
    assert [tool["id"] for tool in json.loads(listed.stdout)["tools"]] == ["tickets.close"]


def test_one_with_requirements_needs_its_lock(tools: ToolProject, run: Run) -> None:
    write(tools, REQUIRE)
    (tools.folder / "mcp.index.json").write_text("[]")
    ran = run(*CALL)

    assert ran.code == 1
    assert ran.stderr.startswith("error: `./agents.lock` is missing\n")


@pytest.mark.parametrize(
    ("front", "fault"),
    [
        (FORBID.replace("constraints", "constraint"), "constraint: Unknown key"),
        (FORBID.replace("forbid", "forbids"), "constraints.actions.forbids: Unknown key"),
        (FORBID.replace("[tickets.create]", "tickets.create"), "constraints.actions.forbid: Expected array"),
        (f"{FORBID}constraints: {{}}\n", "constraints: Duplicate key"),
        ("forbid: [tickets.create]\n", "forbid: Has no effect here"),
        ("constraints: {forbid: [tickets.create]}\n", "constraints.forbid: Has no effect here"),
        ("tols: [tickets.close]\n", "tols: Unknown key"),
        ("Tools: [tickets.close]\n", "Tools: Unknown key"),
        ("t\u043e\u043els: [tickets.close]\n", "t\u043e\u043els: Unknown key"),
        ("denied_tools: [tickets.create]\n", "denied_tools: Unknown key"),
    ],
)
def test_a_constraint_that_is_misspelt_is_refused(tools: ToolProject, run: Run, front: str, fault: str) -> None:
    write(tools, front)
    ran = run(*CALL)

    assert (ran.code, ran.stdout) == (1, "")
    assert f"  - {fault}" in ran.stderr
    assert "Required" not in ran.stderr


def test_in_a_folder_of_the_project_its_agent_file_holds(
    tools: ToolProject, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tools, FORBID)
    below = tools.folder / "docs" / "drafts"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)

    assert run(*CALL).stderr.startswith("✗ FORBIDDEN_ACTION: ")
    assert run(*CALL, "-a", "../../nothing.md").code == 2
    write(tools, "", "docs/drafts/agents.md")
    assert run(*CALL, "-a", "agents.md").code == 0  # Another one is here.


def test_a_fault_of_the_project_s_agent_file_is_told_with_its_path(
    tools: ToolProject, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tools, "constraint: {}\n")
    (tools.folder / "docs").mkdir()
    monkeypatch.chdir(tools.folder / "docs")

    assert "(../agents.md:3:1)" in run(*CALL).stderr


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--tools-of", "agnets.md"), 2, "`agnets.md` does not exist"),
        (("--tools-of", "./agents.md"), 2, "`agents.md` does not exist"),
        (("--lock", "other.lock"), 2, "`--lock` names the lock of an agent file"),
        (("--project", "nothing"), 2, "`nothing` is no folder"),
    ],
)
def test_a_server_is_not_started_without_the_agent_file_that_is_named(
    tools: ToolProject, run: Run, options: tuple[str, ...], code: int, words: str
) -> None:
    ran = run("serve", "--trust", *options)

    assert (ran.code, ran.stdout) == (code, "")
    assert words in ran.stderr
