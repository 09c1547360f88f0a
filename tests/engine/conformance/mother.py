"""A process that forks workers: it has imported everything, so that a worker starts in a few milliseconds.

For each line of JSON on its input, a `Task`, it forks a process that does it, and writes the id of that process. For a
number on its input it waits for the process of that id, and writes how it ended.
"""

import faulthandler
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
from msgspec import Struct

from tests.dying import KILLED
from tests.engine.conformance.families import IN_FLIGHT

PATIENCE_SECONDS = 60
ERRORS = "errors"
"""The file in the folder of a task that says why its process failed."""


class Task(Struct, frozen=True, kw_only=True):
    """What a forked process does."""

    folder: str
    driver: str
    does: str = "finish"
    """`finish`: start the runs that are not there, answer for people, work until all have ended. `work`: work until no
    run is left that could go on. `serve`: work until it is killed."""
    runs: tuple[str, ...] = IN_FLIGHT
    point: str = ""
    """The boundary at which it kills itself; empty for a process that lives."""
    number: int = 1
    offset: float = 0.0
    """The seconds by which its clocks are ahead."""
    capacity: int = 100
    """The most runs that it drives at once."""


class Mother:
    """Forks processes for the tests."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.engine.conformance.mother"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def fork(self, task: Task) -> int:
        """Begin a task in a process of its own, and return the id of the process."""
        return self._ask(msgspec.json.encode(task).decode())

    def wait(self, pid: int) -> int:
        """The exit code of a process that was forked."""
        return self._ask(str(pid))

    def kill(self, pid: int) -> None:
        """End a process that was forked at once."""
        os.kill(pid, signal.SIGKILL)
        assert self.wait(pid) == KILLED

    def do(self, task: Task) -> bool:
        """Do a task to its end; False if its process was killed at its point."""
        code = self.wait(self.fork(task))
        assert code in {0, KILLED}, f"{task.does} ended with {code}: {(Path(task.folder) / ERRORS).read_text()}"
        return code == 0

    def _ask(self, line: str) -> int:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()


def _serve() -> None:
    # Imported before the first fork, so that no process has to do it again; neither starts a thread.
    import dbos  # noqa: F401

    from tests.engine.conformance.stage import do_task

    for line in sys.stdin:
        if line.strip().isdigit():
            _, status = os.waitpid(int(line), 0)
            answer = os.waitstatus_to_exitcode(status)
        else:
            answer = os.fork()
            if answer == 0:
                _do(line, do_task)
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()


def _do(line: str, do_task: Callable[[Task], None]) -> None:
    """Do a task and end the process; without what Python would do at its end for the process that it was forked of."""
    task = msgspec.json.decode(line, type=Task)
    # Where a run is lost a worker would wait for ever.
    signal.alarm(PATIENCE_SECONDS)
    with (Path(task.folder) / ERRORS).open("a") as errors:
        # A fault in a library leaves the stacks of all threads there.
        faulthandler.enable(errors)
        try:
            do_task(task)
        except BaseException:  # noqa: BLE001 - whatever it is, the test has to hear of it
            traceback.print_exc(file=errors)
            errors.flush()
            os._exit(1)
        os._exit(0)


if __name__ == "__main__":
    _serve()
