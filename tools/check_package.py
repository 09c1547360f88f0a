"""Tries a built package where it was installed: run it with the Python of a clean environment that holds the package.

It needs nothing but the standard library, since that is all a clean environment has.
"""

import argparse
import importlib.metadata
import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

MAX_BASE_INSTALL = 15_000_000
WHEEL_HOLDS = (
    "agent_resolver/reasoner/skill/CHANGELOG.md",
    "agent_resolver/reasoner/skill/builder.md",
    "agent_resolver/reasoner/skill/ops.md",
)
SDIST_HOLDS = (
    "src/",
    "tests/",
    "examples/",
    "tools/project_urls.py",
    "README.md",
    "CHANGELOG.md",
    "LICENSE",
    "pyproject.toml",
)


def faults(artifact: Path, example: Path) -> Iterator[str]:
    """What is wrong with the installed package and with the `artifact` it came from."""
    yield from wheel_faults(artifact) if artifact.suffix == ".whl" else sdist_faults(artifact)
    yield from install_faults()
    yield from command_faults(example)


def wheel_faults(wheel: Path) -> Iterator[str]:
    """A wheel holds the package and nothing else, and the base install stays small."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    yield from (f"{wheel.name} lacks {name}" for name in WHEEL_HOLDS if name not in names)
    folders = {name.partition("/")[0] for name in names}
    yield from (
        f"{wheel.name} holds {folder}"
        for folder in sorted(folders)
        if folder != "agent_resolver" and not folder.endswith(".dist-info")
    )
    installed = [path for path in Path(sysconfig.get_path("purelib")).rglob("*") if path.is_file()]
    # As the benchmark `size` measures it: Python adds bytecode by itself, and how much depends on its version.
    size = sum(path.stat().st_size for path in installed if path.suffix != ".pyc")
    with_bytecode = sum(path.stat().st_size for path in installed)
    print(f"Base install: {size / 1e6:.1f} MB, {with_bytecode / 1e6:.1f} MB with bytecode")
    if size > MAX_BASE_INSTALL:
        yield f"the base install takes {size} bytes, more than {MAX_BASE_INSTALL}"


def sdist_faults(sdist: Path) -> Iterator[str]:
    """A source distribution holds what is needed to build and test the package again."""
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for wanted in SDIST_HOLDS:
        if not any(name == wanted or (wanted.endswith("/") and name.startswith(wanted)) for name in names):
            yield f"{sdist.name} lacks {wanted}"


def install_faults() -> Iterator[str]:
    """The package is imported from this environment, and says that it is typed."""
    import agent_resolver

    folder = Path(agent_resolver.__file__).parent
    if Path(sys.prefix).resolve() not in folder.resolve().parents:
        yield f"agent_resolver came from {folder}, not from {sys.prefix}"
    if not (folder / "py.typed").is_file():
        yield "py.typed is not installed"


def command_faults(example: Path) -> Iterator[str]:
    """`agent` gives its version, resolves the example to the lock beside it, where there is one, and reports on it."""
    version = importlib.metadata.version("agent-resolver")
    with tempfile.TemporaryDirectory() as temporary:
        said = agent("--version", folder=temporary)
        if version not in said:
            yield f"`agent --version` says {said!r}, not {version}"
        lock = Path(temporary, "agents.lock")
        agent(
            *("resolve", "--agents", str(example / "agents.md"), "--index", str(example / "mcp.index.json")),
            *("--output", str(lock), "--explain", "--explain-output", str(lock.with_name("agents.resolution.json"))),
            folder=temporary,
        )
        if not json.loads(lock.read_bytes())["servers"]:
            yield f"{example} locks to no server"
        page = lock.with_name("agents.report.html")
        agent(
            *("report", "--agents", str(example / "agents.md"), "--index", str(example / "mcp.index.json")),
            *("--output", str(page)),
            folder=temporary,
        )
        if not page.read_text(encoding="utf-8").endswith("</html>\n"):
            yield "`agent report` writes no whole page"
        committed = example / lock.name
        if committed.exists() and committed.read_bytes() != lock.read_bytes():
            yield f"{committed} is not what the installed package writes"


def agent(*arguments: str, folder: str) -> str:
    """What the installed command prints, run away from the checkout."""
    command = Path(sysconfig.get_path("scripts"), "agent")
    environment = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    done = subprocess.run(
        [command, *arguments], cwd=folder, env=environment, check=True, stdout=subprocess.PIPE, encoding="utf-8"
    )
    return done.stdout.strip()


def main() -> int:
    """Reads the command line, and prints every fault."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("artifact", type=Path, help="the wheel or source distribution that was installed here")
    parser.add_argument("--example", type=Path, default=Path("examples/hello-agent"))
    options = parser.parse_args()
    found = list(faults(options.artifact, options.example.resolve()))
    print(*(f"{options.artifact.name}: {fault}" for fault in found or ["installs and runs"]), sep="\n")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
