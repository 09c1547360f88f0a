"""The cases: what each runs, what it is compared with and the goal it has to meet."""

import dataclasses
import json
import shutil
import statistics
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.generate import DIGESTS, digest, generate
from benchmarks.generate_agents import catalog as generate_catalog, workspace as generate_workspace
from benchmarks.install import CACHE, ROOT, Installation, install_frameworks, output_of, program, size_of
from benchmarks.measure import BenchmarkError, Command, Sample, Series, clean, environment, interleave, run_once
from benchmarks.same import check_explanations, check_locks

MEGABYTE: Final = 1_000_000
FRAMEWORKS: Final = ("agno", "langgraph", "pydantic_ai")
LOCK: Final = "agents.lock"
EXPLANATION: Final = "agents.resolution.json"


@dataclass(frozen=True, kw_only=True)
class Result:
    """One line of the table: a figure of ours, what it is held against and the most that it may be."""

    name: str
    ours: float
    other: float | None
    unit: str
    value: float
    """What the goal is about: a ratio, or the figure itself where there is nothing to compare it with."""
    goal: float | None
    note: str = ""

    @property
    def ok(self) -> bool:
        """Whether the goal is met; a line without a goal is there to be read."""
        return self.goal is None or self.value <= self.goal


@dataclass(frozen=True)
class Quantity:
    """What is read from a sample, and its unit."""

    unit: str
    of: Callable[[Sample], float]


TIME: Final = Quantity("ms", lambda sample: sample.seconds * 1000)
MEMORY: Final = Quantity("MB", lambda sample: sample.memory / MEGABYTE)


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What the cases run with."""

    ours: Installation
    peer: Callable[[], Path]
    """Gives the peer's entry file; installs it the first time."""
    tools: Callable[[], Path]
    """Gives an interpreter that has the extra `tools`; installs it the first time."""
    quick: bool

    def rounds(self, full: int, quick: int) -> int:
        """An odd number of rounds."""
        return quick if self.quick else full

    def agent(self, case: str, arguments: Sequence[str]) -> Command:
        """Our `agent resolve`."""
        return _resolve([str(self.ours.agent)], case, "ours", arguments)

    def node(self, case: str, arguments: Sequence[str]) -> Command:
        """The peer's `agent resolve`."""
        return _resolve([program("node"), str(self.peer())], case, "peer", arguments)

    def pair(self, case: str, arguments: Sequence[str]) -> dict[str, Command]:
        """Ours and the peer with the same arguments."""
        return {"ours": self.agent(case, arguments), "peer": self.node(case, arguments)}


def hello(bench: Bench) -> list[Result]:
    """`agent resolve` in `examples/hello-agent`, against the bare interpreter and against the peer."""
    commands = _hello_commands(bench)
    series = interleave(commands, bench.rounds(31, 9))
    ours, bare, peer = series["ours"], series["bare"], series["peer"]
    note = _same_locks(commands)
    return [
        _compared("hello-agent / python -I -c pass", (ours, bare), TIME, 5.0),
        _compared("hello-agent / peer", (ours, peer), TIME, 0.35, note),
    ]


def large(bench: Bench) -> list[Result]:
    """100,000 servers and 10 requirements against the peer, in time and in memory."""
    commands = bench.pair("large", _inputs(100_000, 10))
    series = interleave(commands, bench.rounds(7, 3))
    sides = series["ours"], series["peer"]
    note = _same_locks(commands)
    return [
        _compared("100,000 x 10 / peer, time", sides, TIME, 0.45, note),
        _compared("100,000 x 10 / peer, memory", sides, MEMORY, 0.6),
    ]


def explain(bench: Bench) -> list[Result]:
    """`--explain` over 100,000 servers and two requirements, 200,000 judgements written out, against the peer."""
    commands = bench.pair("explain", _explain_inputs())
    series = interleave(commands, bench.rounds(7, 3))
    sides = series["ours"], series["peer"]
    _same_locks(commands)
    rejections = check_explanations(*(command.directory / EXPLANATION for command in commands.values()))
    return [
        _compared("--explain 100,000 x 2 / peer, time", sides, TIME, 1.0, f"same {rejections:,} rejections"),
        _compared("--explain 100,000 x 2 / peer, memory", sides, MEMORY, None),
    ]


