"""A process that was frozen past the lease of its run writes nothing of the calls that it had under way."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs

from agent_resolver.registry import CallContext, Ledger, Ports, ToolRegistry
from agent_resolver.schema import (
    LEASES,
    LEDGER,
    PENDING,
    RATES,
    AuditKind,
    Begun,
    Descriptor,
    Record,
    Start,
    local_caller,
)
from agent_resolver.storage import JointWriter, Lease, LeaseLost, MemoryStore, Snapshot, Transaction
from tests.registry.stores import ProcessStore

AT = "2026-01-15T10:30:00.000Z"
CALLER = local_caller("ada")
START = Start(
    key="k",
    tool="a.b",
    arguments="sha256-1",
    is_idempotent=True,
    caller=CALLER.id,
    trace_id="0" * 32,
    at=AT,
    record=None,
)
RECORD = Record("run", AuditKind.CALL_DONE, {"tool": "a.b"})


async def take(store: MemoryStore) -> Lease:
    """Take the lease of the run, as a process does that finds it run out."""

    def run_out(transaction: Transaction) -> None:
        row = transaction.get(LEASES, "run/r")
        if row is not None and row.owner:
            transaction.put(LEASES, structs.replace(row, until=0.0))

    await store.write(run_out)
    lease = await store.claim("run/r", 60.0)
    assert lease is not None
    return lease


async def content(store: MemoryStore) -> list[Any]:
    """All that calls leave in the store."""

    def read(snapshot: Snapshot) -> list[Any]:
        return [*snapshot.find(LEDGER), *snapshot.find(PENDING), *snapshot.find(RATES), *snapshot.records()]

    return await store.read(read)


class Frozen:
    """A tool in whose call the process is frozen, for longer than the lease of the run lasts."""

    def __init__(self, store: MemoryStore, what: Callable[[CallContext], Any]) -> None:
        self.descriptor = Descriptor(id="a.b", description="Acts.", input_schema={"type": "object"}, source="test")
        self._store = store
        self._what = what
        self.seen: list[Any] = []

    async def invoke(self, arguments: dict[str, Any], context: CallContext) -> Any:  # noqa: ARG002 - the port
        await take(self._store)
        self.seen = await content(self._store)
        return self._what(context)


def fail(_: CallContext) -> None:
    raise RuntimeError("it broke")


@pytest.mark.parametrize(
    "what",
    [lambda _: {"done": True}, fail, lambda context: context.ask("Which one?")],
    ids=["done", "failed", "asks a person"],
)
@pytest.mark.parametrize("has_writer", [True, False], ids=["in a run", "alone"])
def test_a_call_that_outlives_its_lease_leaves_no_row(what: Callable[[CallContext], Any], *, has_writer: bool) -> None:
    async def story() -> None:
        store = MemoryStore()
        lease = await take(store)
        registry = ToolRegistry(Ports(store=store))
        registry.add(tool := Frozen(store, what))
        writer = JointWriter(store, lease=lease) if has_writer else None
        context = structs.replace(CallContext.for_caller(CALLER), key="k", lease=lease, writer=writer)
        with pytest.raises(LeaseLost):
            await registry.call("a.b", {}, context)
        assert await content(store) == tool.seen
        assert len(tool.seen) == 2  # The start of the call, and its record.

    asyncio.run(story())


def test_a_refused_call_of_a_lost_run_is_not_recorded() -> None:
    async def story() -> None:
        store = MemoryStore()
        lease = await take(store)
        await take(store)
        registry = ToolRegistry(Ports(store=store))
        context = structs.replace(CallContext.for_caller(CALLER), lease=lease)
        with pytest.raises(LeaseLost):
            await registry.call("no.such.tool", {}, context)
        with pytest.raises(LeaseLost):
            await registry.deny("a.b", "no", context)
        assert await content(store) == []

    asyncio.run(story())


@pytest.mark.parametrize(("is_idempotent", "state"), [(True, "started"), (False, "unknown")])
def test_the_next_holder_does_not_wait_for_a_frozen_call(state: str, *, is_idempotent: bool) -> None:
    async def story() -> None:
        store = MemoryStore()
        gone: set[str] = set()
        frozen, other = (Ledger(ProcessStore(store, name, gone)) for name in ("frozen", "other"))
        start = structs.replace(START, is_idempotent=is_idempotent)
        first = await take(store)
        assert await frozen.start(start, first) == Begun("started")
        second = await take(store)
        assert not await other.is_running("k", second)
        assert (await other.start(start, second)).state == state
        with pytest.raises(LeaseLost):
            await frozen.finish("k", "done", AT, b"sealed", RECORD, first)
        kept = await store.read(lambda snapshot: snapshot.get(LEDGER, "k"))
        assert kept is not None
        assert (kept.state, kept.result) == ("started", None)

    asyncio.run(story())


def test_a_call_of_a_run_that_was_given_back_comes_to_its_end() -> None:
    """Its process is there and not frozen: the next holder waits for the call, and finds its result."""

    async def story() -> None:
        store = MemoryStore()
        gone: set[str] = set()
        first_process, other = (Ledger(ProcessStore(store, name, gone)) for name in ("first", "other"))
        lease = await take(store)
        await first_process.start(START, lease)
        await store.release(lease)
        second = await take(store)
        assert await other.is_running("k", second)
        assert await other.start(START, second) == Begun("running")
        await first_process.finish("k", "done", AT, b"sealed", RECORD, lease)
        assert await other.start(START, second) == Begun("done", b"sealed")

    asyncio.run(story())


def test_a_writer_of_a_lost_run_keeps_nothing_that_was_put_off() -> None:
    async def story() -> None:
        store = MemoryStore()
        writer = JointWriter(store, lease=await take(store), puts_off=True)
        await writer.put_off(lambda transaction: transaction.append(RECORD))
        await take(store)
        with pytest.raises(LeaseLost):
            await writer.write(lambda transaction: transaction.append(RECORD))
        assert (await content(store), writer.has_lost) == ([], True)

    asyncio.run(story())
