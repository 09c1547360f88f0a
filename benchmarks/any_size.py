"""The case `any-size`: a compiled index, and the cache of a JSON index, with up to 1,000,000 servers.

Every figure is held against `agent resolve` in `examples/hello-agent` in the same rounds, or against the same
resolution of the JSON.
"""

import dataclasses
import json
import os
import shutil
import statistics
import time
from pathlib import Path
from typing import Final

from benchmarks.case import LOCK, MEMORY, TIME, Bench, Quantity, Result, generated, in_hello
from benchmarks.generate import CATEGORIES, scopes_of
from benchmarks.generate_agents import agents_for
from benchmarks.install import CACHE
from benchmarks.measure import BenchmarkError, Command, Series, interleave, run_once
from benchmarks.same import check_locks

MANY: Final = 1_000_000
QUICK: Final = 100_000


def any_size(bench: Bench) -> list[Result]:
    """`agent resolve` on a compiled index, from 5 servers to a million."""
    count = QUICK if bench.quick else MANY
    inputs = generated(count, 10)
    folder = inputs["index"].parent
    os.environ["XDG_CACHE_HOME"] = str(CACHE / "work" / "any-size" / "cache")
    index = folder / "mcp.index.db"
    results = _build(bench, inputs["index"], index)
    commands = _commands(bench, folder, index)
    series = interleave(commands, bench.rounds(31, 9))
    hello = series["hello"]
    check_locks(commands["served"].directory / LOCK, CACHE / "work" / "any-size-once" / "ours" / LOCK)
    return [
        *results,
        _beyond("served, time", series["served"], hello, TIME, 10.0),
        _beyond("served, memory", series["served"], hello, MEMORY, 10.0),
        _beyond("none served, time", series["failing"], hello, TIME, 50.0),
        _beyond("none served, memory", series["failing"], hello, MEMORY, 10.0),
        _beyond("1,000 requirements, time", series["many"], hello, TIME, 100.0),
        *_cache(bench, folder),
        *_workspace(bench, index),
    ]


def _commands(bench: Bench, folder: Path, index: Path) -> dict[str, Command]:
    """The commands that are timed in the same rounds."""
    text = (folder / "agents.md").read_text(encoding="utf-8")
    failing = folder / "failing.md"
    failing.write_text(text.replace("permissions:\n", "permissions:\n        - none:offers\n"), encoding="utf-8")
    many = folder / "many.md"
    many.write_text(_many_requirements(), encoding="utf-8")

    def on(name: str, agent: Path, status: int = 0) -> Command:
        made = bench.agent(f"any-size-{name}", ["-a", str(agent), "-i", str(index), "-o", LOCK])
        return dataclasses.replace(made, status=status, has_index_cache=True)

    return {
        "hello": in_hello(bench.agent("any-size-hello", [])),
        "served": on("served", folder / "agents.md"),
        "failing": on("failing", failing, status=1),
        "many": on("many", many),
    }


def _many_requirements() -> str:
    """A thousand requirements that are served: of each category its own scopes, alone."""
    needs = [(category, scope) for category in CATEGORIES for scope in scopes_of(category)[:5]]
    lines = [f"    - {{category: {category}, permissions: [{json.dumps(scope)}]}}" for category, scope in needs]
    return "\n".join(["---", "name: many", "version: 1.0.0", "requires:", "  mcp:", *lines, "---", ""])


def _build(bench: Bench, source: Path, index: Path) -> list[Result]:
    """Building, against one resolution of the JSON, and the size of the file, against the JSON."""
    folder = CACHE / "work" / "any-size" / "build"
    folder.mkdir(parents=True, exist_ok=True)
    resolving = bench.agent("any-size-once", ["-a", str(source.parent / "agents.md"), "-i", str(source), "-o", LOCK])
    building = Command(line=[str(bench.ours.agent), "index", "build", str(source), "-o", str(index)], directory=folder)
    series = interleave({"json": resolving, "build": building}, bench.rounds(3, 1))
    built, once = series["build"], series["json"]
    size, json_size = index.stat().st_size, source.stat().st_size
    return [
        _ratio("index build / one JSON resolve, time", built, once, 2.7),
        Result(name="compiled index / JSON, size", ours=size / 1e6, other=json_size / 1e6, unit="MB",
               value=size / json_size, goal=1.2),
    ]  # fmt: skip


