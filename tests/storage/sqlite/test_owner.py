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
from tests.process import eventually

# Tells its name, and whether each name that it is given belongs to a process that is gone.
OWNS = """
import sys
from agent_resolver.storage import Owner

owner = Owner(sys.argv[1])
print(owner.name, flush=True)
for line in sys.stdin:
    print(owner.is_gone(line.strip()), flush=True)
owner.close(is_in_use=sys.argv[2] == "in use")
"""


class Process:
    """Another process, with a name of its own."""

    def __init__(self, folder: Path, *, is_in_use: bool) -> None:
        command = [sys.executable, "-c", OWNS, str(folder), "in use" if is_in_use else "not in use"]
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
def another(folder: Path, *, is_in_use: bool = True) -> Iterator[Process]:
    """A process whose name a row of the state has to the end, or not."""
    process = Process(folder, is_in_use=is_in_use)
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
    owner.close(is_in_use=False)


def nobody() -> set[str]:
    """No row of the state names a process."""
    return set()


def test_nobody_is_gone_for_itself(owner: Owner) -> None:
    assert not owner.is_gone(owner.name)


@pytest.mark.parametrize("name", ["0123456789abcdef", "", ".", "..", "a\0b", "x" * 1000, "\udcff", "/"])
def test_a_name_that_nobody_knows_is_not_gone(owner: Owner, name: str) -> None:
    assert not owner.is_gone(name)


def test_two_owners_in_one_process_are_two(folder: Path, owner: Owner) -> None:
    second = Owner(str(folder))

    assert second.name != owner.name
    assert not owner.is_gone(second.name)
    assert not second.is_gone(owner.name)
    second.close(is_in_use=True)
    assert owner.is_gone(second.name)
    assert not owner.is_gone(owner.name)


@pytest.mark.parametrize("is_in_use", [True, False])
def test_a_running_process_is_there_and_an_ended_one_gone_while_named(
    folder: Path,
    owner: Owner,
    is_in_use: bool,  # noqa: FBT001
) -> None:
    with another(folder, is_in_use=is_in_use) as process:
        assert not owner.is_gone(process.name)
        assert not process.is_gone(owner.name)

    assert owner.is_gone(process.name) is is_in_use


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

    second.close(is_in_use=True)

    assert owner.is_gone(second.name)
    child.communicate(b"\n")


def test_a_process_that_was_forked_off_does_not_keep_the_other_alive(folder: Path, owner: Owner) -> None:
    """The lock is one for both; the one that was forked off gives up its share."""
    second = Owner(str(folder))
    waits, ends = os.pipe()
    child = os.fork()
    if not child:
        os.close(ends)
        os.read(waits, 1)
        os._exit(0)
    os.close(waits)
    try:
        assert not owner.is_gone(second.name)
        second.close(is_in_use=True)

        assert eventually(lambda: owner.is_gone(second.name))
    finally:
        os.close(ends)
        assert os.waitpid(child, 0)[1] == 0


def test_what_was_forked_off_does_not_end_the_name_of_the_other(folder: Path, owner: Owner) -> None:
    second = Owner(str(folder))
    child = os.fork()
    if not child:
        second.close(is_in_use=False)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0

    assert (folder / second.name).exists()
    assert not owner.is_gone(second.name)
    second.close(is_in_use=False)


def test_only_the_owner_may_look_into_the_folder(folder: Path, owner: Owner) -> None:
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / owner.name).stat().st_mode) == 0o600


def test_nothing_is_left_of_whoever_closed(folder: Path) -> None:
    owner = Owner(str(folder))
    owner.close(is_in_use=False)
    owner.close(is_in_use=False)

    assert list(folder.iterdir()) == []


def test_a_file_that_somebody_removed_is_no_fault(folder: Path, owner: Owner) -> None:
    second = Owner(str(folder))
    (folder / second.name).unlink()

    assert not owner.is_gone(second.name)
    second.close(is_in_use=False)


def test_a_name_never_leads_out_of_the_folder(tmp_path: Path, owner: Owner) -> None:
    (tmp_path / "precious").touch()

    assert not owner.is_gone("../precious")
    assert not owner.is_gone(f"../state.owners/{owner.name}")

    assert (tmp_path / "precious").exists()


