"""How a process commits to Postgres: together with its own pieces of work, and beside those of other processes."""

import asyncio
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import quote

import psycopg
import pytest

from agent_resolver.schema import LEASES, PENDING, RUNS
from agent_resolver.storage import KeyRing, PostgresAddress, PostgresStore, Transaction, UnreadableFile, trail_faults
from agent_resolver.storage.postgres.connection import PostgresConnection, connect
from agent_resolver.storage.postgres.database import _end_process
from tests.postgres.test_store import append, faults, numbers, opened
from tests.postgres_server import PostgresServer
from tests.process import comes_true
from tests.storage.conformance import action, do, read, record, run_row, write

MANY = 200
_PROBES = ("idle", "interval", "count")


def seal_number(store: PostgresStore) -> int:
    seal = read(store, lambda snapshot: snapshot.seal())
    assert seal is not None
    return seal.number


async def write_at_once(store: PostgresStore, works: list[Callable[[Transaction], Any]]) -> list[Any]:
    return await asyncio.gather(*(store.write(work) for work in works), return_exceptions=True)


def test_records_that_come_together_share_a_commit_and_a_seal(url: str) -> None:
    with opened(url) as store:
        write(store, append(-1))
        commits, number = store.commits, seal_number(store)

        do(write_at_once(store, [append(each) for each in range(MANY)]))

        used = store.commits - commits
        assert used <= 3
        assert seal_number(store) - number == used, "the trail is extended once for each commit"
        assert numbers(store) == [-1, *range(MANY)]
        assert faults(store) == []


def test_the_seal_is_not_locked_while_work_goes_on(url: str) -> None:
    """Another process adds to the trail while a piece of work that has appended already is not done."""
    has_appended, may_end = threading.Event(), threading.Event()

    def slow(transaction: Transaction) -> None:
        append(1)(transaction)
        has_appended.set()
        assert may_end.wait(60)

    with opened(url) as store, opened(url) as other:
        thread = threading.Thread(target=lambda: write(store, slow))
        thread.start()
        try:
            assert has_appended.wait(60)
            write(other, append(2))
            assert numbers(other) == [2]
        finally:
            may_end.set()
            thread.join()

        assert numbers(other) == [2, 1]
        assert faults(other) == []