def _cache(bench: Bench, folder: Path) -> list[Result]:
    """The first use of a JSON index that has no cache yet, against the same with caches off; then the second use."""
    arguments = ["-a", str(folder / "agents.md"), "-i", str(folder / "mcp.index.json"), "-o", LOCK]
    off = bench.agent("any-size-off", arguments)
    on = dataclasses.replace(bench.agent("any-size-on", arguments), has_index_cache=True)
    caches = Path(os.environ["XDG_CACHE_HOME"])
    first, without = Series(), Series()
    for _ in range(bench.rounds(3, 1)):
        without.samples.append(run_once(off))
        shutil.rmtree(caches, ignore_errors=True)
        first.samples.append(run_once(on))
        _wait_for_cache(caches)
    again = interleave({"cached": on, "hello": in_hello(bench.agent("any-size-hello", []))}, bench.rounds(15, 5))
    size = max(file.stat().st_size for file in caches.glob("agent-resolver/index-*.db"))
    source = folder / "mcp.index.json"
    return [
        _ratio("first use with a cache / without, time", first, without, 1.05),
        _beyond("JSON with its cache, time", again["cached"], again["hello"], TIME, 10.0),
        Result(name="cache / JSON, size", ours=size / 1e6, other=source.stat().st_size / 1e6, unit="MB",
               value=size / source.stat().st_size, goal=None if bench.quick else 0.1),
    ]  # fmt: skip


def _wait_for_cache(caches: Path) -> None:
    """Let the process that writes the cache end, so that it slows no other figure."""
    deadline = time.monotonic() + 600
    while not any(caches.glob("agent-resolver/index-*.digest")):
        if time.monotonic() > deadline:
            raise BenchmarkError(f"no cache was written to `{caches}`")
        time.sleep(0.2)


def _workspace(bench: Bench, index: Path) -> list[Result]:
    """1,000 agents of five requirements each, on the compiled index: once with every lock to write, once with none."""
    made = agents_for(CACHE / "data" / "any-size-agents", agents=1_000)
    line = [str(bench.ours.agent), "resolve", "--workspace", ".", "--index", str(index)]
    series = {name: Series() for name in ("every lock written", "every lock unchanged")}
    work = CACHE / "work" / "any-size" / "workspace"
    shutil.rmtree(work, ignore_errors=True)
    # A copy for each round, and one that is not counted: see `workspace` in `case.py`.
    for number in range(bench.rounds(5, 3) + 1):
        folder = work / str(number)
        shutil.copytree(made, folder)
        for each in series.values():
            sample = run_once(Command(line=line, directory=folder, has_index_cache=True))
            if number:
                each.samples.append(sample)
    shutil.rmtree(work)
    medians = {name: each.median(lambda sample: sample.seconds) for name, each in series.items()}
    return [
        Result(name=f"1,000 agents on it, {name}", ours=seconds, other=None, unit="s", value=seconds, goal=2.0)
        for name, seconds in medians.items()
    ]


def _beyond(name: str, ours: Series, hello: Series, quantity: Quantity, goal: float | None) -> Result:
    """How much more a command takes than `hello-agent`, within each round."""
    more = statistics.median(
        quantity.of(mine) - quantity.of(theirs) for mine, theirs in zip(ours.samples, hello.samples, strict=True)
    )
    return Result(
        name=f"compiled - hello-agent, {name}",
        ours=ours.median(quantity.of),
        other=hello.median(quantity.of),
        unit=quantity.unit,
        value=more,
        goal=goal,
    )


def _ratio(name: str, ours: Series, other: Series, goal: float) -> Result:
    return Result(
        name=name,
        ours=ours.median(TIME.of),
        other=other.median(TIME.of),
        unit=TIME.unit,
        value=ours.ratio(other, TIME.of),
        goal=goal,
    )
