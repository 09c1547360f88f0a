"""Folders that clients load whole by themselves."""

from pathlib import Path

import pytest

from agent_resolver.catalog.eager import eager_client


@pytest.mark.parametrize(
    ("folder", "client"),
    [
        (".claude/agents", "Claude Code"),
        (".claude/agents/team", "Claude Code"),
        (".github/agents", "GitHub Copilot"),
        (".opencode/agent", "OpenCode"),
        (".codex/agents", "Codex"),
        ("agents", None),
        (".claude", None),
        (".claude/agents-old", None),
        ("x.claude/agents", None),
    ],
)
def test_a_folder_that_a_client_loads_is_known_by_its_place(tmp_path: Path, folder: str, client: str | None) -> None:
    (tmp_path / folder).mkdir(parents=True)

    assert eager_client(str(tmp_path / folder)) == client


def test_a_link_does_not_hide_where_a_folder_is(tmp_path: Path) -> None:
    (tmp_path / ".claude" / "agents").mkdir(parents=True)
    (tmp_path / "link").symlink_to(".claude/agents")

    assert eager_client(str(tmp_path / "link")) == "Claude Code"
