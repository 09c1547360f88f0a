"""Postgres, Temporal, four workers and two servers on this machine, and trouble for all of them.

`CLUSTER_SECONDS` sets how long the trouble lasts, and `CLUSTER_SEED` repeats one that went wrong.
"""

import asyncio
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import psycopg
import pytest

from tests.cluster.feed import Feeder, Job, jobs
from tests.cluster.model import loopback_clerk
from tests.cluster.part import AGENT, Database, Engine, Program, Served
from tests.cluster.trouble import Trouble
from tests.loopback import free_port
from tests.postgres_server import PostgresServer, postgres_server
from tests.temporal_server import TemporalServer, temporal_server

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "cluster"
FULL_SECONDS = 300
SECONDS = int(os.environ.get("CLUSTER_SECONDS", str(FULL_SECONDS)))
SEED = int(os.environ.get("CLUSTER_SEED", str(random.SystemRandom().randrange(10_000))))
SHARE = min(1.0, SECONDS / FULL_SECONDS)
"""Less trouble comes with less work: a thousand things in five minutes."""
FULFILLED, CONFIRMED, HANDLED, REQUESTED = (round(SHARE * each) for each in (520, 180, 240, 60))
WORKERS, SERVERS = 4, 2
CALM_SECONDS = 300.0
"""How long the cluster may take to come to rest after the trouble; leases of the killed last a minute."""
FINISHED = {"done", "failed", "cancelled"}
STEPS = {
    "orders.fulfil": ("reserve", "charge", "ship"),
    "orders.confirm": ("reserve", "ship"),
    "clerk": ("reserve", "charge"),
}
"""What each run does; the plan of a task reserves and ships."""
UNDOING = ("release", "refund")


