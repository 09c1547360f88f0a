"""Time `resolve` and `explain` inside one process of the installed product: `in_process.py FOLDER ROUNDS [--profile]`.

Every round parses its inputs again and times the first call on them, so that nothing kept from an earlier call helps.
"""

import cProfile
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import agent_resolver


def call(name: str, folder: Path) -> Callable[[], object]:
    """A call of `resolve` or `explain` on values parsed just now."""
    agent = agent_resolver.parse_agent_file((folder / "agents.md").read_bytes())
    servers = agent_resolver.servers_of(agent_resolver.parse_index((folder / "mcp.index.json").read_bytes()))
    function = agent_resolver.resolve if name == "resolve" else agent_resolver.explain
    return lambda: function(agent, servers)


def seconds(name: str, folder: Path) -> float:
    """How long one call takes."""
    run = call(name, folder)
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def main() -> None:
    """Print the median of each call in seconds, as JSON, or a profile of both."""
    folder, rounds = Path(sys.argv[1]), int(sys.argv[2])
    names = ("resolve", "explain")
    if "--profile" in sys.argv:
        for name in names:
            print(f"== {name}")
            cProfile.runctx("run()", {"run": call(name, folder)}, {}, sort="tottime")
        return
    for name in names:
        seconds(name, folder)
    samples = {name: [seconds(name, folder) for _ in range(rounds)] for name in names}
    print(json.dumps({name: statistics.median(taken) for name, taken in samples.items()}))


if __name__ == "__main__":
    main()