def in_process(bench: Bench) -> list[Result]:
    """`resolve` and `explain` called from Python, 1,000 servers and 50 requirements."""
    taken = json.loads(output_of(_in_process_line(bench, str(bench.rounds(51, 11)))))
    return [
        Result(
            name=f"in process, 1,000 x 50, {name}",
            ours=taken[name] * 1000,
            other=None,
            unit="ms",
            value=taken[name] * 1000,
            goal=goal,
        )
        for name, goal in (("resolve", 10.0), ("explain", 30.0))
    ]


def call(bench: Bench) -> list[Result]:
    """`ToolRegistry.call()` on a tool in memory, without a trail: what the pipeline adds to a call."""
    line = [str(bench.tools()), "-I", str(ROOT / "benchmarks" / "call.py"), str(bench.rounds(51, 15))]
    taken = json.loads(output_of(line))
    whole = taken.pop("call")
    note = ", ".join(f"{name} {part * 1e6:.1f}" for name, part in taken.items())
    return [
        Result(
            name="registry.call, in memory",
            ours=whole * 1e6,
            other=None,
            unit="µs",
            value=whole * 1e6,
            goal=30.0,
            note=f"by themselves: {note}",
        )
    ]


def capability(bench: Bench) -> list[Result]:
    """`ToolRegistry.call()` on capabilities of a project, without a trail: in a thread, on a loop, in a process."""
    line = [str(bench.tools()), str(ROOT / "benchmarks" / "capability_call.py"), str(bench.rounds(51, 15))]
    taken = json.loads(output_of(line))
    first = f"the first, which prepares the process, {taken['first'] * 1e3:.0f} ms"
    return [
        _alone("capability, sync", taken["notes.find"] * 1e6, "µs", 80.0),
        _alone("capability, async", taken["notes.await"] * 1e6, "µs", None),
        _alone("capability, isolated", taken["notes.fetch"] * 1e3, "ms", 15.0, first),
    ]


def traced(bench: Bench) -> list[Result]:
    """The same call with every span kept and handed to the SDK; then with metrics, and with logs as well."""
    line = [str(bench.tools()), "-I", str(ROOT / "benchmarks" / "traced.py"), str(bench.rounds(51, 15))]
    taken = {name: seconds * 1e6 for name, seconds in json.loads(output_of(line)).items()}
    spans, untraced = taken.pop("spans"), taken.pop("untraced")
    note = ", ".join(f"{name} {microseconds:.1f}" for name, microseconds in taken.items())
    return [
        Result(
            name="registry.call, traced / untraced",
            ours=spans,
            other=untraced,
            unit="µs",
            value=spans,
            goal=60.0,
            note=note,
        )
    ]


def audited(bench: Bench) -> list[Result]:
    """The same call with its audit trail and ledger on the disk, one after the other; and how many at once take."""
    scratch = ROOT / ".bench"
    scratch.mkdir(exist_ok=True)
    line = [str(bench.tools()), "-I", str(ROOT / "benchmarks" / "audited.py"), str(bench.rounds(15, 5)), str(scratch)]
    taken = {name: seconds * 1e3 for name, seconds in json.loads(output_of(line)).items()}
    note = f"{taken['at once']:.2f} ms each, 1,000 at once; a flush of this disk {taken['flush']:.2f} ms"
    return [_alone("registry.call, audited", taken["call"], "ms", 1.0, note)]


def shared_state(bench: Bench) -> list[Result]:
    """Records of the trail that two processes write to one state in Postgres, and the same work on a state file."""
    scratch = ROOT / ".bench"
    scratch.mkdir(exist_ok=True)
    line = [str(bench.tools()), "-I", str(ROOT / "benchmarks" / "shared_state.py"), str(bench.rounds(1500, 300))]
    rates = json.loads(output_of([*line, str(scratch)]))
    listed = ", ".join(f"{name}: {rate:,.0f}" for name, rate in sorted(rates.items()))
    return [
        _alone("audit record, two processes on Postgres", 1e3 / rates["postgres 2"], "ms", 1.0, f"a second: {listed}")
    ]


