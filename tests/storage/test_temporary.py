"""Temporary files: none is left that the next process does not remove, and none is removed that is in use."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent_resolver.storage import (
    UnwritableFile,
    create_beside,
    key_beside,
    replace_with,
    sweep_temporary,
    write_atomic,
)

ROOT = Path(__file__).parents[2]
HANG = """
import sys
from agent_resolver.storage import create_beside, write_atomic
def pieces():
    yield b"half"
    print("begun", flush=True)
    sys.stdin.read()
{work}
"""


@contextmanager
def writing(work: str) -> Iterator[Path | None]:
    """A process in the middle of writing, which is killed."""
    command = [sys.executable, "-c", HANG.format(work=work)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        yield None
        process.kill()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_a_killed_process_left_is_removed_by_the_next_that_writes_there(tmp_path: Path) -> None:
    with writing(f"write_atomic({str(tmp_path / 'agents.lock')!r}, pieces())"):
        (left,) = names(tmp_path)
        write_atomic(str(tmp_path / "other.lock"), [b"whole"])
        assert names(tmp_path) == sorted([left, "other.lock"]), "what a process is writing is not removed"

    assert names(tmp_path) == sorted([left, "other.lock"])
    write_atomic(str(tmp_path / "third.lock"), [b"whole"])
    assert names(tmp_path) == ["other.lock", "third.lock"]


def test_what_was_left_of_a_key_is_removed(tmp_path: Path) -> None:
    with writing(f"create_beside({str(tmp_path / 'state.key')!r}); list(pieces())"):
        assert len(names(tmp_path)) == 1

    key_beside(str(tmp_path / "state.key"))

    assert names(tmp_path) == ["state.key"]


@pytest.mark.parametrize(
    "name",
    [
        "notes.tmp",
        ".notes.tmp",
        ".agents.lock.1-0.tmp",
        ".agents.lock.00000000-999999999-0.tmp",
        "agents.lock",
    ],
)
def test_what_is_not_ours_stays(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")

    sweep_temporary(str(tmp_path))

    assert names(tmp_path) == [name]


def test_the_file_of_a_process_that_is_there_stays(tmp_path: Path) -> None:
    with create_beside(str(tmp_path / "agents.lock")) as file:
        ours = Path(str(file.name)).name
    parent = ours.replace(f"-{os.getpid()}-", f"-{os.getppid()}-")
    (tmp_path / parent).touch()
    words = ours.replace(f"-{os.getpid()}-", "-not a number-")
    (tmp_path / words).touch()
    huge = ours.replace(f"-{os.getpid()}-", f"-{'9' * 30}-")
    (tmp_path / huge).touch()

    sweep_temporary(str(tmp_path))

    assert names(tmp_path) == sorted([ours, parent, words, huge])


def test_a_folder_that_is_not_there_is_no_fault(tmp_path: Path) -> None:
    sweep_temporary(str(tmp_path / "nowhere"))


def test_a_file_is_made_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "copy.db"

    def write_whole(path: str) -> None:
        Path(path).write_text("whole")

    replace_with(str(target), write_whole, mode=0o600)
    assert (target.read_text(), target.stat().st_mode & 0o777) == ("whole", 0o600)

    def fail(path: str) -> None:
        Path(path).write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(UnwritableFile, match="No space left"):
        replace_with(str(target), fail)

    assert (names(target.parent), target.read_text()) == (["copy.db"], "whole")
