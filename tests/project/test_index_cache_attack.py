"""The cache of a large JSON index where another user, another process, the disk or the clock is against it."""

import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from agent_resolver.project import index_cache, index_cache_writer, open_index as opening
from agent_resolver.project.compiled_index import CompiledIndex
from agent_resolver.project.index_cache import is_certain, known_digest, stamp_of_stat, write_wanted
from agent_resolver.project.index_cache_writer import write_cache
from agent_resolver.project.open_index import JsonIndex, open_index
from agent_resolver.schema.errors import ResolverError
from agent_resolver.schema.index_tree import EntryPlace, entry_places
from agent_resolver.storage.errors import OversizeFile, UnusableIndex
from tests.index_files import agent_asking, index_bytes
from tests.project.test_index_cache import LONG_AGO, Place
from tests.storage.test_index_file import NEEDS, everything, many


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """An index with a cache that fits."""
    monkeypatch.setattr(opening, "LARGE", 0)
    monkeypatch.setattr(index_cache, "_wanted", {})
    found = Place(tmp_path)
    found.write("https://one.example")
    assert write_cache(str(found.index), found.environment)
    assert isinstance(found.open(), CompiledIndex)
    return found


def memo_of(place: Place) -> Path:
    return place.cache.with_suffix(".digest")