def durable(bench: Bench) -> list[Result]:
    """Runs whose every step is on the disk before the next begins; with an approval; and what they take there."""
    scratch = ROOT / ".bench"
    scratch.mkdir(exist_ok=True)
    line = [str(bench.tools()), "-I", str(ROOT / "benchmarks" / "durable.py"), str(bench.rounds(15, 5)), str(scratch)]
    taken = json.loads(output_of(line))
    note = f"{taken['at once'] * 1e3:.2f} ms each, 50 runs at once; a flush of this disk {taken['flush'] * 1e3:.2f} ms"
    return [
        _alone("durable run, a round", taken["round"] * 1e3, "ms", 1.5, note),
        _alone("durable run, an approval", taken["approval"] * 1e3, "ms", 3.0),
        _alone("durable run of 10 rounds on disk", taken["bytes"] / 1e3, "kB", 20.0),
        _alone("1,000 waiting runs listed", taken["listing"] * 1e3, "ms", 100.0),
        _alone("a waiting run on disk", taken["waiting bytes"] / 1e3, "kB", 2.0),
    ]


def reasoner(bench: Bench) -> list[Result]:
    """Tasks from a request to the call of an approved plan: each stage, and many tasks that wait."""
    scratch = ROOT / ".bench"
    scratch.mkdir(exist_ok=True)
    line = [str(bench.tools()), "-I", str(ROOT / "benchmarks" / "reasoner.py"), str(bench.rounds(31, 9)), str(scratch)]
    taken = json.loads(output_of(line))
    slowest = f"the slowest of 100 took {taken['slowest resume'] * 1e3:.1f} ms"
    return [
        *(_alone(f"task, stage {name}", seconds * 1e3, "ms", None) for name, seconds in taken["stages"].items()),
        _alone("task, graph and checkpoint of a step", taken["besides"] * 1e3, "ms", None),
        _alone("task, start to first question", taken["start"] * 1e3, "ms", None),
        _alone("1,000 waiting tasks listed", taken["listing"] * 1e3, "ms", 100.0),
        _alone("one of 1,000 waiting tasks resumed", taken["resume"] * 1e3, "ms", None, slowest),
        _alone("import of the graph", taken["import"], "s", None),
    ]


def engine(bench: Bench) -> list[Result]:
    """Blueprints against workflows of the bare engine of the same shape; and many runs that wait."""
    scratch = ROOT / ".bench"
    scratch.mkdir(exist_ok=True)
    waiting = 1_000 if bench.quick else 10_000
    line = [str(bench.tools()), "-I", str(ROOT / "benchmarks" / "engine.py"), str(bench.rounds(15, 5)), str(scratch)]
    taken = json.loads(output_of([*line, str(waiting)]))
    shapes = {"sequence": "sequence of 10", "group": "group of 10", "many": "100 runs of 5 steps"}
    # Many runs at once are reported: the bare engine keeps no ledger, no trail and no queue of its own.
    goals = {"sequence": 1.5, "group": 1.5, "many": None}
    steps = [
        Result(
            name=f"blueprint, {shapes[name]}, a step / bare engine",
            ours=taken[name]["ours"] * 1e3,
            other=taken[name]["bare"] * 1e3,
            unit="ms",
            value=taken[name]["ratio"],
            goal=goal,
            note=f"{1 / taken[name]['ours']:.0f} steps a second",
        )
        for name, goal in goals.items()
    ]
    idle = taken["waiting"]
    return [
        *steps,
        _alone(f"{waiting:,} waiting runs of blueprints listed", idle["listing"] * 1e3, "ms", 100.0),
        _alone(f"{waiting:,} waiting runs, idle worker", idle["idle"] * 100, "% of a core", 1.0),
    ]


