"""The whole output of every command, as it stands in `snapshots/`."""

import json
from pathlib import Path

from tests.cli.conftest import Snapshot, edit
from tests.conftest import Run

EU_ONLY = ("us-only\n---", "eu-only\n---")


def test_validate_accepts_the_quick_start(project: Path, run: Run, snapshot: Snapshot) -> None:
    snapshot(run("validate"))


def test_validate_verbose_says_what_was_read(project: Path, run: Run, snapshot: Snapshot) -> None:
    edit(project / "agents.md", "residency", "residence")
    snapshot(run("validate", "--verbose"))


def test_validate_reports_every_fault_of_both_files(project: Path, run: Run, snapshot: Snapshot) -> None:
    edit(project / "agents.md", "1.0.0", "1.0")
    edit(project / "agents.md", "us-only", "us_only")
    edit(project / "agents.md", "\n        - read:reports\n        - write:reports", " []")
    edit(project / "mcp.index.json", '"id": "acme-analytics",', "")
    edit(project / "mcp.index.json", "true", '"yes"')
    snapshot(run("validate", "--verbose"))


def test_validate_strict_refuses_unknown_keys(project: Path, run: Run, snapshot: Snapshot) -> None:
    edit(project / "agents.md", "constraints:", "constraint:")
    snapshot(run("validate", "--strict"))


def test_validate_skips_an_absent_default_index(project: Path, run: Run, snapshot: Snapshot) -> None:
    (project / "mcp.index.json").unlink()
    snapshot(run("validate"))


def test_validate_refuses_an_absent_named_index(project: Path, run: Run, snapshot: Snapshot) -> None:
    snapshot(run("validate", "-i", "./mcp.index.jsn"))


def test_validate_gives_hints_that_are_no_faults(project: Path, run: Run, snapshot: Snapshot) -> None:
    edit(project / "agents.md", "    residency: us-only\n", "  actions:\n    forbid: ['write:*']\n")
    edit(project / "agents.md", "1.0.0", "v1")
    edit(project / "mcp.index.json", "https://mcp.acme.com/analytics", "mcp.acme.com")
    snapshot(run("validate"))


def test_validate_as_json(project: Path, run: Run, snapshot: Snapshot) -> None:
    edit(project / "agents.md", "us-only", "us_only")
    snapshot(run("validate", "--json"))


def test_validate_as_sarif(project: Path, run: Run, snapshot: Snapshot) -> None:
    edit(project / "agents.md", "us-only", "us_only")
    snapshot(run("validate", "--format", "sarif", "-i", "absent.json"))


def test_validate_as_github_commands(project: Path, run: Run, snapshot: Snapshot) -> None:
    edit(project / "agents.md", "us-only", "us_only")
    edit(project / "agents.md", "constraints:", "tol: 100%\nconstraints:")
    snapshot(run("validate", "--format", "github", "-i", "a,b:c.json"))


def test_discover_lists_servers_by_category(project: Path, run: Run, snapshot: Snapshot) -> None:
    snapshot(run("discover"))


def test_discover_as_json(project: Path, run: Run, snapshot: Snapshot) -> None:
    snapshot(run("discover", "--json"))


def test_discover_hints_at_several_versions(project: Path, run: Run, snapshot: Snapshot) -> None:
    edit(project / "mcp.index.json", '"acme-reporting"', '"acme-analytics"')
    edit(project / "mcp.index.json", '["reporting"]', '["analytics"]')
    edit(project / "mcp.index.json", '["read:reports", "write:reports"]', "[]")
    snapshot(run("discover"))


def test_discover_of_an_empty_index(project: Path, run: Run, snapshot: Snapshot) -> None:
    (project / "mcp.index.json").write_text("[]", encoding="utf-8")
    snapshot(run("discover"))


def test_discover_of_an_invalid_index(project: Path, run: Run, snapshot: Snapshot) -> None:
    edit(project / "mcp.index.json", "[\n", "[,\n")
    snapshot(run("discover"))


def test_discover_without_an_index(project: Path, run: Run, snapshot: Snapshot) -> None:
    (project / "mcp.index.json").unlink()
    snapshot(run("discover"))


def test_resolve_writes_and_explains(project: Path, run: Run, snapshot: Snapshot) -> None:
    snapshot(run("resolve", "--explain"))


def test_resolve_again_changes_nothing(project: Path, run: Run, snapshot: Snapshot) -> None:
    run("resolve")
    snapshot(run("resolve"))


def test_resolve_as_json(project: Path, run: Run, snapshot: Snapshot) -> None:
    snapshot(run("resolve", "--json", "--explain"))


def test_resolve_failure_names_each_rejection(project: Path, run: Run, snapshot: Snapshot) -> None:
    edit(project / "agents.md", *EU_ONLY)
    snapshot(run("resolve"))


def test_resolve_failure_of_two_categories(project: Path, run: Run, snapshot: Snapshot) -> None:
    edit(project / "agents.md", *EU_ONLY)
    edit(project / "agents.md", "category: analytics", "category: analytic")
    snapshot(run("resolve", "--explain"))


