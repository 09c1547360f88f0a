"""Whether a process is there, and waiting until something is so."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

DEADLINE_SECONDS = 15.0

_DIES_AT_LINE = """
import os, signal, sys
{setup}
left = {line}

def trace(frame, event, argument):
    global left
    if {where!r} not in frame.f_code.co_filename:
        return None
    if event == "line":
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
    return trace

sys.settrace(trace)
{act}
"""


def killed_at_line(line: int, where: str, *arguments: object, setup: str, act: str) -> bool:
    """Run a program that kills itself before a line of ours; True if it did, False if it came to its end before.

    Args:
        line: How many lines run before that one, counted in the files below.
        where: A part of the paths of the files whose lines count.
        arguments: What the program finds in `sys.argv[1:]`.
        setup: What it does first; these lines do not count.
        act: What it is killed in.
    """
    program = _DIES_AT_LINE.format(line=line, where=where, setup=setup, act=act)
    done = subprocess.run([sys.executable, "-c", program, *map(str, arguments)], check=False)
    assert done.returncode in {0, -signal.SIGKILL}
    return done.returncode != 0


def is_running(pid: int) -> bool:
    """Whether the process does anything: one that ended and was not yet collected does not."""
    shown = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return shown.returncode == 0 and not shown.stdout.startswith("Z")


def eventually(condition: Callable[[], bool], seconds: float = DEADLINE_SECONDS) -> bool:
    """Whether `condition` comes true before the deadline."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


async def comes_true(condition: Callable[[], bool], seconds: float = DEADLINE_SECONDS) -> None:
    """Wait until `condition` is true, while everything else goes on."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - it is about another process
            await asyncio.sleep(0.01)


def started(folder: Path) -> list[int]:
    """The process ids that servers left in this folder or below it."""
    return [int(line) for path in folder.rglob("pids") for line in path.read_text().split()]


def end(pids: list[int]) -> None:
    """End what a failed test left behind: only what is in the list."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def assert_none_is_left(folder: Path) -> None:
    """Every server that was started in this folder is gone."""
    pids = started(folder)
    try:
        assert eventually(lambda: not any(map(is_running, pids))), "a server outlived its test"
    finally:
        end([pid for pid in pids if is_running(pid)])
