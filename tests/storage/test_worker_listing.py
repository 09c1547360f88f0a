"""The list of workers: alive, draining, stopped and gone, and how an operator reaches one."""

import asyncio
from functools import partial
from typing import Any

from msgspec import structs

from agent_resolver.schema import LEASES, RUNS, WORKERS, LeaseRow, Run, WorkerRow
from agent_resolver.storage import LEASE_SECONDS, MemoryStore, RunFilter, Transaction, list_runs
from agent_resolver.storage.worker_listing import TOPIC, ask_to_drain, forget_workers, list_workers, note_worker

NOW = 1_000_000.0
WORKER = WorkerRow(
    name="w",
    host="vm",
    pid=1,
    version="1",
    kinds="agent,task",
    capacity=10,
    driven=2,
    started_at="2026-01-15T10:30:00.000Z",
    seen=NOW,
)


def worker(name: str, **change: Any) -> WorkerRow:
    return structs.replace(WORKER, name=name, **change)


async def note(store: MemoryStore, *rows: WorkerRow) -> list[bool]:
    return [await store.write_leases(partial(_note, row)) for row in rows]


def _note(row: WorkerRow, transaction: Transaction) -> bool:
    return note_worker(transaction, row)


async def shown(store: MemoryStore, now: float = NOW) -> dict[str, str]:
    return {each.row.name: each.state for each in await list_workers(store, now)}


def test_workers_are_listed_in_the_order_of_their_starts() -> None:
    async def story() -> None:
        store = MemoryStore()
        late = worker("a", started_at="2026-01-15T10:31:00.000Z")
        silent = worker("z", seen=NOW - LEASE_SECONDS - 1)
        await note(store, late, worker("c", state="draining"), worker("b", state="stopped"), silent)
        found = await list_workers(store, NOW)
        assert [(each.row.name, each.state) for each in found] == [
            ("b", "stopped"),
            ("c", "draining"),
            ("z", "gone"),
            ("a", "working"),
        ]
        assert [each.is_there for each in found] == [False, True, False, True]

    asyncio.run(story())


def test_a_worker_hears_with_its_next_word_that_it_is_to_drain() -> None:
    async def story() -> None:
        store = MemoryStore()
        assert await note(store, WORKER, WORKER, worker("v", state="stopped")) == [False, False, False]
        await store.woken(TOPIC, 0.0)
        await ask_to_drain(store, ["w", "v", "unknown"])
        assert await store.woken(TOPIC, 1.0) == {"w"}
        assert await note(store, WORKER) == [True]
        assert await shown(store) == {"v": "stopped", "w": "draining"}

    asyncio.run(story())


def test_a_worker_that_was_forgotten_writes_its_row_again() -> None:
    async def story() -> None:
        store = MemoryStore()
        await note(store, WORKER, worker("v", seen=NOW + 3000))
        await forget_workers(store, NOW + 3700)
        assert await shown(store, NOW + 3001) == {"v": "working"}
        assert await note(store, WORKER) == [False]
        assert len(await store.read(lambda snapshot: snapshot.find(WORKERS))) == 2

    asyncio.run(story())


def test_a_run_counts_the_processes_that_it_ended_in_a_row() -> None:
    async def story() -> None:
        store = MemoryStore()
        run = Run(id="r", kind="agent", status="running", trace_id="0", started_at="a", changed_at="a")
        lease = LeaseRow(name="run/r", owner="p", number=7, until=NOW - 1, losses=4)
        await store.write(lambda transaction: (transaction.put(RUNS, run), transaction.put(LEASES, lease)))
        [crashed] = await list_runs(store, NOW, RunFilter(status="interrupted"))
        given_back = structs.replace(lease, owner="", losses=0)
        await store.write(lambda transaction: transaction.put(LEASES, given_back))
        [handed_over] = await list_runs(store, NOW, RunFilter(status="interrupted"))
        assert (crashed.crashes, handed_over.crashes) == (5, 0)

    asyncio.run(story())