def test_resolve_failure_as_json(project: Path, run: Run, snapshot: Snapshot) -> None:
    edit(project / "agents.md", *EU_ONLY)
    snapshot(run("resolve", "--json"))


def test_resolve_check_shows_a_diff(project: Path, run: Run, snapshot: Snapshot) -> None:
    run("resolve")
    edit(project / "mcp.index.json", '"version": "2.0.0"', '"version": "2.1.0"')
    snapshot(run("resolve", "--check"))


def test_resolve_check_of_a_current_lock(project: Path, run: Run, snapshot: Snapshot) -> None:
    run("resolve", "--explain")
    snapshot(run("resolve", "--check", "--explain"))


def test_resolve_check_without_a_lock(project: Path, run: Run, snapshot: Snapshot) -> None:
    snapshot(run("resolve", "--check"))


def test_resolve_check_as_json(project: Path, run: Run, snapshot: Snapshot) -> None:
    run("resolve")
    edit(project / "agents.lock", "2.0.0", "2.0.1")
    snapshot(run("resolve", "--check", "--json"))


def test_resolve_locked_without_a_lock(project: Path, run: Run, snapshot: Snapshot) -> None:
    snapshot(run("resolve", "--locked"))


def test_resolve_locked_with_a_stale_lock(project: Path, run: Run, snapshot: Snapshot) -> None:
    run("resolve")
    edit(project / "agents.md", "        - write:reports\n", "")
    snapshot(run("resolve", "--locked"))


def test_resolve_dry_run(project: Path, run: Run, snapshot: Snapshot) -> None:
    snapshot(run("resolve", "--dry-run", "--explain"))


def test_resolve_of_an_invalid_agent_file(project: Path, run: Run, snapshot: Snapshot) -> None:
    edit(project / "agents.md", "name: my-analytics-agent\n", "")
    snapshot(run("resolve"))


def test_resolve_reports_the_faults_of_both_files(project: Path, run: Run, snapshot: Snapshot) -> None:
    edit(project / "agents.md", "name: my-analytics-agent\n", "")
    edit(project / "mcp.index.json", '"id": "acme-analytics",', "")
    snapshot(run("resolve"))


def test_resolve_of_an_invalid_agent_file_as_json(project: Path, run: Run, snapshot: Snapshot) -> None:
    edit(project / "agents.md", "name: my-analytics-agent\n", "")
    snapshot(run("resolve", "--json"))


def test_resolve_without_an_agent_file(project: Path, run: Run, snapshot: Snapshot) -> None:
    snapshot(run("resolve", "-a", "agent.md"))


def test_resolve_refuses_to_overwrite_a_foreign_lock(project: Path, run: Run, snapshot: Snapshot) -> None:
    (project / "agents.lock").write_text('{"version": 1, "resources": {}}', encoding="utf-8")
    snapshot(run("resolve", "--explain"))


def test_resolve_refuses_a_time_without_a_zone(project: Path, run: Run, snapshot: Snapshot) -> None:
    snapshot(run("resolve", "--resolved-at", "2025-01-15T10:30:00"))


def test_schema_of_agent_files(run: Run, snapshot: Snapshot) -> None:
    snapshot(run("schema", "agents"))


def test_schema_of_indexes(run: Run, snapshot: Snapshot) -> None:
    snapshot(run("schema", "index"))


def test_schema_of_locks(run: Run, snapshot: Snapshot) -> None:
    snapshot(run("schema", "lock"))


def test_schema_of_explanations(run: Run, snapshot: Snapshot) -> None:
    snapshot(run("schema", "resolution"))


def test_version(run: Run, snapshot: Snapshot) -> None:
    snapshot(run("--version"))


def test_messages_name_the_file_that_was_given(project: Path, run: Run) -> None:
    (project / "mcp.index.json").rename(project / "servers.json")
    (project / "agents.md").rename(project / "crm.md")
    named = ("-a", "crm.md", "-i", "servers.json")

    valid = run("validate", *named)
    edit(project / "servers.json", '"version": "2.0.0"', '"version": 2')
    edit(project / "crm.md", "version: 1.0.0", "version: 1")
    invalid = run("validate", *named)
    unresolved = run("resolve", *named)
    document = json.loads(run("resolve", *named, "--json").stdout)

    assert "✓ crm.md frontmatter is valid\n" in valid.stdout
    assert "✓ servers.json is valid\n" in valid.stdout
    for ran in (invalid, unresolved):
        assert "✗ crm.md validation failed:\n" in ran.stderr
        assert "✗ servers.json validation failed:\n" in ran.stderr
        assert "mcp.index.json" not in ran.stdout + ran.stderr
    assert document["error"]["message"] == "crm.md validation failed; servers.json validation failed"
    assert [file["kind"] for file in document["error"]["files"]] == ["agents.md", "mcp.index.json"]
