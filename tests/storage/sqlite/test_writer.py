"""One writer does the work of many, in as few commits as it takes, and tells each of them the truth."""

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from agent_resolver.schema import AuditKind, Record
from agent_resolver.storage import Committer, Database, SqlTransaction, UnreadableFile, Writer


def put_row(connection: sqlite3.Connection, subject: str) -> None:
    connection.execute("INSERT INTO rate VALUES (NULL, ?, random(), 1.0)", (subject,))


def this_thread(_: SqlTransaction) -> int:
    """Work: tell which thread does it."""
    return threading.get_ident()


class Held:
    """Work that keeps the writer busy until it is let go."""

    def __init__(self) -> None:
        self.begun, self.released = threading.Event(), threading.Event()

    def __call__(self, _: SqlTransaction) -> str:
        self.begun.set()
        assert self.released.wait(10)
        return "held"


class Desk:
    """A writer, and what is needed to look over its shoulder."""

    def __init__(self, path: Path, quick_seconds: float) -> None:
        self.path = path
        self.database = Database(str(path))
        self.woken: list[set[str]] = []
        committer = Committer(self.database, lambda: "2026-01-01T00:00:00.000Z", None, self.woken.append)
        self.writer = Writer(committer, quick_seconds=quick_seconds)
        self.statements: list[str] = []
        self.database._connection.set_trace_callback(self.statements.append)

    def put(self, subject: str, transaction: SqlTransaction) -> str:
        """Work: write one row."""
        put_row(cast("sqlite3.Connection", transaction.connection), subject)
        return subject

    def put_and_fail(self, subject: str, error: BaseException, transaction: SqlTransaction) -> None:
        """Work: write one row, and then fail."""
        self.put(subject, transaction)
        raise error

    def kept(self) -> list[str]:
        """What another connection sees."""
        connection = sqlite3.connect(self.path)
        rows = connection.execute("SELECT subject FROM rate ORDER BY rowid").fetchall()
        connection.close()
        return [subject for (subject,) in rows]

    @property
    def commits(self) -> int:
        return self.statements.count("COMMIT")

    async def together(self, *works: Callable[[SqlTransaction], Any]) -> list[Any]:
        """What these come to when all of them wait at the same time."""
        held = Held()
        first = asyncio.create_task(self.writer.do(held))
        await asyncio.to_thread(held.begun.wait, 10)
        tasks = [asyncio.create_task(self.writer.do(work)) for work in works]
        await asyncio.sleep(0)
        held.released.set()
        assert await first == "held"
        return await asyncio.gather(*tasks, return_exceptions=True)


@contextmanager
def opened(path: Path, quick_seconds: float) -> Iterator[Desk]:
    desk = Desk(path, quick_seconds)
    yield desk
    desk.writer.close()
    desk.database.close()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """Where the thread does everything."""
    with opened(tmp_path / "state.db", 0) as desk:
        yield desk


@pytest.fixture
def quick(tmp_path: Path) -> Iterator[Desk]:
    """Where the disk is never slow."""
    with opened(tmp_path / "state.db", 1000) as desk:
        yield desk


def test_what_was_done_is_on_the_disk_when_it_is_told(desk: Desk) -> None:
    async def story() -> tuple[str, list[str]]:
        return await desk.writer.do(partial(desk.put, "a")), desk.kept()

    assert asyncio.run(story()) == ("a", ["a"])


def _same(value: Any, _: SqlTransaction) -> Any:
    return value


def test_a_result_may_be_anything(desk: Desk) -> None:
    problem = ValueError("a result like any other")

    async def story() -> list[Any]:
        return [await desk.writer.do(partial(_same, each)) for each in (None, False, problem, [1])]

    assert asyncio.run(story()) == [None, False, problem, [1]]


@pytest.mark.parametrize(("count", "commits"), [(1, 1), (100, 1), (256, 1), (257, 2), (1000, 4)])
def test_what_waits_at_the_same_time_is_one_commit_in_the_order_it_came(desk: Desk, count: int, commits: int) -> None:
    names = [str(number) for number in range(count)]

    told = asyncio.run(desk.together(*(partial(desk.put, name) for name in names)))

    assert told == names
    assert desk.kept() == names
    assert desk.commits == 1 + commits


