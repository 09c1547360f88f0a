"""A server that hangs while its machine does not: its system still acknowledges all that is sent to it."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from agent_resolver.storage import Transaction, UnreadableFile
from tests.postgres.cut_line import CutLine
from tests.postgres.test_store import append, faults, numbers, opened
from tests.postgres_server import PostgresServer, postgres_server
from tests.process import eventually
from tests.storage.conformance import write

SOON = "options=-c%20statement_timeout%3D1s%20-c%20lock_timeout%3D1s"
"""The bound that the server itself has for each statement."""


@pytest.fixture(autouse=True)
def is_soon_hanging(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait seconds for what hangs, not minutes."""
    monkeypatch.setattr("agent_resolver.storage.postgres.connection._ANSWER_SECONDS", 1.0)
    monkeypatch.setattr("agent_resolver.storage.postgres.database.RETURN_SECONDS", 1)
    monkeypatch.setattr("agent_resolver.storage.postgres.database._LONGEST_LOOK", "SET statement_timeout = '1s'")


@contextmanager
def frozen(processes: list[int]) -> Iterator[None]:
    for each in processes:
        os.kill(each, signal.SIGSTOP)
    try:
        yield
    finally:
        for each in processes:
            os.kill(each, signal.SIGCONT)


def test_what_waits_for_a_server_that_hangs_fails_and_is_not_kept() -> None:
    with postgres_server() as server, opened(f"{server.new_database()}?connect_timeout=2&{SOON}") as store:
        write(store, append(0))
        assert numbers(store) == [0]
        with frozen(server.process_ids()):
            with pytest.raises(UnreadableFile, match="cannot be reached: no answer within 2 seconds"):
                write(store, append(1))
            with pytest.raises(UnreadableFile, match="cannot be reached: no answer within 2 seconds"):
                numbers(store)
            # The connections are gone, and no new one is to be had.
            with pytest.raises(UnreadableFile, match="cannot be reached"):
                write(store, append(2))
        write(store, append(3))
        assert numbers(store) == [0, 3]
        assert faults(store) == []


def test_a_library_on_a_lent_connection_does_not_wait_for_ever(url: str) -> None:
    with opened(f"{url}?{SOON}") as store:
        write(store, append(0))
        session = store.database._writing
        assert session is not None

        def ask_while_frozen(transaction: Transaction) -> None:
            with frozen([session.process]):
                transaction.lend().execute("SELECT 1")

        with pytest.raises(UnreadableFile, match="no answer within 2 seconds"):
            write(store, ask_while_frozen)
        write(store, append(1))
        assert numbers(store) == [0, 1]


def test_a_process_that_asks_a_session_that_hangs_for_others_comes_back(url: str) -> None:
    with opened(f"{url}?{SOON}") as store, opened(url) as other:
        owner = store.owner
        watching = store._watch._connection
        assert watching is not None
        with frozen([watching.process]):
            begun = time.monotonic()
            assert not store.is_gone(other.owner)
            assert time.monotonic() - begun < 30
        assert eventually(lambda: store._watch._connection not in {None, watching}, 30)
        assert store.owner == owner
        assert eventually(lambda: not other.is_gone(owner), 30)


@pytest.mark.parametrize("is_passed_on", [True, False], ids=["the answer", "the request"])
def test_a_commit_whose_answer_never_comes_is_looked_for(server: PostgresServer, *, is_passed_on: bool) -> None:
    """The process looks whether it was done, by another session, and ends the one that hangs."""
    url = server.new_database()
    with CutLine(server.port) as line, opened(f"{url.replace(str(server.port), str(line.port))}?{SOON}") as store:
        write(store, append(0))
        line.cut_at_commit(is_passed_on=is_passed_on, is_silent=True)
        if is_passed_on:
            write(store, append(1))
        else:
            with pytest.raises(UnreadableFile, match="no answer within 2 seconds"):
                write(store, append(1))
        assert line.cuts == 1
        assert numbers(store) == ([0, 1] if is_passed_on else [0])
        write(store, append(2))
        assert faults(store) == []


def append_and_wake(transaction: Transaction) -> None:
    append(1)(transaction)
    transaction.wake("topic", "key")


@pytest.mark.parametrize("table", ["audit", "audit_seal", "wake"])
def test_a_wait_for_a_lock_is_not_taken_for_hanging(url: str, table: str) -> None:
    """The server says itself that it took too long, and the session stays."""
    with opened(f"{url}?{SOON}") as store, psycopg.connect(url) as blocking:
        write(store, append(0))
        session = store.database._writing
        blocking.execute(f"LOCK TABLE agent_resolver.{table} IN ACCESS EXCLUSIVE MODE".encode())
        with pytest.raises(UnreadableFile, match="cannot be used as the state"):
            write(store, append_and_wake)
        blocking.rollback()
        write(store, append(2))
        assert store.database._writing is session
        assert numbers(store) == [0, 2]
