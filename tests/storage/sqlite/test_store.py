"""What only a store on a state file has: its threads, its connections, forks, and rows that were edited."""

import asyncio
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agent_resolver.schema import LEDGER, PENDING
from agent_resolver.storage import Snapshot, SqliteStore, Transaction, UnreadableFile
from tests.storage.conformance import action, do, entry, read, write


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / ".agent" / "state.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(str(path))
    yield store
    store.close()


def edit(path: Path, *statements: str) -> None:
    """Change the database behind our back."""
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


# What is lent ---------------------------------------------------------------------------------------------------------


def put_and_lend(use: Callable[[Any], object], transaction: Transaction) -> object:
    transaction.put(PENDING, action("with it"))
    return use(transaction.lend())


@pytest.mark.parametrize(
    "use",
    [
        lambda lent: lent.rollback(),
        lambda lent: lent.executescript("SELECT 1"),
        lambda lent: lent.execute("BEGIN"),
        lambda lent: lent.execute("COMMIT"),
        lambda lent: lent.execute("ROLLBACK"),
        lambda lent: lent.execute("SAVEPOINT mine"),
        lambda lent: lent.execute("RELEASE part"),
        lambda lent: lent.cursor().executescript("CREATE TABLE borrowed (x)"),
        lambda lent: lent.cursor().connection.commit(),
        lambda lent: lent.cursor().connection.rollback(),
    ],
)
@pytest.mark.parametrize("count", [1, 3], ids=["alone", "with others"])
def test_what_would_end_the_transaction_is_refused_and_fails_the_work_alone(
    store: SqliteStore, use: Callable[[Any], object], count: int
) -> None:
    async def story() -> list[Any]:
        works = [partial(put_and_lend, use), *(partial(put, name) for name in "ab"[: count - 1])]
        told: list[Any] = await asyncio.gather(*(store.write(work) for work in works), return_exceptions=True)
        return told

    def put(name: str, transaction: Transaction) -> object:
        return transaction.put(PENDING, action(name))

    told = asyncio.run(story())

    assert isinstance(told[0], RuntimeError | UnreadableFile)
    assert told[1:] == [True] * (count - 1)
    rows = read(store, lambda snapshot: snapshot.find(PENDING))
    assert [row.id for row in rows] == ["a", "b"][: count - 1]


def test_a_connection_that_was_lent_is_of_no_use_once_the_work_has_ended(store: SqliteStore) -> None:
    """Each statement would be a commit of its own, in the middle of the work of others."""
    lent = write(store, lambda transaction: (transaction.lend(), transaction.lend()))

    assert lent[0] is lent[1]
    for use in (lent[0].cursor, lambda: lent[0].execute("SELECT 1"), lambda: lent[0].executemany("SELECT ?", [(1,)])):
        with pytest.raises(RuntimeError, match="lent for one piece of work, which has ended"):
            use()


def test_after_a_loan_everything_is_as_before(store: SqliteStore) -> None:
    def borrow(transaction: Transaction) -> int:
        connection = transaction.lend()
        connection.execute("CREATE TABLE borrowed (x)")
        connection.executemany("INSERT INTO borrowed VALUES (?)", [(1,), (2,)])
        return int(connection.execute("SELECT sum(x) FROM borrowed").fetchone()[0])

    def fail(transaction: Transaction) -> None:
        transaction.lend()
        raise ZeroDivisionError

    assert write(store, borrow) == 3
    with pytest.raises(ZeroDivisionError):
        write(store, fail)
    assert write(store, lambda transaction: transaction.put(PENDING, action("a")))
    assert read(store, lambda snapshot: len(snapshot.find(PENDING))) == 1


# Reading and closing --------------------------------------------------------------------------------------------------


def test_a_read_inside_of_a_read_is_refused_and_blocks_nothing(store: SqliteStore) -> None:
    with pytest.raises(RuntimeError, match="must not read through the store"):
        store.read_now(lambda _: store.read_now(lambda _: None))

    assert store.read_now(lambda snapshot: snapshot.find(PENDING)) == []