def test_each_sees_what_was_written_before_it(desk: Desk) -> None:
    def count(transaction: SqlTransaction) -> int:
        return len(transaction.connection.execute("SELECT * FROM rate").fetchall())

    put = partial(desk.put, "x")

    assert asyncio.run(desk.together(count, put, count, put, count)) == [0, "x", 1, "x", 2]


def test_a_piece_that_fails_fails_alone_and_leaves_nothing(desk: Desk) -> None:
    error = ZeroDivisionError("mine")
    fail = partial(desk.put_and_fail, "lost", error)

    told = asyncio.run(desk.together(partial(desk.put, "a"), fail, partial(desk.put, "b")))

    assert told == ["a", error, "b"]
    assert desk.kept() == ["a", "b"]
    assert desk.commits == 2


def test_a_statement_that_fails_fails_its_piece_alone(desk: Desk) -> None:
    def clash(transaction: SqlTransaction) -> None:
        desk.put("lost", transaction)
        transaction.connection.execute("INSERT INTO audit_seal (id, count, root) VALUES (1, 0, '')")

    told = asyncio.run(desk.together(partial(desk.put, "a"), clash, partial(desk.put, "b")))

    assert isinstance(told[1], UnreadableFile)
    assert (told[0], told[2]) == ("a", "b")
    assert desk.kept() == ["a", "b"]


def test_a_fault_of_the_system_is_told_in_our_words(desk: Desk) -> None:
    error = PermissionError(13, "Permission denied")

    (told,) = asyncio.run(desk.together(partial(desk.put_and_fail, "lost", error)))

    assert isinstance(told, UnreadableFile)
    assert "Permission denied" in str(told)


def test_a_full_disk_is_reported_to_the_whole_batch_and_later_work_is_done(desk: Desk) -> None:
    (pages,) = desk.database._connection.execute("PRAGMA page_count").fetchone()
    desk.database._connection.execute(f"PRAGMA max_page_count = {pages}")
    works = [partial(desk.put, "before"), partial(desk.put, "x" * 100_000), partial(desk.put, "after")]

    told = asyncio.run(desk.together(*works))

    assert [type(outcome) for outcome in told] == [UnreadableFile] * 3
    assert all("disk is full" in str(outcome) for outcome in told)
    assert desk.kept() == []
    assert asyncio.run(desk.together(partial(desk.put, "later"))) == ["later"]
    assert desk.kept() == ["later"]


def test_a_commit_that_fails_is_told_to_all_and_nothing_is_kept(desk: Desk) -> None:
    """As when a row refers to one that is not there: that is looked at when all is written."""
    desk.database._connection.execute("PRAGMA foreign_keys = ON")
    with desk.database.whole() as connection:
        put_row(connection, "there")
        connection.execute(
            "CREATE TABLE child (parent INTEGER REFERENCES audit_seal (id) DEFERRABLE INITIALLY DEFERRED)"
        )

    def orphan(transaction: SqlTransaction) -> None:
        transaction.connection.execute("INSERT INTO child VALUES (7)")

    told = asyncio.run(desk.together(partial(desk.put, "a"), orphan, partial(desk.put, "b")))

    assert [type(outcome) for outcome in told] == [UnreadableFile] * 3
    assert all("FOREIGN KEY constraint failed" in str(outcome) for outcome in told)
    assert desk.kept() == ["there"]
    assert asyncio.run(desk.together(partial(desk.put, "b"))) == ["b"]


