"""The prepared process, as its parent sees it: started once, given each call, replaced when it is gone.

A fresh interpreter takes some tenths of a second to start and to load a project. A prepared one has done that, and
forks off a process for each call within milliseconds. `child.py` is the program that it runs, and says what the two
sockets of a call are for.
"""

import atexit
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import IO, Final

import msgspec

from agent_resolver.capability.isolated_message import Preparation

PASSED_ON: Final = (
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LOGNAME",
    "PATH",
    "TMPDIR",
    "TZ",
    "USER",
)
"""The environment variables that a process may need and that hold no secrets."""
_END_SECONDS: Final = 1.0
_PACKAGES: Final = str(Path(__file__).parents[2])
_START: Final = "import sys; sys.path.append(sys.argv[1]); from agent_resolver.capability.child import main; main()"


def can_fork() -> bool:
    """True where a prepared process can fork off calls, and find and kill all that they start."""
    # Elsewhere a forked process may not use system libraries, and nothing gathers
    # orphans.
    return sys.platform == "linux"


class PreparedProcess:
    """An interpreter with the code of the project, ready for calls."""

    def __init__(self, preparation: Preparation, mode: str) -> None:
        """Start it; it takes calls at once, and answers them when it has loaded the code.

        Raises:
            OSError: No process can be started.
        """
        self.preparation = preparation
        self.parent = os.getpid()
        self._control, theirs = socket.socketpair()
        with theirs, _open_scratch_file() as prepared:
            prepared.write(msgspec.msgpack.encode(preparation))
            prepared.flush()
            numbers = (theirs.fileno(), prepared.fileno())
            words = [*map(str, numbers), str(self.parent), mode]
            try:
                self.process = subprocess.Popen(  # noqa: S603 - our own interpreter, with our own words
                    [sys.executable, "-I", "-c", _START, _PACKAGES, *words],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env={
                        name: value
                        for name in PASSED_ON
                        if (value := os.environ.get(name)) is not None
                    },
                    pass_fds=numbers,
                    start_new_session=True,
                )
            except OSError:
                self._control.close()
                raise

    def begin_call(self) -> tuple[socket.socket, socket.socket]:
        """Hand the process a call; returns our ends of the call socket and the channel.

        Raises:
            OSError: The process is gone.
        """
        call, their_call = socket.socketpair()
        channel, their_channel = socket.socketpair()
        try:
            with their_call, their_channel:
                socket.send_fds(
                    self._control, [b"."], [their_call.fileno(), their_channel.fileno()]
                )
        except OSError:
            call.close()
            channel.close()
            raise
        return call, channel

    def is_stopped(self) -> bool:
        """True if a signal stopped the process, so that it takes no calls."""
        try:
            status = Path(f"/proc/{self.process.pid}/stat").read_bytes()
        except OSError:
            return False
        # The name of the program comes first, in parentheses, and may hold any
        # characters.
        return status.rpartition(b")")[2].split()[:1] == [b"T"]

    def close(self) -> None:
        """Let the process end, which it does when its last call has."""
        self._control.close()


class PreparedProcesses:
    """Keeps one prepared process, for the code that is known now."""

    def __init__(self, prepare: Callable[[], Preparation]) -> None:
        self._prepare = prepare
        self._lock = Lock()
        self._present: PreparedProcess | None = None
        self._former: list[PreparedProcess] = []
        """Processes that may not have ended yet; looking at each collects it."""
        atexit.register(self.close)

    def begin_call(self) -> tuple[socket.socket, socket.socket, PreparedProcess]:
        """Hand a call to the prepared process, which is started if there is none for the present code.

        Returns:
            Our ends of the call socket and the channel, and the process that was given the call.

        Raises:
            OSError: No process can be started.
        """
        with self._lock:
            present = self._current_process()
            try:
                return *present.begin_call(), present
            except OSError:
                # It is gone.
                self._retire(present)
            present = self._current_process()
            return *present.begin_call(), present

    def prepare(self) -> None:
        """Start the prepared process now, so that the first call need not wait for it.

        Raises:
            OSError: No process can be started.
        """
        with self._lock:
            self._current_process()

    def _current_process(self) -> PreparedProcess:
        self._former = [
            former for former in self._former if former.process.poll() is None
        ]
        preparation, present = self._prepare(), self._present
        if present is not None and present.is_stopped():
            # A call did that: it runs as the same user. Nothing else would ever let it
            # go on.
            present.process.kill()
            self._retire(present)
            present = None
        if (
            present is None
            or present.preparation is not preparation
            or present.parent != os.getpid()
        ):
            self._retire(present)
            present = self._present = PreparedProcess(preparation, "loaded")
        return present

    def close(self) -> None:
        """End every process."""
        self._retire(self._present)
        for former in self._former:
            try:
                former.process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                # Only one that a call stopped is killed: any other is about to end what
                # its calls left behind.
                if former.is_stopped():
                    former.process.kill()

    def _retire(self, process: PreparedProcess | None) -> None:
        if process is not None and process.parent == os.getpid():
            process.close()
            self._former.append(process)
        self._present = None


def _open_scratch_file() -> IO[bytes]:
    """A file without a name: in memory, or on the disk where the system has none in memory."""
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create("preparation"), "w+b")
    return tempfile.TemporaryFile()