def manifest(bench: Bench) -> list[Result]:
    """The manifest of 1,000 tools, and its bytes."""
    line = [str(bench.tools()), "-I", str(ROOT / "benchmarks" / "manifest.py"), str(bench.rounds(15, 5))]
    taken = json.loads(output_of(line))
    note = ", ".join(f"{name} {seconds * 1e3:.0f} ms" for name, seconds in taken.items() if name != "manifest")
    return [_alone("manifest of 1,000 tools", taken["manifest"] * 1e3, "ms", 100.0, note)]


def plan(bench: Bench) -> list[Result]:
    """The plan of an agent with 10 plugins, a lock and many tools."""
    line = [str(bench.tools()), "-I", str(ROOT / "benchmarks" / "plan.py"), str(bench.rounds(51, 15))]
    taken = json.loads(output_of(line))
    goals = {"1000": 2.0, "10000": 20.0}
    return [_alone(f"plan, {int(size):,} tools", taken[size] * 1e3, "ms", goal) for size, goal in goals.items()]


def run(bench: Bench) -> list[Result]:
    """Ten rounds of an agent with one call each, beside the same in other frameworks; nothing is kept in any."""
    folder, samples = ROOT / "benchmarks" / "run_loop", str(bench.rounds(101, 31))
    frameworks = install_frameworks()
    lines = {
        "ours": [str(bench.tools()), str(folder / "ours.py"), samples],
        **{name: [str(frameworks), str(folder / f"with_{name}.py"), samples] for name in FRAMEWORKS},
    }
    rounds = [_in_turn(lines, number) for number in range(bench.rounds(5, 3))]
    medians = {name: _medians([each[name] for each in rounds]) for name in lines}
    ours = medians["ours"]
    others = {name: figures["round"] for name, figures in medians.items() if name != "ours"}
    quickest = min(others, key=lambda name: others[name])
    note = ", ".join(f"{name} {seconds * 1e6:,.0f}" for name, seconds in others.items())
    waiting = ", ".join(f"{name} {medians[name]['waiting'] / 1e3:.0f}" for name in others)
    return [
        _alone("run, a round", ours["round"] * 1e6, "µs", 250.0, note),
        _ratio(f"run, a round / {quickest}", ours["round"], others[quickest], 1.0),
        _ratio("run, streamed / whole", ours["streamed"], ours["round"], 1.3),
        _ratio("run, 1,000 at once / one", ours["at once"], ours["round"], 1.1),
        _alone("run, waiting in a tool", ours["waiting"] / 1e3, "kB", 15.0, waiting),
        _alone("run, import", ours["import"] * 1e3, "ms", 250.0),
    ]


def _in_turn(lines: Mapping[str, Sequence[str]], number: int) -> dict[str, dict[str, float]]:
    """The figures of each framework, one after the other; odd rounds go backwards."""
    names = list(lines) if number % 2 == 0 else list(lines)[::-1]
    return {name: json.loads(output_of(lines[name])) for name in names}


def _medians(samples: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: statistics.median(sample[name] for sample in samples) for name in samples[0]}


def _ratio(name: str, ours: float, other: float, goal: float) -> Result:
    return Result(name=name, ours=ours * 1e6, other=other * 1e6, unit="µs", value=ours / other, goal=goal)


def linear(bench: Bench) -> list[Result]:
    """What one more server costs between 100,000 and a million, against between 10,000 and 100,000."""
    sizes = (1_000, 10_000, 100_000) if bench.quick else (10_000, 100_000, 1_000_000)
    commands = {str(size): bench.agent(f"linear-{size}", _inputs(size, 10)) for size in sizes}
    series = interleave(commands, bench.rounds(5, 3))
    medians = {size: series[str(size)].median(TIME.of) / 1000 for size in sizes}
    # The goal is for a million; at the sizes of a quick run the processor's caches still show.
    return [_per_piece(f"linear to {sizes[2]:,}, per server", medians, None if bench.quick else 1.3)]


