"""A folder is trusted when a person said so of exactly that folder."""

import json
import os
from pathlib import Path

import pytest

from agent_resolver.project import TrustedFolders, folders_behind
from agent_resolver.storage import FileError, OversizeFile, UnreadableFile, UnwritableFile


@pytest.fixture
def trusted(tmp_path: Path) -> TrustedFolders:
    return TrustedFolders({"XDG_CONFIG_HOME": str(tmp_path / "config")})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "projects" / "mine" / "below").mkdir(parents=True)
    return tmp_path / "projects" / "mine"


def test_nothing_is_trusted_at_first(trusted: TrustedFolders, folder: Path) -> None:
    assert trusted.all() == []
    assert not trusted.is_trusted(str(folder))
    assert not Path(trusted.path).exists()


def test_a_folder_is_trusted_until_it_is_no_longer(trusted: TrustedFolders, folder: Path) -> None:
    assert trusted.add(str(folder))
    assert trusted.is_trusted(str(folder))
    assert trusted.all() == [str(folder)]

    assert trusted.remove(str(folder))
    assert not trusted.is_trusted(str(folder))
    assert trusted.all() == []


def test_to_say_it_twice_changes_nothing(trusted: TrustedFolders, folder: Path) -> None:
    assert not trusted.remove(str(folder))
    assert not Path(trusted.path).exists()
    trusted.add(str(folder))
    before = Path(trusted.path).stat()

    assert not trusted.add(str(folder))
    assert not trusted.add(f"{folder}/below/..//")
    assert not trusted.remove(str(folder.parent))
    assert Path(trusted.path).stat() == before


def test_neither_what_is_above_nor_what_is_below_counts(trusted: TrustedFolders, folder: Path) -> None:
    trusted.add(str(folder))

    assert not trusted.is_trusted(str(folder.parent))
    assert not trusted.is_trusted(str(folder / "below"))
    assert not trusted.is_trusted(f"{folder}2")
    assert not trusted.is_trusted(str(folder).upper())


def test_a_link_is_the_folder_that_it_leads_to(trusted: TrustedFolders, folder: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(folder)
    trusted.add(str(link))

    assert trusted.all() == [str(folder)]
    assert trusted.is_trusted(str(link))
    link.unlink()
    link.symlink_to(folder.parent)
    assert not trusted.is_trusted(str(link))


def test_a_relative_folder_is_the_one_it_means_now(
    trusted: TrustedFolders, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    trusted.add(".")

    assert trusted.all() == [str(folder)]
    monkeypatch.chdir(folder.parent)
    assert not trusted.is_trusted(".")


@pytest.mark.parametrize("name", ["a\nb", 'it\'s "quoted" \\', "é", "e\u0301", "😀", "[]", " ", "-"])
def test_a_folder_may_have_any_name(trusted: TrustedFolders, tmp_path: Path, name: str) -> None:
    odd = tmp_path / name
    odd.mkdir()
    trusted.add(str(odd))

    assert trusted.is_trusted(str(odd))
    assert trusted.all() == [str(odd)]
    assert not trusted.is_trusted(str(tmp_path / "a"))
    assert trusted.remove(str(odd))


def test_a_name_that_is_no_text_is_refused_in_words(trusted: TrustedFolders, tmp_path: Path) -> None:
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")

    assert not trusted.is_trusted(odd)
    assert not trusted.remove(odd)
    with pytest.raises(UnwritableFile, match="cannot hold the name of a folder that is not UTF-8"):
        trusted.add(odd)


def test_the_list_is_in_order_whoever_wrote_it(trusted: TrustedFolders, tmp_path: Path) -> None:
    for name in ("b", "é", "a", "Z"):
        trusted.add(str(tmp_path / name))

    assert [Path(each).name for each in trusted.all()] == ["Z", "a", "b", "é"]
    assert json.loads(Path(trusted.path).read_text()) == trusted.all()


@pytest.mark.parametrize(
    "content",
    [b"", b"x", b'["/a",', b'{"/a": true}', b"[1]", b'["\xff"]', b"null", b"[[[[", b'"/a"'],
)
def test_a_damaged_list_is_an_error_and_trusts_nobody(trusted: TrustedFolders, folder: Path, content: bytes) -> None:
    path = Path(trusted.path)
    path.parent.mkdir(parents=True)
    path.write_bytes(content)

    for ask in (trusted.is_trusted, trusted.add, trusted.remove):
        with pytest.raises(UnreadableFile, match=r"trusted-folders\.json` is damaged: "):
            ask(str(folder))
    assert path.read_bytes() == content


def test_a_list_that_is_no_file_or_without_end_is_an_error(trusted: TrustedFolders, folder: Path) -> None:
    path = Path(trusted.path)
    path.mkdir(parents=True)
    with pytest.raises(FileError, match="is a directory"):
        trusted.is_trusted(str(folder))

    path.rmdir()
    path.write_bytes(b" " * (1024 * 1024 + 1))
    with pytest.raises(OversizeFile):
        trusted.is_trusted(str(folder))


def test_a_place_that_cannot_be_written_is_an_error(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "file").touch()
    trusted = TrustedFolders({"XDG_CONFIG_HOME": str(tmp_path / "file")})

    assert not trusted.is_trusted(str(folder))
    with pytest.raises(UnwritableFile, match="cannot be written"):
        trusted.add(str(folder))


@pytest.mark.parametrize("setting", [{}, {"XDG_CONFIG_HOME": ""}, {"XDG_CONFIG_HOME": "config"}])
def test_without_a_whole_path_the_list_is_in_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: dict[str, str]
) -> None:
    """A relative one would let a project bring a list of its own."""
    monkeypatch.setenv("HOME", str(tmp_path))

    assert TrustedFolders(setting).path == str(tmp_path / ".config" / "agent-resolver" / "trusted-folders.json")


# The folders behind a path --------------------------------------------------------------------------------------------


def test_behind_a_plain_path_there_is_its_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)

    for path in ("x", "./x", "below/../x", f"{folder}/x", f"{folder}//below/.././x", "../mine/x"):
        assert folders_behind(path) == {str(folder)}
    assert folders_behind("/x") == {"/"}


def test_behind_a_link_there_are_its_own_folder_and_that_of_each_target(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    (tmp_path / "one" / "x").symlink_to("../two/y")
    (tmp_path / "two" / "y").symlink_to(folder / "below" / "z")
    (tmp_path / "up").symlink_to("one/..")
    monkeypatch.chdir(tmp_path)

    behind_x = {str(tmp_path / "one"), str(tmp_path / "two"), str(folder / "below")}
    assert folders_behind("one/x") == folders_behind(f"{tmp_path}/one/x") == behind_x
    assert folders_behind("up/one/x") == {*behind_x, str(tmp_path)}
    assert str(Path("up/one/x").resolve().parent) in behind_x


def test_links_without_end_end(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "deep").symlink_to("deep/deep")

    assert folders_behind(str(tmp_path / "loop")) == {str(tmp_path)}
    assert str(tmp_path) in folders_behind(str(tmp_path / "deep"))
    assert folders_behind(str(tmp_path / "a\0b")) == {str(tmp_path)}
