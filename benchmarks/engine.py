"""Time blueprints against the bare engine: `engine.py ROUNDS SCRATCH WAITING [URL]`, with the extra `engine`.

Both sides are processes that were started once. Every round lets each of them run each shape once, in turn forwards and
backwards. The last figures are those of many runs that wait for a person.
With the address of an empty Postgres database, both sides keep everything there.
"""

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

SHAPES = {"sequence": 10, "group": 10, "many": 500}
"""The number of steps of each shape."""


class Side:
    """A process that runs a shape for each line, and answers with seconds."""

    def __init__(self, script: str, folder: str, url: str) -> None:
        line = [sys.executable, "-I", str(Path(__file__).with_name(script)), folder, url]
        self._process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, line: str) -> float:
        """What the process answers to a line."""
        if self._process.stdin is None or self._process.stdout is None:
            raise SystemExit("the process has no pipes")
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def close(self) -> None:
        """Let the process end."""
        self._process.communicate()


def measure(folder: str, rounds: int, waiting: int, url: str = "") -> dict[str, object]:
    """The median seconds of a step on both sides and of their ratio, for each shape; and of runs that wait."""
    sides = {"ours": Side("our_engine.py", folder, url), "bare": Side("bare_engine.py", folder, url)}
    taken: dict[str, dict[str, list[float]]] = {shape: {name: [] for name in sides} for shape in SHAPES}
    for number in range(rounds + 1):
        names = list(sides) if number % 2 else list(sides)[::-1]
        for shape, steps in SHAPES.items():
            for name in names:
                seconds = sides[name].ask(shape) / steps
                if number:  # The first round warms up.
                    taken[shape][name].append(seconds)
    sides["bare"].close()
    found: dict[str, object] = {shape: _compared(figures) for shape, figures in taken.items()}
    sides["ours"].ask(f"wait {waiting}")
    found["waiting"] = {"runs": waiting, "listing": sides["ours"].ask("list"), "idle": sides["ours"].ask("idle")}
    sides["ours"].close()
    return found


def _compared(figures: dict[str, list[float]]) -> dict[str, float]:
    ratios = [ours / bare for ours, bare in zip(figures["ours"], figures["bare"], strict=True)]
    medians = {name: statistics.median(samples) for name, samples in figures.items()}
    return {**medians, "ratio": statistics.median(ratios)}


if __name__ == "__main__":
    # On the disk of the repository: a folder for temporary files may be kept in memory.
    with tempfile.TemporaryDirectory(dir=sys.argv[2]) as where:
        print(json.dumps(measure(where, int(sys.argv[1]), int(sys.argv[3]), *sys.argv[4:5])))
