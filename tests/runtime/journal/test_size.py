"""What runs take on the disk, and that one which waits takes nothing in memory."""

import asyncio
import gc
import sqlite3
import tracemalloc
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent_resolver.runtime import RunState
from agent_resolver.runtime.loop.lifecycle import Lifecycle
from agent_resolver.runtime.loop.live_run import LiveRun
from agent_resolver.schema import RUNS, local_caller
from agent_resolver.storage import SqliteStore
from tests.runtime.journal.lasting import KEY, CountingModel, CountingTool, Stage, calls_then_ends, go

pytestmark = pytest.mark.slow


def stage_on(path: Path, rounds: int, **rules: Any) -> Stage:
    store = SqliteStore(str(path), key=KEY)
    return Stage(store, CountingModel(calls_then_ends(rounds)), [CountingTool("act", **rules)])


def run_many(stage: Stage, runs: range) -> None:
    async def story() -> None:
        for number in runs:
            # One caller may have a hundred questions open.
            await stage.runtime.run_to_completion(go(caller=local_caller(f"caller-{number // 100}")))

    asyncio.run(story())


def bytes_of(path: Path) -> Counter[str]:
    """The bytes of each table with its indexes, in whole pages; those of its values where SQLite cannot say."""
    with closing(sqlite3.connect(path)) as state:
        state.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        tables = dict(state.execute("SELECT name, tbl_name FROM sqlite_master").fetchall())
        found = Counter[str]()
        try:
            sizes = state.execute("SELECT name, sum(pgsize) FROM dbstat GROUP BY name").fetchall()
        except sqlite3.OperationalError:
            return _bytes_of_values(state, sorted(set(tables.values())))
        for name, size in sizes:
            found[tables.get(name, name)] += size
        return found


def _bytes_of_values(state: sqlite3.Connection, tables: list[str]) -> Counter[str]:
    found = Counter[str]()
    for table in tables:
        columns = [row[1] for row in state.execute(f"PRAGMA table_info({table})")]
        length = " + ".join(f"coalesce(length(CAST({column} AS BLOB)), 0)" for column in columns)
        found[table] = state.execute(f"SELECT sum({length}) FROM {table}").fetchone()[0] or 0  # noqa: S608
    return found


def objects_of_runs() -> Counter[str]:
    """How many objects of runs are in memory."""
    gc.collect()
    # `isinstance` would ask objects of other tests for their class, and some refuse to answer.
    kinds = (Lifecycle, LiveRun, RunState)
    return Counter(type(each).__name__ for each in gc.get_objects() if type(each) in kinds)


def test_a_run_of_ten_rounds_takes_at_most_20_kb_on_the_disk(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    stage = stage_on(path, rounds=9)
    empty = bytes_of(path).total()
    run_many(stage, range(100))
    stage.store.close()
    assert (bytes_of(path).total() - empty) / 100 <= 20_000


def test_a_thousand_runs_that_wait_take_2_kb_each_and_nothing_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    stage = stage_on(path, rounds=1, needs_approval=True)
    stage.model.asked = Forgetting()
    run_many(stage, range(100))
    before = bytes_of(path)
    gc.collect()
    tracemalloc.start()
    start = tracemalloc.get_traced_memory()[0]
    run_many(stage, range(100, 1100))
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - start
    tracemalloc.stop()
    alive = objects_of_runs()
    after = bytes_of(path)
    rows = asyncio.run(stage.store.read(lambda snapshot: snapshot.find(RUNS, {"status": "waiting"})))
    stage.store.close()

    assert len(rows) == 1100
    # The newest result may still be held by the task that returned it.
    assert (alive["LiveRun"], alive["Lifecycle"], alive["RunState"] <= 1) == (0, 0, True)
    assert grown / 1000 < 100, grown
    taken = sum(after[table] - before[table] for table in ("journal", "run", "lease"))
    assert taken / 1000 <= 2_000


class Forgetting(list):  # type: ignore[type-arg]
    """Keeps nothing of what a model was asked."""

    def append(self, _: object) -> None:
        pass
