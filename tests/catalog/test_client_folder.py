"""Folders that clients load whole by themselves."""

from pathlib import Path

import pytest

from agent_resolver.catalog import eager_folders


@pytest.mark.parametrize(
    ("folder", "client"),
    [
        (".claude/agents", "Claude Code"),
        (".claude/agents/team", "Claude Code"),
        (".github/agents", "GitHub Copilot"),
        (".opencode/agent", "OpenCode"),
        (".codex/agents", "Codex"),
        ("agents", None),
        (".claude/agents-old", None),
        ("x.claude/agents", None),
    ],
)
def test_a_folder_that_a_client_loads_is_known_by_its_place(tmp_path: Path, folder: str, client: str | None) -> None:
    (tmp_path / folder).mkdir(parents=True)

    root = str(tmp_path / folder)

    assert list(eager_folders(root)) == ([(root, client)] if client else [])


def test_a_link_does_not_hide_where_a_folder_is(tmp_path: Path) -> None:
    (tmp_path / ".claude" / "agents").mkdir(parents=True)
    (tmp_path / "link").symlink_to(".claude/agents")

    assert [client for _, client in eager_folders(str(tmp_path / "link"))] == ["Claude Code"]


def test_such_a_folder_below_a_root_is_found_too_unless_it_is_not_searched(tmp_path: Path) -> None:
    for folder in (".claude/agents", ".opencode/agent", ".opencode/agents", ".codex/prompts", ".cursor"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / ".cursor" / "agents").symlink_to("../.claude/agents")

    def found(root: str) -> list[str]:
        return [Path(folder).relative_to(tmp_path).as_posix() for folder, _ in eager_folders(str(tmp_path / root))]

    assert found(".claude") == [".claude/agents"]
    assert found(".opencode") == [".opencode/agent", ".opencode/agents"]
    assert found(".codex") == found(".cursor") == found("") == []
