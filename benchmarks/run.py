"""Measure Agent Resolver against the bare interpreter, a Node peer and its own goals: `python benchmarks/run.py`."""

import sys
from pathlib import Path


def main() -> int:
    """Run the benchmarks, wherever they are started from."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from benchmarks.command import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
