"""What every test may ask for."""

import gc
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from msgspec import Struct

from agent_resolver.cli import main
from agent_resolver.project import open_index

PROJECTS = Path(__file__).parent / "projects"

# No test may fail because the machine was busy: how long an example takes is not looked at.
settings.register_profile("whole", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("whole")
# A fifth of the examples of each property, for `make test`; `tests/strategies.py` has the other half.
settings.register_profile("quick", settings.get_profile("whole"), max_examples=20)


def pytest_configure() -> None:
    """Let every child process be interrupted, also when the suite itself may not be.

    A suite in the background (`make test &`, `nohup`) starts with SIGINT ignored, and its children would inherit that.
    A handler is not inherited: children start with the default, while the suite goes on ignoring the signal.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, lambda *_: None)


class Ran(Struct, frozen=True):
    """What one command did."""

    command: tuple[str, ...]
    code: int
    stdout: str
    stderr: str

    def __str__(self) -> str:
        return f"$ agent {' '.join(self.command)}\nexit {self.code}\n--- stdout\n{self.stdout}--- stderr\n{self.stderr}"


Run = Callable[..., Ran]


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No test sees the settings of the machine, and none leaves the collector off for the next."""
    # A test that wants the cache of a large index asks for it: it is written by another process.
    monkeypatch.setattr(open_index, "LARGE", sys.maxsize)
    for name in ("SOURCE_DATE_EPOCH", "NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    yield
    gc.enable()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The quick-start project, as the current folder."""
    shutil.copytree(PROJECTS / "quick-start", tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs one command in this process."""

    def run_command(*command: str) -> Ran:
        try:
            code = main(command)
        except SystemExit as stop:  # argparse ends --help and usage errors like this.
            code = int(stop.code or 0)
        captured = capsys.readouterr()
        return Ran(command, code, captured.out, captured.err)

    return run_command


@pytest.fixture
def snapshot(request: pytest.FixtureRequest) -> Callable[[object], None]:
    """Compares a text with the file of the test's name; `UPDATE_SNAPSHOTS=1` writes it instead."""
    name = request.node.name.removeprefix("test_")
    path = request.path.parent / "snapshots" / f"{name}.txt"

    def compare(value: object) -> None:
        if os.environ.get("UPDATE_SNAPSHOTS"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(str(value), encoding="utf-8")
        assert str(value) == path.read_text(encoding="utf-8")

    return compare
