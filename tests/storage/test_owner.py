"""A process is known to be gone once it is, however it ended, and never before."""

import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent_resolver.storage import Owner

# Tells its name, and whether each name that it is given belongs to a process that is gone.
OWNS = """
import sys
from agent_resolver.storage.owner import Owner

owner = Owner(sys.argv[1])
print(owner.name, flush=True)
for line in sys.stdin:
    print(owner.is_gone(line.strip()), flush=True)
owner.close()
"""


class Process:
    """Another process, with a name of its own."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-c", OWNS, str(folder)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.name = self._line()

    def _line(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def is_gone(self, name: str) -> bool:
        assert self.process.stdin
        self.process.stdin.write(f"{name}\n")
        self.process.stdin.flush()
        return {"True": True, "False": False}[self._line()]

    def kill(self) -> None:
        self.process.kill()
        assert self.process.wait() == -signal.SIGKILL

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.communicate()
        for stream in (self.process.stdin, self.process.stdout):
            if stream:
                stream.close()


@contextmanager
def another(folder: Path) -> Iterator[Process]:
    process = Process(folder)
    try:
        yield process
    finally:
        process.end()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state.owners"


@pytest.fixture
def owner(folder: Path) -> Iterator[Owner]:
    owner = Owner(str(folder))
    yield owner
    owner.close()


def test_nobody_is_gone_for_itself(owner: Owner) -> None:
    assert not owner.is_gone(owner.name)


def test_a_name_that_nobody_has_is_gone(owner: Owner) -> None:
    assert owner.is_gone("0123456789abcdef")


def test_two_owners_in_one_process_are_two(folder: Path, owner: Owner) -> None:
    second = Owner(str(folder))

    assert second.name != owner.name
    assert not owner.is_gone(second.name)
    assert not second.is_gone(owner.name)
    second.close()
    assert owner.is_gone(second.name)
    assert not owner.is_gone(owner.name)


def test_a_process_that_runs_is_there_and_one_that_ended_is_gone(folder: Path, owner: Owner) -> None:
    with another(folder) as process:
        assert not owner.is_gone(process.name)
        assert not process.is_gone(owner.name)

    assert owner.is_gone(process.name)


def test_a_process_that_was_killed_is_gone_for_everybody(folder: Path, owner: Owner) -> None:
    with another(folder) as witness, another(folder) as process:
        assert not owner.is_gone(process.name)
        process.kill()

        assert owner.is_gone(process.name)
        assert owner.is_gone(process.name)
        assert witness.is_gone(process.name)
        assert not witness.is_gone(owner.name)


def test_a_process_that_was_stopped_is_not_gone(folder: Path, owner: Owner) -> None:
    with another(folder) as process:
        os.kill(process.process.pid, signal.SIGSTOP)

        assert not owner.is_gone(process.name)
        os.kill(process.process.pid, signal.SIGCONT)


def test_a_program_that_was_started_does_not_keep_its_starter_alive(folder: Path, owner: Owner) -> None:
    second = Owner(str(folder))
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)

    second.close()

    assert owner.is_gone(second.name)
    child.communicate(b"\n")


def test_only_the_owner_may_look_into_the_folder(folder: Path, owner: Owner) -> None:
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / owner.name).stat().st_mode) == 0o600


def test_nothing_is_left_of_whoever_closed(folder: Path) -> None:
    Owner(str(folder)).close()

    assert list(folder.iterdir()) == []


def test_a_file_that_somebody_removed_is_no_fault(folder: Path, owner: Owner) -> None:
    second = Owner(str(folder))
    (folder / second.name).unlink()

    assert owner.is_gone(second.name)
    second.close()


def test_a_name_never_leads_out_of_the_folder(tmp_path: Path, owner: Owner) -> None:
    (tmp_path / "precious").touch()

    owner.is_gone("../precious")

    assert (tmp_path / "precious").exists()


def test_what_killed_processes_left_is_swept_and_what_is_in_use_stays(folder: Path, owner: Owner) -> None:
    with another(folder) as alive, another(folder) as killed, another(folder) as killed_too:
        killed.kill()
        killed_too.kill()
        assert len(list(folder.iterdir())) == 4

        owner.sweep()

        assert {path.name for path in folder.iterdir()} == {owner.name, alive.name}
        assert owner.is_gone(killed.name)
        assert not owner.is_gone(alive.name)


def test_owners_that_come_and_look_at_each_other_at_once_never_take_one_for_gone(folder: Path) -> None:
    """Whoever asks holds the lock for a moment: that must not look like the owner, nor take its file away."""
    together, wrong = threading.Barrier(4, timeout=10), list[str]()
    gone = Owner(str(folder))
    gone.close()

    def come() -> None:
        for _ in range(50):
            together.wait()
            owner = Owner(str(folder))
            owner.sweep()
            names = [path.name for path in folder.iterdir() if not path.name.startswith(".")]
            wrong.extend([] if owner.name in names else [f"{owner.name} was swept"])
            together.wait()
            wrong.extend(f"{name} was taken for gone" for name in names if owner.is_gone(name))
            wrong.extend([] if owner.is_gone(gone.name) else ["the one that is gone was not"])
            together.wait()
            owner.close()

    threads = [threading.Thread(target=come) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert wrong == []


def test_whoever_asks_at_the_same_time_does_not_look_like_the_owner(folder: Path, owner: Owner) -> None:
    with another(folder) as killed:
        killed.kill()
    asking = os.open(folder / killed.name, os.O_RDONLY)
    fcntl = pytest.importorskip("fcntl")
    fcntl.flock(asking, fcntl.LOCK_SH)

    assert owner.is_gone(killed.name)
    os.close(asking)