def failing(bench: Bench) -> list[Result]:
    """What one more requirement that fails costs between 1,000 and 5,000, against between 200 and 1,000."""
    sizes = (200, 1_000, 5_000)
    results = []
    for arguments in (["resolve"], ["resolve", "--json"], ["why", "c0"], ["report", "-o", "page.html"]):
        name = " ".join(arguments[: 2 if "--json" in arguments else 1])
        commands = {str(size): _failing_command(bench, arguments, size) for size in sizes}
        series = interleave(commands, bench.rounds(5, 3))
        medians = {size: series[str(size)].median(TIME.of) / 1000 for size in sizes}
        results.append(_per_piece(f"{name}, failing requirements to {sizes[2]:,}", medians, 1.5))
    return results


def imported(bench: Bench) -> list[Result]:
    """`agent resolve` over entries in the form that `agent index import` writes.

    They have the same servers and facts as hand-written ones: once all in the index, and once without facts, which an
    overlay then states. The peer reads no imported entries, and is given as many hand-written ones.
    """
    files = _imported_files(10_000)
    agents = str(Path(files["by hand"]).with_name("agents.md"))
    commands = {
        name: bench.agent(f"imported-{name}", ["-a", agents, "-i", file, "-o", LOCK]) for name, file in files.items()
    }
    commands["peer"] = bench.node("imported-peer", ["-a", agents, "-i", files["by hand"], "-o", LOCK])
    commands["start"] = in_hello(bench.agent("imported-start", []))
    series = interleave(commands, bench.rounds(15, 7))
    sizes = {name: Path(file).stat().st_size for name, file in files.items()}
    note = f"the file is {sizes['imported'] / sizes['by hand']:.1f} times as large"
    return [
        *(
            _compared(f"10,000 entries {name} / peer, by hand", (series[name], series["peer"]), TIME, 0.45)
            for name in ("imported", "overlaid")
        ),
        _per_byte("10,000 entries imported / by hand, per byte", series, sizes, 1.0),
        *(
            _compared(f"10,000 entries {name} / by hand", (series[name], series["by hand"]), TIME, None, note)
            for name in ("imported", "overlaid")
        ),
        _imported_per_entry(bench),
    ]


def _per_byte(name: str, series: Mapping[str, Series], sizes: Mapping[str, int], goal: float) -> Result:
    """The time for a byte of the imported index against one of the hand-written, without the start of the command."""
    taken = {}
    for each in ("imported", "by hand"):
        # Subtracted within a round: a slow minute slows the start as well.
        rounds = zip(series[each].samples, series["start"].samples, strict=True)
        reading = statistics.median(whole.seconds - start.seconds for whole, start in rounds)
        taken[each] = reading * 1e9 / sizes[each]
    ours, other = taken["imported"], taken["by hand"]
    return Result(name=name, ours=ours, other=other, unit="ns", value=ours / other, goal=goal)


def _imported_per_entry(bench: Bench) -> Result:
    """The time that one more imported entry takes, at two sizes."""
    sizes = (1_000, 10_000, 100_000)
    commands = {}
    for size in sizes:
        files = _imported_files(size)
        agents = str(Path(files["by hand"]).with_name("agents.md"))
        arguments = ["-a", agents, "-i", files["imported"], "-o", LOCK]
        commands[str(size)] = bench.agent(f"imported-{size}", arguments)
    series = interleave(commands, bench.rounds(5, 3))
    medians = {size: series[str(size)].median(TIME.of) / 1000 for size in sizes}
    return _per_piece(f"imported to {sizes[2]:,}, per entry", medians, 1.3)


