"""Repeats the tests of `tests/fuzz`, each time with a new Hypothesis seed, until the time is up or one fails."""

import argparse
import itertools
import os
import random
import shlex
import subprocess
import sys
import time

TARGET = "tests/fuzz"
# Hypothesis fixes its examples where it sees a CI; a fuzzer wants new ones there too.
PYTEST = (sys.executable, "-m", "pytest", "--quiet", "--hypothesis-profile=default", TARGET)


def fuzz(seconds: float, first_seed: int) -> int:
    """Runs until `seconds` are over; the exit code of the first round that failed, or 0."""
    end = time.monotonic() + seconds
    environment = {**os.environ, "FUZZ_SECONDS": f"{seconds:g}"}
    for seed in itertools.count(first_seed):
        command = [*PYTEST, f"--hypothesis-seed={seed}"]
        done = subprocess.run(command, check=False, env=environment, capture_output=True, encoding="utf-8")
        if done.returncode:
            print(done.stdout, done.stderr, f"Failed; again with: {shlex.join(command)}", sep="\n", file=sys.stderr)
            return done.returncode
        if time.monotonic() >= end:
            print(f"No failure in {seed - first_seed + 1} rounds, seeds {first_seed} to {seed}")
            return 0
    raise AssertionError


def main() -> int:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=None, help="the first seed; by default a new one each time")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(10**9) if options.seed is None else options.seed
    return fuzz(options.seconds, seed)


if __name__ == "__main__":
    sys.exit(main())
