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
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.cluster import check
from tests.cluster.feed import REFUSED_LETTER, Feeder, jobs
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
FULFILLED, REFUSED, CONFIRMED, HANDLED, REQUESTED = (round(SHARE * each) for each in (480, 40, 180, 240, 60))
WORKERS, SERVERS = 4, 2
HABITS = f"""
ALTER TABLE effect ADD CHECK (action <> 'ship' OR number NOT LIKE '{REFUSED_LETTER}-%');
CREATE FUNCTION take_time() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN PERFORM pg_sleep(random()); RETURN NEW; END';
CREATE TRIGGER take_time BEFORE INSERT ON effect FOR EACH ROW EXECUTE FUNCTION take_time();
"""
"""The warehouse refuses to ship some orders, and takes up to a second, so that trouble meets calls under way."""
SHOWN = 3
"""Of how many runs that should have succeeded the history is shown, and how many actions that took long."""
CALM_SECONDS = 300.0
"""How long the cluster may take to come to rest after the trouble; leases of the killed last a minute."""


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
            connection.execute(HABITS)
        yield url


def test_nothing_is_lost_or_doubled_while_every_part_fails(cluster: Cluster) -> None:
    urls = [f"http://127.0.0.1:{server.port}/mcp" for server in cluster.servers]
    feeder = Feeder(urls, cluster.control, cluster.environment, SEED)
    work = jobs(FULFILLED, REFUSED, CONFIRMED, HANDLED)
    trouble = Trouble([cluster.database, cluster.engine, *cluster.workers, *cluster.servers], SEED)

    with ThreadPoolExecutor(1) as pool:
        making = pool.submit(trouble.make, SECONDS)
        asyncio.run(feeder.feed(work, REQUESTED, SECONDS * 0.9))
    making.result()
    runs = come_to_rest(cluster)

    report(cluster, feeder, trouble, runs)
    done = check.effects(cluster.warehouse)
    for run in check.failed_although_able(runs, done)[:SHOWN]:
        sys.stdout.write(cluster.agent("blueprint", "history", run["id"], "--trust").stdout)
    check.assert_nothing_is_unfinished(runs)
    check.assert_nothing_is_lost(feeder.fed, runs)
    check.assert_nothing_is_doubled(feeder.fed.runs, runs, done)
    check.assert_effects_are_those_of_runs(runs, done)
    check.assert_most_runs_succeeded(runs, done)
    check.assert_refused_orders_failed(runs, done)
    check.assert_tasks_did_their_orders_once(feeder.fed.tasks, runs, done)
    asyncio.run(check.assert_other_servers_know_the_same(feeder.fed, urls, runs))
    verified = cluster.agent("audit", "verify", "--trust")
    assert verified.returncode == 0, verified.stderr
    check.assert_nothing_ended_by_itself(cluster.programs)
    check.assert_nothing_crashed([*(program.log for program in cluster.programs), feeder.log])
    # Half of the commands at least were heard, although one of five is killed.
    assert len(feeder.fed.tasks) >= REQUESTED / 2
    assert SECONDS < FULL_SECONDS or trouble.spared() == set()


def come_to_rest(cluster: Cluster) -> list[dict[str, Any]]:
    """Wait until no run moves any longer."""
    deadline = time.monotonic() + CALM_SECONDS
    while True:
        for program in cluster.programs:
            program.revive()
        runs = cluster.runs()
        is_calm = not (check.unfinished(runs) or is_asked(runs))
        if is_calm or time.monotonic() > deadline:
            return runs
        time.sleep(2)


def is_asked(runs: list[dict[str, Any]]) -> bool:
    """True if the person still has questions to answer."""
    return any(run["status"] == "waiting" and run["agent"].startswith("orders.confirm") for run in runs)


def report(cluster: Cluster, feeder: Feeder, trouble: Trouble, runs: list[dict[str, Any]]) -> None:
    """Write what happened into the log of the suite."""
    statuses = Counter(f"{run['kind']} {run['status']}" for run in runs)
    reasons = Counter(f"{run['kind']} {run['status']} {reason_of(run)}" for run in runs if run["status"] != "done")
    ends = {program.name: len(program.unexpected_ends) for program in cluster.programs}
    stops = {program.name: dict(program.stops) for program in cluster.programs}
    fed = feeder.fed
    sys.stdout.write(
        f"\nseed {SEED}, {SECONDS} s of trouble: {dict(sorted(trouble.done.items()))}\n"
        f"never done: {sorted(trouble.spared())}\n"
        f"{len(fed.runs)} runs and {len(fed.tasks)} tasks acknowledged, {fed.lost_answers} answers lost\n"
        f"{dict(sorted(statuses.items()))}\n"
        f"not done: {dict(sorted(reasons.items()))}\n"
        f"{check.adoptions(cluster.workers)} taken over from programs that were gone\n"
        f"ended by itself: {ends}; when asked to: {stops}\n"
        f"took longest, in seconds: {dict(trouble.longest.most_common(SHOWN))}\n"
    )


def reason_of(run: dict[str, Any]) -> str:
    """Why a run ended, or what it waits for."""
    asked = (run["waitsFor"] or {}).get("type", "")
    return " ".join(filter(None, [run["reason"], run["code"], asked]))
