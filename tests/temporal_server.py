"""Real Temporal servers on loopback: the one for development, and the one that skips time."""

import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from tests.loopback import free_port
from tests.process import eventually


def program(name: str) -> str:
    """The path of a server that came with a wheel."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    assert found, f"{name} is not installed: requirements/services.txt brings it"
    return found


class TemporalServer:
    """A server that can be killed, and started again on the same file and port."""

    def __init__(self, folder: Path, *, skips_time: bool = False, settings: Sequence[str] = ()) -> None:
        self._folder = folder
        self.database = folder / "temporal.db"
        self.skips_time = skips_time
        self._settings = settings
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """Its process."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it; it answers when this returns."""
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(self._command(), stdout=log, stderr=log)
        assert eventually(self._listens, 30.0), (self._folder / "server.log").read_text()[-2000:]

    def _command(self) -> list[str]:
        if self.skips_time:
            return [program("temporal-test-server"), str(self.port)]
        # Its defaults are made for a look at it: one step takes 50 ms with them.
        return [
            *(program("temporal"), "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--log-level", "error"),
            *("--port", str(self.port), "--db-filename", str(self.database)),
            *("--sqlite-pragma", "journal_mode=wal", "--sqlite-pragma", "synchronous=1"),
            *("--dynamic-config-value", "history.transferProcessorMaxPollRPS=2000"),
            *(word for setting in self._settings for word in ("--dynamic-config-value", setting)),
        ]

    def _listens(self) -> bool:
        with closing(socket.socket()) as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def kill(self) -> None:
        """End it at once, as a machine that fails does."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        assert not self._listens()

    def stop(self) -> None:
        """End it."""
        if self._process is not None and self._process.poll() is None:
            self.kill()


@contextmanager
def temporal_server(
    folder: Path, *, skips_time: bool = False, settings: Sequence[str] = ()
) -> Iterator[TemporalServer]:
    """A server that runs; `settings` are those of its dynamic configuration."""
    server = TemporalServer(folder, skips_time=skips_time, settings=settings)
    server.start()
    try:
        yield server
    finally:
        server.stop()
