"""`agent tools manifest`: printed, written, and compared with what is committed."""

import json
from pathlib import Path

import pytest

from agent_resolver.capability import capabilities_of
from agent_resolver.project import ManifestDrift, RefusedManifest, Session, require_no_drift
from tests.cli.tool_project import CLOSE, CREATE, HEAD, SOURCE, ToolProject, tool_project
from tests.conftest import Run

COMMAND = ("tools", "manifest", "--trust")


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ToolProject:
    return tool_project(tmp_path, monkeypatch)


def test_the_manifest_is_printed_as_the_file_it_would_be(tools: ToolProject, run: Run) -> None:
    printed = run(*COMMAND)
    written = run(*COMMAND, "--out", "tools.manifest.json")

    assert (printed.code, printed.stderr) == (0, "")
    assert printed.stdout == tools.manifest.read_text(encoding="utf-8")
    manifest = json.loads(printed.stdout)
    assert list(manifest) == ["generated_at", "version", "digest", "tools"]
    assert (manifest["generated_at"], manifest["version"]) == ("1970-01-01T00:00:00.000Z", "1")
    assert [tool["id"] for tool in manifest["tools"]] == ["tickets.close", "tickets.create"]
    assert written.stdout == f"✓ tools.manifest.json written: 2 tools, {manifest['digest']}\n"


def test_a_file_that_is_the_same_is_left_untouched(tools: ToolProject, run: Run) -> None:
    run(*COMMAND, "--out", "tools.manifest.json")
    before = tools.manifest.stat()
    ran = run(*COMMAND, "--out", "tools.manifest.json", "--json")

    assert json.loads(ran.stdout)["status"] == "unchanged"
    assert (tools.manifest.stat().st_ino, tools.manifest.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_the_order_of_modules_and_the_time_never_reach_the_digest(
    tools: ToolProject, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools.offer(HEAD + CLOSE, HEAD + CREATE)
    digest = json.loads(run(*COMMAND).stdout)["digest"]
    Path("agent.toml").write_text('[tools]\nmodules = ["tools_of_test_1", "tools_of_test_0"]\n', encoding="utf-8")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    manifest = json.loads(run(*COMMAND).stdout)

    assert (manifest["generated_at"], manifest["digest"]) == ("2023-11-14T22:13:20.000Z", digest)


def test_a_file_of_somebody_else_is_not_overwritten(tools: ToolProject, run: Run) -> None:
    Path("package.json").write_text('{"name": "x"}', encoding="utf-8")
    ran = run(*COMMAND, "--out", "package.json")

    assert (ran.code, ran.stdout) == (1, "")
    assert ran.stderr.startswith("error: `package.json` exists and was not written by `agent tools manifest`\n")
    assert Path("package.json").read_text(encoding="utf-8") == '{"name": "x"}'


def test_a_manifest_with_merge_conflicts_is_written_anew(tools: ToolProject, run: Run) -> None:
    run(*COMMAND, "--out", "tools.manifest.json")
    content = tools.manifest.read_text(encoding="utf-8")
    conflict = "{\n<<<<<<< ours\n" + content.partition("\n")[2] + "=======\n>>>>>>> theirs\n"
    tools.manifest.write_text(conflict, encoding="utf-8")

    assert run(*COMMAND, "--check").code == 1
    assert run(*COMMAND, "--out", "tools.manifest.json").code == 0
    assert tools.manifest.read_text(encoding="utf-8") == content


def test_check_says_that_what_is_committed_is_what_the_code_offers(tools: ToolProject, run: Run) -> None:
    run(*COMMAND, "--out", "tools.manifest.json")
    ran, as_json = run(*COMMAND, "--check"), run(*COMMAND, "--check", "--json")

    assert (ran.code, ran.stdout) == (0, "✓ tools.manifest.json is what the code offers: 2 tools\n")
    assert (as_json.code, json.loads(as_json.stdout)["changes"]) == (0, [])


def test_check_tells_what_changed_and_writes_nothing(tools: ToolProject, run: Run) -> None:
    run(*COMMAND, "--out", "tools.manifest.json")
    before = tools.manifest.read_bytes()
    tools.offer((HEAD + CREATE).replace("max_length=80", "max_length=40"))
    ran, as_json = run(*COMMAND, "--check"), run(*COMMAND, "--check", "--json")

    assert ran.code == as_json.code == 1
    assert ran.stdout == (
        "tools.manifest.json → the code\n"
        "  ✗ breaking    tickets.close: tool-removed\n"
        "                callers find no such tool\n"
        "  ✗ breaking    tickets.create: input-changed $.title maxLength 80 → 40\n"
        "                values that were within bounds are refused\n"
    )
    assert ran.stderr == (
        "✗ tools.manifest.json differs from the code\n"
        "hint: review what changed, then run `agent tools manifest --out tools.manifest.json` and commit it\n"
    )
    document = json.loads(as_json.stdout)
    assert (document["success"], [change["kind"] for change in document["changes"]]) == (
        False,
        ["tool-removed", "input-changed"],
    )
    assert tools.manifest.read_bytes() == before


def test_check_takes_any_change_for_a_difference(tools: ToolProject, run: Run) -> None:
    run(*COMMAND, "--out", "tools.manifest.json")
    tools.offer(SOURCE.replace("Open a ticket.", "Open one."))

    assert run(*COMMAND, "--check").code == 1


def test_check_of_a_manifest_that_is_not_there_says_how_to_write_it(tools: ToolProject, run: Run) -> None:
    ran = run(*COMMAND, "--check")

    assert ran.code == 1
    assert ran.stderr == (
        "error: `tools.manifest.json` is missing\n"
        "hint: write it with `agent tools manifest --out tools.manifest.json`, and commit it\n"
    )


def test_check_looks_at_the_file_that_is_named(tools: ToolProject, run: Run) -> None:
    run(*COMMAND, "--out", "other/tools.json")

    assert run(*COMMAND, "--check", "--out", "other/tools.json").code == 0
    assert run(*COMMAND, "--check").code == 1


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("Open a", "Close a", "error: `tools.manifest.json` is refused: Its digest is sha256-"),
        ('"CAPABILITY"', '"TOOL"', "✗ tools.manifest.json validation failed:\n  - tools.0.type: Invalid enum value."),
        ("{", "[", "✗ tools.manifest.json validation failed:\n  - (file): Expected"),
    ],
)
def test_a_committed_manifest_that_was_edited_is_refused(
    tools: ToolProject, run: Run, old: str, new: str, words: str
) -> None:
    run(*COMMAND, "--out", "tools.manifest.json")
    content = tools.manifest.read_text(encoding="utf-8")
    tools.manifest.write_text(content.replace(old, new, 1), encoding="utf-8")
    ran, as_json = run(*COMMAND, "--check"), run(*COMMAND, "--check", "--json")

    assert ran.code == as_json.code == 1
    assert ran.stderr.startswith(words)
    assert json.loads(as_json.stdout)["error"]["code"] == "REFUSED_MANIFEST"


