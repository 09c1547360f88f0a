"""A kill at any point, and two writers at once, never leave half a file."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.process import killed_at_line

OLD = b"old\n" * 1000
NEW = b"new\n" * 1500

WRITES_AGAIN_AND_AGAIN = """
import sys
from agent_resolver.storage import write_atomic

for _ in range(200):
    write_atomic(sys.argv[1], [sys.argv[2].encode() * 20_000] * 3)
"""


@pytest.mark.slow
def test_a_kill_before_any_line_leaves_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "agents.lock"
    seen = set()
    for line in range(1000):
        path.write_bytes(OLD)
        act = 'write_atomic(sys.argv[1], [b"new\\n" * 500] * 3)'
        setup = "from agent_resolver.storage import write_atomic"
        is_killed = killed_at_line(line, "/storage/", path, setup=setup, act=act)
        content = path.read_bytes()
        seen.add(content)
        assert content in {OLD, NEW}
        if not is_killed:
            assert content == NEW
            break
    else:
        raise AssertionError("it never finished")
    assert seen == {OLD, NEW}
    assert line > 30


def test_two_writers_at_once_never_show_half_a_file(tmp_path: Path) -> None:
    path = tmp_path / "agents.lock"
    wholes = {word * 60_000 for word in (b"one", b"four")}
    path.write_bytes(b"one" * 60_000)
    command = [sys.executable, "-c", WRITES_AGAIN_AND_AGAIN, str(path)]
    writers = [subprocess.Popen([*command, word]) for word in ("one", "four")]
    while any(writer.poll() is None for writer in writers):
        assert path.read_bytes() in wholes
    assert [writer.returncode for writer in writers] == [0, 0]
    assert list(tmp_path.iterdir()) == [path]