def test_a_process_has_one_session_that_writes_one_that_reads_and_one_that_listens(url: str) -> None:
    async def use(store: PostgresStore) -> None:
        await store.woken("topic", 0)
        await asyncio.gather(*(store.write(append(number)) for number in range(20)))
        await asyncio.gather(*(store.read(lambda snapshot: snapshot.find(RUNS)) for _ in range(20)))

    named = f"{url}?application_name=counted"
    with opened(named) as store, psycopg.connect(url) as connection:
        threads = [threading.Thread(target=lambda: asyncio.run(use(store))) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        store.is_gone("another")

        counting = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'counted'"
        assert connection.execute(counting).fetchone() == (3,)


def test_a_server_or_process_that_is_gone_without_a_word_is_noticed_within_a_minute(url: str) -> None:
    """Also by the session that only listens: without probes of its own it would wait for words for hours."""
    bounds = {socket.SO_KEEPALIVE: 1}
    probes = {socket.TCP_KEEPIDLE: 20, socket.TCP_KEEPINTVL: 10, socket.TCP_KEEPCNT: 3, socket.TCP_USER_TIMEOUT: 40_000}
    with opened(url) as store:
        write(store, append(1))
        assert numbers(store) == [1]
        for session in (store.database._writing, store.database._reading, store._watch._connection):
            assert session is not None
            with socket.socket(fileno=os.dup(session.raw.fileno())) as line:
                assert {each: line.getsockopt(socket.SOL_SOCKET, each) for each in bounds} == bounds
                assert {each: line.getsockopt(socket.IPPROTO_TCP, each) for each in probes} == probes
            shown = [session.execute(f"SHOW tcp_keepalives_{name}").fetchone()[0] for name in _PROBES]
            assert shown == ["20", "10", "3"], "the server looks as often for the process"


def test_processes_that_need_rows_of_each_other_do_not_stop_each_other(server: PostgresServer, url: str) -> None:
    """Each has a row in a commit of several pieces, and needs that of the other for its next piece."""
    meeting = threading.Barrier(2)
    log = server.folder / "log"

    async def write_in_one_commit(store: PostgresStore, first: str, second: str) -> list[Any]:
        are_queued = threading.Event()
        have_met: list[str] = []

        def wait_for_the_others(_: Transaction) -> None:
            assert are_queued.wait(60)

        def have_one_and_meet(transaction: Transaction) -> None:
            transaction.put(RUNS, run_row(first))
            # A piece that is done again has met the other process before.
            if not have_met:
                have_met.append(first)
                meeting.wait(60)

        works = [wait_for_the_others, have_one_and_meet, lambda transaction: transaction.put(RUNS, run_row(second))]
        writing = asyncio.gather(*(store.write(work) for work in works))
        await asyncio.sleep(0.1)
        are_queued.set()
        return await writing

    with opened(url) as one, opened(url) as other:
        write(one, lambda transaction: transaction.put(RUNS, run_row("a")))
        write(one, lambda transaction: transaction.put(RUNS, run_row("b")))
        before = log.read_text().count("deadlock detected")
        thread = threading.Thread(target=lambda: do(write_in_one_commit(other, "b", "a")))
        thread.start()
        outcomes = do(write_in_one_commit(one, "a", "b"))
        thread.join()

        assert outcomes == [None, None, True]
        assert log.read_text().count("deadlock detected") == before


def test_a_piece_that_waits_for_another_process_keeps_its_turn(url: str) -> None:
    """The pieces before it are committed meanwhile; those after it come after it."""
    with opened(url) as store, psycopg.connect(url) as holding, psycopg.connect(url, autocommit=True) as looking:
        write(store, lambda transaction: transaction.put(RUNS, run_row("a")))
        holding.execute("SELECT * FROM agent_resolver.run FOR UPDATE")

        def is_first_kept() -> bool:
            return looking.execute("SELECT count(*) FROM agent_resolver.audit").fetchone() == (1,)

        async def write_beside() -> None:
            works = [append(1), lambda transaction: transaction.put(RUNS, run_row("a")), append(2), append(3)]
            writing = asyncio.gather(*(store.write(work) for work in works))
            await comes_true(is_first_kept, 60)
            holding.rollback()
            await writing

        do(write_beside())

        assert numbers(store) == [1, 2, 3]
        assert faults(store) == []


def test_a_statement_that_takes_too_long_fails_its_work_alone(url: str) -> None:
    with opened(f"{url}?options=-c%20statement_timeout%3D1s") as store:
        write(store, lambda transaction: transaction.put(RUNS, run_row("1")))
        with psycopg.connect(url) as connection:
            connection.execute("SELECT * FROM agent_resolver.run FOR UPDATE")
            outcomes = do(
                write_at_once(
                    store,
                    [append(1), lambda transaction: transaction.put(RUNS, run_row("1", reason="late")), append(2)],
                )
            )

        assert isinstance(outcomes[1], UnreadableFile | psycopg.errors.QueryCanceled)
        assert "statement timeout" in str(outcomes[1])
        assert numbers(store) == [1, 2]
        write(store, append(3))
        assert read(store, lambda snapshot: snapshot.get(RUNS, "1")) == run_row("1")
        assert faults(store) == []


def test_a_row_of_many_megabytes_is_kept_as_it_is(url: str) -> None:
    words = "wörds " * 3_000_000
    with opened(url) as store:
        write(store, lambda transaction: transaction.put(PENDING, action("a", needs=words)))
        found = read(store, lambda snapshot: snapshot.get(PENDING, "a"))
        assert found is not None
        assert found.needs == words


def test_a_name_too_long_for_an_index_fails_its_work_alone(url: str) -> None:
    # A text that can be compressed would fit.
    name = "".join(chr(0x4E00 + number) for number in range(6000))
    with opened(url) as store:
        outcomes = do(
            write_at_once(store, [append(1), lambda transaction: transaction.put(PENDING, action(name)), append(2)])
        )

        assert "index row" in str(outcomes[1])
        assert numbers(store) == [1, 2]
        assert faults(store) == []


def test_the_isolation_that_a_database_has_as_its_default_does_not_matter(url: str) -> None:
    name = url.rpartition("/")[2]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'".encode())

    def isolation(transaction: Transaction) -> object:
        return transaction.lend().execute("SHOW transaction_isolation").fetchone()[0]

    with opened(url) as store:
        assert write(store, isolation) == "read committed"


@pytest.mark.parametrize(
    "setting", ["DateStyle = 'SQL, DMY'", "extra_float_digits = -15", "quote_all_identifiers = on"]
)
def test_the_form_that_a_database_gives_to_values_does_not_matter(url: str, setting: str) -> None:
    name = url.rpartition("/")[2]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name} SET {setting}".encode())

    with opened(url, seconds=lambda: 1234567.125) as store:
        assert do(store.claim("a", 0.25)) is not None
        row = read(store, lambda snapshot: snapshot.get(LEASES, "a"))
        assert row is not None
        assert row.until == 1234567.375


