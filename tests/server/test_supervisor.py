"""The supervisor of server processes: exchanges while processes start, die, or do not want to end."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec import Struct

from agent_resolver import __version__
from agent_resolver.server import supervisor
from agent_resolver.server.supervisor import Supervisor, child_command
from tests.process import comes_true, end, is_running

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

_PROCESS = """
import os, pathlib, signal, socket, sys, time
folder = pathlib.Path(sys.argv[1])
channel = socket.socket(fileno=int(sys.argv[3].partition(":")[2]))
{before}
with open(folder / "pids", "a") as file:
    file.write(f"{{os.getpid()}}\\n")
number = (folder / "pids").read_text().split().index(str(os.getpid()))
while number in {slow} and not (folder / "go").exists():
    time.sleep(0.01)
channel.send(b"ready")
if number == 0:
    (folder / "first").touch()
channel.recv(1)
"""
"""A process that is ready at once, or for some numbers only when `go` is there, and lives as long as the supervisor."""


class Watched(Struct):
    """A supervisor that runs, and what it said."""

    folder: Path
    reports: list[str]

    def pids(self) -> list[int]:
        """The processes that it started, in their order."""
        path = self.folder / "pids"
        return [int(word) for word in path.read_text().split()] if path.exists() else []

    def alive(self) -> list[int]:
        return [pid for pid in self.pids() if is_running(pid)]

    async def comes_true(self, condition: Callable[[], bool]) -> None:
        await comes_true(condition, 60.0)


@asynccontextmanager
async def supervised(folder: Path, *, slow: tuple[int, ...] = (), before: str = "") -> AsyncIterator[Watched]:
    watched = Watched(folder, [])
    program = _PROCESS.format(slow=slow, before=before)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        command = [sys.executable, "-c", program, str(folder)]
        keeper = Supervisor(command, listening, 3, on_ready=lambda _: None, report=watched.reports.append)
        running = asyncio.create_task(keeper.run())
        try:
            yield watched
            os.kill(os.getpid(), signal.SIGTERM)
            assert await asyncio.wait_for(running, 60) == 0
            assert watched.alive() == []
        finally:
            end(watched.alive())


@pytest.mark.parametrize("started", [0, 1])
async def test_a_signal_ends_it_also_while_a_process_starts(tmp_path: Path, started: int) -> None:
    """The first process, or another one beside those that are ready."""
    async with supervised(tmp_path, slow=tuple(range(started, 3))) as watched:
        await watched.comes_true(lambda: len(watched.pids()) > started)
        os.kill(os.getpid(), signal.SIGTERM)
        await watched.comes_true(lambda: watched.alive() == [])


async def test_an_exchange_waits_for_processes_that_still_start(tmp_path: Path) -> None:
    async with supervised(tmp_path, slow=(1, 2)) as watched:
        await watched.comes_true(lambda: (tmp_path / "first").exists() and len(watched.pids()) == 3)
        before = watched.pids()
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.sleep(0.5)
        (tmp_path / "go").touch()
        await watched.comes_true(lambda: "all server processes were exchanged" in watched.reports)
        await watched.comes_true(lambda: not set(before) & set(watched.alive()))

        assert len(watched.alive()) == 3


async def test_a_process_that_died_is_replaced_once_when_an_exchange_comes_between(tmp_path: Path) -> None:
    async with supervised(tmp_path, slow=(3,)) as watched:
        await watched.comes_true(lambda: len(watched.pids()) == 3)
        await asyncio.sleep(0.3)
        os.kill(os.getpid(), signal.SIGHUP)
        await watched.comes_true(lambda: len(watched.pids()) == 4)
        # The exchange waits for its first new process; the one of the last slot dies meanwhile.
        os.kill(watched.pids()[2], signal.SIGKILL)
        await asyncio.sleep(0.5)
        (tmp_path / "go").touch()
        await watched.comes_true(lambda: "all server processes were exchanged" in watched.reports)
        await watched.comes_true(lambda: len(watched.alive()) == 3)
        await asyncio.sleep(1)

        assert len(watched.alive()) == 3


async def test_an_exchanged_process_that_does_not_end_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "END_SECONDS", 0.3)
    async with supervised(tmp_path, before="signal.signal(signal.SIGTERM, signal.SIG_IGN)") as watched:
        await watched.comes_true(lambda: len(watched.pids()) == 3)
        await asyncio.sleep(0.3)
        before = watched.pids()
        os.kill(os.getpid(), signal.SIGHUP)
        await watched.comes_true(lambda: "all server processes were exchanged" in watched.reports)
        await watched.comes_true(lambda: not set(before) & set(watched.alive()))

        assert len(watched.alive()) == 3
        assert any("is killed" in each for each in watched.reports)


async def test_an_exchange_whose_new_process_does_not_start_leaves_those_that_run(tmp_path: Path) -> None:
    """As with settings that are wrong now, or a state that cannot be reached."""
    refuse = 'if (folder / "refuse").exists(): sys.exit(2)'
    async with supervised(tmp_path, before=refuse) as watched:
        await watched.comes_true(lambda: len(watched.pids()) == 3)
        before = watched.alive()
        (tmp_path / "refuse").touch()
        os.kill(os.getpid(), signal.SIGHUP)
        await watched.comes_true(lambda: any("those that run stay" in each for each in watched.reports))
        assert watched.alive() == before

        (tmp_path / "refuse").unlink()
        os.kill(os.getpid(), signal.SIGHUP)
        await watched.comes_true(lambda: "all server processes were exchanged" in watched.reports)
        await watched.comes_true(lambda: not set(before) & set(watched.alive()))
        assert len(watched.alive()) == 3


def test_a_server_process_imports_nothing_of_the_folder_it_is_started_in(tmp_path: Path) -> None:
    """`agent serve --processes 2` in a folder with an `agent_resolver` of its own must not run that."""
    for name in ("agent_resolver/__init__.py", "argparse.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("raise SystemExit('ran')\n")
    words = child_command(["--processes", "2", "--version"])
    ran = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert (ran.stdout, ran.stderr) == (f"agent {__version__}\n", "")
