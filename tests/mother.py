"""A process that forks others for the tests: it has imported everything, so that each starts in a few milliseconds.

A module of jobs ends in `serve(Job, do_job)`, and a test starts it with `Mother("tests.name.of.module")`. A job is a
struct with at least `folder`, where a process that fails leaves the reason in the file `errors`.

The mother reads lines of JSON. For an object, a job, she forks a process that does it, and writes the id of that
process. For a list, `[id, seconds]`, she waits for that process, kills it after so many seconds (null for no limit),
and writes how it ended.
"""

import faulthandler
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NoReturn, Self

import msgspec

from tests.dying import KILLED

_ERRORS: Final = "errors"
_POLL_SECONDS: Final = 0.001


class Mother:
    """Forks processes for the tests, until the block that she is opened for ends."""

    def __init__(self, module: str) -> None:
        command = [sys.executable, "-m", module]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def fork(self, job: Any) -> int:
        """Begin a job in a process of its own, and return the id of the process."""
        return self._ask(job)

    def wait(self, pid: int, seconds: float | None = None) -> int:
        """The exit code of a process that was forked; after so many seconds it is killed."""
        return self._ask([pid, seconds])

    def kill(self, pid: int) -> None:
        """End a process that was forked at once."""
        os.kill(pid, signal.SIGKILL)
        assert self.wait(pid) == KILLED

    def do(self, job: Any, seconds: float | None = None) -> bool:
        """Do a job to its end; False if its process was killed before, by itself or after so many seconds."""
        code = self.wait(self.fork(job), seconds)
        if code not in {0, KILLED}:
            errors = Path(job.folder) / _ERRORS
            reason = errors.read_text() if errors.exists() else "no reason was left"
            raise AssertionError(f"{job} ended with {code}: {reason}")
        return code == 0

    def _ask(self, question: Any) -> int:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(msgspec.json.encode(question) + b"\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()


def serve(job_type: type, do_job: Callable[[Any], None], patience_seconds: int) -> None:
    """Be the mother until the test closes the input.

    Args:
        job_type: The struct of a job.
        do_job: What a forked process does.
        patience_seconds: A process that takes longer ends: where a piece of work is lost it would wait for ever.
    """
    for line in sys.stdin.buffer:
        question: Any = msgspec.json.decode(line)
        if isinstance(question, list):
            answer = _wait_for(*question)
        else:
            job: Any = msgspec.convert(question, job_type)
            answer = os.fork()
            if answer == 0:
                _do_and_exit(job, do_job, patience_seconds)
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()


def _wait_for(pid: int, seconds: float | None) -> int:
    if seconds is not None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
            time.sleep(_POLL_SECONDS)
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


def _do_and_exit(job: Any, do_job: Callable[[Any], None], patience_seconds: int) -> NoReturn:
    """Do a job and end the process; without what Python would do at its end for the process that it was forked of."""
    signal.alarm(patience_seconds)
    with (Path(job.folder) / _ERRORS).open("a") as errors:
        # A fault in a library leaves the stacks of all threads there.
        faulthandler.enable(errors)
        try:
            do_job(job)
        except BaseException:  # noqa: BLE001 - whatever it is, the test has to hear of it
            traceback.print_exc(file=errors)
            errors.flush()
            os._exit(1)
        os._exit(0)
