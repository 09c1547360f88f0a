"""Fails if something that is kept in two places says two things.

- `requirements/base.in` and the dependencies in `pyproject.toml`;
- each `requirements/*.in` and the pins in its `.txt`, which hold hashes and no address of any machine;
- each example's lock and explanation, and what `agent resolve` makes of the example;
- each file made from code: every `tools/generate_*.py --check`.
"""

import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
REQUIREMENTS = ROOT / "requirements"
LOCATION = re.compile(r"://|--index-url|--extra-index-url|--find-links|--trusted-host|(?:^|\s)(?:-i|-f)\s|@ |(?:^|\s)/")


def faults() -> Iterator[str]:
    """Every difference found, as one line each."""
    yield from dependency_faults()
    for asked in sorted(REQUIREMENTS.glob("*.in")):
        yield from pin_faults(asked)
    for example in sorted(path.parent for path in ROOT.glob("examples/*/agents.lock")):
        yield from example_faults(example)
    for generator in sorted(ROOT.glob("tools/generate_*.py")):
        if run(sys.executable, generator, "--check"):
            yield f"run `python {generator.relative_to(ROOT)}`"


def dependency_faults() -> Iterator[str]:
    """What users install and what `requirements/base.in` asks for are one list."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    if sorted(project["dependencies"]) != sorted(asked_for(REQUIREMENTS / "base.in")):
        yield "requirements/base.in differs from `dependencies` in pyproject.toml"


def pin_faults(asked: Path) -> Iterator[str]:
    """Everything that `asked` names is pinned beside it, with hashes, and from nowhere in particular."""
    pinned = asked.with_suffix(".txt")
    text = pinned.read_text(encoding="utf-8").replace("\\\n", " ")
    pins = {match[1]: line for line in text.splitlines() if (match := re.match(r"([\w.-]+)==", line))}
    yield from (f"{pinned.name} does not pin {name}: run `make lock`" for name in names(asked) - pins.keys())
    yield from (f"{pinned.name} has no hash for {name}" for name, line in pins.items() if "--hash=" not in line)
    yield from (f"{pinned.name} names a place: {line[:80]}" for line in text.splitlines() if LOCATION.search(line))


def asked_for(path: Path) -> list[str]:
    """The requirements in a `.in` file, without comments and options."""
    lines = (line.partition("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line and not line.startswith("-")]


def names(path: Path) -> set[str]:
    """The normalised names that a `.in` file asks for."""
    return {re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", line)[0]).lower() for line in asked_for(path)}


def example_faults(example: Path) -> Iterator[str]:
    """The example's committed files are, byte for byte, what the command writes now."""
    agent = Path(sysconfig.get_path("scripts"), "agent")
    with tempfile.TemporaryDirectory() as temporary:
        lock, explanation = Path(temporary, "agents.lock"), Path(temporary, "agents.resolution.json")
        inputs = ("--agents", example / "agents.md", "--index", example / "mcp.index.json")
        outputs = ("--output", lock, "--explain", "--explain-output", explanation)
        if run(agent, "resolve", *inputs, *outputs):
            yield f"{example.relative_to(ROOT)} does not resolve"
            return
        for made in (lock, explanation):
            committed = example / made.name
            if committed.exists() and committed.read_bytes() != made.read_bytes():
                yield f"{committed.relative_to(ROOT)} is not what `agent resolve --explain` writes"


def run(*command: str | Path) -> int:
    """The exit code of `command`, run in the checkout; its words are shown only if it failed."""
    environment = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if done.returncode:
        sys.stderr.write(done.stdout.decode(errors="replace"))
    return done.returncode


def main() -> int:
    """Prints every fault."""
    found = list(faults())
    print(*(found or ["No drift"]), sep="\n")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
