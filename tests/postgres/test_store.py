"""What only a state in Postgres has: a server that fails, peers that stop, and roles that may only look."""

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from agent_resolver.registry.rate_limit import RateLimits
from agent_resolver.schema import PENDING, RUNS
from agent_resolver.storage import KeyRing, PostgresAddress, PostgresStore, Transaction, UnreadableFile, trail_faults
from agent_resolver.storage.postgres.connection import connect
from agent_resolver.storage.postgres.lock import OWNERS
from tests.postgres.cut_line import CutLine
from tests.postgres.harness import InPostgres
from tests.postgres_server import PostgresServer, postgres_server
from tests.process import eventually
from tests.storage.conformance import action, do, hear, printed, read, record, run_row, say, write

CLAIMING = """
    asyncio.run(store.claim("run/1", 3600))
    print(store.owner, flush=True)
    sys.stdin.read()
    """
"""A process that holds a lease until its input ends, and says its name."""


@contextmanager
def opened(url: str, **more: Any) -> Iterator[PostgresStore]:
    store = PostgresStore(PostgresAddress(url), **more)
    try:
        yield store
    finally:
        store.close()


def numbers(store: PostgresStore) -> list[int]:
    return read(store, lambda snapshot: [each.body["number"] for each in snapshot.records()])


def faults(store: PostgresStore) -> list[str]:
    return read(store, lambda snapshot: trail_faults(snapshot, None)[0])


def append(number: int) -> Callable[[Transaction], None]:
    return lambda transaction: transaction.append(record("run", number))


def has_grown(store: PostgresStore, count: int) -> bool:
    return len(numbers(store)) >= count


def end_sessions(url: str) -> None:
    """End every session of a database but this one, as an operator may."""
    ending = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
    with psycopg.connect(url) as connection:
        connection.execute(f"{ending} AND pid <> pg_backend_pid()")


# A server that fails --------------------------------------------------------------------------------------------------


def test_a_server_that_is_killed_under_load_loses_and_doubles_nothing() -> None:
    with postgres_server() as server, opened(server.new_database()) as store:

        async def write_all() -> None:
            for number in range(0, 300, 10):
                await asyncio.gather(*(store.write(append(each)) for each in range(number, number + 10)))

        writing = threading.Thread(target=lambda: asyncio.run(write_all()))
        writing.start()
        for count in (1, 2, 3):
            # Some more were written since the last kill.
            assert eventually(partial(has_grown, store, count * 20))
            server.kill()
            server.start()
        writing.join()

        assert sorted(numbers(store)) == list(range(300))
        assert faults(store) == []


def test_a_server_that_does_not_come_back_fails_what_waits_with_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_resolver.storage.postgres.database.RETURN_SECONDS", 0.2)
    with postgres_server() as server, opened(server.new_database()) as store:
        write(store, append(0))
        server.kill()

        with pytest.raises(UnreadableFile, match=rf"`postgresql://127.0.0.1:{server.port}/test_\w+` cannot be reached"):
            write(store, append(1))
        with pytest.raises(UnreadableFile, match="cannot be reached"):
            numbers(store)

        server.start()
        write(store, append(2))
        assert numbers(store) == [0, 2]


@pytest.mark.parametrize("lost", ["the answer", "the request"])
@pytest.mark.parametrize("count", [1, 5])
def test_a_commit_whose_outcome_is_lost_is_done_once(server: PostgresServer, lost: str, count: int) -> None:
    url = server.new_database()

    async def write_together(store: PostgresStore) -> None:
        await asyncio.gather(*(store.write(append(number)) for number in range(count)))

    with CutLine(server.port) as line, opened(url.replace(str(server.port), str(line.port))) as store:
        write(store, append(-1))
        line.cut_at_commit(is_passed_on=lost == "the answer")
        asyncio.run(write_together(store))

        assert line.cuts == 1
        assert sorted(numbers(store)) == list(range(-1, count))
        assert faults(store) == []