def test_a_file_that_another_holds_is_told_to_all(desk: Desk) -> None:
    desk.database._connection.execute("PRAGMA busy_timeout = 1")
    other = sqlite3.connect(desk.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    async def story() -> list[Any]:
        tasks = [desk.writer.do(partial(desk.put, name)) for name in "ab"]
        return await asyncio.gather(*tasks, return_exceptions=True)

    told = asyncio.run(story())
    other.execute("ROLLBACK")
    other.close()

    assert all("database is locked" in str(outcome) for outcome in told)
    assert asyncio.run(desk.together(partial(desk.put, "c"))) == ["c"]
    assert desk.kept() == ["c"]


def test_whoever_stops_waiting_stops_neither_their_work_nor_that_of_others(desk: Desk) -> None:
    async def story() -> list[Any]:
        held = Held()
        first = asyncio.create_task(desk.writer.do(held))
        tasks = [asyncio.create_task(desk.writer.do(partial(desk.put, name))) for name in "abc"]
        await asyncio.to_thread(held.begun.wait, 10)
        tasks[1].cancel()
        first.cancel()
        await asyncio.sleep(0)
        held.released.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    told = asyncio.run(story())

    assert told[0::2] == ["a", "c"]
    assert isinstance(told[1], asyncio.CancelledError)
    assert desk.kept() == ["a", "b", "c"]


def test_each_event_loop_hears_of_its_own_work(desk: Desk) -> None:
    """Loops one after the other, and several at once in threads of their own."""
    heard: dict[str, list[str]] = {}

    async def story(name: str) -> list[str]:
        return await asyncio.gather(*(desk.writer.do(partial(desk.put, f"{name}{number}")) for number in range(50)))

    def loop(name: str) -> None:
        for _ in range(3):
            heard.setdefault(name, []).extend(asyncio.run(story(name)))

    threads = [threading.Thread(target=loop, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert heard == {name: [f"{name}{number}" for number in range(50)] * 3 for name in "abcd"}
    assert sorted(desk.kept()) == sorted(one for told in heard.values() for one in told)
    assert desk.commits < 600


def test_a_loop_that_ended_meanwhile_harms_nobody(desk: Desk) -> None:
    held = Held()

    async def leave() -> None:
        task = asyncio.create_task(desk.writer.do(held))
        other = asyncio.create_task(desk.writer.do(partial(desk.put, "a")))
        await asyncio.to_thread(held.begun.wait, 10)
        task.cancel()
        other.cancel()

    asyncio.run(leave())
    held.released.set()

    assert asyncio.run(desk.writer.do(partial(desk.put, "b"))) == "b"
    assert desk.kept() == ["a", "b"]


def test_closing_finishes_what_waits_and_nothing_comes_after(desk: Desk) -> None:
    async def story() -> list[Any]:
        held = Held()
        first = asyncio.create_task(desk.writer.do(held))
        tasks = [asyncio.create_task(desk.writer.do(partial(desk.put, name))) for name in "ab"]
        await asyncio.to_thread(held.begun.wait, 10)
        held.released.set()
        await asyncio.to_thread(desk.writer.close)
        with pytest.raises(RuntimeError, match="the state was closed"):
            await desk.writer.do(partial(desk.put, "late"))
        return await asyncio.gather(first, *tasks)

    assert asyncio.run(story()) == ["held", "a", "b"]
    assert desk.kept() == ["a", "b"]
    desk.writer.close()


def test_a_writer_that_was_never_used_closes(desk: Desk) -> None:
    desk.writer.close()


# What comes alone, on a quick disk ------------------------------------------------------------------------------------


def test_what_comes_alone_is_done_where_it_came_from(quick: Desk) -> None:
    async def story() -> list[Any]:
        return [
            await quick.writer.do(this_thread),
            await quick.writer.do(partial(quick.put, "a")),
            quick.kept(),
        ]

    assert asyncio.run(story()) == [threading.get_ident(), "a", ["a"]]
    assert quick.commits == 2


def test_what_comes_together_is_one_commit_of_the_thread_but_for_the_first(quick: Desk) -> None:
    def put(name: str, transaction: SqlTransaction) -> tuple[str, int]:
        return quick.put(name, transaction), threading.get_ident()

    async def story() -> list[Any]:
        return await asyncio.gather(*(quick.writer.do(partial(put, name)) for name in "abcd"))

    told = asyncio.run(story())

    assert [name for name, _ in told] == quick.kept() == ["a", "b", "c", "d"]
    assert [thread == threading.get_ident() for _, thread in told] == [True, False, False, False]
    assert quick.commits == 2


def test_whoever_does_one_piece_after_the_other_lets_others_have_their_turn(quick: Desk) -> None:
    async def story() -> list[str]:
        seen: list[str] = []

        async def write(name: str) -> None:
            for _ in range(3):
                await quick.writer.do(partial(quick.put, name))
                seen.append(name)

        await asyncio.gather(write("a"), write("b"))
        return seen

    assert asyncio.run(story()) != ["a"] * 3 + ["b"] * 3


def test_the_thread_does_what_comes_after_something_slow_until_it_is_quick_again(tmp_path: Path) -> None:
    async def story(desk: Desk) -> list[bool]:
        works = (this_thread, lambda _: time.sleep(0.3), this_thread, this_thread)
        return [await desk.writer.do(work) == threading.get_ident() for work in works]

    with opened(tmp_path / "state.db", 0.2) as desk:
        assert asyncio.run(story(desk)) == [True, False, False, True]


def test_nobody_else_waits_while_another_process_writes(quick: Desk) -> None:
    other = sqlite3.connect(quick.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    async def story() -> list[Any]:
        put = asyncio.create_task(quick.writer.do(partial(quick.put, "a")))
        for _ in range(20):
            await asyncio.sleep(0)
        is_waiting = not put.done()
        other.execute("COMMIT")
        return [is_waiting, await put]

    assert asyncio.run(story()) == [True, "a"]
    assert quick.database._connection.execute("PRAGMA busy_timeout").fetchall() == [(30_000,)]
    other.close()


def test_what_comes_alone_waits_for_what_is_being_written(quick: Desk) -> None:
    held = Held()

    async def story() -> list[Any]:
        works: tuple[Callable[[SqlTransaction], Any], ...] = (
            partial(_same, "by the loop"),
            held,
            partial(quick.put, "a"),
        )
        first = asyncio.gather(*(quick.writer.do(work) for work in works))
        await asyncio.to_thread(held.begun.wait, 10)
        alone = asyncio.create_task(quick.writer.do(partial(quick.put, "b")))
        await asyncio.sleep(0.01)
        is_waiting = not alone.done()
        held.released.set()
        return [is_waiting, *await first, await alone]

    assert asyncio.run(story()) == [True, "by the loop", "held", "a", "b"]
    assert quick.kept() == ["a", "b"]


@pytest.mark.parametrize("error", [ZeroDivisionError("mine"), KeyboardInterrupt()])
def test_what_fails_alone_is_told_and_leaves_nothing(quick: Desk, error: BaseException) -> None:
    with pytest.raises(type(error)) as caught:
        asyncio.run(quick.writer.do(partial(quick.put_and_fail, "lost", error)))

    assert caught.value is error
    assert quick.kept() == []
    assert asyncio.run(quick.writer.do(partial(quick.put, "b"))) == "b"


def test_a_damaged_file_is_told_in_our_words(quick: Desk) -> None:
    quick.database.close()

    with pytest.raises(UnreadableFile, match="closed database"):
        asyncio.run(quick.writer.do(partial(quick.put, "a")))


def test_whoever_stops_waiting_at_once_does_not_stop_their_work(quick: Desk) -> None:
    async def story() -> bool:
        task = asyncio.create_task(quick.writer.do(partial(quick.put, "a")))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return task.cancelled()

    assert asyncio.run(story())
    assert quick.kept() == ["a"]


def test_what_an_interruption_left_open_is_not_joined(quick: Desk) -> None:
    """As when a signal raises right after a transaction has begun."""
    quick.database._connection.execute("BEGIN IMMEDIATE")
    put_row(quick.database._connection, "lost")

    async def story() -> list[str]:
        alone = await quick.writer.do(partial(quick.put, "a"))
        return [alone, *await asyncio.gather(*(quick.writer.do(partial(quick.put, name)) for name in "bc"))]

    assert asyncio.run(story()) == quick.kept() == ["a", "b", "c"]


def test_closing_waits_for_what_a_loop_in_another_thread_is_doing(quick: Desk) -> None:
    held = Held()

    def loop() -> None:
        asyncio.run(quick.writer.do(lambda transaction: (held(transaction), quick.put("a", transaction))))

    thread = threading.Thread(target=loop)
    thread.start()
    assert held.begun.wait(10)
    closing = threading.Thread(target=quick.writer.close)
    closing.start()
    closing.join(0.05)
    is_waiting = closing.is_alive()
    held.released.set()
    closing.join(10)
    thread.join(10)

    assert is_waiting
    assert not closing.is_alive()
    assert quick.kept() == ["a"]


def test_nothing_is_done_once_it_is_closed(quick: Desk) -> None:
    quick.writer.close()

    with pytest.raises(RuntimeError, match="the state was closed"):
        asyncio.run(quick.writer.do(partial(quick.put, "late")))
    assert quick.kept() == []


# Order, and what each piece comes to ----------------------------------------------------------------------------------


def test_what_comes_alone_never_overtakes_what_the_thread_took_out_of_the_queue(
    quick: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between taking pieces and doing them, the thread has no turn yet."""
    taken, go_on = threading.Event(), threading.Event()
    write = quick.writer._written

    def write_later(batch: list[Any]) -> list[Any]:
        taken.set()
        assert go_on.wait(10)
        return write(batch)

    monkeypatch.setattr(quick.writer, "_written", write_later)

    async def story() -> list[str]:
        first = [asyncio.create_task(quick.writer.do(partial(quick.put, name))) for name in "ab"]
        await asyncio.to_thread(taken.wait, 10)
        later = asyncio.create_task(quick.writer.do(partial(quick.put, "c")))
        await asyncio.sleep(0.01)
        go_on.set()
        return await asyncio.gather(*first, later)

    assert asyncio.run(story()) == quick.kept() == ["a", "b", "c"]


@pytest.mark.parametrize("error", [SystemExit(3), asyncio.CancelledError(), GeneratorExit()], ids=repr)
def test_whatever_a_piece_raises_the_others_are_kept(desk: Desk, error: BaseException) -> None:
    async def story() -> list[Any]:
        works = (partial(desk.put, "a"), partial(desk.put_and_fail, "lost", error), partial(desk.put, "b"))
        held = Held()
        first = asyncio.create_task(desk.writer.do(held))
        await asyncio.to_thread(held.begun.wait, 10)
        tasks = [asyncio.create_task(desk.writer.do(work)) for work in (works[0], works[2])]
        failing = desk.writer.do(works[1])
        failing.send(None)
        await asyncio.sleep(0)
        held.released.set()
        told = [await first, *await asyncio.gather(*tasks)]
        with pytest.raises(type(error)):
            failing.send(None)
        return told

    assert asyncio.run(story()) == ["held", "a", "b"]
    assert desk.kept() == ["a", "b"]


def test_a_piece_that_raises_stop_iteration_is_told_and_so_are_the_others(desk: Desk) -> None:
    """A future refuses `StopIteration`: whoever waits must not wait for ever."""

    async def story() -> list[Any]:
        fail = partial(desk.put_and_fail, "lost", StopIteration())
        async with asyncio.timeout(10):
            return await desk.together(partial(desk.put, "a"), fail, partial(desk.put, "b"))

    told = asyncio.run(story())

    assert (told[0], told[2]) == ("a", "b")
    assert isinstance(told[1], RuntimeError)
    assert isinstance(told[1].__cause__, StopIteration)
    assert desk.kept() == ["a", "b"]


@pytest.mark.parametrize("body", [{"value": object()}, {"value": {1: {2: {3: b""}}, None: 1}, "other": object()}])
def test_a_record_that_cannot_be_kept_fails_its_piece_alone(desk: Desk, body: dict[str, object]) -> None:
    def append(transaction: SqlTransaction) -> None:
        desk.put("lost", transaction)
        transaction.append(Record("run", AuditKind.CALL_DONE, body))

    told = asyncio.run(desk.together(partial(desk.put, "a"), append, partial(desk.put, "b")))

    assert (told[0], told[2]) == ("a", "b")
    assert isinstance(told[1], TypeError)
    assert desk.kept() == ["a", "b"]


EDITS = {
    "the seal removed": "DELETE FROM audit_seal",
    "a record that the seal does not count": "INSERT INTO audit VALUES (1, 'z', 1, '', 'k', '{}', '', '', NULL)",
    "a record of the run that the seal does not count": (
        "INSERT INTO audit VALUES (7, 'run', 9223372036854775807, '', 'k', '{}', '', '', NULL)"
    ),
    "a count without a next one": "UPDATE audit_seal SET count = 9223372036854775807",
}


@pytest.mark.parametrize("statement", EDITS.values(), ids=EDITS)
def test_where_the_trail_was_edited_only_what_goes_into_it_fails(desk: Desk, statement: str) -> None:
    desk.database._connection.execute(statement)

    def append(transaction: SqlTransaction) -> None:
        desk.put("lost", transaction)
        transaction.append(Record("run", AuditKind.CALL_DONE, {}))

    works = (append, partial(desk.put, "a"), append, partial(desk.put, "b"))
    told = asyncio.run(desk.together(*works))

    assert (told[1], told[3]) == ("a", "b")
    assert all("was edited, see `agent audit verify`" in str(each) for each in (told[0], told[2]))
    assert desk.kept() == ["a", "b"]


def test_wake_ups_are_told_once_they_are_on_the_disk(desk: Desk) -> None:
    def wake(topic: str, transaction: SqlTransaction) -> int:
        transaction.wake(topic, "key")
        return len(desk.woken)

    assert asyncio.run(desk.together(partial(wake, "a"), partial(wake, "b"))) == [0, 0]
    assert desk.woken == [{"a", "b"}]
