"""Time tasks of the reasoner on a state file: `reasoner.py ROUNDS [FOLDER]`, with the extras `tools` and `reasoner`.

Every round brings one task from its request to its end, with the planner that needs no model and the tools of a help
desk: two questions, a rejection by Ops, a revised draft, an approval by a second person, and one call of the plan. A
stage is timed from its start to its end, with what it writes itself; the rest of a step is LangGraph's and the
checkpoint. Then 1,000 tasks wait for an answer. They are listed, and 100 of them resumed.
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from typing import Any, Final

from msgspec import structs

from agent_resolver.core.egress import egress_hosts
from agent_resolver.engine.tool import describe_blueprint
from agent_resolver.reasoner.artifact import Artifacts
from agent_resolver.reasoner.memory import MemoryHealth, MemoryRetriever
from agent_resolver.reasoner.planner.offline import OfflinePlanner
from agent_resolver.reasoner.task_context import ReasonerPorts, Surface
from agent_resolver.reasoner.task_tool import INSTALL
from agent_resolver.reasoner.task_view import TaskView
from agent_resolver.reasoner.tasks import TaskHome, TaskRequest, Tasks
from agent_resolver.registry import CallContext, Inbox, MemorySecrets, Ports, ToolRegistry
from agent_resolver.schema import Caller, Descriptor, Labels, Rules
from agent_resolver.schema.blueprint import Blueprint
from agent_resolver.storage import AesSeal, RunFilter, SqliteStore, SystemClock, list_runs

PAUSED: Final = 1_000
RESUMED: Final = 100
CALLERS: Final = 25
KEY: Final = bytes(32)
REQUEST: Final = "Open a ticket and assign it to the devices team, then page the devices team"
TEXT: Final = {"type": "string", "minLength": 1, "maxLength": 200}
FIELDS: Final[dict[str, dict[str, Any]]] = {
    "title": {**TEXT, "description": "What it is about.", "examples": ["Login fails"]},
    "team": {**TEXT, "description": "The name of the team.", "examples": ["devices"]},
    "user": {**TEXT, "description": "The name of the user.", "examples": ["ada"]},
    "ticket_id": {"type": "integer", "description": "The number of the ticket.", "examples": [1]},
}
DESK: Final = (
    ("tickets.open", "Open a new ticket.", ("title",), ("ticket_id", "title"), ()),
    ("tickets.close", "Close a ticket; one that is closed stays closed.", ("ticket_id",), ("ticket_id",), ()),
    ("tickets.assign", "Assign a ticket to a team.", ("ticket_id", "team"), ("ticket_id", "team"), ()),
    ("pager.page", "Page the people of a team who are on call.", ("team",), ("team",), ("pager.example.com",)),
    ("accounts.unlock", "Unlock the account of a user.", ("user",), ("user",), ()),
)
"""Id, description, inputs, outputs and hosts of each tool."""


def person(name: str, *roles: str) -> Caller:
    """A person that an issuer vouches for."""
    return Caller(
        id=name,
        is_verified=True,
        issuer="https://issuer.test",
        roles=frozenset(roles),
        clearance="RESTRICTED",
        division="it",
        cost_center="CC-17",
    )


BOSS: Final = person("boss", "approver")


class NoTool:
    """A tool that does nothing."""

    def __init__(self, descriptor: Descriptor) -> None:
        self.descriptor = descriptor

    async def invoke(self, arguments: dict[str, Any], _context: CallContext) -> Any:  # noqa: ANN401 - a JSON value
        """Give back the arguments."""
        return arguments


class InstallTool(NoTool):
    """Offers a plan at once: what it takes to run it is measured by the case `engine`."""

    def __init__(self, registry: ToolRegistry, artifacts: Artifacts) -> None:
        rules, labels = Rules(is_idempotent=True), Labels(kind="CAPABILITY")
        schema = {"type": "object"}
        super().__init__(
            Descriptor(id=INSTALL, description="Install.", input_schema=schema, source="", rules=rules, labels=labels)
        )
        self._registry = registry
        self._artifacts = artifacts

    async def invoke(self, arguments: dict[str, Any], _context: CallContext) -> Any:  # noqa: ANN401 - a JSON value
        """Offer the plan of a task."""
        plan = await self._artifacts.load(arguments["task"], arguments["artifact"], Blueprint)
        if self._registry.get(plan.id) is None:
            self._registry.add(NoTool(describe_blueprint(plan, self._registry.get, "bench")))
        return {}


class Stopwatch:
    """Times stages, in the place of telemetry."""

    def __init__(self) -> None:
        self.taken: defaultdict[str, list[float]] = defaultdict(list)

    def begin_stage(self, stage: str, *_: object) -> tuple[str, float]:
        """Start the time of a stage."""
        return stage, time.perf_counter()

    def end_stage(self, span: tuple[str, float], *_: object) -> None:
        """Keep the time of a stage."""
        stage, start = span
        self.taken[stage].append(time.perf_counter() - start)

    def traceparent(self, *_: object) -> str:
        """Nothing."""
        return ""


def shape(*names: str) -> dict[str, Any]:
    """The schema of an object with these fields."""
    fields = {name: FIELDS[name] for name in names}
    return {"type": "object", "properties": fields, "required": list(names), "additionalProperties": False}


def desk() -> list[NoTool]:
    """The tools of the help desk."""
    return [
        NoTool(
            Descriptor(
                id=tool_id,
                description=description,
                input_schema=shape(*inputs),
                output_schema=shape(*outputs),
                source="module desk",
                rules=Rules(is_idempotent=True),
                labels=Labels(kind="CAPABILITY", domain=tool_id.partition(".")[0], hosts=hosts),
            )
        )
        for tool_id, description, inputs, outputs, hosts in DESK
    ]


class Bench:
    """The tasks of a project in a folder."""

    def __init__(self, folder: str, name: str) -> None:
        self.store = SqliteStore(os.path.join(folder, name), key=KEY)  # noqa: PTH118 - as the product does
        seal, secrets, clock = AesSeal(KEY), MemorySecrets(), SystemClock()
        registry = ToolRegistry(Ports(store=self.store, seal=seal, clock=clock, secrets=secrets))
        for tool in desk():
            registry.add(tool)
        artifacts = Artifacts(self.store, seal)
        self.inbox = Inbox(self.store, secrets, clock, seal=seal)
        self.stopwatch = Stopwatch()
        ports = ReasonerPorts(
            registry=registry,
            artifacts=artifacts,
            secrets=secrets,
            planner=OfflinePlanner(),
            retriever=MemoryRetriever({}),
            health=MemoryHealth({}),
            surface=Surface(
                is_authorised=lambda tool: not tool.startswith("plans."),
                hosts_of=lambda tool: egress_hosts(tool, {}),
                credentials_of=lambda _: (),
                describe=lambda plan, tools: describe_blueprint(plan, tools.get, "bench"),
            ),
            own_tools=(InstallTool(registry, artifacts),),
        )
        home = TaskHome(store=self.store, seal=seal, clock=clock, seconds=time.time, inbox=self.inbox, app_id="bench")
        self.tasks = Tasks(structs.replace(home, telemetry=self.stopwatch), ports)

    async def start(self, caller: Caller) -> TaskView:
        """A task, up to its first question."""
        return await self.tasks.start(TaskRequest(text=REQUEST, environment="prd"), caller)

    async def answer(self, view: TaskView) -> None:
        """Answer what a task waits for."""
        keys = {action.id: action.key for action in view.state.unresolved}
        for action in view.actions:
            if action.type == "APPROVAL":
                await self.inbox.decide(action.id, "approved", CallContext.for_caller(BOSS))
                continue
            words = "leave-out" if keys[action.id].startswith("remedy.") else "devices"
            await self.inbox.answer(action.id, words, CallContext.for_caller(person(action.requester)))


async def measure_story(folder: str, rounds: int) -> dict[str, Any]:
    """The median seconds of each stage, of what a step takes besides, of a start and of a resume to the next wait."""
    bench = Bench(folder, "story.db")
    caller = person("ada")
    starts: list[float] = []
    besides: list[float] = []
    for number in range(rounds + 1):
        if number == 1:  # The first round warms up.
            bench.stopwatch.taken.clear()
            starts.clear()
            besides.clear()
        count = sum(map(len, bench.stopwatch.taken.values()))
        staged = sum(map(sum, bench.stopwatch.taken.values()))
        driven = await _drive(bench, caller, starts)
        stages = sum(map(len, bench.stopwatch.taken.values())) - count
        besides.append((driven - sum(map(sum, bench.stopwatch.taken.values())) + staged) / stages)
    bench.store.close()
    stages_taken = {name: statistics.median(samples) for name, samples in bench.stopwatch.taken.items()}
    return {"stages": stages_taken, "besides": statistics.median(besides), "start": statistics.median(starts)}


async def _drive(bench: Bench, caller: Caller, starts: list[float]) -> float:
    """Bring one task to its end; the seconds in which a process worked on it."""
    begin = time.perf_counter()
    view = await bench.start(caller)
    starts.append(time.perf_counter() - begin)
    driven = starts[-1]
    while view.status == "waiting":
        await bench.answer(view)
        begin = time.perf_counter()
        view = await bench.tasks.resume(view.row.id, caller)
        driven += time.perf_counter() - begin
    if view.status != "done":
        raise SystemExit(f"a task did not come to its end: {view.document()}")
    return driven


async def measure_paused(folder: str) -> dict[str, float]:
    """How long it takes to list 1,000 tasks that wait for an answer, and to resume one of them to its next wait."""
    bench = Bench(folder, "paused.db")
    # For several callers: one caller may have 100 questions open.
    callers = [person(f"caller-{number}") for number in range(CALLERS)]
    groups = [await asyncio.gather(*map(bench.start, callers)) for _ in range(PAUSED // CALLERS)]
    views = [view for group in groups for view in group]
    begin = time.perf_counter()
    rows = await list_runs(bench.store, time.time(), RunFilter(kind="task", status="waiting"))
    listing = time.perf_counter() - begin
    if len(rows) != PAUSED:
        raise SystemExit(f"{len(rows)} tasks wait, not {PAUSED}")
    resumed = []
    for view in views[:: PAUSED // RESUMED]:
        await bench.answer(view)
        begin = time.perf_counter()
        after = await bench.tasks.resume(view.row.id, view.state.initiator)
        resumed.append(time.perf_counter() - begin)
        if after.state.stage != "ops_audit":
            raise SystemExit(f"a task did not go on: {after.document()}")
    bench.store.close()
    return {"listing": listing, "resume": statistics.median(resumed), "slowest resume": max(resumed)}


def measure_import(rounds: int) -> float:
    """The median seconds that it takes to import the graph, where the rest of the reasoner is there already."""
    code = (
        "import time, agent_resolver.reasoner.tasks; start = time.perf_counter();"
        "import agent_resolver.reasoner.graph, langsmith; print(time.perf_counter() - start)"
    )
    line = [sys.executable, "-I", "-c", code]
    times = [float(subprocess.run(line, capture_output=True, check=True).stdout) for _ in range(min(rounds, 7))]
    return statistics.median(times)


def main(rounds: int, folder: str | None) -> dict[str, Any]:
    """Every figure."""
    # On the disk of the repository: a folder for temporary files may be kept in memory.
    with tempfile.TemporaryDirectory(dir=folder) as where:
        story = asyncio.run(measure_story(where, rounds))
        paused = asyncio.run(measure_paused(where))
    return {**story, **paused, "import": measure_import(rounds)}


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None)))  # noqa: PLR2004
