"""Which agent file a command takes where none is named."""

from pathlib import Path

import pytest

from tests.conftest import Run

AGENT = """\
---
name: a
version: 1.0.0
requires: { mcp: [{ category: files, permissions: [read] }] }
constraints: { data: { sensitivity: internal, residency: eu-only } }
---
"""
NOTE = "note: `AGENTS.md` has front matter too, and is not read: `agents.md` comes first\n"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_file_in_capitals_with_front_matter_is_found(run: Run, tmp_path: Path, mark: str) -> None:
    (tmp_path / "AGENTS.md").write_text(mark + AGENT, encoding="utf-8")
    (tmp_path / "mcp.index.json").write_text("[]")

    ran = run("validate")

    assert ran.code == 0
    assert "Validating ./AGENTS.md" in ran.stdout


def test_a_file_in_capitals_without_front_matter_is_another_tool_s(run: Run, tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("# Instructions for a coding agent\n")

    ran = run("validate")

    assert ran.code == 2
    assert "`./agents.md` does not exist" in ran.stderr


def test_of_both_the_one_in_small_letters_is_taken_with_a_note(run: Run, tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text(AGENT)
    (tmp_path / "agents.md").write_text(AGENT)
    (tmp_path / "mcp.index.json").write_text("[]")

    ran = run("validate")

    assert (ran.code, ran.stderr) == (0, NOTE)
    assert "Validating ./agents.md" in ran.stdout


def test_two_names_of_one_file_are_no_choice(run: Run, tmp_path: Path) -> None:
    """As on a file system that does not tell capitals apart."""
    (tmp_path / "agents.md").write_text(AGENT)
    (tmp_path / "AGENTS.md").hardlink_to(tmp_path / "agents.md")
    (tmp_path / "mcp.index.json").write_text("[]")

    assert run("validate").stderr == ""


def test_a_file_that_is_named_is_taken_without_a_note(run: Run, tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text(AGENT)
    (tmp_path / "agents.md").write_text(AGENT)
    (tmp_path / "mcp.index.json").write_text("[]")

    ran = run("validate", "--agents", "AGENTS.md")

    assert (ran.code, ran.stderr) == (0, "")


@pytest.mark.parametrize(
    ("command", "meant"),
    [(("resolv",), "resolve"), (("tools", "lst"), "list"), (("inbox", "aprove", "1"), "approve")],
)
def test_a_misspelt_command_gets_the_one_that_was_meant(run: Run, command: tuple[str, ...], meant: str) -> None:
    ran = run(*command)

    assert ran.code == 2
    assert f"did you mean `{meant}`?" in ran.stderr


def test_a_word_that_is_like_no_command_gets_all_of_them(run: Run) -> None:
    ran = run("xyzzy")

    assert ran.code == 2
    assert "choose from 'init', 'adopt', 'validate', 'discover', 'index'" in ran.stderr
