"""Twenty tasks in flight over one state file, in a process that is killed at any boundary of any of them.

`python -m tests.reasoner.victim` is a mother of victims: for each `Job` on its input it forks a process that brings
tasks to their end, and writes how that process ended. It has imported everything, so that a victim starts in a few
milliseconds.
"""

import os
import signal
import subprocess
import sys
import traceback
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec
from msgspec import Struct

from tests.dying import KILLED
from tests.reasoner.lasting import AT_ONCE, NotedDeath, bring_to_end, name_of

PATIENCE_SECONDS: Final = 300
_CHILD: Final = {signal.SIGCHLD}


class Job(Struct, frozen=True, kw_only=True):
    """The tasks of one victim, and where it is killed: at a boundary, at a moment or not at all."""

    folder: str
    point: str = ""
    """The boundary at which the process kills itself, such as `stage.builder.waiting:before`."""
    number: int = 1
    """How often it reaches the boundary before."""
    seconds: float = 0.0
    """The time after which its mother kills it, in the middle of whatever it does."""
    tasks: int | None = AT_ONCE
    """How many tasks there are, 20 of them at a time; None for tasks without end."""


class Mother:
    """Forks victims for the tests."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.reasoner.victim"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def run(self, job: Job) -> bool:
        """Let a victim work; True if it was killed before all of its tasks had ended."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(msgspec.json.encode(job) + b"\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        errors = Path(job.folder) / "errors"
        assert code in {0, KILLED}, errors.read_text() if errors.exists() else code
        return code == KILLED

    def kill_one(self, folder: Path, point: str, number: int = 1) -> bool:
        """Bring 20 tasks of a folder to their end; True if the process was killed at its boundary before that."""
        return self.run(Job(folder=str(folder), point=point, number=number))

    def finish(self, folder: Path, tasks: int = AT_ONCE) -> None:
        """Bring all tasks of a folder to their end."""
        assert not self.run(Job(folder=str(folder), tasks=tasks))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()


def _serve() -> None:
    # Imported before the first fork, so that no process has to do it again.
    import langsmith  # noqa: F401

    import agent_resolver.reasoner.graph  # noqa: F401

    # The end of a child is waited for, with a limit, instead of being handled.
    signal.pthread_sigmask(signal.SIG_BLOCK, _CHILD)
    for line in sys.stdin:
        job = msgspec.json.decode(line, type=Job)
        child = os.fork()
        if child == 0:
            _be_victim(job)
        if job.seconds and signal.sigtimedwait(_CHILD, job.seconds) is None:
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        # The next child must not be taken for this one.
        signal.sigtimedwait(_CHILD, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


def _be_victim(job: Job) -> None:
    """Do the work and end; without what Python would do at its end for the process that it was forked of."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _CHILD)
    # Where a task is lost a process would wait for ever.
    signal.alarm(PATIENCE_SECONDS)
    folder = Path(job.folder)
    numbers = count() if job.tasks is None else range(job.tasks)
    try:
        bring_to_end(folder, NotedDeath(job.point, job.number), map(name_of, numbers))
    except BaseException:  # noqa: BLE001 - whatever it is, the test has to hear of it
        (folder / "errors").write_text(traceback.format_exc())
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    _serve()
