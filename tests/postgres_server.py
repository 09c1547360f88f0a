"""A real Postgres server on loopback that ends with a block."""

import os
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import psycopg

from tests.loopback import free_port
from tests.process import end, eventually, is_running

_START_SECONDS = "60"


@cache
def programs() -> Path:
    """The folder with the programs of Postgres. Debian keeps it out of the path."""
    debian = [folder for folder in Path("/usr/lib/postgresql").glob("*/bin") if (folder / "initdb").exists()]
    if debian:
        return max(debian, key=lambda folder: int(folder.parent.name))
    found = shutil.which("initdb")
    assert found, "`initdb` is missing: run `make postgres`, which installs it"
    return Path(found).resolve().parent


class PostgresServer:
    """One server with a folder and a port of its own. It can be stopped, killed and started again."""

    def __init__(self, folder: Path, *, is_flushed: bool = False) -> None:
        """A server that keeps its files in `folder`, which must be empty; `start` starts it.

        Unless `is_flushed`, it leaves it to the system when files reach the disk. What it committed survives a kill of
        the server all the same: only a machine that fails would lose it.
        """
        self._is_flushed = is_flushed
        self.port = free_port()
        self.folder = folder
        self._data = folder / "data"
        self._is_made = False
        self.settings: list[str] = []
        """Further settings, as `name=value`, for the next start."""

    def start(self) -> None:
        """Start it, and wait until it answers."""
        if not self._is_made:
            _run(
                "initdb", "--pgdata", self._data, "--username=postgres", "--auth=trust", "--no-sync", "--locale=C.UTF-8"
            )
            self._is_made = True
        settings = ["max_connections=200", f"fsync={'on' if self._is_flushed else 'off'}", *self.settings]
        options = f"-h 127.0.0.1 -p {self.port} -k {self.folder} {' '.join(f'-c {each}' for each in settings)}"
        _run("pg_ctl", "-D", self._data, "-w", "-t", _START_SECONDS, "-l", self.folder / "log", "-o", options, "start")

    def stop(self, mode: str = "fast") -> None:
        """Stop it: `fast` ends the connections, `immediate` is as good as a crash."""
        _run("pg_ctl", "-D", self._data, "-w", "-m", mode, "stop")

    def kill(self) -> None:
        """End the server and every process of it at once, as a machine that fails does."""
        processes = self.process_ids()
        end(processes)
        # A server refuses to start beside what is left of the one before.
        assert eventually(lambda: not any(map(is_running, processes)))
        # Where no process collects the dead, the next server would take their ids for living ones.
        for lock in (self._data / "postmaster.pid", *self.folder.glob(".s.PGSQL.*")):
            lock.unlink(missing_ok=True)

    def crash(self) -> None:
        """Kill one process of the server, which then ends all sessions and begins again."""
        with psycopg.connect(self.url()) as connection:
            os.kill(connection.info.backend_pid, signal.SIGKILL)

    def process_ids(self) -> list[int]:
        """The server first, then the processes that it started."""
        server = int((self._data / "postmaster.pid").read_text(encoding="utf-8").splitlines()[0])
        children = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(server)], check=False, capture_output=True, text=True
        )
        return [server, *map(int, children.stdout.split())]

    def url(self, database: str = "postgres", user: str = "postgres") -> str:
        """The address of a database, as `state.url` takes it."""
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def new_database(self, owner: str = "postgres") -> str:
        """Make an empty database that a role owns; its address for that role."""
        name = f"test_{secrets.token_hex(6)}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}" OWNER "{owner}"'.encode())
        return self.url(name, owner)


def _run(program: str, *arguments: str | Path) -> None:
    """Run a program of the server: as its own user where we are root, which it refuses to be."""
    user = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
    command = [*user, str(programs() / program), *map(str, arguments)]
    # A server that keeps our output open would keep the test waiting for its end.
    done = subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/")
    assert done.returncode == 0, f"{program} ended with {done.returncode}"


@contextmanager
def postgres_server(*, is_flushed: bool = False) -> Iterator[PostgresServer]:
    """A server that runs. Its folder is removed in the end."""
    # Not a folder of pytest's: the server's own user could not reach it.
    with tempfile.TemporaryDirectory(prefix="agent-pg-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        if os.getuid() == 0:
            shutil.chown(folder, "postgres")
        server = PostgresServer(folder, is_flushed=is_flushed)
        server.start()
        try:
            yield server
        finally:
            with suppress(AssertionError):
                server.stop("immediate")
