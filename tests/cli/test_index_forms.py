"""Every command gives the same answer for each form of an index: JSON, compiled, and JSON with its cache."""

import json
import os
import re
from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, assume, given, settings

from agent_resolver import parse_index, resolve, servers_of
from agent_resolver.cli.app import build_parser
from agent_resolver.project import open_index as opening
from agent_resolver.project.index_cache_writer import write_cache
from agent_resolver.schema.agent_file import read_agent_file
from agent_resolver.schema.index_reader import read_index
from tests.conftest import Run
from tests.core.strategies import Case, narrow_cases, solvable_cases
from tests.core.test_scenarios import (
    AGENT,
    SCENARIOS,
    TO_RESOLVE,
    Scenario,
    filled,
    index_of,
    load,
    name,
)
from tests.index_files import index_bytes
from tests.strategies import agents, indexes

COMMANDS = (
    ("resolve", "--explain"),
    ("resolve", "--json", "--check"),
    ("resolve", "--locked", "--all"),
    ("verify", "--json"),
    ("tree", "--json"),
    ("discover", "--json"),
    ("why", "reporting", "--json"),
    ("why", "acme"),
    ("why", "nothing-of-the-kind"),
    ("report", "--json"),
    ("index", "coverage", "--json"),
    ("index", "list", "--json"),
    ("diff", "agents.lock", "agents.lock", "--json"),
)
USAGE = 2
WRITTEN = ("agents.lock", "agents.resolution.json", "agents.report.html")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder as the current one, with a cache of its own that small files have too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(opening, "LARGE", 0)
    return tmp_path


def project_of(path: Path, scenario: Scenario) -> tuple[bytes, bytes] | None:
    """The agent file and the index of a scenario; None if no index file states its servers."""
    if scenario.servers:
        return None
    index = (path.parent / scenario.index_path).read_bytes() if scenario.index_path else index_of(scenario.index)
    if scenario.agent_path:
        return (path.parent / scenario.agent_path).read_bytes(), index
    if isinstance(scenario.agent, str):
        return scenario.agent.encode(), index
    return f"---\n{json.dumps(filled(scenario.agent, AGENT), ensure_ascii=False)}\n---\n".encode(), index


def answers(run: Run, folder: Path, index: str) -> list[object]:
    """What every command says and writes with one form of the index."""
    for each in WRITTEN:
        (folder / each).unlink(missing_ok=True)
    found: list[object] = []
    for command in COMMANDS:
        option = ("--new-index", index, "--old-index", index) if command[0] == "diff" else ("--index", index)
        ran = run(*command, *option)
        found.append((command, ran.code, _plain(ran.stdout), _plain(ran.stderr)))
    files = [(folder / each).read_text(encoding="utf-8") for each in WRITTEN if (folder / each).exists()]
    return [*found, *map(_plain, files)]


def _plain(text: str) -> str:
    """A text without the name of the form: the page says how to make it again, and a listing what it reads."""
    return re.sub(r"mcp\.index\.(db|json)", "INDEX", text.replace(" --index mcp.index.db", ""))


def compare_forms(run: Run, folder: Path, files: tuple[bytes, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "agents.md").write_bytes(files[0])
    (folder / "mcp.index.json").write_bytes(files[1])
    monkeypatch.setenv("AGENT_INDEX_CACHE", "false")
    as_json = answers(run, folder, "mcp.index.json")
    built = run("index", "build", "mcp.index.json", "-o", "mcp.index.db")
    assert built.code == 0, built
    as_compiled = answers(run, folder, "mcp.index.db")
    assert write_cache("mcp.index.json", os.environ)
    monkeypatch.setenv("AGENT_INDEX_CACHE", "true")
    as_cached = answers(run, folder, "mcp.index.json")

    for one, two, three in zip(as_json, as_compiled, as_cached, strict=True):
        assert two == one
        assert three == one


@pytest.mark.parametrize("path", [pytest.param(path, id=name(path)) for path in TO_RESOLVE])
def test_every_scenario_has_one_answer_in_every_form(
    path: Path, folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = project_of(path, load(path, Scenario))
    if files is None:
        pytest.skip("states servers that no index file could")
    compare_forms(run, folder, files, monkeypatch)


def test_scenarios_are_found() -> None:
    assert SCENARIOS.is_dir()
    assert len(TO_RESOLVE) > 100


ANY = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.filter_too_much],
    max_examples=15,
    deadline=None,
)


