"""Reading with a limit, writing whole files or nothing."""

import os
import stat
from pathlib import Path

import pytest

from agent_resolver.storage import (
    OversizeFile,
    UnreadableFile,
    UnwritableFile,
    read_bounded,
    read_head,
    same_content,
    write_atomic,
)

MANY = 100


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"12345")

    assert read_bounded(str(file), 5) == b"12345"
    with pytest.raises(OversizeFile, match="larger than 4 bytes"):
        read_bounded(str(file), 4)


def test_a_missing_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile, match="does not exist") as caught:
        read_bounded(str(tmp_path / "absent"), MANY)
    assert caught.value.missing


def test_a_file_below_a_file_is_missing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(UnreadableFile, match="does not exist"):
        read_bounded(str(tmp_path / "file" / "below"), MANY)


def test_a_directory_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile, match="is a directory, not a regular file") as caught:
        read_bounded(str(tmp_path), MANY)
    assert not caught.value.missing


def test_a_named_pipe_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    with pytest.raises(UnreadableFile, match="is a named pipe"):
        read_bounded(str(pipe), MANY)
    with pytest.raises(UnwritableFile, match="is a named pipe"):
        write_atomic(str(pipe), [b"x"])


def test_a_device_is_refused() -> None:
    with pytest.raises(UnreadableFile, match="is a device"):
        read_bounded(os.devnull, MANY)


def test_a_name_that_no_system_takes_is_an_error_and_not_a_crash(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile, match="cannot be read"):
        read_bounded("a\0b", MANY)
    with pytest.raises(UnreadableFile, match="cannot be read"):
        read_bounded(str(tmp_path / ("n" * 5000)), MANY)
    with pytest.raises(UnwritableFile, match="cannot be written"):
        write_atomic(str(tmp_path / ("n" * 5000)), [b"x"])


def test_the_head_of_a_missing_file_is_none(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")

    assert read_head(str(tmp_path / "a"), 2) == b"12"
    assert read_head(str(tmp_path / "absent"), 2) is None
    with pytest.raises(UnreadableFile):
        read_head(str(tmp_path), 2)


def test_content_is_compared_piece_by_piece(tmp_path: Path) -> None:
    path = str(tmp_path / "a")
    Path(path).write_bytes(b"12345")

    assert same_content(path, [b"12", b"345"])
    assert not same_content(path, [b"12", b"34"])
    assert not same_content(path, [b"12", b"3456"])
    assert not same_content(path, [b"1x345"])
    assert not same_content(str(tmp_path / "absent"), [])
    with pytest.raises(UnreadableFile):
        same_content(str(tmp_path), [])


def test_a_new_file_is_written_with_its_folders(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "c.lock"

    assert write_atomic(str(path), [b"one ", b"two"])
    assert path.read_bytes() == b"one two"
    assert [entry.name for entry in path.parent.iterdir()] == ["c.lock"]


def test_the_same_content_leaves_the_file_untouched(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"same")
    before = path.stat()

    assert not write_atomic(str(path), [b"sa", b"me"])
    after = path.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("content", [b"sane", b"longer"])
def test_other_content_replaces_the_file_and_keeps_its_permissions(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"same")
    path.chmod(0o640)

    assert write_atomic(str(path), [content])
    assert path.read_bytes() == content
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_symbolic_link_keeps_pointing_where_it_points(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)

    write_atomic(str(link), [b"new"])

    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_a_directory_is_not_replaced(tmp_path: Path) -> None:
    with pytest.raises(UnwritableFile, match="is a directory"):
        write_atomic(str(tmp_path), [b"x"])


def test_a_file_where_a_folder_should_be_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(UnwritableFile, match="cannot be written"):
        write_atomic(str(tmp_path / "file" / "below"), [b"x"])


def test_content_that_fails_half_way_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")

    def pieces() -> list[bytes]:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_atomic(str(path), (piece for _ in range(1) for piece in pieces()))
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_leftover_of_the_same_name_is_passed_by(tmp_path: Path) -> None:
    leftover = tmp_path / f".a.{os.getpid()}-0.tmp"
    leftover.write_bytes(b"left")

    assert write_atomic(str(tmp_path / "a"), [b"new"])
    assert (tmp_path / "a").read_bytes() == b"new"
    assert leftover.read_bytes() == b"left"
