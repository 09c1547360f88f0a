"""Every adapter of the store keeps the same promises.

A module of tests takes all of this over and adds two fixtures: `harness`, and `shared` for adapters that several
processes can share.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest
from msgspec import structs

from agent_resolver.core import new_seal
from agent_resolver.schema import (
    LEASES,
    LEDGER,
    PENDING,
    RUNS,
    TABLES,
    WAITS,
    AuditKind,
    LeaseRow,
    LedgerEntry,
    PendingAction,
    Record,
    Seal,
    WaitRow,
)
from agent_resolver.schema.table import optional_columns
from agent_resolver.storage import (
    Lease,
    LeaseLost,
    Snapshot,
    Store,
    Transaction,
    claim_in,
    trail_faults,
)
from tests.storage.conformance import (
    ODD,
    Broken,
    Harness,
    action,
    do,
    entry,
    full_row,
    hear,
    printed,
    read,
    record,
    run_row,
    say,
    write,
)


@pytest.fixture
def store(harness: Harness) -> Iterator[Store]:
    store = harness.open()
    yield store
    store.close()


@pytest.fixture
def other(harness: Harness, store: Store) -> Iterator[Store]:
    """A second store on the same state."""
    other = harness.open()
    yield other
    if other is not store:
        other.close()


def ids(rows: list[PendingAction]) -> list[str]:
    return [row.id for row in rows]


def faults(store: Store) -> list[str]:
    return read(store, lambda snapshot: trail_faults(snapshot, None)[0])


def numbers(store: Store, run: str | None = None, last: int | None = None) -> list[int]:
    return read(store, lambda snapshot: [each.body["number"] for each in snapshot.records(run, last)])


# Rows -----------------------------------------------------------------------------------------------------------------


def test_a_row_is_got_as_it_was_put(store: Store, other: Store) -> None:
    full = structs.replace(entry("k"), state="done", ended_at="later", result=b"\x00\xff", owner="")

    def put(transaction: Transaction) -> LedgerEntry | None:
        assert transaction.put(LEDGER, full)
        return transaction.get(LEDGER, "k")

    assert write(store, put) == full
    assert read(other, lambda snapshot: snapshot.get(LEDGER, "k")) == full
    assert read(other, lambda snapshot: snapshot.get(LEDGER, "another")) is None


@pytest.mark.parametrize("table", TABLES, ids=lambda table: str(table.name))
def test_a_row_of_every_table_is_kept_with_each_column(store: Store, other: Store, table: Any) -> None:
    rows = [full_row(table, number) for number in (1, 2)]
    bare = structs.replace(full_row(table, 3), **dict.fromkeys(optional_columns(table)))
    assert read(store, lambda snapshot: snapshot.find(table)) == []

    def put(transaction: Transaction) -> None:
        for row in (*rows, bare):
            assert transaction.put(table, row)

    write(store, put)

    def look(snapshot: Snapshot) -> list[Any]:
        return [snapshot.get(table, *table.key_of(row)) for row in (*rows, bare)]

    assert read(other, look) == [*rows, bare]
    assert len(read(other, lambda snapshot: snapshot.find(table))) == 3
    assert write(other, lambda transaction: transaction.drop(table, *table.key_of(rows[0])))
    assert read(store, look) == [None, rows[1], bare]


def test_a_row_that_is_put_again_is_the_newer_one_in_its_old_place(store: Store) -> None:
    changed = action("a", answer="approved")

    def put(transaction: Transaction) -> list[PendingAction]:
        transaction.put(PENDING, action("a"))
        transaction.put(PENDING, action("b"))
        assert transaction.put(PENDING, changed)
        return transaction.find(PENDING)

    assert write(store, put) == [changed, action("b")]


def test_a_row_that_is_nothing_but_its_key_may_be_put_again(store: Store) -> None:
    row = WaitRow(due=0, run="run-1")

    def put(transaction: Transaction) -> list[WaitRow]:
        assert transaction.put(WAITS, row)
        assert transaction.put(WAITS, row)
        return transaction.find(WAITS)

    assert write(store, put) == [row]


def test_only_a_new_row_is_put_where_that_is_asked_for(store: Store) -> None:
    def put(transaction: Transaction) -> tuple[bool, bool]:
        first = transaction.put(PENDING, action("a"), only_new=True)
        return first, transaction.put(PENDING, action("a", answer="approved"), only_new=True)

    assert write(store, put) == (True, False)
    assert read(store, lambda snapshot: snapshot.get(PENDING, "a")) == action("a")


def test_a_row_is_dropped_once(store: Store) -> None:
    write(store, lambda transaction: transaction.put(PENDING, action("a")))

    assert write(store, lambda transaction: transaction.drop(PENDING, "a"))
    assert not write(store, lambda transaction: transaction.drop(PENDING, "a"))
    assert read(store, lambda snapshot: snapshot.find(PENDING)) == []


def test_rows_are_found_by_a_column_that_holds_nothing(store: Store) -> None:
    def put(transaction: Transaction) -> None:
        for name, requester, answer in (
            ("a", "ada", None),
            ("b", "ada", "yes"),
            ("c", "bob", None),
            ("d", "ada", None),
        ):
            transaction.put(PENDING, action(name, requester=requester, answer=answer))

    write(store, put)

    unanswered = {"requester": "ada", "answer": None}
    assert ids(read(store, lambda snapshot: snapshot.find(PENDING, unanswered))) == ["a", "d"]


def test_rows_are_found_by_an_index_in_the_order_of_their_first_puts(store: Store) -> None:
    def put(transaction: Transaction) -> None:
        for name, binding in (("c", "x"), ("a", "y"), ("b", "x"), ("d", "x")):
            transaction.put(PENDING, action(name, binding))

    write(store, put)

    assert ids(read(store, lambda snapshot: snapshot.find(PENDING, {"binding": "x"}))) == ["c", "b", "d"]
    assert ids(read(store, lambda snapshot: snapshot.find(PENDING))) == ["c", "a", "b", "d"]
    assert ids(read(store, lambda snapshot: snapshot.find(PENDING, {"id": "a"}))) == ["a"]
    assert ids(read(store, lambda snapshot: snapshot.find(PENDING, {"binding": "x"}, limit=2))) == ["c", "b"]
    last_first = read(store, lambda snapshot: snapshot.find(PENDING, {"binding": "x"}, limit=1, is_reversed=True))
    every = read(store, lambda snapshot: snapshot.find(PENDING, {"binding": "x"}))
    assert ids(last_first) == ids(every)[-1:]
    assert ids(read(store, lambda snapshot: snapshot.find(PENDING, {"binding": "x"}, after=("c",), limit=2))) == [
        "b",
        "d",
    ]
    assert ids(read(store, lambda snapshot: snapshot.find(PENDING, after=("b",)))) == ["d"]


def test_rows_of_a_table_in_the_order_of_keys_are_found_in_it(store: Store) -> None:
    def put(transaction: Transaction) -> None:
        for key in ("c", "a", "d", "b"):
            transaction.put(LEDGER, entry(key, state="done" if key == "d" else "started"))

    def keys(snapshot: Snapshot, **more: Any) -> list[str]:
        return [row.key for row in snapshot.find(LEDGER, **more)]

    write(store, put)

    assert read(store, keys) == ["a", "b", "c", "d"]
    assert read(store, partial(keys, where={"state": "started"})) == ["a", "b", "c"]
    assert read(store, partial(keys, after=("a",), limit=2)) == ["b", "c"]
    assert read(store, partial(keys, where={"state": "started"}, after=("absent",))) == ["b", "c"]


def test_a_column_without_an_index_is_refused(store: Store) -> None:
    with pytest.raises(ValueError, match="odd has no index on colour"):
        read(store, lambda snapshot: snapshot.find(ODD, {"colour": "green"}))


def test_text_that_is_no_text_is_kept_as_escapes(store: Store) -> None:
    write(store, lambda transaction: transaction.put(PENDING, action("a", needs="\udcff")))

    kept = read(store, lambda snapshot: snapshot.get(PENDING, "a"))

    assert kept is not None
    assert kept.needs in {"\udcff", "\\udcff"}


# Atomic ---------------------------------------------------------------------------------------------------------------


def test_work_that_raises_leaves_nothing(store: Store, other: Store) -> None:
    write(store, lambda transaction: transaction.put(PENDING, action("kept")))
    write(store, lambda transaction: transaction.put(PENDING, action("last")))

    def fail(transaction: Transaction) -> None:
        transaction.put(PENDING, action("kept", answer="approved"))
        transaction.put(PENDING, action("new"))
        transaction.drop(PENDING, "last")
        transaction.drop(PENDING, "kept")
        transaction.append(record("run"))
        transaction.wake("topic", "key")
        raise Broken

    with pytest.raises(Broken):
        write(store, fail)

    assert read(other, lambda snapshot: snapshot.find(PENDING)) == [action("kept"), action("last")]
    assert numbers(other) == []
    assert do(store.woken("topic", 0)) == frozenset()


def test_of_pieces_that_come_together_each_fails_alone(store: Store) -> None:
    def put(number: int, transaction: Transaction) -> int:
        transaction.put(PENDING, action(str(number)))
        transaction.append(record("run", number))
        if number % 3 == 0:
            raise Broken
        return number

    async def story() -> list[Any]:
        pieces = (store.write(partial(put, number)) for number in range(30))
        return await asyncio.gather(*pieces, return_exceptions=True)

    outcomes = asyncio.run(story())
    done = [number for number in range(30) if number % 3]
    assert [each for each in outcomes if isinstance(each, int)] == done
    assert sum(isinstance(each, Broken) for each in outcomes) == 10
    assert ids(read(store, lambda snapshot: snapshot.find(PENDING))) == [str(number) for number in done]
    assert sorted(numbers(store)) == done
    assert faults(store) == []


def test_pieces_are_done_in_the_order_in_which_they_come(store: Store) -> None:
    seen: list[int] = []

    async def story() -> None:
        await asyncio.gather(*(store.write(lambda _, number=number: seen.append(number)) for number in range(300)))  # type: ignore[misc]

    asyncio.run(story())

    assert seen == list(range(300))


def test_a_caller_that_stops_waiting_does_not_stop_its_work(store: Store) -> None:
    async def story() -> None:
        tasks = [
            asyncio.create_task(store.write(partial(lambda name, tx: tx.put(PENDING, action(name)), str(number))))
            for number in range(20)
        ]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(story())

    started = read(store, lambda snapshot: snapshot.find(PENDING))
    # What was handed in is done; a task that never ran has handed in nothing.
    assert ids(started) == [str(number) for number in range(len(started))]


def test_work_must_not_write_through_the_store(store: Store) -> None:
    def write_inside(_: Transaction) -> object:
        return store.write(lambda _: None)

    with pytest.raises(RuntimeError, match="must not write"):
        write(store, write_inside)

    assert write(store, lambda transaction: transaction.put(PENDING, action("a")))


def test_a_read_is_one_state_whatever_is_written_meanwhile(harness: Harness, store: Store, other: Store) -> None:
    if not harness.is_shared:
        pytest.skip("in one thread nothing can come between")
    write(store, lambda transaction: transaction.put(PENDING, action("a")))

    def look(snapshot: Snapshot) -> tuple[list[str], list[str]]:
        before = ids(snapshot.find(PENDING))
        writing = threading.Thread(target=write, args=(store, lambda tx: tx.put(PENDING, action("b"))))
        writing.start()
        writing.join(10)
        assert not writing.is_alive(), "the read keeps the writer from going on"
        return before, ids(snapshot.find(PENDING))

    assert read(other, look) == (["a"], ["a"])
    assert ids(read(other, lambda snapshot: snapshot.find(PENDING))) == ["a", "b"]


def test_the_event_loops_of_several_threads_share_a_store(store: Store) -> None:
    together = threading.Barrier(4, timeout=10)

    def count(transaction: Transaction) -> None:
        row = transaction.get(RUNS, "counter") or run_row("counter")
        transaction.put(RUNS, structs.replace(row, lease=row.lease + 1))

    async def story() -> None:
        together.wait()
        for _ in range(20):
            await asyncio.gather(*(store.write(count) for _ in range(5)))
            assert await store.read(lambda snapshot: snapshot.get(RUNS, "counter"))

    def loop() -> None:
        asyncio.run(story())

    threads = [threading.Thread(target=loop) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    counter = read(store, lambda snapshot: snapshot.get(RUNS, "counter"))
    assert counter is not None
    assert counter.lease == 400


def test_work_that_raises_stop_iteration_fails_as_any_other(store: Store) -> None:
    def run_out(_: Transaction) -> None:
        raise StopIteration

    async def story() -> list[Any]:
        async with asyncio.timeout(10):
            pieces = [store.write(run_out) for _ in range(3)]
            return await asyncio.gather(*pieces, return_exceptions=True)

    assert [type(outcome) for outcome in asyncio.run(story())] == [RuntimeError] * 3


def test_work_may_ask_whose_rows_are_whose(store: Store) -> None:
    def ask(_: object) -> tuple[str, bool]:
        return store.owner, store.is_gone(store.owner)

    assert read(store, ask) == write(store, ask) == (store.owner, False)


def test_a_closed_store_says_so(harness: Harness) -> None:
    store = harness.open()
    store.close()

    with pytest.raises(RuntimeError, match="closed"):
        write(store, lambda _: None)
    with pytest.raises(RuntimeError, match="closed"):
        read(store, lambda _: None)


# The trail ------------------------------------------------------------------------------------------------------------


def test_records_are_chained_over_all_runs_and_verify(store: Store, other: Store) -> None:
    for number in range(5):
        write(store if number % 2 else other, lambda tx, n=number: tx.append(record(f"run {n % 2}", n)))  # type: ignore[misc]

    records = read(store, lambda snapshot: list(snapshot.records()))
    assert [(each.position, each.run, each.sequence) for each in records] == [
        (1, "run 0", 1),
        (2, "run 1", 1),
        (3, "run 0", 2),
        (4, "run 1", 2),
        (5, "run 0", 3),
    ]
    assert faults(store) == []
    assert (numbers(store, "run 1"), numbers(store, None, 2), numbers(store, "run 0", 1)) == ([1, 3], [3, 4], [4])


def test_a_record_shows_once_its_work_is_done(store: Store) -> None:
    def append(transaction: Transaction) -> tuple[int, Seal | None]:
        transaction.append(record("run", 1))
        transaction.append(record("run", 2))
        return len(list(transaction.records())), transaction.seal()

    assert write(store, append) == (0, new_seal(None))
    assert numbers(store) == [1, 2]


def test_what_is_pruned_is_gone_and_the_rest_verifies_and_goes_on(store: Store, other: Store) -> None:
    for number in range(10):
        write(store, lambda tx, n=number: tx.append(record(f"run {n % 3}", n)))  # type: ignore[misc]
    root = read(store, lambda snapshot: list(snapshot.records()))[3].hash

    assert write(store, lambda transaction: transaction.prune_trail(4)) == 4

    assert numbers(other) == [4, 5, 6, 7, 8, 9]
    assert faults(other) == []
    write(other, lambda transaction: transaction.append(record("run 0", 10)))
    write(other, lambda transaction: transaction.append(record("new", 11)))
    assert faults(store) == []
    assert write(store, lambda transaction: transaction.prune_trail(4)) == 0
    assert write(store, lambda transaction: transaction.prune_trail(99)) == 8
    assert (numbers(store), faults(store)) == ([], [])
    write(store, lambda transaction: transaction.append(record("run 0", 12)))
    assert (numbers(store), faults(store)) == ([12], [])
    assert root


def test_a_trail_goes_on_after_pruning_alone_and_together_with_a_record(store: Store) -> None:
    def prune_and_append(transaction: Transaction) -> None:
        transaction.prune_trail(4)
        transaction.append(record("run", 6))

    for number in range(6):
        write(store, lambda tx, n=number: tx.append(record("run", n)))  # type: ignore[misc]

    write(store, lambda transaction: transaction.prune_trail(2))
    write(store, prune_and_append)
    write(store, lambda transaction: transaction.append(record("run", 7)))

    assert (numbers(store), faults(store)) == ([4, 5, 6, 7], [])


def test_pruning_that_fails_leaves_the_trail_as_it_was(store: Store) -> None:
    for number in range(5):
        write(store, lambda tx, n=number: tx.append(record("run", n)))  # type: ignore[misc]

    def fail(transaction: Transaction) -> None:
        transaction.prune_trail(3)
        raise Broken

    with pytest.raises(Broken):
        write(store, fail)

    assert (numbers(store), faults(store)) == ([0, 1, 2, 3, 4], [])


def test_a_trail_goes_on_after_pruning_that_failed(store: Store) -> None:
    write(store, lambda transaction: transaction.append(record("run", 1)))

    def prune_and_fail(transaction: Transaction) -> None:
        transaction.append(record("run", 2))
        assert transaction.prune_trail(1) == 1
        raise Broken

    with pytest.raises(Broken):
        write(store, prune_and_fail)
    write(store, lambda transaction: transaction.append(record("run", 3)))

    def append_and_prune(transaction: Transaction) -> None:
        transaction.append(record("run", 4))
        transaction.prune_trail(1)

    write(store, append_and_prune)

    records = read(store, lambda snapshot: [(each.position, each.sequence) for each in snapshot.records()])
    assert (records, numbers(store), faults(store)) == ([(2, 2), (3, 3)], [3, 4], [])


def test_a_record_that_cannot_be_kept_fails_its_work_alone(store: Store) -> None:
    def append(value: object, transaction: Transaction) -> None:
        transaction.put(PENDING, action(repr(type(value))))
        transaction.append(Record("run", AuditKind.CALL_DONE, {"number": value}))

    async def story() -> list[Any]:
        pieces = [store.write(partial(append, value)) for value in (1, object(), 2.5)]
        return await asyncio.gather(*pieces, return_exceptions=True)

    assert [type(outcome) for outcome in asyncio.run(story())] == [type(None), TypeError, type(None)]
    assert numbers(store) == [1, 2.5]
    assert ids(read(store, lambda snapshot: snapshot.find(PENDING))) == ["<class 'int'>", "<class 'float'>"]


# Leases ---------------------------------------------------------------------------------------------------------------


def test_a_lease_has_one_holder_and_each_new_one_a_higher_number(store: Store, other: Store) -> None:
    first = do(store.claim("run/1", 60))
    assert first is not None
    assert do(store.claim("run/1", 60)) is None
    assert do(other.claim("run/1", 60)) is None
    assert do(other.claim("run/2", 60)) is not None

    assert do(store.release(first))
    second = do(other.claim("run/1", 60))

    assert second is not None
    assert second.number == first.number + 1


def test_work_on_leases_may_read_all_and_changes_nothing_else(store: Store, other: Store) -> None:
    write(store, lambda transaction: transaction.put(RUNS, run_row("1")))

    def claim(transaction: Transaction) -> tuple[Any, Any]:
        return transaction.get(RUNS, "1"), claim_in(transaction, store, "run/1", 0.0, 60)

    row, lease = do(store.write_leases(claim))

    assert (row, lease) == (run_row("1"), Lease("run/1", 1))
    assert read(other, lambda snapshot: [row.number for row in snapshot.find(LEASES)]) == [1]


@pytest.mark.parametrize(
    "more",
    [
        lambda transaction: transaction.put(RUNS, run_row("1")),
        lambda transaction: transaction.drop(RUNS, "none"),
        lambda transaction: transaction.append(record("1")),
        lambda transaction: transaction.wake("run", "1"),
        lambda transaction: transaction.prune_trail(0),
    ],
    ids=["put", "drop", "append", "wake", "prune"],
)
def test_work_on_leases_that_changes_more_is_undone(store: Store, more: Callable[[Transaction], Any]) -> None:
    def claim(transaction: Transaction) -> None:
        claim_in(transaction, store, "run/1", 0.0, 60)
        more(transaction)

    with pytest.raises(RuntimeError, match="more than leases"):
        do(store.write_leases(claim))

    kept = read(store, lambda snapshot: (snapshot.find(LEASES), snapshot.find(RUNS), list(snapshot.records())))
    assert kept == ([], [], [])


def test_a_lease_that_has_run_out_can_be_claimed(store: Store, other: Store) -> None:
    first, second = do(store.claim("run/1", 0)), do(other.claim("run/1", 60))

    assert first is not None
    assert second is not None
    assert second.number > first.number


def test_a_lease_from_a_clock_that_was_ahead_can_be_claimed(store: Store) -> None:
    ahead = LeaseRow(name="run/1", owner="unknown", number=3, until=time.time() + 10 * 365 * 86_400)
    write(store, lambda transaction: transaction.put(LEASES, ahead))

    lease = do(store.claim("run/1", 60))

    assert lease is not None
    assert lease.number == 4


def test_work_of_a_holder_that_lost_its_lease_is_refused(store: Store, other: Store) -> None:
    first = do(store.claim("run/1", 0))
    assert first is not None

    def step(name: str, lease: Any, transaction: Transaction) -> None:
        transaction.require(lease)
        transaction.put(RUNS, run_row(name, lease=lease.number))

    write(store, partial(step, "while nobody else claimed it", first))
    second = do(other.claim("run/1", 60))
    with pytest.raises(LeaseLost, match="run/1"):
        write(store, partial(step, "too late", first))
    write(other, partial(step, "by the new holder", second))

    assert [row.id for row in read(store, lambda snapshot: snapshot.find(RUNS))] == [
        "while nobody else claimed it",
        "by the new holder",
    ]


def test_a_lease_is_renewed_by_its_holder_alone(store: Store, other: Store) -> None:
    first = do(store.claim("run/1", 0))
    assert first is not None
    assert do(store.renew(first, 60))
    assert do(other.claim("run/1", 60)) is None

    do(store.release(first))
    second = do(other.claim("run/1", 60))

    assert second is not None
    assert not do(store.renew(first, 60))
    assert not do(store.release(first)), "it was lost"
    assert do(other.renew(second, 60))
    with pytest.raises(LeaseLost):
        write(store, lambda transaction: transaction.require(first))


def test_a_released_lease_holds_no_longer(store: Store) -> None:
    lease = do(store.claim("run/1", 60))
    assert lease is not None
    do(store.release(lease))

    assert not do(store.renew(lease, 60))
    with pytest.raises(LeaseLost):
        write(store, lambda transaction: transaction.require(lease))


def test_the_lease_of_a_process_that_was_killed_can_be_claimed_at_once(shared: Harness) -> None:
    store = shared.open()
    claiming = """
        lease = asyncio.run(store.claim("run/1", 3600))
        print(lease.number, flush=True)
        sys.stdin.read()
        """
    with shared.process(claiming) as process:
        number = int(printed(process))
        assert do(store.claim("run/1", 60)) is None

    lease = do(store.claim("run/1", 60))

    assert lease is not None
    assert lease.number == number + 1
    store.close()


def test_of_processes_that_claim_at_once_one_gets_the_lease(shared: Harness) -> None:
    shared.open().close()
    claiming = """
        sys.stdin.readline()
        print(*(n for n in range(20) if asyncio.run(store.claim(f"run/{n}", 3600))), flush=True)
        sys.stdin.read()
        """
    with ExitStack() as stack:
        processes = [stack.enter_context(shared.process(claiming)) for _ in range(3)]
        for process in processes:
            say(process, "go")
        claimed = [int(number) for process in processes for number in printed(process).split()]

    assert sorted(claimed) == list(range(20))


# Owners ---------------------------------------------------------------------------------------------------------------


def test_neither_this_process_nor_one_that_is_not_known_is_gone(store: Store, other: Store) -> None:
    assert [store.is_gone(name) for name in (store.owner, other.owner, "never heard of", "", "../state")] == [False] * 5


def test_a_process_that_was_killed_stays_gone_as_long_as_a_row_names_it(shared: Harness) -> None:
    store = shared.open()
    beginning = """
        owner = store.owner
        asyncio.run(store.write(lambda transaction: transaction.put(LEDGER, entry("k", owner=owner))))
        print(owner, flush=True)
        sys.stdin.read()
        """
    with shared.process(beginning) as process:
        owner = printed(process)
        assert not store.is_gone(owner)

    for _ in range(3):  # Each of them sweeps what it finds.
        later = shared.open()
        assert later.is_gone(owner)
        later.close()
    write(store, lambda transaction: transaction.drop(LEDGER, "k"))
    last = shared.open()
    assert last.owner
    assert not last.is_gone(owner), "no row names the process any more, so its name is forgotten"
    last.close()
    store.close()


def test_a_process_that_ended_with_work_unfinished_is_gone(shared: Harness) -> None:
    store = shared.open()
    owner = store.owner
    write(store, lambda transaction: transaction.put(LEDGER, entry("k", owner=owner)))
    store.close()

    later = shared.open()
    assert later.is_gone(owner)
    later.close()


# Wake-ups -------------------------------------------------------------------------------------------------------------


def test_whoever_waits_hears_of_what_is_woken_and_once(store: Store, other: Store) -> None:
    def wake_both(transaction: Transaction) -> None:
        for key in "ab":
            transaction.wake("topic", key)

    async def story() -> list[frozenset[str]]:
        assert await store.woken("topic", 0) == frozenset()
        waiting = asyncio.create_task(hear(store, "topic"))
        await asyncio.sleep(0.01)
        await other.write(lambda transaction: transaction.wake("another topic", "x"))
        await other.write(wake_both)
        return [await waiting, await store.woken("topic", 0)]

    assert asyncio.run(story()) == [frozenset({"a", "b"}), frozenset()]


def test_a_wake_up_that_comes_between_two_calls_is_heard(store: Store) -> None:
    async def story() -> frozenset[str]:
        await store.woken("topic", 0)
        await store.write(lambda transaction: transaction.wake("topic", "a"))
        return await store.woken("topic", 0)

    assert asyncio.run(story()) == frozenset({"a"})


def test_another_process_is_woken(shared: Harness) -> None:
    store = shared.open()
    waiting = """
        async def story():
            await store.woken("topic", 0)
            print("ready", flush=True)
            async with asyncio.timeout(30):
                print(*sorted(await store.woken("topic", 600)), flush=True)
        asyncio.run(story())
        """
    with shared.process(waiting) as process:
        assert printed(process) == "ready"
        write(store, lambda transaction: transaction.wake("topic", "a"))

        assert printed(process) == "a"
    store.close()


def test_of_tasks_that_wait_at_the_same_time_all_hear_of_a_wake_up(store: Store) -> None:
    async def story() -> list[frozenset[str]]:
        waiting = [asyncio.create_task(hear(store, "topic")) for _ in range(3)]
        await asyncio.sleep(0.01)
        await store.write(lambda transaction: transaction.wake("topic", "a"))
        return [*await asyncio.gather(*waiting), await store.woken("topic", 0)]

    assert asyncio.run(story()) == [frozenset({"a"})] * 3 + [frozenset()]


def test_a_task_that_stops_waiting_takes_no_wake_up_away(store: Store) -> None:
    async def story() -> frozenset[str]:
        waiting = asyncio.create_task(store.woken("topic", 10))
        await asyncio.sleep(0.01)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await store.write(lambda transaction: transaction.wake("topic", "a"))
        return await store.woken("topic", 0)

    assert asyncio.run(story()) == frozenset({"a"})


def test_a_wake_up_of_another_event_loop_is_heard(store: Store) -> None:
    async def story() -> frozenset[str]:
        waiting = asyncio.create_task(hear(store, "topic"))
        await asyncio.sleep(0.01)
        await asyncio.to_thread(write, store, lambda transaction: transaction.wake("topic", "a"))
        return await waiting

    assert asyncio.run(story()) == frozenset({"a"})


def test_an_event_loop_that_was_closed_while_its_task_waited_fails_nobody(store: Store) -> None:
    loop = asyncio.new_event_loop()
    waiting = loop.create_task(store.woken("topic", 10))
    loop.run_until_complete(asyncio.sleep(0.01))
    loop.close()

    assert write(store, lambda transaction: transaction.wake("topic", "a")) is None
    # It cannot end any more: this takes it for ended, so that nobody is told of it.
    waiting._log_destroy_pending = False  # type: ignore[attr-defined]
    waiting.get_coro().close()


def test_whoever_waits_hears_that_the_store_was_closed(harness: Harness) -> None:
    store = harness.open()

    async def story() -> None:
        waiting = asyncio.create_task(store.woken("topic", 60))
        await asyncio.sleep(0.01)
        store.close()
        async with asyncio.timeout(10):
            await waiting

    with pytest.raises(RuntimeError, match="closed"):
        asyncio.run(story())
    with pytest.raises(RuntimeError, match="closed"):
        do(store.woken("topic", 0))


# What is lent ---------------------------------------------------------------------------------------------------------


def test_what_a_borrower_writes_is_kept_or_undone_with_the_work(shared: Harness) -> None:
    store = shared.open()

    def make(transaction: Transaction) -> None:
        connection = transaction.lend()
        connection.execute("CREATE TABLE borrowed (value TEXT)")

    def borrow(transaction: Transaction, *, fails: bool) -> None:
        connection = transaction.lend()
        cursor = connection.cursor()
        cursor.execute("INSERT INTO borrowed VALUES ('x')")
        connection.commit()
        cursor.close()
        connection.close()
        transaction.put(PENDING, action("fails" if fails else "kept"))
        if fails:
            raise Broken

    def count(transaction: Transaction) -> int:
        return int(transaction.lend().execute("SELECT count(*) FROM borrowed").fetchone()[0])

    write(store, make)
    with pytest.raises(Broken):
        write(store, partial(borrow, fails=True))
    write(store, partial(borrow, fails=False))

    assert write(store, count) == 1
    assert ids(read(store, lambda snapshot: snapshot.find(PENDING))) == ["kept"]
    store.close()


# Kills and several processes ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_was_told_survives_a_kill_and_nothing_is_half(shared: Harness) -> None:
    """A row and its record, with 25 kills in the middle of writing."""
    told: list[int] = []
    stepping = """
        def step(number):
            def work(transaction):
                transaction.put(PENDING, action(str(number)))
                transaction.append(record("run", number))
            return store.write(work)
        async def story():
            for number in range(int(sys.stdin.readline()), 10_000):
                await step(number)
                print(number, flush=True)
        asyncio.run(story())
        """
    for _ in range(25):
        with shared.process(stepping) as process:
            say(process, str(len(told)))
            told += [int(printed(process)) for _ in range(7)]
            process.kill()
            assert process.stdout is not None
            told += [int(line) for line in process.stdout.read().split()]
    store = shared.open()
    kept = [int(name) for name in ids(read(store, lambda snapshot: snapshot.find(PENDING)))]

    assert told == list(range(len(told)))
    # A step that was written and not told is written again, with another record: its row is the same.
    assert set(told) <= set(kept)
    assert sorted(set(numbers(store))) == kept
    assert faults(store) == []
    store.close()


def test_processes_that_write_at_once_lose_nothing(shared: Harness) -> None:
    shared.open().close()
    writing = """
        who = sys.stdin.readline().strip()
        def count(number):
            def work(transaction):
                row = transaction.get(RUNS, "counter") or run_row("counter", lease=0)
                transaction.put(RUNS, msgspec.structs.replace(row, lease=row.lease + 1))
                transaction.append(record(who, number))
            return store.write(work)
        async def story():
            await asyncio.gather(*(count(number) for number in range(100)))
            for number in range(100, 120):
                await count(number)
        asyncio.run(story())
        print("done", flush=True)
        """
    with ExitStack() as stack:
        processes = [stack.enter_context(shared.process(writing)) for _ in range(3)]
        for number, process in enumerate(processes):
            say(process, str(number))
        assert [printed(process) for process in processes] == ["done"] * 3
    store = shared.open()
    counter = read(store, lambda snapshot: snapshot.get(RUNS, "counter"))

    assert counter is not None
    assert counter.lease == 360
    # Those that come at once may be done in any order; one after the other, they are in theirs.
    assert [sorted(numbers(store, str(number))) for number in range(3)] == [list(range(120))] * 3
    assert faults(store) == []
    store.close()
