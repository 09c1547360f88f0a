"""The cache of a large JSON index, as an operator meets it: nobody asks for it, and nobody waits for it."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent_resolver.project import index_cache, open_index as opening
from agent_resolver.storage.index_file.form import LARGE
from tests.conftest import Run
from tests.index_files import index_bytes
from tests.storage.test_index_file import CATEGORY, SCOPE, many

AGENT = (
    f"---\nname: a\nversion: 1.0.0\nrequires:\n  mcp:\n    - {{category: {CATEGORY}, permissions: ['{SCOPE}']}}\n---\n"
)
COUNTED = """\
import sys
from agent_resolver.cli import main
code = main(["resolve", "--json"])
read = next(line for line in open("/proc/self/io") if line.startswith("rchar:")).split()[1]
print(code, read, file=sys.stderr)
"""


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """Of each process that would write a cache, its command line, and the locks that were there by then."""
    found: list[list[str]] = []

    def start(_program: str, line: list[str], *_: object, **__: object) -> int:
        found.append([*line[3:], *sorted(each.name for each in Path.cwd().iterdir() if each.suffix == ".lock")])
        raise OSError

    monkeypatch.setattr(opening, "LARGE", 0)
    monkeypatch.setattr(index_cache, "_wanted", {})
    monkeypatch.setattr(os, "posix_spawn", start)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return found


def test_a_cache_is_written_after_the_answer(project: Path, run: Run, started: list[list[str]]) -> None:
    assert run("resolve").code == 0

    writer = "agent_resolver.project.index_cache_writer"
    assert started == [[writer, str(project / "mcp.index.json"), "agents.lock"]]


def test_a_failure_asks_for_a_cache_too_and_a_faulty_index_does_not(
    project: Path, run: Run, started: list[list[str]]
) -> None:
    assert run("why", "absent").code == 1
    assert len(started) == 1
    (project / "mcp.index.json").write_text("[{}]")

    assert run("resolve").code == 1
    assert len(started) == 1


def test_one_setting_turns_it_off(
    run: Run, project: Path, started: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "agent.toml").write_text("[index]\ncache = false\n")
    assert run("resolve").code == 0
    (project / "agent.toml").unlink()
    monkeypatch.setenv("AGENT_INDEX_CACHE", "false")
    assert run("resolve", "--check").code == 0

    assert started == []


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="says how much a process reads")
def test_the_second_use_of_a_large_index_reads_little_of_it(tmp_path: Path) -> None:
    index, caches = tmp_path / "mcp.index.json", tmp_path / "cache" / "agent-resolver"
    index.write_bytes(index_bytes(many(20_000)))
    (tmp_path / "agents.md").write_text(AGENT)
    size = index.stat().st_size
    assert size > 4 * LARGE
    while time.time_ns() < index.stat().st_ctime_ns + 3_000_000_000:
        os.sched_yield()  # A file that has just changed is told by its digest, which reads it whole.

    def use() -> tuple[str, int]:
        environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
        ran = subprocess.run(
            [sys.executable, "-c", COUNTED], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        )
        code, read = ran.stderr.split()
        assert code == "0"
        return (tmp_path / "agents.lock").read_text(), int(read)

    first, read_first = use()
    deadline = time.monotonic() + 120
    while not list(caches.glob("index-*.digest")) and time.monotonic() < deadline:
        os.sched_yield()
    second, read_second = use()

    assert second == first
    assert read_first - read_second > size // 2
    assert next(caches.glob("index-*.db")).stat().st_size < size // 3
