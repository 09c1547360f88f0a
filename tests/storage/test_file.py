"""Reading with a limit, writing whole files or nothing."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_resolver.storage import (
    Batch,
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


# Many files at once ---------------------------------------------------------------------------------------------------


class Stop(Exception):
    """Somebody stops the batch."""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def pieces(*content: bytes) -> Iterator[bytes]:
    """Content that is not at hand, but comes piece by piece."""
    yield from content


def broken(*content: bytes) -> Iterator[bytes]:
    yield from content
    raise Stop


@pytest.mark.parametrize("count", [0, 1, 15, 16, 20])
def test_a_batch_writes_all_its_files_when_it_ends_and_none_before(tmp_path: Path, count: int) -> None:
    expected = {f"{number:02}": b"%d" % number for number in range(count)}
    with Batch() as batch:
        for name, content in expected.items():
            assert batch.write(str(tmp_path / name), [content])
        assert not set(names(tmp_path)) & set(expected)

    assert contents(tmp_path) == expected


@pytest.mark.parametrize("count", [1, 20])
@pytest.mark.parametrize("stop", [Stop, KeyboardInterrupt])
def test_a_batch_that_ends_with_an_exception_writes_nothing(
    tmp_path: Path, count: int, stop: type[BaseException]
) -> None:
    (tmp_path / "00").write_bytes(b"old")

    def write_and_stop() -> None:
        with Batch() as batch:
            for number in range(count):
                batch.write(str(tmp_path / f"{number:02}"), [b"new"])
            raise stop

    with pytest.raises(stop):
        write_and_stop()
    assert contents(tmp_path) == {"00": b"old"}


def test_a_batch_leaves_equal_files_untouched(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_bytes(b"same")
    before = {path: path.stat() for path in tmp_path.iterdir()}
    with Batch() as batch:
        assert not batch.write(str(tmp_path / "a"), [b"sa", b"me"])
        assert not batch.write(str(tmp_path / "b"), pieces(b"sa", b"me"))
        assert batch.write(str(tmp_path / "c"), [b"new"])
        assert sorted(set(names(tmp_path)) & set("abc")) == ["a", "b"]

    for path, old in before.items():
        assert (path.stat().st_ino, path.stat().st_mtime_ns) == (old.st_ino, old.st_mtime_ns)
    assert names(tmp_path) == ["a", "b", "c"]


@pytest.mark.parametrize("content", [[b"sane"], [b"longer"], [b"s"], [b""], [], [b"same", b"x"]])
@pytest.mark.parametrize("at_hand", [True, False])
def test_a_batch_sees_every_difference_of_content(tmp_path: Path, content: list[bytes], at_hand: bool) -> None:  # noqa: FBT001
    path = tmp_path / "a"
    path.write_bytes(b"same")
    with Batch() as batch:
        assert batch.write(str(path), content if at_hand else pieces(*content))

    assert contents(tmp_path) == {"a": b"".join(content)}


def test_files_appear_in_the_order_of_writing_and_those_after_a_failure_do_not(tmp_path: Path) -> None:
    """A folder takes the place of the second target while the batch is open."""

    def write() -> None:
        with Batch() as batch:
            for name in "abc":
                batch.write(str(tmp_path / name), [b"new"])
            (tmp_path / "b").mkdir()

    with pytest.raises(UnwritableFile, match="/b` cannot be written"):
        write()
    assert names(tmp_path) == ["a"]


def test_a_batch_follows_links_to_files_and_folders_and_keeps_them(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "target").write_bytes(b"old")
    (tmp_path / "link").symlink_to("target")
    (tmp_path / "folder").symlink_to("real")
    (tmp_path / "dangling").symlink_to("real/made")
    with Batch() as batch:
        assert batch.write(str(tmp_path / "link"), [b"new"])
        assert batch.write(str(tmp_path / "folder" / "x"), [b"new"])
        assert batch.write(str(tmp_path / "dangling"), [b"new"])

    assert {path.name for path in tmp_path.iterdir() if path.is_symlink()} == {"link", "folder", "dangling"}
    assert (tmp_path / "target").read_bytes() == b"new"
    assert contents(tmp_path / "real") == {"made": b"new", "x": b"new"}


def test_a_link_that_leads_to_itself_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")

    with pytest.raises(UnwritableFile, match="cannot be written"), Batch() as batch:
        batch.write(str(tmp_path / "loop"), [b"x"])
    assert names(tmp_path) == []


def test_a_batch_makes_missing_folders_and_takes_names_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Batch() as batch:
        batch.write("plain", [b"1"])
        batch.write("a/b/one", [b"2"])
        batch.write("./a/b/two", [b"3"])

    assert names(tmp_path) == ["one", "plain", "two"]


@pytest.mark.parametrize("name", ["file/below", "pipe", "folder", "n" * 5000, "a\0b"])
def test_a_file_that_cannot_be_written_leaves_the_others_of_its_batch(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with Batch() as batch:
        batch.write(str(tmp_path / "before"), [b"1"])
        with pytest.raises(UnwritableFile):
            batch.write(f"{tmp_path}/{name}", [b"x"])
        batch.write(str(tmp_path / "after"), [b"2"])

    assert names(tmp_path) == ["after", "before", "file"]


def test_a_folder_that_takes_no_file_is_an_error() -> None:
    """As every user, root included, finds it."""
    with pytest.raises(UnwritableFile, match="cannot be written"), Batch() as batch:
        batch.write("/proc/self/agents.lock", [b"x"])


def test_content_that_breaks_off_is_never_half_written_even_where_somebody_goes_on(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    with Batch() as batch:
        for name in "ab":
            with pytest.raises(Stop):
                batch.write(str(tmp_path / name), broken(b"half"))
        batch.write(str(tmp_path / "c"), [b"whole"])

    assert contents(tmp_path) == {"a": b"old", "c": b"whole"}


def test_of_two_writes_to_one_file_the_later_counts(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with Batch() as batch:
        batch.write(str(path), [b"new"])
        batch.write(str(path), [b"old"])

    assert contents(tmp_path) == {"a": b"old"}


def test_a_batch_keeps_the_permissions_of_each_file(tmp_path: Path) -> None:
    for number, mode in enumerate((0o600, 0o640, 0o755)):
        (tmp_path / str(number)).write_bytes(b"old")
        (tmp_path / str(number)).chmod(mode)
    with Batch() as batch:
        for number in range(3):
            batch.write(str(tmp_path / str(number)), [b"new"])

    assert [stat.S_IMODE((tmp_path / str(number)).stat().st_mode) for number in range(3)] == [0o600, 0o640, 0o755]


def test_a_flush_that_fails_writes_nothing_and_says_which_file(tmp_path: Path) -> None:
    """Somebody takes the temporary file of the third away."""

    def write() -> None:
        with Batch() as batch:
            for number in range(20):
                batch.write(str(tmp_path / f"{number:02}"), [b"new"])
            next(tmp_path.glob(".02.*")).unlink()

    with pytest.raises(UnwritableFile, match="/02` cannot be written"):
        write()
    assert names(tmp_path) == []


def test_a_private_file_stays_private_while_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "private"
    path.write_text("old")
    path.chmod(0o600)
    modes: list[int] = []

    def pieces() -> Iterator[bytes]:
        yield b"secret"
        modes.extend(stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir())
        yield b" and more"

    assert write_atomic(str(path), pieces())

    assert modes == [0o600, 0o600]
