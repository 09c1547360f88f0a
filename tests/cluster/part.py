"""The parts of a cluster on one machine, each of which can be killed, frozen, stopped and started again."""

import os
import signal
import subprocess
import sysconfig
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from collections import Counter
from contextlib import suppress
from pathlib import Path

from tests.postgres_server import PostgresServer
from tests.process import eventually
from tests.temporal_server import TemporalServer

AGENT = Path(sysconfig.get_path("scripts"), "agent")
START_SECONDS = 60.0
STOP_SECONDS = 90.0


class Part(ABC):
    """One program of the cluster."""

    name: str
    is_needed_by_all = False
    """True if nothing goes on without it."""

    @abstractmethod
    def start(self) -> None:
        """Start it, and wait until it can be used."""

    @abstractmethod
    def kill(self) -> None:
        """End it at once."""

    @abstractmethod
    def stop(self) -> None:
        """Ask it to end, and wait until it has."""

    @abstractmethod
    def pids(self) -> list[int]:
        """The processes that it is made of."""

    def freeze(self) -> None:
        """Let it do nothing, and know nothing of that."""
        _signal_all(self.pids(), signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        _signal_all(self.pids(), signal.SIGCONT)


def _signal_all(pids: list[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


class Database(Part):
    """Postgres, which has the state."""

    name = "postgres"
    is_needed_by_all = True

    def __init__(self, server: PostgresServer) -> None:
        self._server = server

    def start(self) -> None:
        self._server.start()

    def kill(self) -> None:
        self._server.kill()

    def stop(self) -> None:
        self._server.stop()

    def pids(self) -> list[int]:
        return self._server.process_ids()


class Program(Part):
    """A program that answers on a port of its own."""

    def __init__(self, name: str, folder: Path, command: list[str | Path], environment: dict[str, str]) -> None:
        self.name = name
        self._folder = folder
        self._command = command
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None
        self.log = folder / f"{name}.log"
        self.unexpected_ends: list[str] = []
        """What it said last, for each time that it was found to have ended by itself."""
        self.stops: Counter[str] = Counter()
        """How it ended when it was asked to: the exit code, or `killed` if it did not."""

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [str(word) for word in self._command], cwd=self._folder, env=self._environment, stdout=log, stderr=log
            )

    def is_ready(self) -> bool:
        """True once it can be used: of a program that says nothing about it, as long as it runs."""
        return self._process is not None and self._process.poll() is None

    def wait_until_ready(self) -> None:
        """Wait until it can be used; the log says why if it cannot."""
        assert eventually(self.is_ready, START_SECONDS), f"{self.name} is not ready: {self.tail()}"

    def tail(self) -> str:
        """The last lines of its log."""
        return self.log.read_text(encoding="utf-8", errors="replace")[-2_000:]

    def kill(self) -> None:
        if self._process is None or self._has_ended():
            return
        _signal_all(self.pids(), signal.SIGKILL)
        self._process.wait(STOP_SECONDS)
        self._process = None

    def stop(self) -> None:
        if self._process is None or self._has_ended():
            return
        self._process.terminate()
        try:
            self.stops[str(self._process.wait(STOP_SECONDS))] += 1
        except subprocess.TimeoutExpired:
            self.stops["killed"] += 1
            self.kill()
        self._process = None

    def _has_ended(self) -> bool:
        """True if it ended by itself, which is noted."""
        code = None if self._process is None else self._process.poll()
        if code is None:
            return False
        self.unexpected_ends.append(f"{self.name} ended with {code}: {self.tail()}")
        self._process = None
        return True

    def revive(self) -> None:
        """Start it again if it has ended by itself, as a supervisor would."""
        if self._has_ended():
            self.start()

    def pids(self) -> list[int]:
        if self._process is None:
            return []
        parent = self._process.pid
        shown = subprocess.run(["ps", "-o", "pid=", "--ppid", str(parent)], check=False, capture_output=True, text=True)
        return [parent, *map(int, shown.stdout.split())]


class Engine(Part):
    """The server of Temporal, with its file."""

    name = "temporal"
    is_needed_by_all = True

    def __init__(self, server: TemporalServer) -> None:
        self._server = server
        self.address = server.address

    def start(self) -> None:
        self._server.start()

    def kill(self) -> None:
        self._server.kill()

    def stop(self) -> None:
        # A stop is a kill here: asked to end, it waits minutes for every worker that polls.
        self._server.kill()

    def pids(self) -> list[int]:
        return [self._server.pid]


class Served(Program):
    """A program of ours that answers probes."""

    def __init__(
        self, name: str, folder: Path, port: int, command: list[str | Path], environment: dict[str, str]
    ) -> None:
        self.port = port
        super().__init__(name, folder, [AGENT, *command], environment)

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=2) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False
