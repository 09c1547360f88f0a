"""The files below a folder."""

import os
from pathlib import Path

import pytest

from agent_resolver.storage import files_below, identity_of


def write(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_every_file_with_the_suffix_is_found_with_its_identity(tmp_path: Path) -> None:
    paths = ["a.md", "b/c.md", "b/d/e f.md", "ä/名.md", ".hidden.md"]
    for path in [*paths, "b/no.txt", "mdx", "c.md.bak"]:
        write(tmp_path / path, path)

    found = files_below(str(tmp_path), ".md")

    assert found == {path: identity_of(str(tmp_path / path)) for path in paths}


def test_hidden_folders_installed_packages_links_and_pipes_are_left_alone(tmp_path: Path) -> None:
    write(tmp_path / "a.md")
    for folder in (".git", ".venv/x", "node_modules/x", "__pycache__"):
        write(tmp_path / folder / "b.md")
    (tmp_path / "link.md").symlink_to("a.md")
    (tmp_path / "loop").symlink_to(".")
    (tmp_path / "up").symlink_to("..")
    (tmp_path / "dead.md").symlink_to("nowhere")
    (tmp_path / "folder.md").mkdir()
    os.mkfifo(tmp_path / "pipe.md")

    assert list(files_below(str(tmp_path), ".md")) == ["a.md"]


def test_the_folder_itself_may_be_hidden_or_a_link(tmp_path: Path) -> None:
    write(tmp_path / ".hidden" / "a.md")
    (tmp_path / "link").symlink_to(".hidden")

    assert list(files_below(str(tmp_path / ".hidden"), ".md")) == ["a.md"]
    assert list(files_below(str(tmp_path / "link"), ".md")) == ["a.md"]


def test_a_thousand_levels_are_no_matter(tmp_path: Path) -> None:
    deep = tmp_path
    for _ in range(500):
        deep /= "d"
    deep.mkdir(parents=True)
    write(deep / "a.md")

    assert list(files_below(str(tmp_path), ".md")) == ["d/" * 500 + "a.md"]


def test_a_folder_that_is_not_there_is_an_error_whoever_listens(tmp_path: Path) -> None:
    unreadable: list[OSError] = []
    for place in (tmp_path / "nowhere", write(tmp_path / "file")):
        with pytest.raises(OSError, match=place.name):
            files_below(str(place), ".md", unreadable)
    assert not unreadable


def test_what_goes_away_while_it_is_looked_at_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look at a folder and the look at what it holds there is always time for that."""
    write(tmp_path / "a.md")
    write(tmp_path / "gone.md")
    write(tmp_path / "folder" / "b.md")
    write(tmp_path / "replaced" / "c.md")
    scan = os.scandir

    class Late:
        def __init__(self, folder: str) -> None:
            with scan(folder) as entries:
                self.entries = list(entries)
            for entry in self.entries:
                if entry.name == "gone.md":
                    Path(entry.path).unlink()
                elif entry.name in {"folder", "replaced"}:
                    Path(entry.path).rename(tmp_path / f".{entry.name}")
                    if entry.name == "replaced":
                        write(Path(entry.path))

        def __enter__(self) -> "list[os.DirEntry[str]]":
            return self.entries

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(os, "scandir", lambda folder: Late(folder) if folder == str(tmp_path) else scan(folder))

    assert list(files_below(str(tmp_path), ".md")) == ["a.md"]


def test_an_identity_changes_with_the_time_the_size_and_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a.md", "one")
    os.utime(path, ns=(0, 5))
    first = identity_of(str(path))
    assert first == identity_of(str(path)) is not None

    os.utime(path, ns=(0, 6))
    assert identity_of(str(path)) != first
    path.write_text("four")
    os.utime(path, ns=(0, 5))
    assert identity_of(str(path)) != first
    write(tmp_path / "b.md", "one").replace(path)
    os.utime(path, ns=(0, 5))
    assert identity_of(str(path)) != first


def test_a_link_has_an_identity_of_its_own_and_nothing_has_none(tmp_path: Path) -> None:
    path = write(tmp_path / "a.md")
    (tmp_path / "link.md").symlink_to("a.md")

    assert identity_of(str(tmp_path / "link.md")) not in {None, identity_of(str(path))}
    assert identity_of(str(tmp_path / "nowhere")) is None
    assert identity_of(str(path / "below")) is None