def _imported_files(count: int) -> dict[str, str]:
    """An index by hand, the same as the importer writes it, and that without the facts that its overlay has."""
    _, _, _, by_hand, *_ = _inputs(count, 10)
    entries = json.loads(Path(by_hand).read_text(encoding="utf-8"))
    for entry in entries:
        # As the importer writes it: started, not called, and without a limit that no catalogue states.
        del entry["endpoint"]
        entry.pop("policy", None)
        package = f"@example/{entry['id']}@{entry['version']}"
        launch = {"command": "npx", "args": ["-y", package], "env": ["EXAMPLE_TOKEN"], "transport": "stdio"}
        entry |= {"launch": launch, "name": package, "description": "Does what its name says.", "source": "example"}
    written = _write_index(f"imported-{count}", entries)
    for entry in entries:
        del entry["data"]
    overlaid = _write_index(f"overlaid-{count}", entries)
    everywhere = {"data": {"residency": ["us-only"], "maxSensitivity": "pii.high"}}
    (overlaid.parent / "mcp.overlay.yaml").write_text(json.dumps({"servers": {"*": everywhere}}), encoding="utf-8")
    return {"by hand": by_hand, "imported": str(written), "overlaid": str(overlaid)}


def _write_index(name: str, entries: Sequence[object]) -> Path:
    folder = CACHE / "data" / name
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "mcp.index.json"
    file.write_text(json.dumps(entries, indent=2) + "\n", encoding="utf-8", newline="\n")
    return file


def _failing_command(bench: Bench, arguments: Sequence[str], size: int) -> Command:
    """A command on so many requirements in 200 categories, each of which five servers offer, and none can serve."""
    folder = CACHE / "data" / f"failing-{size}"
    folder.mkdir(parents=True, exist_ok=True)
    needs = [f"  - {{category: c{number % 200}, permissions: [n{number}]}}" for number in range(size)]
    head = ["---", "name: failing", "version: 1.0.0", "requires:", "  mcp:"]
    text = "\n".join([*head, *needs, "constraints: {data: {residency: any}}", "---", ""])
    server = {
        "endpoint": "https://mcp.example",
        "scopes": ["read"],
        "data": {"residency": ["any"], "maxSensitivity": "public"},
        "trust": {"signed": True, "publisher": "Example"},
    }
    index = [
        {"id": f"s{number}", "version": "1.0.0", "categories": [f"c{number % 200}"], **server}
        for number in range(1_000)
    ]
    (folder / "agents.md").write_text(text, encoding="utf-8", newline="\n")
    (folder / "mcp.index.json").write_text(json.dumps(index), encoding="utf-8", newline="\n")
    agent = str(bench.ours.agent)
    files = ["-a", str(folder / "agents.md"), "-i", str(folder / "mcp.index.json")]
    # A file that is refused would end with the same exit code, and quickly.
    output_of([agent, "validate", *files])
    work = _folder(f"failing-{size}", "ours")
    return Command(line=[agent, *arguments, *files], directory=work, writes=("page.html",), status=1)


def _per_piece(name: str, medians: Mapping[int, float], goal: float | None) -> Result:
    """What one more costs between the two larger of three sizes, against between the two smaller, from seconds."""
    sizes = sorted(medians)
    small, middle, big = (medians[size] for size in sizes)
    # Differences leave out the start of the interpreter, which would make the small size look expensive for each.
    first = (middle - small) / (sizes[1] - sizes[0])
    second = (big - middle) / (sizes[2] - sizes[1])
    return Result(
        name=name,
        ours=second * 1e6,
        other=first * 1e6,
        unit="µs",
        value=second / first,
        goal=goal,
        note=", ".join(f"{size:,}: {medians[size]:.3f} s" for size in sizes),
    )


def size(bench: Bench) -> list[Result]:
    """What the base install adds to a bare environment."""
    found = size_of(bench.ours.python)
    megabytes = found.files / MEGABYTE
    note = f"and {found.bytecode / MEGABYTE:.1f} MB of bytecode"
    return [Result(name="base install", ours=megabytes, other=None, unit="MB", value=megabytes, goal=15.0, note=note)]