def test_closing_waits_for_whoever_reads(store: SqliteStore) -> None:
    begun, go_on, seen = threading.Event(), threading.Event(), list[object]()

    def look(snapshot: Snapshot) -> None:
        begun.set()
        assert go_on.wait(10)
        seen.append(snapshot.find(PENDING))

    reading = threading.Thread(target=store.read_now, args=(look,))
    reading.start()
    assert begun.wait(10)
    closing = threading.Thread(target=store.close)
    closing.start()
    closing.join(0.05)
    is_waiting = closing.is_alive()
    go_on.set()
    reading.join(10)
    closing.join(10)

    assert is_waiting
    assert seen == [[]]
    with pytest.raises(RuntimeError, match="closed"):
        store.read_now(look)


def test_a_store_that_is_closed_makes_no_name_and_keeps_the_one_that_it_had(path: Path) -> None:
    nameless, named = SqliteStore(str(path)), SqliteStore(str(path))
    name = named.owner
    for store in (nameless, named, named):
        store.close()

    assert named.owner == name
    with pytest.raises(RuntimeError, match="closed"):
        nameless.is_gone("0123456789abcdef")
    assert list(path.parent.glob("state.owners/*")) == []


def test_a_store_closes_whatever_became_of_its_file(path: Path) -> None:
    """The file of the name stays: what cannot be read may name the process."""
    store = SqliteStore(str(path))
    name = store.owner
    edit(path, "DROP TABLE lease")

    store.close()

    assert [each.name for each in path.parent.glob("state.owners/*")] == [name]
    with pytest.raises(RuntimeError, match="closed"):
        store.read_now(lambda _: None)


# Names ----------------------------------------------------------------------------------------------------------------


def test_work_may_ask_for_names_while_another_thread_reads_and_asks_too(path: Path) -> None:
    """Making the name looks into the file: two threads must not wait for each other."""
    left = path.parent / "state.owners" / "0123456789abcdef"
    left.parent.mkdir(parents=True)
    left.touch()
    store = SqliteStore(str(path), quick_seconds=1000)
    together = threading.Barrier(2, timeout=10)
    names: list[str] = []

    def ask(_: object) -> None:
        together.wait()
        names.append(store.owner)

    threads = [
        threading.Thread(target=write, args=(store, ask), daemon=True),
        threading.Thread(target=store.read_now, args=(ask,), daemon=True),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)

    assert names == [store.owner] * 2
    store.close()


def test_a_name_that_is_made_in_the_middle_of_a_read_sweeps_nothing(path: Path) -> None:
    """What is read may be older than a row of a process that has come and gone since."""
    store, other = SqliteStore(str(path)), SqliteStore(str(path))

    def look(snapshot: Snapshot) -> str:
        assert snapshot.find(LEDGER) == []
        gone = other.owner
        write(other, lambda transaction: transaction.put(LEDGER, entry("k", owner=gone)))
        other.close()
        assert store.owner != gone
        return gone

    gone = store.read_now(look)

    assert store.is_gone(gone)
    store.close()


def test_names_that_cannot_be_kept_are_told_in_our_words(path: Path, store: SqliteStore) -> None:
    folder = path.parent / "state.owners"
    folder.touch()

    with pytest.raises(UnreadableFile, match="cannot be used for the names of processes: File exists") as caught:
        assert store.owner
    assert caught.value.path == str(folder)
    folder.unlink()
    assert store.owner


# Forks ----------------------------------------------------------------------------------------------------------------


def in_fork(work: Callable[[], object]) -> str:
    """What a process that is forked off comes to."""
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        try:
            said = repr(work())
        except BaseException as error:  # noqa: BLE001 - it is told
            said = f"{type(error).__name__}: {error}"
        os.write(writes, said.encode())
        os._exit(0)
    os.close(writes)
    with os.fdopen(reads) as file:
        said = file.read()
    assert os.waitpid(child, 0)[1] == 0
    return said


@pytest.mark.parametrize(
    "use",
    [
        lambda store: do(store.write(lambda _: None)),
        lambda store: do(store.read(lambda _: None)),
        lambda store: do(store.woken("topic", 0)),
        lambda store: do(store.claim("run", 1)),
        lambda store: store.owner,
    ],
    ids=["write", "read", "woken", "claim", "owner"],
)
def test_a_store_is_not_used_after_a_fork(path: Path, use: Callable[[SqliteStore], object]) -> None:
    store = SqliteStore(str(path), quick_seconds=0)
    write(store, lambda transaction: transaction.put(PENDING, action("a")))
    assert store.owner

    said = in_fork(lambda: use(store))

    assert said == "RuntimeError: the state was opened before this process was forked off: open it again"
    assert write(store, lambda transaction: transaction.put(PENDING, action("b")))
    store.close()


