"""Real servers, real processes, real sockets on loopback; nothing runs when a test is over."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.integration.collector import Sink, collecting
from tests.process import eventually

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
BUILD = ROOT / "build" / "integration"
RAW = HERE.parent / "connection" / "servers" / "raw.py"

AGENT = """\
---
name: tester
version: 1.0.0
requires:
  mcp:
{requires}
constraints:
  data: {{ sensitivity: internal, residency: eu-only }}
---
"""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """These need Node and take minutes: they run only for whoever names this folder, as `make integration` does."""
    named = [Path(argument.partition("::")[0]).resolve() for argument in config.args]
    return None if any(path.is_relative_to(HERE) for path in named) else True


@pytest.fixture(scope="session")
def node() -> str:
    """Node; a test that needs it fails without it."""
    found = shutil.which("node")
    assert found, "Node 20 or newer is needed"
    return found


@pytest.fixture(scope="session")
def servers() -> Path:
    """The servers from npm that are not ours."""
    folder = BUILD / "node_modules" / "@modelcontextprotocol"
    assert folder.is_dir(), "run `make integration`, which installs them"
    return folder


def entry(server_id: str, tools: dict[str, list[str]], **more: Any) -> dict[str, Any]:
    """A server of the index."""
    return {
        "id": server_id,
        "version": "1.0.0",
        "categories": [server_id],
        "scopes": sorted({scope for scopes in tools.values() for scope in scopes}),
        "toolScopes": tools,
        "data": {"residency": ["any"], "maxSensitivity": "confidential"},
        "trust": {"signed": True, "publisher": "tests"},
        **more,
    }


def raw(server_id: str, *arguments: str, **more: Any) -> dict[str, Any]:
    """A server of the index that misbehaves as it is told; see `tests/connection/servers/raw.py`."""
    launch = {"command": sys.executable, "args": ["-I", str(RAW), *arguments]}
    return entry(server_id, {"echo": ["use"], "hang": ["use"]}, launch=launch, **more)


class Project:
    """A project of its own, driven by the `agent` command as people do it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            **{name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ},
            "XDG_CONFIG_HOME": str(folder.parent / "config"),
        }
        folder.mkdir()

    def write(self, *servers: dict[str, Any], scopes: list[str] | None = None, config: str = "") -> None:
        """Ask for these servers with these scopes, and lock them."""
        asked = json.dumps(scopes or ["use"])
        requires = "\n".join(f"    - {{ category: {item['id']}, permissions: {asked} }}" for item in servers)
        (self.folder / "agents.md").write_text(AGENT.format(requires=requires))
        (self.folder / "mcp.index.json").write_text(json.dumps(servers))
        (self.folder / "agent.toml").write_text(config)
        resolved = self.agent("resolve")
        assert resolved.returncode == 0, resolved.stdout + resolved.stderr

    def start(self, *command: str) -> subprocess.Popen[str]:
        """Start a command."""
        line = [sys.executable, "-m", "agent_resolver", *command]
        pipe = subprocess.PIPE
        return subprocess.Popen(line, cwd=self.folder, env=self.environment, stdout=pipe, stderr=pipe, text=True)

    def agent(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        started = self.start(*command)
        stdout, stderr = started.communicate(timeout=60)
        assert "Traceback" not in stderr
        return subprocess.CompletedProcess(command, started.returncode, stdout, stderr)

    def call(self, tool: str, *options: str, **arguments: Any) -> subprocess.CompletedProcess[str]:
        """Call a tool of a folder that is trusted for this once."""
        return self.agent("tools", "call", "--trust", tool, json.dumps(arguments), *options)

    def outcome(self, tool: str, *options: str, **arguments: Any) -> Any:
        """The outcome of a call, whose exit code says the same."""
        ran = self.call(tool, "--json", *options, **arguments)
        outcome = json.loads(ran.stdout)
        assert ran.returncode == (0 if outcome["status"] == "done" else 1)
        return outcome

    def listing(self, *options: str) -> Any:
        """What `agent tools list` says."""
        return json.loads(self.agent("tools", "list", "--trust", "--json", *options).stdout)

    def holds(self, canary: str) -> list[Path]:
        """The files of the project in which a text can be found."""
        files = [path for path in self.folder.parent.rglob("*") if path.is_file()]
        return [path for path in files if canary.encode() in path.read_bytes()]


def processes(folder: Path) -> list[int]:
    """The processes that have this folder in their command line, ours aside."""
    lines = subprocess.run(["ps", "-axww", "-o", "pid=,stat=,command="], capture_output=True, text=True, check=True)
    found = [line.split(maxsplit=2) for line in lines.stdout.splitlines() if str(folder) in line]
    return [int(pid) for pid, state, _ in found if int(pid) != os.getpid() and not state.startswith("Z")]


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """A project; when the test is over, nothing that was started for it runs."""
    yield Project(tmp_path / "project")
    pids = [int(line) for path in tmp_path.rglob("pids") for line in path.read_text().split()]
    try:
        assert eventually(lambda: not processes(tmp_path)), "a process outlived its test"
        assert not [pid for pid in pids if _is_there(pid)]
    finally:
        for pid in processes(tmp_path):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


Served = Callable[..., "Service"]


class Service:
    """A server that listens on loopback until the test is over."""

    def __init__(self, line: list[str], **options: Any) -> None:
        self._line, self._options = line, options
        self.port = 0
        self.start()

    def start(self) -> None:
        """Start it, on the port that it had before."""
        environment = {**os.environ, **self._options.get("env", {}), "LOOPBACK_PORT": str(self.port)}
        port = ["--port", str(self.port)] if self._line[0] == sys.executable else []
        self.process = subprocess.Popen(
            [*self._line, *port], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
        )
        self.port = self._read_port()

    def _read_port(self) -> int:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("PORT "):
                return int(line.split()[1])
        raise AssertionError("the server ended before it listened")

    @property
    def url(self) -> str:
        """Where it serves MCP."""
        return f"http://127.0.0.1:{self.port}/mcp"

    def stop(self) -> None:
        """End it at once, also when it was stopped."""
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


@pytest.fixture
def service(project: Project) -> Iterator[Served]:
    """Starts servers that listen on loopback, and ends them."""
    started: list[Service] = []

    def start(*line: str, **options: Any) -> Service:
        started.append(Service([*line], **options))
        return started[-1]

    yield start
    for one in started:
        one.stop()


@pytest.fixture
def http(service: Served, tmp_path: Path) -> Served:
    """Starts `servers/streamable.py`."""

    def start(*arguments: str) -> Service:
        return service(sys.executable, str(HERE / "servers" / "streamable.py"), "--folder", str(tmp_path), *arguments)

    return start


@pytest.fixture
def stopwatch() -> Callable[[], float]:
    """How many seconds the test has taken."""
    begin = time.monotonic()
    return lambda: time.monotonic() - begin


@pytest.fixture
def sink() -> Iterator[Sink]:
    """Takes telemetry, and keeps it."""
    made = Sink()
    yield made
    made.stop()


@pytest.fixture
def collector(sink: Sink, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a collector that passes everything on to the sink."""
    # Not in the project's folder: what runs there must end before this does.
    with collecting(sink, tmp_path_factory.mktemp("rotel")) as address:
        yield address