def workspace(bench: Bench) -> list[Result]:
    """`agent resolve --workspace`, 1,000 agent files and 5,000 servers, against reading those files."""
    count = 100 if bench.quick else 1_000
    made = generate_workspace(CACHE / "data" / f"workspace-{count}", agents=count, servers_count=5_000)
    agent, python = str(bench.ours.agent), str(bench.ours.python)
    resolves = [agent, "resolve", "--workspace"]
    reads = [python, "-I", str(ROOT / "benchmarks" / "read_workspace.py"), "."]
    series = {name: Series() for name in ("writes", "again", "reads")}
    work = _folder("workspace", "ours")
    # A copy for each round: where files were deleted a moment ago, ext4 takes many times longer to make new ones.
    for number in range(bench.rounds(15, 5) + 1):
        folder = work / str(number)
        shutil.copytree(made, folder)
        taken = {
            "writes": run_once(Command(line=resolves, directory=folder)),
            "again": run_once(Command(line=resolves, directory=folder)),
            "reads": run_once(Command(line=reads, directory=folder)),
        }
        for name in series if number else ():
            series[name].samples.append(taken[name])
    shutil.rmtree(work)
    # Without --quick's small folder, where the start of the interpreter hides everything.
    goal = None if bench.quick else 2.0
    return [
        _compared(f"workspace {count:,} x 5,000 / reading it", (series["writes"], series["reads"]), TIME, goal),
        _compared("the same, every lock unchanged", (series["again"], series["reads"]), TIME, goal),
    ]


def catalog(bench: Bench) -> list[Result]:
    """The catalog in process, 10,000 agents."""
    folder = generate_catalog(CACHE / "data" / "catalog-10000", agents=10_000)
    index = _folder("catalog", "ours") / "index.db"
    for left in index.parent.glob("index.db*"):
        left.unlink()
    line = [str(bench.tools()), str(ROOT / "benchmarks" / "catalog.py"), str(folder), str(index)]
    taken = json.loads(output_of([*line, str(bench.rounds(2001, 501))]))
    goals = {"page": 0.1, "search": 2.0, "search p95": 15.0, "cold": 1.0, "cached": 0.02, "start": 50.0}
    return [
        *(_alone(f"catalog of 10,000, {name}", taken[name], "ms", goal) for name, goal in goals.items()),
        _alone("catalog of 10,000, memory an agent", taken["bytes"], "B", 2000.0),
    ]


def serve(bench: Bench) -> list[Result]:
    """`agent serve` against a bare server of the SDK that answers with the same bytes."""
    folder = generate_catalog(CACHE / "data" / "catalog-10000", agents=10_000)
    python = bench.tools()
    numbers = map(str, (bench.rounds(7, 3), 400 if bench.quick else 1_000, 5_000 if bench.quick else 100_000))
    line = [str(python), str(ROOT / "benchmarks" / "serve.py"), str(python.with_name("agent")), str(folder), *numbers]
    taken = json.loads(output_of(line))
    first, growth = taken.pop("first"), taken.pop("growth")
    rates = [
        Result(
            name=f"agent serve, {name}, requests a second",
            ours=figures["ours"],
            other=figures["bare"],
            unit="/s",
            value=1 / figures["ratio"],
            goal=1 / 0.9,
            note=f"{figures['ratio']:.2f} of the bare server's",
        )
        for name, figures in taken.items()
    ]
    return [
        Result(
            name="agent serve, first reply / bare",
            ours=first["ours"] * 1000,
            other=first["bare"] * 1000,
            unit="ms",
            value=first["ratio"],
            goal=1.3,
        ),
        *rates,
        _alone(f"agent serve, growth over {growth['requests']:,} requests", growth["megabytes"], "MB", 5.0),
    ]


def any_size(bench: Bench) -> list[Result]:
    """A compiled index of a million servers, and the cache of a JSON index."""
    from benchmarks.any_size import any_size as measure  # It is made of the parts of this module.

    return measure(bench)


CASES: Final[Mapping[str, Callable[[Bench], list[Result]]]] = {
    "hello": hello,
    "large": large,
    "explain": explain,
    "in-process": in_process,
    "call": call,
    "capability": capability,
    "traced": traced,
    "audited": audited,
    "shared-state": shared_state,
    "durable": durable,
    "reasoner": reasoner,
    "engine": engine,
    "manifest": manifest,
    "plan": plan,
    "run": run,
    "linear": linear,
    "any-size": any_size,
    "failing": failing,
    "imported": imported,
    "workspace": workspace,
    "catalog": catalog,
    "serve": serve,
    "size": size,
}