def write_in_other_process(place: Place, code: str = "") -> "subprocess.Popen[bytes]":
    """Start the process that writes a cache, after some code that makes its life harder."""
    start = "from agent_resolver.project import index_cache_writer as it\nimport os, signal, sys\n"
    return subprocess.Popen(
        [sys.executable, "-P", "-c", f"{start}{code}\nit.main()", str(place.index)],
        env=place.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def left_in(folder: Path) -> list[str]:
    return sorted(each.suffix for each in folder.iterdir())


# Other users ----------------------------------------------------------------------------------------------------------


def test_the_process_that_writes_it_imports_nothing_of_the_project(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It starts in the folder of the project, whose code nobody has trusted."""
    place.cache.unlink()
    hostile = tmp_path / "hostile"
    (hostile / "agent_resolver").mkdir(parents=True)
    for name in ("agent_resolver/__init__.py", "signal.py", "sqlite3.py"):
        (hostile / name).write_text("open('ran', 'w').close()\n")
    monkeypatch.chdir(hostile)
    place.open()
    write_wanted(place.environment)
    deadline = time.monotonic() + 60
    while not place.cache.exists() and not (hostile / "ran").exists() and time.monotonic() < deadline:
        os.sched_yield()

    assert place.cache.exists()
    assert not (hostile / "ran").exists()


@pytest.mark.parametrize("mode", [0o666, 0o620])
def test_a_cache_that_others_can_write_is_not_read(place: Place, mode: int) -> None:
    place.cache.chmod(mode)

    assert isinstance(place.open(), JsonIndex)


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o770])
def test_a_folder_that_others_can_write_has_no_caches(place: Place, mode: int) -> None:
    place.cache.parent.chmod(mode)

    assert isinstance(place.open(), JsonIndex)


def test_a_folder_of_ours_is_closed_to_others_when_a_cache_is_written(place: Place) -> None:
    """A user whose files the group may write, as some systems have it, is not left without."""
    place.cache.parent.chmod(0o775)
    assert write_cache(str(place.index), place.environment)

    assert isinstance(place.open(), CompiledIndex)


def test_a_cache_of_another_user_is_neither_read_nor_written(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    known_digest(str(place.index), place.environment)
    before = {each: each.read_bytes() for each in place.cache.parent.iterdir()}
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)

    assert isinstance(place.open(), JsonIndex)
    assert write_cache(str(place.index), place.environment) is False
    index_cache.note_digest(str(place.index), (1,), "0", place.environment)
    assert {each: each.read_bytes() for each in place.cache.parent.iterdir()} == before


@pytest.mark.parametrize("kind", ["a link", "a pipe", "a folder"])
def test_what_is_not_a_file_in_the_folder_of_the_caches_is_left_alone(place: Place, tmp_path: Path, kind: str) -> None:
    digest = known_digest(str(place.index), place.environment)
    for path in (place.cache, memo_of(place)):
        target = tmp_path / path.name
        if path.exists():
            path.rename(target)
        if kind == "a link":
            path.symlink_to(target)
        elif kind == "a pipe":
            os.mkfifo(path)
        else:
            path.mkdir()

    assert isinstance(place.open(), JsonIndex)
    assert known_digest(str(place.index), place.environment) == digest


def test_a_link_in_the_place_of_a_cache_is_replaced_and_its_target_is_kept(place: Place, tmp_path: Path) -> None:
    place.cache.unlink()
    (tmp_path / "precious").write_text("mine")
    place.cache.symlink_to(tmp_path / "precious")
    assert write_cache(str(place.index), place.environment)

    assert not place.cache.is_symlink()
    assert isinstance(place.open(), CompiledIndex)
    assert (tmp_path / "precious").read_text() == "mine"


def test_the_cache_of_another_project_does_not_fit(place: Place, tmp_path: Path) -> None:
    other = Place(tmp_path)
    other.index = tmp_path / "elsewhere.json"
    other.write("https://two.example")
    write_cache(str(other.index), other.environment)
    shutil.copy(other.cache, place.cache)

    assert isinstance(place.open(), JsonIndex)
    assert place.endpoint() == "https://one.example"


# The index changes ----------------------------------------------------------------------------------------------------


def test_a_digest_is_not_kept_for_a_file_that_has_just_changed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file may change twice within one tick of the clock: the second content would have the digest of the first."""
    stamp = stamp_of_stat(place.index.stat())
    first = known_digest(str(place.index), place.environment)
    place.write("https://two.example")
    monkeypatch.setattr(index_cache, "stamp_of_descriptor", lambda _descriptor: stamp)

    assert not memo_of(place).exists()
    assert known_digest(str(place.index), place.environment) != first


def test_a_change_while_the_digest_is_worked_out_is_not_kept(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    stamps: Iterator[tuple[int, ...]] = iter([(1, 1, 1, 1, 1), (1, 1, 1, 1, 2)])
    monkeypatch.setattr(index_cache, "stamp_of_descriptor", lambda _descriptor: next(stamps))
    known_digest(str(place.index), place.environment)

    assert not memo_of(place).exists()


def test_a_time_in_the_future_is_settled_by_the_digest(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock was set back after the index was written."""
    ahead = time.time() + 1_000_000
    os.utime(place.index, (ahead, ahead))
    assert write_cache(str(place.index), place.environment)
    stamp = stamp_of_stat(place.index.stat())
    assert not is_certain(stamp, time.time_ns())
    assert isinstance(place.open(), CompiledIndex)

    place.write("https://two.example")
    monkeypatch.setattr(index_cache, "stamp_of_descriptor", lambda _descriptor: stamp)

    assert isinstance(place.open(), JsonIndex)


def test_the_digest_of_a_file_that_had_just_changed_is_kept_once_it_is_certain(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise an index that was used right after it was written would be read whole for ever."""
    assert not memo_of(place).exists()
    later = time.time_ns() + 10_000_000_000
    monkeypatch.setattr(time, "time_ns", lambda: later)

    assert isinstance(place.open(), CompiledIndex)
    assert memo_of(place).exists()


def test_an_index_that_changes_in_place_while_it_is_read_is_an_error(place: Place) -> None:
    index = place.open()
    place.index.write_bytes(place.index.read_bytes().replace(b"one.example", b"two.example"))

    with pytest.raises(UnusableIndex, match="changed while it was read") as refused:
        index.servers.get(("acme", "1"))
    assert refused.value.hint == "run the command again"
    assert place.endpoint() == "https://two.example"


def test_an_index_that_is_cut_while_it_is_read_is_an_error(place: Place) -> None:
    index = place.open()
    [server] = index.servers
    os.truncate(place.index, 20)

    with pytest.raises(UnusableIndex, match="changed while it was read"):
        index.entries_at([server])


def test_an_index_that_is_replaced_while_it_is_read_is_read_to_its_end(place: Place) -> None:
    index = place.open()
    place.index.rename(place.index.with_suffix(".old"))
    place.write("https://two.example")

    assert [server.endpoint for server in index.servers] == ["https://one.example"]
    assert place.endpoint() == "https://two.example"


def test_a_file_that_is_too_large_is_refused_with_a_cache_too(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (opening, index_cache, index_cache_writer):
        monkeypatch.setattr(module, "MAX_INDEX_BYTES", 10)

    with pytest.raises(OversizeFile):
        place.open()
    assert write_cache(str(place.index), place.environment) is False


def test_an_index_with_errors_starts_no_process(place: Place) -> None:
    place.index.write_text("[{}]")
    with pytest.raises(ResolverError):
        place.open()

    assert index_cache._wanted == {}


CHANGER = """\
import os, sys, time
path, counts, how = sys.argv[1:]
whole = open(path, "rb").read()
count = os.open(counts, os.O_WRONLY)
for number in range(1, 300):
    os.pwrite(count, number.to_bytes(4, "little"), 4)  # From here on it may be there,
    content = whole.replace(b"000000", b"%06d" % number)
    name = path if how == "in place" else path + ".new"
    file = os.open(name, os.O_WRONLY | os.O_CREAT)
    os.pwrite(file, content, 0)
    os.close(file)
    os.utime(name, (1_600_000_000, 1_600_000_000))
    os.replace(name, path)
    os.pwrite(count, number.to_bytes(4, "little"), 0)  # and from here on nothing older may.
    time.sleep(number % 4 * 0.003 if number % 16 else 0.2)
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["in place", "replaced"])
def test_an_index_that_never_stays_is_never_answered_from_an_old_cache(
    place: Place, tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each content has the size and the time of the one before; only the time of the change tells, and the digest."""
    entry = {"version": "1", "endpoint": "https://000000.example", "categories": ["c"], "scopes": ["s"]}
    place.index.write_text(json.dumps([{**entry, "id": f"s{number}"} for number in range(30)]))
    counts = tmp_path / "counts"
    counts.write_bytes(bytes(8))
    # Shorter than the longest pauses, so that times decide too; no clock of a file system is as coarse.
    monkeypatch.setattr(index_cache, "_TICK_NS", 50_000_000)
    seen: list[str] = []
    with subprocess.Popen([sys.executable, "-c", CHANGER, str(place.index), str(counts), how]) as changer:
        while changer.poll() is None:
            with suppress(ResolverError):
                write_cache(str(place.index), place.environment)
            for _ in range(10):
                least = int.from_bytes(counts.read_bytes()[:4], "little")
                try:
                    index = place.open()
                    found = {int(server.endpoint[8:14]) for server in index.servers}
                except ResolverError:  # It changed while it was read.
                    continue
                most = int.from_bytes(counts.read_bytes()[4:], "little")
                assert len(found) == 1
                assert least <= found.pop() <= most
                seen.append(type(index).__name__)

    assert {"JsonIndex", "CompiledIndex"} <= set(seen)


# The process that writes ----------------------------------------------------------------------------------------------


def test_a_writer_that_is_killed_leaves_nothing_that_counts(place: Place) -> None:
    """It dies when all is written and before the cache has its name; the next one removes what it left."""
    place.cache.unlink()
    killed = write_in_other_process(place, "os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)")
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    assert ".tmp" in left_in(place.cache.parent)

    assert isinstance(place.open(), JsonIndex)
    assert write_cache(str(place.index), place.environment)
    assert isinstance(place.open(), CompiledIndex)
    assert ".tmp" not in left_in(place.cache.parent)


def test_what_a_writer_of_another_container_left_is_removed_once_it_is_old(place: Place) -> None:
    """A container ends with its command, and with it the writer; the number of that process means nothing here."""
    folder = place.cache.parent
    old, young = folder / ".index-1.db.0badcafe-1-0.tmp", folder / ".index-2.db.0badcafe-1-0.tmp"
    for file in (old, young):
        file.write_bytes(bytes(100))
    os.utime(old, (LONG_AGO, LONG_AGO))
    assert write_cache(str(place.index), place.environment)

    assert not old.exists()
    assert young.exists()


def test_a_writer_keeps_no_pipe_or_lock_of_the_shell_that_started_the_command(place: Place) -> None:
    """It goes on after the answer, and a pipe ends for its reader only when no process has it any longer."""
    place.index.unlink()
    os.mkfifo(place.index)  # To open it waits for a process that writes.
    read, write = os.pipe()
    writer = subprocess.Popen(
        [sys.executable, "-P", "-m", "agent_resolver.project.index_cache_writer", str(place.index)],
        env=place.environment,
        pass_fds=[write],
    )
    os.close(write)
    try:
        assert select.select([read], [], [], 60) == ([read], [], [])
        assert os.read(read, 1) == b""
        assert writer.poll() is None
    finally:
        os.close(read)
        writer.kill()
        writer.wait()


def test_a_disk_that_is_full_leaves_no_cache_and_no_word(place: Place) -> None:
    place.cache.unlink()
    limit = "import resource\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    limit += "resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))"
    full = write_in_other_process(place, limit)

    assert (*full.communicate(), full.returncode) == (b"", b"", 0)
    assert isinstance(place.open(), JsonIndex)
    assert set(left_in(place.cache.parent)) <= {".lock", ".digest"}


def test_a_folder_that_cannot_be_made_is_done_without(place: Place, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    place.environment["XDG_CACHE_HOME"] = str(tmp_path / "file" / "cache")
    written = write_in_other_process(place)

    assert (*written.communicate(), written.returncode) == (b"", b"", 0)
    assert isinstance(place.open(), JsonIndex)
    assert known_digest(str(place.index), place.environment)


def test_several_writers_at_once_leave_one_whole_cache(place: Place) -> None:
    place.cache.unlink()
    writers = [write_in_other_process(place) for _ in range(4)]
    answers = {(*writer.communicate(), writer.returncode) for writer in writers}

    assert answers == {(b"", b"", 0)}
    assert isinstance(place.open(), CompiledIndex)
    assert ".tmp" not in left_in(place.cache.parent)


# Damage ---------------------------------------------------------------------------------------------------------------


def test_any_damage_of_the_cache_is_an_error_or_changes_nothing(place: Place) -> None:
    agent, dice = agent_asking(NEEDS), random.Random(22)
    place.index.write_bytes(index_bytes(many(40)))
    os.utime(place.index, (LONG_AGO, LONG_AGO))
    write_cache(str(place.index), place.environment)
    whole, right = place.cache.read_bytes(), everything(agent, place.open().servers)
    used = [number for number, byte in enumerate(whole) if byte]
    refused = 0
    for _ in range(250):
        content = bytearray(whole)
        start = dice.choice(used)
        content[start : start + dice.choice((1, 30))] = dice.randbytes(dice.choice((0, 1, 30)))
        place.cache.write_bytes(content)
        try:
            found = everything(agent, place.open().servers)
        except UnusableIndex:
            refused += 1
            assert not place.cache.exists()
        else:
            assert found == right
    assert refused > 20


def test_the_places_of_many_servers_are_found_in_one_pass(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pass reads the whole index."""
    place.index.write_bytes(index_bytes(many(20)))
    write_cache(str(place.index), place.environment)
    index = place.open()
    passes = []

    def counted(raw: bytes) -> Iterator[EntryPlace]:
        passes.append(len(raw))
        return entry_places(raw)

    monkeypatch.setattr(index_cache, "entry_places", counted)
    servers = [*index.servers]
    found = index.entries_at(servers)
    positions = [index.servers.position(server) for server in servers]

    assert positions == list(range(20))
    assert len(found) == 20
    assert [index.source_of(server) for server in servers] == [str(place.index)] * 20
    assert len(passes) == 1
    assert found == open_index(str(place.index), None).entries_at(servers)