@ANY
@given(agent=agents(), index=indexes())
def test_any_project_has_one_answer_in_every_form(
    agent: dict[str, Any], index: list[Any], folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = json.dumps(index, ensure_ascii=False, default=str).encode()
    text = f"---\n{json.dumps(agent, ensure_ascii=False, default=str)}\n---\n".encode()
    assume(read_index(raw).value is not None)
    compare_forms(run, folder, (text, raw), monkeypatch)


@ANY
@given(case=solvable_cases() | narrow_cases)
def test_any_project_that_resolves_has_one_lock_in_every_form(
    case: Case, folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those above hardly ever do."""
    written = json.dumps(msgspec.to_builtins(case.agent), ensure_ascii=False)
    text = f"---\n{written}\n---\n".encode()
    assume(read_agent_file(text).agent == case.agent)
    assume(resolve(case.agent, servers_of(parse_index(index_bytes(case.servers)))).success)
    compare_forms(run, folder, (text, index_bytes(case.servers)), monkeypatch)

    assert (folder / "agents.lock").exists()


OTHER_COMMANDS = (
    ("validate",),
    ("validate", "--json", "--strict"),
    ("discover",),
    ("verify",),
    ("verify", "--workspace", "--json"),
    ("resolve", "--workspace", "--check", "--json"),
    ("tree",),
    ("why", "absent", "--json"),
    ("index", "list"),
    ("index", "show", "acme-reporting", "--json"),
    ("index", "search", "reporting", "--json"),
    ("index", "coverage"),
    ("export", "--format", "cyclonedx"),
    ("export", "--format", "spdx"),
    ("catalog", "list", "--json"),
    ("catalog", "check"),
    ("catalog", "search", "agent", "--json"),
    ("catalog", "show", "my-analytics-agent", "--json"),
    ("catalog", "stats", "--json"),
    ("plan", "--all", "--json"),
    ("tools", "list", "--json"),
    ("doctor", "--json"),
)
"""Those that read an index and are not among the commands of the scenarios."""


@pytest.mark.parametrize("command", OTHER_COMMANDS, ids=" ".join)
def test_every_other_command_has_one_answer_in_every_form(
    project: Path, run: Run, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(project.parent / "cache"))
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    monkeypatch.setattr(opening, "LARGE", 0)
    monkeypatch.setenv("AGENT_INDEX_CACHE", "false")
    run("index", "build")
    assert run("resolve").code == 0
    run(*command)  # What is made by the first use, such as state, is there for each form.

    def answer(index: str) -> tuple[int, str, str]:
        ran = run(*command, "--index", index)
        # Each use of the state leaves records, whatever the index is.
        stdout = re.sub(r"\d+ audit records", "audit records", ran.stdout)
        return ran.code, _plain(stdout), _plain(ran.stderr)

    as_json, as_compiled = answer("mcp.index.json"), answer("mcp.index.db")
    assert write_cache("mcp.index.json", os.environ)
    monkeypatch.setenv("AGENT_INDEX_CACHE", "true")

    assert as_json[0] != USAGE, as_json
    assert as_compiled == as_json
    assert answer("mcp.index.json") == as_json


CHANGED = "`mcp.index.json` is not what `mcp.index.db` was built from"


@pytest.mark.parametrize("command", [*COMMANDS, *OTHER_COMMANDS], ids=" ".join)
def test_every_command_says_once_that_a_source_has_changed(project: Path, run: Run, command: tuple[str, ...]) -> None:
    run("index", "build")
    run("resolve")
    index = ("--new-index", "mcp.index.db") if command[0] == "diff" else ("--index", "mcp.index.db")
    assert CHANGED not in run(*command, *index).stderr
    with (project / "mcp.index.json").open("a") as file:
        file.write("\n")
    ran = run(*command, *index)
    # Validation reports what it finds where it reports everything else.
    said = ran.stdout + ran.stderr if command[0] == "validate" else ran.stderr

    assert said.count("was built from") == 1, ran


def test_no_command_that_takes_an_index_is_left_out() -> None:
    """A new command that reads an index has to be compared too, or be one that works on the JSON."""
    compared = {command[:2] if command[0] in GROUPS else command[:1] for command in (*COMMANDS, *OTHER_COMMANDS)}

    assert set(taking_an_index()) - compared == WORKS_ON_JSON | SAME_SESSION | SERVED


GROUPS = {"index", "catalog", "tools", "runs", "task", "eval", "blueprint", "worker"}
WORKS_ON_JSON = {("index", "probe"), ("index", "sync"), ("tools", "accept")}
SAME_SESSION = {
    *(("blueprint", name) for name in ("check", "run", "show")),
    ("catalog", "lint"),
    *(("runs", name) for name in ("replay", "resume")),
    *(("task", name) for name in ("resume", "run", "start")),
    *(("tools", name) for name in ("call", "show")),
    ("run",),
    ("worker",),
}
"""They open the index as `tools list`, `plan` and `catalog list` do, and nothing else looks at it."""
SERVED = {("serve",)}
"""See `tests/server/test_stdio.py`."""


def taking_an_index() -> Iterator[tuple[str, ...]]:
    """The commands that have the option `--index`."""

    def walk(parser: ArgumentParser, words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        for action in parser._actions:
            if "--index" in action.option_strings:
                yield words
            if isinstance(action, _SubParsersAction):
                for name, child in action.choices.items():
                    yield from walk(child, (*words, name))

    return walk(build_parser(), ())


OVERLAID = b"""\
servers:
  "acme*":
    trust: {signed: true}
    data: {residency: [eu-only], maxSensitivity: pii.high}
  beta-reporting:
    categories: [reporting, extra]
aliases:
  reports: [reporting]
"""


def test_an_overlay_is_part_of_every_form(project: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(project / "cache"))
    monkeypatch.setattr(opening, "LARGE", 0)
    (project / "mcp.overlay.yaml").write_bytes(OVERLAID)

    files = ((project / "agents.md").read_bytes(), (project / "mcp.index.json").read_bytes())
    compare_forms(run, project, files, monkeypatch)
    shown = run("index", "show", "acme-reporting", "--index", "mcp.index.db").stdout

    assert "mcp.overlay.yaml:" in shown