@pytest.mark.parametrize(
    ("options", "bound"),
    [
        ("-c lock_timeout=7s", "7s"),
        ("-clock_timeout=7s", "7s"),
        ("-c jit=off --Lock-Timeout=7s", "7s"),
        ("-c deadlock_timeout=7s", "45s"),
        ("", "45s"),
    ],
)
def test_an_address_may_bound_waits_in_every_spelling_of_postgres(url: str, options: str, bound: str) -> None:
    connection = connect(PostgresAddress(f"{url}?options={quote(options)}"))

    assert connection.execute("SHOW lock_timeout").fetchone() == (bound,)
    connection.close()


def test_no_session_ends_because_its_process_waits(url: str) -> None:
    """Without the session that only listens, others would take the process for gone."""
    name = url.rpartition("/")[2]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name} SET idle_session_timeout = '1s'".encode())

    with opened(url) as store:
        write(store, append(1))
        assert numbers(store) == [1]
        for session in (store.database._writing, store.database._reading, store._watch._connection):
            assert session is not None
            assert session.execute("SHOW idle_session_timeout").fetchone()[0] == "0"


def test_the_session_of_another_process_is_not_taken_for_a_lost_one(url: str) -> None:
    """After a restart of the server, a new session may have the process id of the one that was lost."""
    with opened(url) as store:
        connection = connect(store.database._address)
        (earlier,) = connection.execute("SELECT ?::timestamptz - interval '1 s'", (connection.started,)).fetchone()
        lost = SimpleNamespace(process=connection.process, started=earlier)

        _end_process(connection, cast("PostgresConnection", lost))

        assert connection.execute("SELECT 1").fetchone() == (1,)
        connection.close()


@pytest.mark.parametrize(
    "name", ["a\x00b", "a'b", 'a"b', "a\\b", "a?b", "a%sb", "'; DROP TABLE run; --", "\ud800", "", " "]
)
def test_odd_names_are_kept_found_sealed_and_woken(url: str, name: str, tmp_path: Path) -> None:
    async def wake(store: PostgresStore) -> frozenset[str]:
        await store.woken(name, 0)
        await store.write(lambda transaction: transaction.wake(name, "key"))
        return await store.woken(name, 60)

    def put(transaction: Transaction) -> None:
        assert transaction.get(RUNS, name) is None
        transaction.put(RUNS, run_row(name, reason="why"))
        assert transaction.get(RUNS, name) is not None
        transaction.append(record(name))

    keys = KeyRing(url, str(tmp_path / "key"), newest=b"k" * 32)
    with opened(url, keys=keys) as store:
        write(store, put)
        assert read(store, lambda snapshot: snapshot.get(RUNS, name)) is not None
        assert do(store.claim(name, 60)) is not None
        assert do(wake(store)) == {"key"}
        assert write(store, lambda transaction: transaction.drop(RUNS, name))
        assert read(store, lambda snapshot: trail_faults(snapshot, b"k" * 32)[0]) == []
