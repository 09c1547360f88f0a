"""A library works on the connection of the store, within the work that it was lent for."""

from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.postgres import PostgresSaver

from agent_resolver.schema import PENDING
from agent_resolver.storage import PostgresAddress, PostgresStore, Transaction
from tests.storage.conformance import Broken, action, read, write

if TYPE_CHECKING:
    from collections.abc import Callable

CONFIG: Any = {"configurable": {"thread_id": "1", "checkpoint_ns": ""}}


@pytest.fixture
def store(url: str) -> Any:
    store = PostgresStore(PostgresAddress(url))
    yield store
    store.close()


def put_checkpoint(transaction: Transaction) -> Any:
    saver = PostgresSaver(transaction.lend())
    saver.setup()
    checkpoint = {**empty_checkpoint(), "channel_values": {"words": ["x"]}, "channel_versions": {"words": 1}}
    kept = saver.put(CONFIG, checkpoint, {"step": 1}, {"words": 1})  # type: ignore[arg-type]
    saver.put_writes(kept, [("words", "y")], "task")
    transaction.put(PENDING, action("a"))
    return saver.get_tuple(CONFIG)


def test_the_saver_of_langgraph_runs_on_a_lent_connection_as_it_is(store: PostgresStore) -> None:
    found = write(store, put_checkpoint)
    assert found.checkpoint["channel_values"] == {"words": ["x"]}
    assert found.pending_writes == [("task", "words", "y")]

    again = write(store, lambda transaction: list(PostgresSaver(transaction.lend()).list(CONFIG)))
    assert [each.checkpoint["id"] for each in again] == [found.checkpoint["id"]]
    write(store, lambda transaction: PostgresSaver(transaction.lend()).delete_thread("1"))
    assert write(store, lambda transaction: PostgresSaver(transaction.lend()).get_tuple(CONFIG)) is None


def test_checkpoints_are_undone_with_the_work(store: PostgresStore) -> None:
    def fail(transaction: Transaction) -> None:
        put_checkpoint(transaction)
        raise Broken

    with pytest.raises(Broken):
        write(store, fail)

    assert write(store, lambda transaction: PostgresSaver(transaction.lend()).get_tuple(CONFIG)) is None
    assert read(store, lambda snapshot: snapshot.find(PENDING)) == []


def test_nothing_that_was_lent_can_be_used_after_the_work(store: PostgresStore) -> None:
    lent: list[Any] = []

    def keep(transaction: Transaction) -> None:
        connection = transaction.lend()
        lent.extend((connection, connection.cursor()))

    write(store, keep)
    connection, cursor = lent
    uses: list[Callable[[], object]] = [
        lambda: connection.execute("SELECT 1"),
        lambda: cursor.execute("SELECT 1"),
        lambda: cursor.executemany("SELECT %s", [(1,)]),
        lambda: connection.transaction().__enter__(),
    ]
    for use in uses:
        with pytest.raises(RuntimeError, match="has ended"):
            use()


def test_a_borrower_can_undo_a_part_and_not_the_whole(store: PostgresStore) -> None:
    def borrow(transaction: Transaction) -> None:
        connection = transaction.lend()
        connection.execute("CREATE TABLE borrowed (value text)")
        with connection.transaction(force_rollback=True):
            connection.execute("INSERT INTO borrowed VALUES ('undone')")
        connection.commit()
        connection.close()
        with pytest.raises(RuntimeError, match="cannot roll back"):
            connection.rollback()
        assert connection.execute("SELECT count(*) FROM borrowed").fetchone() == (0,)

    write(store, borrow)


@pytest.mark.parametrize("statement", ["COMMIT", "ROLLBACK"])
def test_a_borrower_that_ends_the_transaction_fails_its_work(store: PostgresStore, statement: str) -> None:
    def end(transaction: Transaction) -> None:
        transaction.put(PENDING, action("a"))
        transaction.lend().execute(statement)

    with pytest.raises((RuntimeError, psycopg.Error)):
        write(store, end)

    assert write(store, lambda transaction: transaction.put(PENDING, action("b")))
