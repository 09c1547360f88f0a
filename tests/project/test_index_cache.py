"""The cache of a large JSON index: the same answers, never an old one, and never in the way."""

import json
import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent_resolver.project import index_cache, open_index as opening
from agent_resolver.project.compiled_index import CompiledIndex
from agent_resolver.project.index_cache import cache_path, known_digest, write_wanted
from agent_resolver.project.index_cache_writer import remove_oldest, write_cache
from agent_resolver.project.open_index import JsonIndex, open_index
from agent_resolver.storage.errors import UnusableIndex

LONG_AGO = 1_600_000_000


class Place:
    """A large index of its own, and a folder for its cache."""

    def __init__(self, folder: Path) -> None:
        self.index = folder / "mcp.index.json"
        self.environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache"), "AGENT_INDEX_CACHE": "true"}

    @property
    def cache(self) -> Path:
        return Path(cache_path(str(self.index), self.environment))

    def write(self, endpoint: str) -> None:
        entry = {"id": "acme", "version": "1", "endpoint": endpoint, "categories": ["c"], "scopes": ["s"]}
        self.index.write_text(json.dumps([entry]))
        os.utime(self.index, (LONG_AGO, LONG_AGO))

    def open(self) -> JsonIndex | CompiledIndex:
        found = open_index(str(self.index), self.environment)
        assert isinstance(found, JsonIndex | CompiledIndex)
        return found

    def endpoint(self) -> str:
        found = self.open().servers.get(("acme", "1"))
        assert found is not None
        return found.endpoint


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setattr(opening, "LARGE", 0)
    monkeypatch.setattr(index_cache, "_wanted", {})
    found = Place(tmp_path)
    found.write("https://one.example")
    return found


def test_the_second_use_reads_the_tables_and_the_entry_of_the_json(place: Place) -> None:
    assert isinstance(place.open(), JsonIndex)
    assert write_cache(str(place.index), place.environment)

    assert isinstance(place.open(), CompiledIndex)
    assert place.endpoint() == "https://one.example"
    assert b"one.example" not in place.cache.read_bytes()


def test_a_change_with_the_same_size_and_time_is_seen(place: Place) -> None:
    """Another content of equal length, with its time set back: only the time of the change and the digest tell."""
    write_cache(str(place.index), place.environment)
    place.write("https://two.example")

    assert isinstance(place.open(), JsonIndex)
    assert place.endpoint() == "https://two.example"


def test_times_that_are_too_close_are_settled_by_the_digest(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system whose clock stands still: the stamp of the changed file is the one that the cache knows."""
    write_cache(str(place.index), place.environment)
    stamp = index_cache.stamp_of_stat(place.index.stat())
    place.write("https://two.example")
    monkeypatch.setattr(index_cache, "stamp_of_descriptor", lambda _descriptor: stamp)

    assert isinstance(place.open(), JsonIndex)
    assert place.endpoint() == "https://two.example"


def test_an_overlay_that_changes_makes_the_cache_unfit(place: Place) -> None:
    write_cache(str(place.index), place.environment)
    (place.index.parent / "mcp.overlay.yaml").write_text("servers: {acme: {trust: {signed: true}}}\n")

    found = place.open()

    assert isinstance(found, JsonIndex)
    server = found.servers.get(("acme", "1"))
    assert server is not None
    assert server.signed is True


@pytest.mark.parametrize("content", [b"", b"not a database", b"SQLite format 3\0" + bytes(5000)])
def test_a_cache_that_is_none_is_done_without(place: Place, content: bytes) -> None:
    write_cache(str(place.index), place.environment)
    place.cache.write_bytes(content)

    assert isinstance(place.open(), JsonIndex)


def test_damage_that_shows_later_is_an_error_and_the_cache_goes(place: Place) -> None:
    write_cache(str(place.index), place.environment)
    connection = sqlite3.connect(place.cache, isolation_level=None)
    connection.execute("UPDATE place SET places = zeroblob(12)")
    connection.close()
    os.utime(place.index, (LONG_AGO, LONG_AGO))

    write_cache_again = place.open()
    if isinstance(write_cache_again, CompiledIndex):
        with pytest.raises(UnusableIndex, match="cache was removed") as refused:
            place.endpoint()
        assert refused.value.hint == "run the command again"
        assert not place.cache.exists()
    assert place.endpoint() == "https://one.example"


def test_it_may_be_deleted_at_any_time_and_is_off_with_one_setting(place: Place) -> None:
    write_cache(str(place.index), place.environment)
    off = {**place.environment, "AGENT_INDEX_CACHE": "false"}

    assert isinstance(open_index(str(place.index), off), JsonIndex)
    place.cache.unlink()
    assert isinstance(place.open(), JsonIndex)


def test_the_setting_may_be_in_the_project(place: Place) -> None:
    write_cache(str(place.index), place.environment)
    (place.index.parent / "agent.toml").write_text("[index]\ncache = false\n")
    del place.environment["AGENT_INDEX_CACHE"]

    assert isinstance(place.open(), JsonIndex)


def test_a_project_may_turn_it_off_for_an_index_that_is_elsewhere(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_cache(str(place.index), place.environment)
    del place.environment["AGENT_INDEX_CACHE"]
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    assert isinstance(place.open(), CompiledIndex)
    (project / "agent.toml").write_text("[index]\ncache = false\n")

    assert isinstance(place.open(), JsonIndex)


def test_the_cache_is_written_by_a_process_of_its_own(place: Place) -> None:
    place.open()
    write_wanted(place.environment)
    deadline = time.monotonic() + 60
    while not place.cache.exists() and time.monotonic() < deadline:
        os.sched_yield()

    assert place.cache.exists()
    assert place.cache.stat().st_mode & 0o777 == 0o600


def test_an_invalid_index_gets_no_cache_and_the_writer_says_nothing(place: Place) -> None:
    place.index.write_text("[{}]")
    ran = subprocess.run(
        [sys.executable, "-m", "agent_resolver.project.index_cache_writer", str(place.index)],
        env=place.environment,
        capture_output=True,
        check=False,
    )

    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"", b"")
    assert not place.cache.exists()


def test_of_two_writers_one_waits_for_nothing(place: Place) -> None:
    write_cache(str(place.index), place.environment)
    import fcntl

    with Path(f"{place.cache}.lock").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)

        assert write_cache(str(place.index), place.environment) is False


def test_the_oldest_caches_are_removed(tmp_path: Path) -> None:
    for number in range(4):
        file = tmp_path / f"index-{number}.db"
        file.write_bytes(bytes(100))
        os.utime(file, (LONG_AGO + number, LONG_AGO + number))
        (tmp_path / f"index-{number}.db.lock").touch()
        (tmp_path / f"index-{number}.digest").touch()
    (tmp_path / "catalog-1.db").write_bytes(bytes(1000))

    remove_oldest(str(tmp_path), str(tmp_path / "index-0.db"), 250)

    kept = [f"index-{number}{end}" for number in (0, 3) for end in (".db", ".db.lock", ".digest")]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["catalog-1.db", *kept]


def test_a_digest_is_worked_out_once_for_a_file_that_stays(place: Place) -> None:
    first = known_digest(str(place.index), place.environment)
    place.write("https://two.example")
    second = known_digest(str(place.index), place.environment)

    assert first != second