def profile(bench: Bench, name: str) -> int:
    """Print a profile of our side of a case, most time first, and return the exit code of what was profiled."""
    if name == "in-process":
        return subprocess.run([*_in_process_line(bench, "1"), "--profile"], env=environment(), check=False).returncode
    commands = {
        "hello": lambda: in_hello(bench.agent("hello", [])),
        "large": lambda: bench.agent("large", _inputs(100_000, 10)),
        "explain": lambda: bench.agent("explain", _explain_inputs()),
        "failing": lambda: _failing_command(bench, ["resolve"], 5_000),
        "linear": lambda: bench.agent("linear-1000000", _inputs(1_000_000, 10)),
    }
    if name not in commands:
        raise BenchmarkError(f"`{name}` has nothing to profile")
    command = commands[name]()
    line = [str(bench.ours.python), "-m", "cProfile", "-s", "tottime", *command.line]
    clean(command)
    return subprocess.run(line, cwd=command.directory, env=environment(), check=False).returncode


def _hello_commands(bench: Bench) -> dict[str, Command]:
    commands = {name: in_hello(command) for name, command in bench.pair("hello", []).items()}
    bare = Command(line=[str(bench.ours.python), "-I", "-c", "pass"], directory=_folder("hello", "bare"))
    return {"bare": bare, **commands}


def in_hello(command: Command) -> Command:
    """The command in a copy of `examples/hello-agent`."""
    for name in ("agents.md", "mcp.index.json"):
        shutil.copyfile(ROOT / "examples" / "hello-agent" / name, command.directory / name)
    return dataclasses.replace(command, has_index_cache=True)


def _resolve(start: Sequence[str], case: str, side: str, arguments: Sequence[str]) -> Command:
    line = [*start, "resolve", *arguments]
    return Command(line=line, directory=_folder(case, side), writes=(LOCK, EXPLANATION))


def _folder(case: str, side: str) -> Path:
    folder = CACHE / "work" / case / side
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _inputs(servers: int, requirements: int) -> list[str]:
    """The options that name generated inputs."""
    files = generated(servers, requirements)
    return ["-a", str(files["agents"]), "-i", str(files["index"]), "-o", LOCK]


def generated(servers: int, requirements: int) -> dict[str, Path]:
    """Generated inputs, made now unless an earlier run left the pinned bytes."""
    folder = CACHE / "data" / f"{servers}x{requirements}"
    files = (folder / "agents.md", folder / "mcp.index.json")
    if not all(path.is_file() for path in files) or DIGESTS[servers, requirements] != tuple(map(digest, files)):
        generate(folder, servers_count=servers, requirements=requirements)
    return {"agents": files[0], "index": files[1]}


def _explain_inputs() -> list[str]:
    return [*_inputs(100_000, 2), "--explain", "--explain-output", EXPLANATION]


def _in_process_line(bench: Bench, rounds: str) -> list[str]:
    folder = Path(_inputs(1_000, 50)[1]).parent
    return [str(bench.ours.python), "-I", str(ROOT / "benchmarks" / "in_process.py"), str(folder), rounds]


def _same_locks(commands: Mapping[str, Command]) -> str:
    """A note of how much both locks have in common, which is all of it."""
    count = check_locks(commands["ours"].directory / LOCK, commands["peer"].directory / LOCK)
    return f"same {count} selections"


def _alone(name: str, value: float, unit: str, goal: float | None, note: str = "") -> Result:
    return Result(name=name, ours=value, other=None, unit=unit, value=value, goal=goal, note=note)


def _compared(
    name: str, sides: tuple[Series, Series], quantity: Quantity, goal: float | None, note: str = ""
) -> Result:
    ours, other = sides
    return Result(
        name=name,
        ours=ours.median(quantity.of),
        other=other.median(quantity.of),
        unit=quantity.unit,
        value=ours.ratio(other, quantity.of),
        goal=goal,
        note=note,
    )