def test_what_killed_processes_left_is_swept_and_what_is_in_use_stays(folder: Path, owner: Owner) -> None:
    with another(folder) as alive, another(folder) as killed, another(folder) as killed_too:
        killed.kill()
        killed_too.kill()
        assert len(list(folder.iterdir())) == 4

        owner.sweep(lambda: {killed_too.name})

        assert {path.name for path in folder.iterdir()} == {owner.name, alive.name, killed_too.name}
        assert not owner.is_gone(killed.name), "no row names it, so it is forgotten"
        assert owner.is_gone(killed_too.name)
        assert not owner.is_gone(alive.name)
        owner.sweep(nobody)
        assert {path.name for path in folder.iterdir()} == {owner.name, alive.name}


def test_what_a_process_left_before_it_had_its_name_is_swept(folder: Path, owner: Owner) -> None:
    (folder / ".0123456789abcdef").touch()

    owner.sweep(nobody)

    assert [path.name for path in folder.iterdir()] == [owner.name]


def test_what_a_repository_brought_instead_of_names_is_left_alone(tmp_path: Path, folder: Path, owner: Owner) -> None:
    (folder / "folder").mkdir()
    (folder / "link").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe")

    owner.sweep(nobody)

    assert not any(map(owner.is_gone, ("folder", "link", "pipe")))
    assert {path.name for path in folder.iterdir()} == {owner.name, "folder", "link", "pipe"}


def test_the_state_is_not_asked_where_nobody_left_anything(folder: Path, owner: Owner) -> None:
    with another(folder):
        owner.sweep(lambda: pytest.fail("it was asked"))


def test_owners_that_come_and_look_at_each_other_at_once_never_take_one_for_gone(folder: Path) -> None:
    """Whoever asks holds the lock for a moment: that must not look like the owner, nor take its file away."""
    together, wrong = threading.Barrier(4, timeout=10), list[str]()
    gone = Owner(str(folder))
    gone.close(is_in_use=True)

    def come() -> None:
        for _ in range(50):
            together.wait()
            owner = Owner(str(folder))
            owner.sweep(lambda: {gone.name})
            names = {path.name for path in folder.iterdir() if not path.name.startswith(".")} - {gone.name}
            wrong.extend([] if owner.name in names else [f"{owner.name} was swept"])
            together.wait()
            wrong.extend(f"{name} was taken for gone" for name in names if owner.is_gone(name))
            wrong.extend([] if owner.is_gone(gone.name) else ["the one that is gone was not"])
            together.wait()
            owner.close(is_in_use=False)

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


def test_an_owner_comes_while_others_sweep_all_the_time(folder: Path) -> None:
    """Whoever sweeps holds the lock of what has no name yet for a moment, and may remove it."""
    is_over, problems = threading.Event(), list[str]()

    def sweep() -> None:
        sweeper = Owner(str(folder))
        while not is_over.is_set():
            sweeper.sweep(nobody)
        sweeper.close(is_in_use=False)

    def come() -> None:
        try:
            for _ in range(200):
                owner = Owner(str(folder))
                if not (folder / owner.name).exists():
                    problems.append("it was swept")
                owner.close(is_in_use=False)
        except OSError as error:
            problems.append(repr(error))

    sweepers = [threading.Thread(target=sweep) for _ in range(2)]
    comers = [threading.Thread(target=come) for _ in range(2)]
    for thread in (*sweepers, *comers):
        thread.start()
    for thread in comers:
        thread.join()
    is_over.set()
    for thread in sweepers:
        thread.join()

    assert problems == []


def test_where_the_system_has_no_locks_nobody_is_known_to_be_gone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_resolver.storage.sqlite.owner.fcntl", None)
    owner, second = Owner(str(folder)), Owner(str(folder))
    second.close(is_in_use=True)

    owner.sweep(nobody)

    assert not owner.is_gone(second.name)
    assert (folder / second.name).exists()
    owner.close(is_in_use=False)
