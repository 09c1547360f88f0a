"""`agent tools diff`: what changed between two manifests, and whether it breaks somebody."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import script
from tests.cli.tool_project import CREATE, HEAD, SOURCE, ToolProject, tool_project
from tests.conftest import Run

WIDER = SOURCE.replace("max_length=80", "max_length=90").replace('"write:tickets"', "")


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> ToolProject:
    made = tool_project(tmp_path, monkeypatch)
    for name, source in (("wider", WIDER), ("fewer", HEAD + CREATE), ("old", SOURCE)):
        made.offer(source)
        assert run("tools", "manifest", "--trust", "--out", f"{name}/tools.manifest.json").code == 0
    return made


def test_the_same_manifest_has_no_changes(tools: ToolProject, run: Run) -> None:
    ran = run("tools", "diff", "old", "old/tools.manifest.json")

    assert (ran.code, ran.stderr) == (0, "")
    assert ran.stdout == "old/tools.manifest.json → old/tools.manifest.json\nNothing changed\n"


def test_compatible_changes_are_told_and_exit_with_0(tools: ToolProject, run: Run) -> None:
    ran = run("tools", "diff", "old", "wider")

    assert ran.code == 0
    assert ran.stdout == (
        "old/tools.manifest.json → wider/tools.manifest.json\n"
        "  ✓ compatible  tickets.close: input-changed $.title maxLength 80 → 90\n"
        "                all that was taken is taken, and more\n"
        "  ✓ compatible  tickets.create: scopes-removed - write:tickets\n"
        "                callers need less than before\n"
        "  ✓ compatible  tickets.create: input-changed $.title maxLength 80 → 90\n"
        "                all that was taken is taken, and more\n"
        "Nothing that changed breaks callers or readers\n"
    )


def test_breaking_changes_come_first_and_exit_with_1(tools: ToolProject, run: Run) -> None:
    ran, as_json = run("tools", "diff", "wider", "fewer"), run("tools", "diff", "wider", "fewer", "--json")

    assert ran.code == as_json.code == 1
    assert ran.stdout.splitlines()[-1] == "3 of 3 changes break callers or readers"
    document = json.loads(as_json.stdout)
    assert (document["success"], document["old"]) == (False, "wider/tools.manifest.json")
    assert document["changes"][1] == {
        "tool": "tickets.create",
        "kind": "scopes-added",
        "isBreaking": True,
        "path": "",
        "keyword": "",
        "before": None,
        "after": "write:tickets",
        "why": "callers without the scope are refused",
    }


def test_without_a_new_manifest_the_code_is_compared(tools: ToolProject, run: Run) -> None:
    same, changed = run("tools", "diff", "old", "--trust"), run("tools", "diff", "fewer", "--trust", "--json")

    assert (same.code, same.stdout.splitlines()) == (0, ["old/tools.manifest.json → the code", "Nothing changed"])
    document = json.loads(changed.stdout)
    assert (changed.code, document["new"]) == (0, "the code")
    assert [change["kind"] for change in document["changes"]] == ["tool-added", "code-changed"]


@pytest.mark.parametrize(
    ("declared", "change"),
    [
        ("isolated=False", "✗ breaking    tickets.close: isolation-lost"),
        ("read_only=True", "✗ breaking    tickets.close: read-only-gained"),
        ("timeout_seconds=5", "✗ breaking    tickets.close: timeout-lowered 60.0 → 5.0"),
        ("timeout_seconds=90", "✓ compatible  tickets.close: timeout-raised 60.0 → 90.0"),
        ("rate_limit_per_minute=5", "✗ breaking    tickets.close: rate-limit-lowered + 5.0"),
        ('priority="P1"', "✗ breaking    tickets.close: priority-raised P4 → P1"),
        ('approver_role="lead"', "✗ breaking    tickets.close: approver-changed approver → lead"),
    ],
)
def test_what_decides_over_calls_is_compared(tools: ToolProject, run: Run, declared: str, change: str) -> None:
    tools.offer(SOURCE.replace('"RESTRICTED", ', f'"RESTRICTED", {declared}, '))
    ran = run("tools", "diff", "old", "--trust")

    other = "✓ compatible  tickets.create: code-changed"
    assert [line.strip() for line in ran.stdout.splitlines()[1:-2:2]] == [change, other]


def test_a_manifest_that_is_missing_is_a_usage_error(tools: ToolProject, run: Run) -> None:
    ran = run("tools", "diff", "nowhere.json", "old")

    assert (ran.code, ran.stderr) == (2, "error: `nowhere.json` does not exist\nhint: check the path\n")


def test_a_file_that_is_no_manifest_is_refused_with_every_fault(tools: ToolProject, run: Run) -> None:
    Path("bad.json").write_text('{"version": "1"}', encoding="utf-8")
    ran = run("tools", "diff", "old", "bad.json")

    assert ran.code == 1
    assert ran.stderr.splitlines() == [
        "✗ bad.json validation failed:",
        "  - generated_at: Required (bad.json:1:1)",
        "  - digest: Required (bad.json:1:1)",
        "  - tools: Required (bad.json:1:1)",
    ]


def test_two_files_are_compared_without_any_extra(tools: ToolProject) -> None:
    text = (
        "import sys; from agent_resolver.cli import main; code = main();"
        "heavy = {'agent_resolver.registry', 'asyncio', 'jsonschema_rs', 'mcp', 'pydantic', 'sqlite3'};"
        "print(sorted(heavy & sys.modules.keys())); sys.exit(code)"
    )
    ran = script(text, "tools", "diff", "old", "wider")

    assert (ran.returncode, ran.stdout.splitlines()[-1]) == (0, "[]")
