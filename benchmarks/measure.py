"""Commands timed side by side: every round runs each of them once, so that a slow minute slows them all."""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

LAUNCHER: Final = Path(__file__).with_name("launch.py")


class BenchmarkError(Exception):
    """A benchmark that could not be run, or whose two sides did not do the same work."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command, the folder it runs in and the files it writes there."""

    line: Sequence[str]
    directory: Path
    writes: Sequence[str] = ()
    status: int = 0
    """The exit code it should end with."""
    has_index_cache: bool = False
    """True if it may keep and use caches of JSON indexes, as it does for users: most cases measure the reading."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """What one run of a command took."""

    seconds: float
    memory: int
    """Peak resident memory, in bytes."""


@dataclass(frozen=True)
class Series:
    """The samples of one command, in the order of the rounds."""

    samples: list[Sample] = field(default_factory=list)

    def median(self, of: Callable[[Sample], float]) -> float:
        """The median over the rounds."""
        return statistics.median(map(of, self.samples))

    def ratio(self, other: "Series", of: Callable[[Sample], float]) -> float:
        """The median over the rounds of this side divided by the other."""
        return statistics.median(
            of(mine) / of(theirs) for mine, theirs in zip(self.samples, other.samples, strict=True)
        )


def environment() -> dict[str, str]:
    """The environment without what would change how the children work, such as a ban on writing bytecode."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "AGENT_")) and name not in {"NODE_OPTIONS", "SOURCE_DATE_EPOCH"}
    }


def clean(command: Command) -> None:
    """Remove what an earlier run wrote: nobody saves work by finding it there."""
    for name in command.writes:
        (command.directory / name).unlink(missing_ok=True)


def run_once(command: Command) -> Sample:
    """Run a command from a clean folder and return what it took."""
    clean(command)
    errors = command.directory / "stderr.txt"
    variables = environment()
    if not command.has_index_cache:
        variables["AGENT_INDEX_CACHE"] = "false"
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(LAUNCHER), str(command.directory), str(errors), *command.line],
        env=variables,
        stdout=subprocess.PIPE,
        check=True,
    )
    result = json.loads(done.stdout)
    if result["status"] != command.status:
        raise BenchmarkError(f"`{' '.join(command.line)}` ended with {result['status']}:\n{errors.read_text()}")
    return Sample(seconds=result["seconds"], memory=int(result["memory"]))


def interleave(commands: Mapping[str, Command], rounds: int) -> dict[str, Series]:
    """Run every command once per round, in turn forwards and backwards, after one round that does not count."""
    series = {name: Series() for name in commands}
    for command in commands.values():
        run_once(command)
    for number in range(rounds):
        names = list(commands) if number % 2 == 0 else list(commands)[::-1]
        for name in names:
            series[name].samples.append(run_once(commands[name]))
    return series