class Cluster:
    """All parts, each with a folder of its own, as machines have."""

    def __init__(
        self, folder: Path, state: PostgresServer, temporal: TemporalServer, warehouse: str, model: str
    ) -> None:
        self._folder = folder
        self._model = model
        self.warehouse = warehouse
        self.engine = Engine(temporal)
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "AGENT_STATE_URL": state.new_database(),
            "AGENT_ENGINE_KIND": "temporal",
            "AGENT_ENGINE_ADDRESS": self.engine.address,
            "STATE_KEY": "c" * 64,
            "WAREHOUSE_URL": warehouse,
        }
        self.database = Database(state)
        self.workers = [self._served(f"worker{number}", "worker", "--trust") for number in range(WORKERS)]
        self.servers = [
            self._served(f"server{number}", "serve", "--shared", "--run", "--tools-of", "agents.md", "--trust")
            for number in range(SERVERS)
        ]
        control = self.control = self._machine("control")
        words: list[str | Path] = [sys.executable, "-m", "tests.cluster.person", control]
        self.person = Program("person", ROOT, words, self.environment)
        self.person.log = folder / "person.log"

    def _machine(self, name: str) -> Path:
        """A folder with a copy of the project, as another machine has it."""
        folder = self._folder / name
        shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns(".agent", "__pycache__"))
        # The script of the example is for one run at a time.
        settings = folder / "agent.toml"
        text, _, _ = settings.read_text(encoding="utf-8").partition("[providers.script]")
        settings.write_text(f'{text}[providers.script]\nadapter = "openai"\nbase_url = "{self._model}"\n')
        return folder

    def _served(self, name: str, *command: str) -> Served:
        port = free_port()
        return Served(name, self._machine(name), port, [*command, "--http", f"127.0.0.1:{port}"], self.environment)

    @property
    def programs(self) -> list[Program]:
        return [*self.workers, *self.servers, self.person]

    def start(self) -> None:
        for each in (*self.workers, *self.servers):
            each.start()
        for each in (*self.workers, *self.servers):
            each.wait_until_ready()
        self.person.start()

    def stop(self) -> None:
        for program in self.programs:
            program.thaw()
            program.kill()

    def agent(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command on a machine that is part of nothing else."""
        words = [str(AGENT), *command]
        return subprocess.run(
            words, cwd=self.control, env=self.environment, check=False, capture_output=True, text=True, timeout=120
        )

    def runs(self) -> list[dict[str, Any]]:
        shown = self.agent("runs", "list", "--trust", "--limit", "5000", "--json")
        assert shown.returncode == 0, shown.stderr
        listed: list[dict[str, Any]] = json.loads(shown.stdout)
        return listed


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    with (
        postgres_server() as state,
        temporal_server(folder) as temporal,
        warehouse() as url,
        loopback_clerk() as model,
    ):
        made = Cluster(folder, state, temporal, url, model)
        try:
            made.start()
            yield made
        finally:
            made.stop()


@contextmanager
def warehouse() -> Iterator[str]:
    """A system that is not ours: it knows no trouble, and counts what is done to it."""
    sys.path.insert(0, str(EXAMPLE))
    try:
        import orders  # type: ignore[import-not-found]  # The example has no package.
    finally:
        sys.path.remove(str(EXAMPLE))
    with postgres_server() as server:
        url = server.new_database()
        with psycopg.connect(url) as connection:
            connection.execute(orders.SCHEMA)
        yield url


def effects(url: str) -> Counter[tuple[str, str, str]]:
    """How often each call did each thing: the action, the order and the call."""
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT action, number, coalesce(call, '') FROM effect").fetchall()
    return Counter((action, number, call) for action, number, call in rows)


def unfinished(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The runs that neither ended nor wait for a person, by themselves or by a run of the same trace."""
    asking = {run["traceId"] for run in runs if (run["waitsFor"] or {}).get("state") == "open"}
    return [
        run
        for run in runs
        if run["status"] not in FINISHED and not (run["status"] == "waiting" and run["traceId"] in asking)
    ]


def test_nothing_is_lost_or_doubled_while_every_part_fails(cluster: Cluster) -> None:
    urls = [f"http://127.0.0.1:{server.port}/mcp" for server in cluster.servers]
    feeder = Feeder(urls, cluster.control, cluster.environment, SEED)
    work = jobs(FULFILLED, CONFIRMED, HANDLED)
    trouble = Trouble([cluster.database, cluster.engine, *cluster.workers, *cluster.servers], SEED)
    maker = Thread(target=trouble.make, args=(SECONDS,))

    maker.start()
    asyncio.run(feeder.feed(work, REQUESTED, SECONDS * 0.9))
    maker.join()
    runs = come_to_rest(cluster)

    report(feeder, trouble, runs)
    assert SECONDS < FULL_SECONDS or not trouble.spared()
    assert unfinished(runs) == []
    assert_nothing_is_lost(feeder, runs)
    done = effects(cluster.warehouse)
    assert_nothing_is_doubled(feeder.fed.runs, runs, done)
    assert_effects_are_those_of_runs(runs, done)
    assert_tasks_did_their_orders_once(feeder.fed.tasks, runs, done)
    verified = cluster.agent("audit", "verify", "--trust")
    assert verified.returncode == 0, verified.stderr


def come_to_rest(cluster: Cluster) -> list[dict[str, Any]]:
    """Wait until no run moves any longer."""
    deadline = time.monotonic() + CALM_SECONDS
    for program in cluster.programs:
        program.revive()
    runs = cluster.runs()
    while (unfinished(runs) or is_asked(runs)) and time.monotonic() < deadline:
        time.sleep(2)
        runs = cluster.runs()
    return runs


def is_asked(runs: list[dict[str, Any]]) -> bool:
    """True if the person still has questions to answer."""
    return any(run["status"] == "waiting" and run["agent"].startswith("orders.confirm") for run in runs)


def report(feeder: Feeder, trouble: Trouble, runs: list[dict[str, Any]]) -> None:
    """Write what happened into the log of the suite."""
    statuses = Counter(f"{run['kind']} {run['status']}" for run in runs)
    fed = feeder.fed
    sys.stdout.write(
        f"\nseed {SEED}, {SECONDS} s of trouble: {dict(sorted(trouble.done.items()))}\n"
        f"{len(fed.runs)} runs and {len(fed.tasks)} tasks acknowledged, {fed.lost_answers} answers lost\n"
        f"{dict(sorted(statuses.items()))}\n"
    )


def assert_nothing_is_lost(feeder: Feeder, runs: list[dict[str, Any]]) -> None:
    known = {run["id"] for run in runs}
    assert set(feeder.fed.runs) - known == set()
    assert set(feeder.fed.tasks) - known == set()


def assert_nothing_is_doubled(
    started: dict[str, Job], runs: list[dict[str, Any]], done: Counter[tuple[str, str, str]]
) -> None:
    # No call did its work twice, of those that a second time would harm.
    assert {call: count for call, count in done.items() if count > 1} == {}
    by_order = Counter((action, number) for action, number, _ in done.elements())
    statuses = {run["id"]: run["status"] for run in runs}
    for run, job in started.items():
        number = job.arguments.get("number")
        if number is None or statuses[run] != "done":
            continue
        steps = ("reserve", "charge", "ship") if job.tool == "orders__fulfil" else ("reserve", "ship")
        assert {step: by_order[step, number] for step in steps} == dict.fromkeys(steps, 1), (run, job)


def assert_effects_are_those_of_runs(runs: list[dict[str, Any]], done: Counter[tuple[str, str, str]]) -> None:
    """Of each run that came to its end, every step was done once, whoever began it; no other run did anything."""
    by_run: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for action, _, call in done.elements():
        by_run[call.partition("/")[0]][action] += 1
    assert set(by_run) <= {run["id"] for run in runs}
    for run in runs:
        steps = STEPS.get(run["agent"].rpartition("@")[0] or run["agent"], ("reserve", "ship"))
        if run["kind"] in {"agent", "blueprint"}:
            assert by_run[run["id"]] - Counter((*steps, *UNDOING)) == Counter(), run
        if run["kind"] == "blueprint" and run["status"] == "done":
            assert by_run[run["id"]] == Counter(steps), run
        if run["kind"] == "agent" and run["status"] == "done":
            # A person may have to find out whether the customer was charged: then the agent goes on without knowing.
            assert by_run[run["id"]]["reserve"] == 1, run


def assert_tasks_did_their_orders_once(
    tasks: dict[str, str], runs: list[dict[str, Any]], done: Counter[tuple[str, str, str]]
) -> None:
    """Every request had an order of its own, also one whose command was killed."""
    by_order = Counter((action, number) for action, number, _ in done.elements() if number.startswith("T-"))
    assert {each: count for each, count in by_order.items() if count > 1} == {}
    statuses = {run["id"]: run["status"] for run in runs}
    for task, number in tasks.items():
        if statuses[task] == "done":
            assert {by_order[action, number] for action in ("reserve", "ship")} == {1}, task
