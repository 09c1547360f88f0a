"""Many findings of one kind, many rejections, many failing requirements: few lines, and work that grows with them."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import edit
from tests.conftest import Run


def many_faults(project: Path, count: int) -> None:
    index = json.loads((project / "mcp.index.json").read_bytes())
    faulty = [{**index[0], "id": f"s{number}", "endpoint": 1, "version": "v"} for number in range(count)]
    faulty[1] = {key: value for key, value in faulty[1].items() if key != "categories"}
    (project / "mcp.index.json").write_text(json.dumps(faulty, indent=2))


@pytest.mark.parametrize("command", ["validate", "resolve", "discover", "why x"])
def test_many_like_faults_are_counted(project: Path, run: Run, command: str) -> None:
    many_faults(project, 350)

    ran = run(*command.split())

    assert ran.code == 1
    assert [line.partition(" (")[0] for line in ran.stderr.splitlines() if "endpoint" in line] == [
        *(f"  - {number}.endpoint: Expected string, received number" for number in range(3)),
        "  … and 347 more of `invalid-type`, at `*.endpoint`: `agent validate --all` shows each",
    ]
    assert "  - 0.endpoint: Expected string, received number (mcp.index.json:5:5)\n" in ran.stderr
    assert "  - 1.categories: Required (mcp.index.json:" in ran.stderr


def test_all_shows_every_fault_and_json_always_does(project: Path, run: Run) -> None:
    many_faults(project, 350)

    every = run("validate", "--all")
    document = json.loads(run("validate", "--json").stdout)

    assert every.stderr.count("Expected string, received number") == 350
    assert "more of" not in every.stderr
    assert len(document["files"][1]["issues"]) == 351
    for form in ("sarif", "github"):
        assert run("validate", "--format", form).stdout.count("Expected string, received number") == 350


def test_ten_like_faults_are_all_shown(project: Path, run: Run) -> None:
    many_faults(project, 10)

    ran = run("validate")

    assert ran.stderr.count("Expected string, received number") == 10
    assert "more of" not in ran.stderr


def test_many_like_warnings_and_hints_are_counted(project: Path, run: Run) -> None:
    index = json.loads((project / "mcp.index.json").read_bytes())
    odd = [{**index[0], "id": f"s{number}", "version": "v", f"key{number}": 1} for number in range(12)]
    (project / "mcp.index.json").write_text(json.dumps(odd))
    keys = "".join(f"other{number}: 1\n" for number in range(12))
    edit(project / "agents.md", "version: 1.0.0\n", f"version: 1.0.0\n{keys}")

    validated = run("validate")
    discovered = run("resolve", "--dry-run")

    lines = [line for line in validated.stderr.splitlines() if line.startswith("…")]
    assert lines == [
        "… and 9 more of `unknown-key`, at `other3`, `other4`, `other5`, …: `agent validate --all` shows each",
        "… and 9 more of `version-not-semantic`, at `*.version`: `agent validate --all` shows each",
        "… and 9 more of `unknown-key`, at `*.key3`, `*.key4`, `*.key5`, …: `agent validate --all` shows each",
    ]
    assert discovered.stderr.count("warning: ") == 3
    assert lines[0] in discovered.stderr


def ask_for_many(project: Path, count: int, category: str = "c{}") -> None:
    needs = "".join(f"    - {{category: {category.format(number)}, permissions: [read]}}\n" for number in range(count))
    (project / "agents.md").write_text(f"---\nname: a\nversion: 1.0.0\nrequires:\n  mcp:\n{needs}---\n")


def test_of_many_failed_requirements_the_first_are_shown(project: Path, run: Run) -> None:
    ask_for_many(project, 30)

    ran = run("resolve")

    assert ran.stderr.count("Rejected candidates for") == 20
    assert "… and 10 more requirements that no server can serve: `--all` shows each\n" in ran.stderr
    assert ran.stderr.startswith("Resolution failed: no candidates for categories: c0, c1, c10, ")
    assert ran.stderr.splitlines()[0].count(",") == 29
    assert run("resolve", "--all").stderr.count("Rejected candidates for") == 30
    assert len(json.loads(run("resolve", "--json").stdout)["failed"]) == 30
    assert run("resolve", "--workspace", "--all").stderr.count("Rejected candidates for") == 30


def count_calls(work: Callable[[], object]) -> int:
    """The number of calls that some work takes, in Python and in C: unlike seconds, the same each time."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("category", ["c{}", "c"])
@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ["resolve"],
        ["resolve", "--all"],
        ["resolve", "--json"],
        ["resolve", "--workspace"],
        ["why", "c"],
        ["why", "acme-reporting"],
        ["report"],
        ["validate"],
    ],
    ids=" ".join,
)
def test_twice_as_many_failing_requirements_take_twice_the_work(
    project: Path, run: Run, command: list[str], category: str
) -> None:
    [_, server] = json.loads((project / "mcp.index.json").read_bytes())
    servers = [{**server, "version": f"{number}.0.0", "categories": [f"c{number}"]} for number in range(100)]
    (project / "mcp.index.json").write_text(json.dumps(servers))
    taken = []
    for size in (100, 200, 400):
        ask_for_many(project, size, category)
        run(*command)
        taken.append(count_calls(lambda: run(*command)))

    assert taken[2] - taken[1] < 2.2 * (taken[1] - taken[0]) + 2_000
