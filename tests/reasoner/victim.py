"""Twenty tasks in flight over one state file, in a process that can end itself at any boundary of any of them.

`python -m tests.reasoner.victim FOLDER BOUNDARY NUMBER` brings all tasks to their end, and kills itself where the
boundary is reached for the NUMBERth time, such as `stage.builder.waiting:before`. Without arguments it is a mother of
victims: for each such line on its input it forks a process that does this, and writes how that process ended. It has
imported everything, so that a victim starts in a few milliseconds.
"""

import os
import signal
import subprocess
import sys
import traceback
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.dying import KILLED, Death
from tests.reasoner.lasting import bring_to_end

PATIENCE_SECONDS = 300
ANY = "any"
"""The family of every boundary that is not one of a tool."""


class Mother:
    """Forks victims for the tests."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.reasoner.victim"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def kill_one(self, folder: Path, point: str, number: int = 1) -> bool:
        """Bring all tasks of a folder to their end; True if the process was killed at its boundary before that."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{folder} {point} {number}\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        errors = folder / "errors"
        assert code in {0, KILLED}, errors.read_text() if errors.exists() else code
        return code == KILLED

    def finish(self, folder: Path) -> None:
        """Bring all tasks of a folder to their end."""
        assert not self.kill_one(folder, "none")

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

    for line in sys.stdin:
        folder, point, number = line.split()
        child = os.fork()
        if child == 0:
            _be_victim(Path(folder), _death(point, number))
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


def _death(point: str, number: str) -> Death:
    # The boundaries of tools are counted for each tool as well; tasks are not told apart.
    return Death(point, int(number), lambda name: name if "." in name else ANY)


def _be_victim(folder: Path, death: Death) -> None:
    """Do the work and end; without what Python would do at its end for the process that it was forked of."""
    # Where a task is lost a process would wait for ever.
    signal.alarm(PATIENCE_SECONDS)
    try:
        bring_to_end(folder, death)
    except BaseException:  # noqa: BLE001 - whatever it is, the test has to hear of it
        (folder / "errors").write_text(traceback.format_exc())
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    if sys.argv[1:]:
        bring_to_end(Path(sys.argv[1]), _death(sys.argv[2], sys.argv[3]))
    else:
        _serve()
