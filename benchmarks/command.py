"""The command line of the benchmarks."""

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from benchmarks.case import CASES, Bench, Result, profile
from benchmarks.install import Installation, install_ours, install_peer, install_tools, make_cache
from benchmarks.measure import BenchmarkError
from benchmarks.table import as_json, as_table


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cases asked for; 0 when every goal is met, 1 when one is missed or a case could not be run."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if (options.agent is None) != (options.python is None):
        parser.error("--agent and --python go together: the command and the interpreter of one installation")
    make_cache()
    try:
        bench = Bench(
            ours=_installation(options.agent, options.python),
            peer=cache(install_peer),
            tools=_tools(options.tools_python),
            quick=options.quick,
        )
        if options.profile:
            return profile(bench, options.profile)
        return _report(_run(bench, options.only or list(CASES)), options.json)
    except BenchmarkError as error:
        print(error, file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="run.py", description="Measure Agent Resolver against its goals.")
    parser.add_argument("--agent", type=Path, help="`agent` of a plain install of the base (default: one in .bench/)")
    parser.add_argument("--python", type=Path, help="interpreter of that same install")
    parser.add_argument(
        "--tools-python", type=Path, help="interpreter that has the extra `tools` (default: one in .bench/)"
    )
    parser.add_argument("--only", action="append", choices=CASES, metavar="NAME", help=f"one of: {', '.join(CASES)}")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, and 100,000 servers at most")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to FILE")
    parser.add_argument("--profile", choices=CASES, metavar="NAME", help="print a profile of our side of one case")
    return parser


def _installation(agent: Path | None, python: Path | None) -> Installation:
    if agent is None or python is None:
        return install_ours()
    # Absolute, not resolved: an environment's interpreter is a link, and following it would leave the environment.
    return Installation(agent=agent.absolute(), python=python.absolute())


def _tools(python: Path | None) -> Callable[[], Path]:
    return cache(install_tools) if python is None else python.absolute


def _run(bench: Bench, names: Sequence[str]) -> list[Result]:
    results: list[Result] = []
    for name in names:
        print(f"Measuring {name}...", file=sys.stderr)
        results += CASES[name](bench)
    return results


def _report(results: Sequence[Result], file: Path | None) -> int:
    print(as_table(results))
    if file is not None:
        file.write_text(as_json(results), encoding="utf-8")
    return 0 if all(result.ok for result in results) else 1
