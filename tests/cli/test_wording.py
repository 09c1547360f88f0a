"""The words around numbers, and texts that are too long for their line."""

import json
from pathlib import Path

import pytest

from tests.cli.tool_project import CLOSE, CREATE, HEAD, ToolProject, tool_project
from tests.conftest import Run

AGENT = "---\nname: {name}\ndescription: {description}\n---\n"
LONG = "Reviews the code of a change for faults, and names the file and the line of each of the faults that it finds."


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ToolProject:
    return tool_project(tmp_path, monkeypatch)


def write_agents(folder: Path, count: int, description: str = "Reviews code.") -> None:
    (folder / "agents").mkdir()
    for number in range(count):
        text = AGENT.format(name=f"agent-{number}", description=description)
        (folder / "agents" / f"agent-{number}.md").write_text(text, encoding="utf-8")


@pytest.mark.parametrize(("count", "shown"), [(0, "0 agents"), (1, "1 agent"), (2, "2 agents")])
def test_a_catalog_counts_its_agents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run, count: int, shown: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_agents(tmp_path, count)

    assert run("catalog", "list").stdout.splitlines()[-1] == shown
    assert run("catalog", "check").stdout.splitlines()[-1] == f"{shown} served, 0 files refused, 0 warnings"
    assert run("catalog", "stats").stdout.startswith(f"{shown}, ")


@pytest.mark.parametrize(
    ("source", "shown"),
    [(HEAD + CREATE, "1 open tool"), (HEAD + CREATE + CLOSE, "2 open tools")],
)
def test_a_listing_counts_its_tools(tools: ToolProject, run: Run, source: str, shown: str) -> None:
    tools.offer(source)

    assert run("tools", "list", "--trust").stdout.splitlines()[0] == shown


@pytest.mark.parametrize(
    ("count", "shown"),
    [(1, "Total: 1 server in 1 category"), (2, "Total: 2 servers in 2 categories")],
)
def test_an_index_counts_its_servers_and_categories(project: Path, run: Run, count: int, shown: str) -> None:
    index = json.loads((project / "mcp.index.json").read_bytes())
    (project / "mcp.index.json").write_text(json.dumps(index[:count]))

    assert run("discover").stdout.splitlines()[-1] == shown


@pytest.mark.parametrize(
    ("others", "shown"),
    [(1, "1 other server does not offer reporting"), (2, "2 other servers do not offer reporting")],
)
def test_the_verb_fits_the_number_of_servers(project: Path, run: Run, others: int, shown: str) -> None:
    analytics, reporting = json.loads((project / "mcp.index.json").read_bytes())
    many = [{**analytics, "version": f"{number}.0.0"} for number in range(others)]
    (project / "mcp.index.json").write_text(json.dumps([*many, reporting]))

    assert run("why", "reporting").stdout.splitlines()[-1] == shown


def test_the_words_of_the_specification_stay(project: Path, run: Run) -> None:
    assert "  Requirements: 2 MCP category/categories\n" in run("resolve").stdout


def test_a_long_description_ends_behind_a_word(tools: ToolProject, run: Run) -> None:
    tools.offer(HEAD + CREATE.replace("Open a ticket.", LONG))
    write_agents(tools.folder, 1, LONG)
    cut = "Reviews the code of a change for faults, and names the file and the line of each of the faults that…"

    listed = run("tools", "list", "--trust").stdout.splitlines()
    agents = run("catalog", "list").stdout.splitlines()

    assert listed[1] == f"  tickets.create: {cut}"
    assert agents[1] == f"  {cut}"