def test_closing_after_a_fork_leaves_the_other_process_alone(path: Path, store: SqliteStore) -> None:
    write(store, lambda transaction: transaction.put(PENDING, action("a")))
    name = store.owner

    assert in_fork(store.close) == "None"

    assert (path.parent / "state.owners" / name).exists()
    assert write(store, lambda transaction: transaction.put(PENDING, action("b")))
    assert read(store, lambda snapshot: len(snapshot.find(PENDING))) == 2


# Rows that were edited ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("UPDATE pending SET type = 'nonsense'", r"a row of `pending` that was edited: .*type"),
        ("UPDATE pending SET classification = 'nonsense'", r"a row of `pending` that was edited: .*classification"),
        ("UPDATE pending SET message = x'00'", r"a row of `pending` that was edited: .*message"),
        ("UPDATE ledger SET result = 'text'", r"a row of `ledger` that was edited: .*result"),
        ("UPDATE ledger SET is_idempotent = 2", r"a row of `ledger` that was edited: .*is_idempotent"),
    ],
)
def test_a_row_that_was_edited_is_told_in_our_words(
    path: Path, store: SqliteStore, statement: str, problem: str
) -> None:
    def put(transaction: Transaction) -> None:
        transaction.put(PENDING, action("a"))
        transaction.put(LEDGER, entry("k", state="done", result=b"sealed"))

    write(store, put)
    edit(path, statement)

    with pytest.raises(UnreadableFile, match=problem):
        read(store, lambda snapshot: (snapshot.find(PENDING), snapshot.get(LEDGER, "k")))


def test_wake_ups_that_everybody_heard_of_are_removed(path: Path, store: SqliteStore) -> None:
    def wake(transaction: Transaction) -> None:
        for number in range(10_100):
            transaction.wake("topic", str(number))

    write(store, wake)

    connection = sqlite3.connect(path)
    assert connection.execute("SELECT count(*), max(position) FROM wake").fetchall() == [(10_000, 10_100)]
    connection.close()


# Flushes --------------------------------------------------------------------------------------------------------------


def test_only_leases_are_written_without_a_flush(store: SqliteStore) -> None:
    seen: list[tuple[str, int]] = []

    def look(name: str) -> Callable[[Any], None]:
        def work(transaction: Any) -> None:
            (level,) = transaction.connection.execute("PRAGMA synchronous").fetchone()
            seen.append((name, level))

        return work

    async def story() -> None:
        await store.write_leases(look("leases"))
        await store.write(look("all"))
        await store.write_leases(look("leases"))
        # What comes together is flushed together.
        await asyncio.gather(store.write(look("all")), store.write_leases(look("leases with all")))

    do(story())
    full, normal = 2, 1
    assert seen == [("leases", normal), ("all", full), ("leases", normal), ("all", full), ("leases with all", full)]


# Rows that were read --------------------------------------------------------------------------------------------------


def test_a_row_that_was_read_is_read_again_once_it_was_changed_or_undone(store: SqliteStore) -> None:
    old, new = entry("k"), entry("k", state="done")
    found: list[object] = []

    def read_it(transaction: Transaction) -> None:
        found.append(transaction.get(LEDGER, "k"))

    def change_it(transaction: Transaction) -> None:
        read_it(transaction)
        transaction.put(LEDGER, new)
        read_it(transaction)
        transaction.drop(LEDGER, "k")
        read_it(transaction)
        transaction.put(LEDGER, new)
        read_it(transaction)
        raise LookupError("and all of it is undone")

    async def story() -> None:
        await store.write(lambda transaction: transaction.put(LEDGER, old))
        works: list[Any] = [read_it, read_it, change_it, read_it]
        await asyncio.gather(*(store.write(work) for work in works), return_exceptions=True)

    do(story())
    assert found == [old, old, old, new, None, new, old]


def test_a_row_that_a_library_changed_is_read_again(store: SqliteStore) -> None:
    def work(transaction: Transaction) -> list[object]:
        transaction.put(LEDGER, entry("k"))
        before = transaction.get(LEDGER, "k")
        transaction.lend().execute("DELETE FROM ledger")
        return [before, transaction.get(LEDGER, "k")]

    assert do(store.write(work)) == [entry("k"), None]