def test_a_commit_of_which_nothing_can_be_found_out_fails_and_says_so(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_resolver.storage.postgres.database.RETURN_SECONDS", 0.2)
    url = server.new_database()
    with CutLine(server.port) as line, opened(url.replace(str(server.port), str(line.port))) as store:
        write(store, append(0))
        line.cut_at_commit(is_passed_on=True, is_for_good=True)

        with pytest.raises(UnreadableFile, match="it is not known whether that was done"):
            write(store, append(1))


def test_a_commit_whose_mark_is_gone_with_its_row_is_not_done_again(server: PostgresServer) -> None:
    """A process that starts removes the row of one that the server has lost, which then makes it again."""
    url = server.new_database()
    outcomes: list[Exception] = []

    def write_one() -> None:
        try:
            write(store, append(1))
        except UnreadableFile as error:
            outcomes.append(error)

    with CutLine(server.port) as line, opened(url.replace(str(server.port), str(line.port))) as store:
        write(store, append(0))
        line.cut_at_commit(is_passed_on=True, is_for_good=True)
        writing = threading.Thread(target=write_one)
        writing.start()
        assert eventually(lambda: line.cuts == 1)
        with opened(url) as other:
            assert eventually(lambda: numbers(other) == [0, 1])
        with psycopg.connect(url) as connection:
            connection.execute("DELETE FROM agent_resolver.owner WHERE name = %s", (store.owner,))
        again = connect(PostgresAddress(url))
        store._watch._enter(again)
        line.mend()
        writing.join()
        again.close()

        assert ["it is not known whether that was done" in str(error) for error in outcomes] == [True]
        assert numbers(store) == [0, 1]


def test_a_commit_is_not_taken_for_an_earlier_one_of_which_nothing_was_found_out(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_resolver.storage.postgres.database.RETURN_SECONDS", 0.2)
    url = server.new_database()
    with CutLine(server.port) as line, opened(url.replace(str(server.port), str(line.port))) as store:
        write(store, append(0))
        line.cut_at_commit(is_passed_on=True, is_for_good=True)
        with pytest.raises(UnreadableFile, match="it is not known whether that was done"):
            write(store, append(1))

        line.cut_at_commit(is_passed_on=False)
        write(store, append(2))

        assert line.cuts == 2
        assert numbers(store) == [0, 1, 2]


def test_a_new_session_that_is_lost_before_its_first_use_is_made_again(server: PostgresServer, tmp_path: Path) -> None:
    url = server.new_database()
    keys = KeyRing(url, str(tmp_path / "key"), newest=b"k" * 32)
    with CutLine(server.port) as line, opened(url.replace(str(server.port), str(line.port)), keys=keys) as store:
        write(store, append(0))
        # The one that writes, and then the one that reads.
        for number in (1, 2):
            end_sessions(url)
            line.cut_at(b"FROM sealed_with\x00")
            if number == 1:
                write(store, append(1))
            assert numbers(store) == [0, 1]
            assert line.cuts == number


def test_sessions_that_were_ended_are_made_again_and_keep_the_name(url: str) -> None:
    with opened(url) as store, opened(url) as other:
        owner = store.owner
        assert write(store, lambda tx: tx.put(RUNS, run_row("1")))
        write(other, append(0))

        end_sessions(url)

        write(store, append(1))
        assert numbers(store) == [0, 1]
        assert store.owner == owner
        assert eventually(lambda: not other.is_gone(owner))


def test_a_wake_up_is_heard_after_the_session_that_listens_was_ended(url: str) -> None:
    async def story() -> frozenset[str]:
        await store.woken("topic", 0)
        waiting = asyncio.create_task(hear(store, "topic"))
        await asyncio.sleep(0)
        await asyncio.to_thread(end_sessions, url)
        await other.write(lambda transaction: transaction.wake("topic", "a"))
        return await waiting

    with opened(url) as store, opened(url) as other:
        assert asyncio.run(story()) == {"a"}


def test_after_a_restart_of_the_server_a_process_that_lives_is_not_gone() -> None:
    with postgres_server() as server:
        url = server.new_database()
        with opened(url) as store, InPostgres(url).process(CLAIMING) as process:
            owner = printed(process)
            server.kill()
            server.start()

            assert not store.is_gone(owner), "it has had no time to come back"
            assert do(store.claim("run/1", 60)) is None


def test_after_a_restart_of_the_server_short_commands_know_in_time_who_is_gone() -> None:
    """None of them is there for longer than a moment: the first leaves the time for those that follow."""
    with postgres_server() as server:
        url = server.new_database()
        with InPostgres(url).process(CLAIMING) as process:
            owner = printed(process)
            process.kill()
            process.wait()
        server.stop()
        server.start()

        for _ in range(2):
            with opened(url) as store:
                assert not store.is_gone(owner), "it could still come back"
        with psycopg.connect(url) as connection:
            connection.execute("UPDATE agent_resolver.epoch SET seen = seen - interval '1 minute'")
        with opened(url) as store:
            assert store.is_gone(owner)
            assert do(store.claim("run/1", 60)) is not None


def test_after_a_crash_that_ends_every_session_a_process_that_lives_is_not_gone() -> None:
    """Such as that of one process of the server, which the system ends when memory runs out."""
    with postgres_server() as server:
        url = server.new_database()
        with opened(url) as store, InPostgres(url).process(CLAIMING) as process:
            owner = printed(process)
            assert not store.is_gone(owner)
            process.send_signal(signal.SIGSTOP)
            try:
                server.crash()
                assert eventually(lambda: is_held(url, store.owner)), "this one has come back"
                assert not is_held(url, owner)
                assert not store.is_gone(owner), "it has had no time to come back"
                assert do(store.claim("run/1", 60)) is None
            finally:
                process.send_signal(signal.SIGCONT)
            assert eventually(lambda: is_held(url, owner))
            process.kill()
            process.wait()
            assert eventually(lambda: store.is_gone(owner)), "it came back, and has ended since"


READER = """
    CREATE ROLE {name} LOGIN;
    GRANT USAGE ON SCHEMA agent_resolver TO {name};
    GRANT SELECT ON ALL TABLES IN SCHEMA agent_resolver TO {name};
"""


@pytest.mark.parametrize("how", ["a role", "a session"])
def test_who_may_only_look_learns_which_processes_are_gone(url: str, how: str) -> None:
    with opened(url) as store, InPostgres(url).process(CLAIMING) as process:
        owner = printed(process)
        if how == "a role":
            name = url.rpartition("/")[2]
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(READER.format(name=name).encode())
            looking = url.replace("postgres@", f"{name}@")
        else:
            # As on a replica, which takes no writes either.
            looking = f"{url}?options=-c%20default_transaction_read_only%3Don"
        with opened(looking) as reader:
            assert not reader.is_gone(store.owner)
            assert not reader.is_gone(owner)
            process.kill()
            process.wait()
            assert eventually(lambda: reader.is_gone(owner))
            with pytest.raises(UnreadableFile, match=r"permission denied|read-only transaction"):
                do(reader.claim("run/2", 60))


def test_who_may_write_rows_but_has_no_name_writes_nothing(url: str) -> None:
    """Others could never find such a process to be gone, and would wait for what it had begun."""
    name = url.rpartition("/")[2]
    with opened(url) as store:
        write(store, append(0))
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(READER.format(name=name).encode())
            connection.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA agent_resolver TO {name}".encode())
        refusal = pytest.raises(UnreadableFile, match="cannot keep the names of processes: permission denied")
        with opened(url.replace("postgres@", f"{name}@")) as nameless, refusal:
            write(nameless, append(1))
        assert numbers(store) == [0]


def is_held(url: str, owner: str) -> bool:
    """True if a process of this name holds its lock; False also while the server does not answer."""
    looking = """
        SELECT EXISTS (
            SELECT FROM pg_locks JOIN agent_resolver.owner ON objid = number
            WHERE locktype = 'advisory' AND classid = %s::bigint::oid AND name = %s
        )
    """
    try:
        with psycopg.connect(url) as connection:
            [(found,)] = connection.execute(looking, (OWNERS, owner)).fetchall()
            return bool(found)
    except psycopg.OperationalError:
        return False


# Several processes ----------------------------------------------------------------------------------------------------


def test_processes_that_open_an_empty_database_at_once_make_it_once(url: str) -> None:
    harness = InPostgres(url)
    opening = """
        asyncio.run(store.write(lambda transaction: transaction.append(record("run", 0))))
        print("done", flush=True)
        """
    with ExitStack() as stack:
        processes = [stack.enter_context(harness.process(opening)) for _ in range(4)]
        assert [printed(process) for process in processes] == ["done"] * 4

    with opened(url) as store:
        assert numbers(store) == [0] * 4
        assert faults(store) == []


def test_a_limit_holds_over_processes_that_use_it_at_once(url: str) -> None:
    async def take(store: PostgresStore) -> list[float]:
        limit = RateLimits(store, lambda: 1000.0)
        return await asyncio.gather(*(limit.take("subject", 10) for _ in range(10)))

    with ExitStack() as stack:
        stores = [stack.enter_context(opened(url)) for _ in range(3)]
        waits: list[float] = []
        threads = [threading.Thread(target=lambda s=store: waits.extend(asyncio.run(take(s)))) for store in stores]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert len(waits) == 30
    assert sum(wait == 0 for wait in waits) == 10


def test_pieces_that_lock_rows_in_opposite_orders_are_all_done(url: str) -> None:
    def add(names: list[str], transaction: Transaction) -> None:
        for name in names:
            row = transaction.get(RUNS, name) or run_row(name, lease=0)
            transaction.put(RUNS, run_row(name, lease=row.lease + 1))

    async def story(store: PostgresStore, names: list[str]) -> None:
        for _ in range(10):
            await store.write(partial(add, names))

    with opened(url) as store, opened(url) as other:
        threads = [
            threading.Thread(target=lambda s=s, n=n: asyncio.run(story(s, n)))
            for s, n in ((store, ["a", "b"]), (other, ["b", "a"]))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert [row.lease for row in read(store, lambda snapshot: snapshot.find(RUNS))] == [20, 20]


def test_a_process_that_stops_in_a_transaction_holds_up_others_for_a_time_only(url: str) -> None:
    short = f"{url}?options=-c%20idle_in_transaction_session_timeout%3D1s"
    stopping = """
        def work(transaction):
            transaction.require(lease)
            transaction.put(RUNS, run_row("1", reason="stopped"))
            print("in", flush=True)
            sys.stdin.readline()
        from agent_resolver.storage import LeaseLost
        lease = asyncio.run(store.claim("run/1", 0))
        try:
            asyncio.run(store.write(work))
            print("written", flush=True)
        except LeaseLost:
            print("lost", flush=True)
        """

    def step(lease: Any, transaction: Transaction) -> None:
        transaction.require(lease)
        transaction.put(RUNS, run_row("1", reason="by the next holder"))

    harness = InPostgres(short)
    with opened(url) as store, harness.process(stopping) as process:
        assert printed(process) == "in"
        process.send_signal(signal.SIGSTOP)

        lease = do(store.claim("run/1", 60))
        assert lease is not None
        write(store, partial(step, lease))

        process.send_signal(signal.SIGCONT)
        say(process, "go on")
        assert printed(process) == "lost"
        row = read(store, lambda snapshot: snapshot.get(RUNS, "1"))
        assert row is not None
        assert row.reason == "by the next holder"


# Who may do what ------------------------------------------------------------------------------------------------------


def test_a_role_that_may_only_look_can_read_and_not_write(server: PostgresServer) -> None:
    url = server.new_database()
    with opened(url) as store:
        write(store, append(1))
    auditor = server.url(url.rpartition("/")[2], "auditor")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE ROLE auditor LOGIN")
        connection.execute("GRANT USAGE ON SCHEMA agent_resolver TO auditor")
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA agent_resolver TO auditor")

    with opened(auditor) as store:
        assert numbers(store) == [1]
        assert faults(store) == []
        with pytest.raises(UnreadableFile, match="permission denied"):
            write(store, append(2))


def test_a_database_with_a_trigger_is_refused(url: str) -> None:
    with opened(url) as store:
        write(store, append(1))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'; "
            "CREATE TRIGGER approves BEFORE UPDATE ON agent_resolver.pending FOR EACH ROW EXECUTE FUNCTION f()"
        )

    with pytest.raises(UnreadableFile, match="has a trigger"), opened(url):
        pass


def test_a_newer_version_and_tables_of_others_are_refused(server: PostgresServer) -> None:
    newer, foreign = server.new_database(), server.new_database()
    with opened(newer):
        pass
    with psycopg.connect(newer) as connection:
        connection.execute("UPDATE agent_resolver.version SET number = 99")
    with psycopg.connect(foreign) as connection:
        connection.execute("CREATE SCHEMA agent_resolver CREATE TABLE notes (text text)")

    with pytest.raises(UnreadableFile, match="a newer version"), opened(newer):
        pass
    with pytest.raises(UnreadableFile, match="of another program"), opened(foreign):
        pass


def test_a_trail_that_was_edited_takes_no_records_and_the_rest_goes_on(url: str) -> None:
    async def story(store: PostgresStore) -> list[Any]:
        works = (append(2), lambda tx: tx.put(PENDING, action("a")), append(3))
        return await asyncio.gather(*(store.write(work) for work in works), return_exceptions=True)

    with opened(url, key=b"k" * 32) as store:
        write(store, append(1))
        with psycopg.connect(url) as connection:
            connection.execute("UPDATE agent_resolver.audit_seal SET count = 7")
        outcomes = asyncio.run(story(store))

        assert [type(outcome).__name__ for outcome in outcomes] == ["EditedTrail", "bool", "EditedTrail"]
        assert len(read(store, lambda snapshot: snapshot.find(PENDING))) == 1


def test_words_are_sealed_in_the_tables_and_need_the_key(url: str, tmp_path: Any) -> None:
    keys = KeyRing(url, str(tmp_path / "key"), newest=b"k" * 32)
    with opened(url, keys=keys) as store:
        write(store, lambda tx: tx.put(PENDING, action("a", answer="approved")))
        assert read(store, lambda snapshot: snapshot.get(PENDING, "a")) == action("a", answer="approved")
    with psycopg.connect(url) as connection:
        (message,) = connection.execute("SELECT message FROM agent_resolver.pending").fetchone() or ("",)
    assert "May it?" not in message

    other = KeyRing(url, str(tmp_path / "key"), newest=b"o" * 32)
    with pytest.raises(UnreadableFile, match="is sealed with the key"), opened(url, keys=other):
        pass


def test_a_zero_character_is_kept_as_an_escape(url: str) -> None:
    with opened(url) as store:
        write(store, lambda tx: tx.put(PENDING, action("a\x00b", needs="x\x00y")))
        kept = write(store, lambda tx: tx.get(PENDING, "a\x00b"))
        assert kept is not None
        assert kept.needs == "x\\x00y"