def test_code_runs_only_in_a_trusted_folder(tools: ToolProject, run: Run) -> None:
    ran = run("tools", "manifest")

    assert ran.code == 1
    assert "is not trusted, and its settings load Python modules" in ran.stderr


def test_two_tools_with_one_id_are_named(tools: ToolProject, run: Run) -> None:
    tools.offer(SOURCE, HEAD + CREATE)
    ran = run(*COMMAND)

    assert ran.code == 1
    assert 'tool ID conflict: "tickets.create" registered by both module tools_of_test_' in ran.stderr


def test_a_project_without_tools_has_an_empty_manifest_and_a_hint(tools: ToolProject, run: Run) -> None:
    Path("agent.toml").write_text("", encoding="utf-8")
    ran = run("tools", "manifest")

    assert (ran.code, json.loads(ran.stdout)["tools"]) == (0, [])
    assert ran.stderr.startswith("hint: there are no tools here: ")


def test_a_time_that_is_none_is_a_usage_error(tools: ToolProject, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")

    assert run(*COMMAND).code == 2


def test_serving_stops_where_the_code_differs_from_what_is_committed(tools: ToolProject, run: Run) -> None:
    """What `agent serve` asks before it starts."""
    import importlib

    project = Session("agents.md", "mcp.index.json", environment={})
    (name,) = project.config.tools.modules
    descriptors = [tool.descriptor for tool in capabilities_of(importlib.import_module(name))]

    require_no_drift(project, descriptors)  # Nothing is committed.
    run(*COMMAND, "--out", "tools.manifest.json")
    require_no_drift(project, descriptors)
    with pytest.raises(ManifestDrift) as caught:
        require_no_drift(project, descriptors[:1])
    assert [str(change) for change in caught.value.details] == [
        "tickets.create: tool-removed (breaking: callers find no such tool)"
    ]
    tools.manifest.write_text("{}", encoding="utf-8")
    with pytest.raises(RefusedManifest):
        require_no_drift(project, descriptors)
