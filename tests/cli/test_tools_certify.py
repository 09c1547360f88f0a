"""`agent tools certify`: every check with its result, a report, and an exit code."""

import json
from pathlib import Path

import pytest

from agent_resolver.capability import Check
from agent_resolver.cli.tools.certify import _print_check
from tests.cli.tool_project import CREATE, HEAD, SOURCE, ToolProject, tool_project
from tests.conftest import Run

COMMAND = ("tools", "certify", "--trust")


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ToolProject:
    return tool_project(tmp_path, monkeypatch)


def test_tools_that_are_fit_are_certified(tools: ToolProject, run: Run) -> None:
    ran = run(*COMMAND)

    assert (ran.code, ran.stderr) == (0, "")
    assert ran.stdout == (
        "✓ unique-ids: 2 tools\n"
        "✓ schemas-parse: 2 tools\n"
        "✓ fields-described: 2 tools\n"
        "✓ examples-validate: 2 tools\n"
        "✓ examples-round-trip: 2 tools\n"
        "- drift: no manifest is committed\n"
        "Certified: 2 tools\n"
    )


def test_the_report_is_the_same_bytes_each_time(tools: ToolProject, run: Run) -> None:
    run("tools", "manifest", "--trust", "--out", "tools.manifest.json")
    first = run(*COMMAND, "--out", "build/report.json")
    content = Path("build/report.json").read_text(encoding="utf-8")
    tools.offer()
    second = run(*COMMAND, "--out", "build/report.json", "--json")

    assert first.code == second.code == 0
    assert content == Path("build/report.json").read_text(encoding="utf-8") == second.stdout
    report = json.loads(content)
    assert (report["success"], report["tools"]) == (True, 2)
    assert report["digest"] == json.loads(tools.manifest.read_text(encoding="utf-8"))["digest"]
    assert {check["status"] for check in report["checks"]} == {"passed"}


def test_drift_from_the_committed_manifest_fails(tools: ToolProject, run: Run) -> None:
    run("tools", "manifest", "--trust", "--out", "tools.manifest.json")
    tools.offer(HEAD + CREATE.replace("write:tickets", "admin"))
    ran = run(*COMMAND, "--out", "report.json")

    assert ran.code == 1
    assert ran.stdout.splitlines()[-1] == "Not certified: 1 tool"
    assert ran.stderr == (
        "✗ drift: 3 findings\n"
        "  - tickets.close: tool-removed (breaking: callers find no such tool)\n"
        "  - tickets.create: scopes-added + admin (breaking: callers without the scope are refused)\n"
        "  - tickets.create: scopes-removed - write:tickets (compatible: callers need less than before)\n"
    )
    assert not json.loads(Path("report.json").read_text(encoding="utf-8"))["success"]


def test_two_tools_with_one_id_fail(tools: ToolProject, run: Run) -> None:
    tools.offer(SOURCE, HEAD + CREATE)
    ran = run(*COMMAND)

    assert ran.code == 1
    assert ran.stderr.startswith("✗ unique-ids: 1 finding\n  - tickets.create: registered by module tools_of_test_")


def test_a_function_that_cannot_be_a_tool_fails_with_every_reason(tools: ToolProject, run: Run) -> None:
    tools.offer(SOURCE.replace('description="In a few words", examples=["Broken"], ', ""))
    ran = run(*COMMAND, "--out", "report.json", "--json")

    assert ran.code == 1
    assert ran.stdout == Path("report.json").read_text(encoding="utf-8")
    (check,) = json.loads(ran.stdout)["checks"]
    assert (check["name"], check["status"]) == ("tools-load", "failed")
    assert {finding["code"] for finding in check["findings"]} == {"MISSING_DESCRIPTION", "MISSING_EXAMPLES"}


def test_a_file_of_somebody_else_is_not_overwritten(tools: ToolProject, run: Run) -> None:
    Path("package.json").write_text('{"name": "x"}', encoding="utf-8")
    ran = run(*COMMAND, "--out", "package.json")

    assert ran.code == 1
    assert ran.stderr.startswith("error: `package.json` exists and was not written by `agent tools certify`\n")
    assert Path("package.json").read_text(encoding="utf-8") == '{"name": "x"}'


def test_a_committed_manifest_that_was_edited_is_refused(tools: ToolProject, run: Run) -> None:
    tools.manifest.write_text("{}", encoding="utf-8")

    assert run(*COMMAND).code == 1


def test_code_runs_only_in_a_trusted_folder(tools: ToolProject, run: Run) -> None:
    assert "is not trusted" in run("tools", "certify").stderr


@pytest.mark.parametrize("more", [(), ("--agents", "nowhere/agents.md")], ids=" ".join)
def test_without_tools_nothing_is_certified(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    ran, as_json = run(*COMMAND, *more, "--out", "report.json"), run(*COMMAND, *more, "--json")

    assert (ran.code, ran.stdout, as_json.code) == (1, "", 1)
    assert ran.stderr == (
        "error: There are no tools to certify\nhint: name modules in `[tools] modules` of agent.toml\n"
    )
    assert json.loads(as_json.stdout)["error"]["message"] == "There are no tools to certify"
    assert list(tmp_path.iterdir()) == []


def test_what_a_check_did_not_cover_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    check = Check(name="examples-round-trip", status="passed", note="only validated: billing.charge", findings=())

    _print_check(check, 3)

    assert capsys.readouterr().out == "✓ examples-round-trip: 3 tools\n  note: only validated: billing.charge\n"


def test_the_report_can_be_written_in_oscal(tools: ToolProject, run: Run) -> None:
    printed = run(*COMMAND, "--format", "oscal")
    written = run(*COMMAND, "--format", "oscal", "--out", "build/results.json")
    again = run(*COMMAND, "--format", "oscal", "--out", "build/results.json", "--json")

    assert (printed.code, written.code, again.code) == (0, 0, 0)
    assert printed.stdout.startswith('{\n  "assessment-results": {')
    assert written.stdout.splitlines()[-1] == "Certified: 2 tools"
    assert Path("build/results.json").read_text(encoding="utf-8") == again.stdout == printed.stdout
    (result,) = json.loads(printed.stdout)["assessment-results"]["results"]
    assert {finding["target"]["status"]["state"] for finding in result["findings"]} == {"satisfied"}
