"""`agent.toml` is found in a folder or above it, as `pyproject.toml` is."""

import os
from pathlib import Path

import pytest

from agent_resolver.project import find_config, read_config
from agent_resolver.storage import OversizeFile, UnreadableFile


def made(path: Path, content: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    return path


def test_the_nearest_one_above_is_found(tmp_path: Path) -> None:
    outer, inner = made(tmp_path / "agent.toml"), made(tmp_path / "a" / "b" / "agent.toml")
    (tmp_path / "a" / "b" / "c" / "d").mkdir(parents=True)
    (tmp_path / "x").mkdir()

    assert find_config(str(tmp_path / "a" / "b" / "c" / "d")) == str(inner)
    assert find_config(str(tmp_path / "a" / "b")) == str(inner)
    assert find_config(str(tmp_path / "a")) == str(outer)
    assert find_config(str(tmp_path / "x")) == str(outer)


def test_none_is_found_up_to_the_root(tmp_path: Path) -> None:
    assert find_config(str(tmp_path)) is None
    assert find_config("/") is None


def test_an_empty_one_is_one(tmp_path: Path) -> None:
    assert find_config(str(tmp_path)) != find_config(str(made(tmp_path / "agent.toml").parent))


def test_a_folder_that_is_not_there_yet_is_looked_for_above(tmp_path: Path) -> None:
    config = made(tmp_path / "agent.toml")

    assert find_config(str(tmp_path / "absent" / "below")) == str(config)


def test_from_a_relative_path_the_whole_one_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = made(tmp_path / "agent.toml")
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")

    assert find_config(".") == str(config)
    assert find_config("") == str(config)


def test_through_a_link_it_is_found_where_the_link_leads(tmp_path: Path) -> None:
    """Otherwise a link could lend a project's settings, and its trust, to another folder."""
    made(tmp_path / "here" / "agent.toml")
    there = made(tmp_path / "there" / "agent.toml")
    (tmp_path / "there" / "below").mkdir()
    (tmp_path / "here" / "link").symlink_to(tmp_path / "there" / "below")

    assert find_config(str(tmp_path / "here" / "link")) == str(there)


@pytest.mark.parametrize("name", ["a\nb", 'it\'s "quoted"', "é😀", os.fsdecode(b"\xff")])
def test_a_folder_may_have_any_name(tmp_path: Path, name: str) -> None:
    config = made(tmp_path / name / "agent.toml", "[state]\n")

    assert find_config(str(config.parent)) == str(config)
    assert read_config(str(config)) == b"[state]\n"


def test_one_that_is_no_file_is_an_error_and_not_passed_by(tmp_path: Path) -> None:
    (tmp_path / "a" / "agent.toml").mkdir(parents=True)

    with pytest.raises(UnreadableFile, match="is a directory, not a regular file"):
        find_config(str(tmp_path / "a"))


def test_one_of_more_than_a_mebibyte_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OversizeFile, match="larger than 1,048,576 bytes"):
        read_config(str(made(tmp_path / "agent.toml", "#" * (1024 * 1024 + 1))))
