"""What is compared, installed as a user would: ours from this repository, the peer from its lockfile."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.measure import BenchmarkError, environment

ROOT: Final = Path(__file__).resolve().parent.parent
CACHE: Final = ROOT / ".bench"
PEER: Final = ROOT / "benchmarks" / "peer"
NOT_OURS: Final = ("pip", "setuptools", "_distutils_hack", "distutils-precedence", "pkg_resources", "wheel")


@dataclass(frozen=True, kw_only=True)
class Installation:
    """A plain install of the base alone: its interpreter and its `agent` command."""

    python: Path
    agent: Path


@dataclass(frozen=True, kw_only=True)
class Size:
    """What an install added to a bare environment, in bytes."""

    files: int
    bytecode: int


def make_cache() -> None:
    """The folder that everything made for a run goes into, hidden from git by its own rule."""
    CACHE.mkdir(exist_ok=True)
    (CACHE / ".gitignore").write_text("*\n")


def install_ours() -> Installation:
    """An environment under `.bench/` that holds the base and nothing else, made anew when a source file changed."""
    venv = CACHE / "venv"
    bin_folder = venv / ("Scripts" if os.name == "nt" else "bin")
    installation = Installation(python=bin_folder / "python", agent=bin_folder / "agent")
    sources = [ROOT / "pyproject.toml", *sorted((ROOT / "src").rglob("*.py"))]
    if not _is_fresh(venv, sources):
        shutil.rmtree(venv, ignore_errors=True)
        _run([sys.executable, "-m", "venv", str(venv)])
        _run([str(installation.python), "-m", "pip", "install", "--quiet", "--compile", str(ROOT)])
        _run([str(installation.python), "-m", "compileall", "-q", str(site_packages(installation.python))])
        _mark_fresh(venv, sources)
    return installation


def install_tools() -> Path:
    """The interpreter of an environment under `.bench/` that can call, serve and watch tools, and plan with them."""
    venv = CACHE / "tools"
    python = venv / ("Scripts" if os.name == "nt" else "bin") / "python"
    sources = [ROOT / "pyproject.toml", *sorted((ROOT / "src").rglob("*.py"))]
    if not _is_fresh(venv, sources):
        shutil.rmtree(venv, ignore_errors=True)
        _run([sys.executable, "-m", "venv", str(venv)])
        _run([str(python), "-m", "pip", "install", "--quiet", "--compile", f"{ROOT}[serve,telemetry,reasoner]"])
        _mark_fresh(venv, sources)
    return python


def install_frameworks() -> Path:
    """The interpreter of an environment under `.bench/` that has the agent frameworks ours is measured beside."""
    venv = CACHE / "frameworks"
    python = venv / ("Scripts" if os.name == "nt" else "bin") / "python"
    pins = ROOT / "requirements" / "frameworks.txt"
    if not _is_fresh(venv, [pins]):
        shutil.rmtree(venv, ignore_errors=True)
        _run([sys.executable, "-m", "venv", str(venv)])
        _run([str(python), "-m", "pip", "install", "--quiet", "--compile", "--require-hashes", "-r", str(pins)])
        _mark_fresh(venv, [pins])
    return python


def install_peer() -> Path:
    """The peer's entry file, in a copy under `.bench/` with its dependencies from the lockfile."""
    copy = CACHE / "peer"
    sources = [PEER / "package.json", PEER / "package-lock.json", *sorted((PEER / "src").glob("*.js"))]
    if not _is_fresh(copy, sources):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(PEER, copy, ignore=shutil.ignore_patterns("node_modules"))
        _run([program("npm"), "ci", "--silent", "--no-audit", "--no-fund", "--omit=dev"], directory=copy)
        _mark_fresh(copy, sources)
    return copy / "src" / "index.js"


def program(name: str) -> str:
    """The full path of a program that must be there."""
    found = shutil.which(name)
    if found is None:
        raise BenchmarkError(f"`{name}` was not found: the peer needs Node 20 or later and npm")
    return found


def site_packages(python: Path) -> Path:
    """Where an interpreter keeps what was installed for it."""
    return Path(output_of([str(python), "-I", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]))


def size_of(python: Path) -> Size:
    """The size of everything installed for `python` except pip and its companions."""
    files = bytecode = 0
    for path in _installed(site_packages(python)):
        if "__pycache__" in path.parts:
            bytecode += path.stat().st_size
        else:
            files += path.stat().st_size
    return Size(files=files, bytecode=bytecode)


def output_of(command: Sequence[str]) -> str:
    """What a command prints, without the line end."""
    return subprocess.run(command, env=environment(), check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def _installed(folder: Path) -> Iterator[Path]:
    for entry in folder.iterdir():
        if entry.name.split("-")[0].split(".")[0] not in NOT_OURS and not entry.name.startswith("distutils-"):
            yield from (path for path in (entry.rglob("*") if entry.is_dir() else [entry]) if path.is_file())


def _run(command: Sequence[str], directory: Path = ROOT) -> None:
    done = subprocess.run(
        command,
        cwd=directory,
        env=environment(),
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode != 0:
        raise BenchmarkError(f"`{' '.join(command)}` failed:\n{done.stdout}")


def _fingerprint(sources: Sequence[Path]) -> str:
    digest = hashlib.sha256(sys.version.encode())
    for path in sources:
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _is_fresh(folder: Path, sources: Sequence[Path]) -> bool:
    mark = folder / ".fingerprint"
    return mark.is_file() and mark.read_text() == _fingerprint(sources)


def _mark_fresh(folder: Path, sources: Sequence[Path]) -> None:
    (folder / ".fingerprint").write_text(_fingerprint(sources))
