"""A database that others changed: by a newer or older version, by hand, or by a rotation of the key."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from agent_resolver.schema import PENDING, RUNS
from agent_resolver.storage import KeyRing, PostgresAddress, PostgresStore, UnreadableFile
from agent_resolver.storage.postgres import schema
from agent_resolver.storage.postgres.alone import alone_in
from agent_resolver.storage.postgres.lock import LOCKS, MIGRATING
from tests.postgres.harness import InPostgres
from tests.postgres.test_store import append, end_sessions, faults, numbers, opened
from tests.postgres_server import PostgresServer
from tests.process import eventually
from tests.storage.conformance import ROOT, action, printed, read, run_row, say, write

NEWEST = len(schema.MIGRATIONS)


def edit(url: str, statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statements.encode())


def version(url: str) -> Any:
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT number FROM agent_resolver.version").fetchone()
        return found and found[0]


# Versions -------------------------------------------------------------------------------------------------------------


@contextmanager
def only_version(number: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This program, as far as it knows the versions of the tables up to this one."""
    with monkeypatch.context() as patch:
        for module in ("schema", "database"):
            patch.setattr(f"agent_resolver.storage.postgres.{module}.MIGRATIONS", schema.MIGRATIONS[:number])
        yield


@pytest.fixture
def older(url: str) -> str:
    """A state of the first version, with a row and a record."""
    with opened(url) as store:
        write(store, lambda transaction: transaction.put(RUNS, run_row("1", reason="kept")))
        write(store, append(1))
    # This program needs the tables of later versions: they go once it is done.
    edit(url, "SET search_path = agent_resolver; DROP TABLE served, epoch; UPDATE version SET number = 1")
    return url


def test_processes_that_bring_an_older_state_up_to_date_at_once_do_it_once(older: str) -> None:
    harness = InPostgres(older)
    opening = """
        asyncio.run(store.write(lambda transaction: transaction.append(record("run", 2))))
        print("done", flush=True)
        sys.stdin.readline()
        """
    with ExitStack() as stack:
        processes = [stack.enter_context(harness.process(opening)) for _ in range(3)]
        assert [printed(process) for process in processes] == ["done"] * 3
        for process in processes:
            say(process, "end")

    assert version(older) == NEWEST
    with opened(older) as store:
        assert read(store, lambda snapshot: snapshot.get(RUNS, "1")) == run_row("1", reason="kept")
        assert numbers(store) == [1, 2, 2, 2]
        assert faults(store) == []


@pytest.mark.parametrize("is_new", [True, False], ids=["a new state", "an older state"])
def test_processes_that_migrate_wait_for_each_other(url: str, older: str, *, is_new: bool) -> None:
    """While one of them has the lock, the others wait in front of the tables, and find the work done afterwards."""
    where = url if is_new else older
    if is_new:
        edit(where, "DROP SCHEMA agent_resolver CASCADE")
    waiting = """
        SELECT count(*) FROM pg_locks
        WHERE locktype = 'advisory' AND classid = %s AND objid = %s AND NOT granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    """
    opening = """
        print(store.version, flush=True)
        sys.stdin.readline()
        """
    with psycopg.connect(where, autocommit=True) as holding, ExitStack() as stack:
        holding.execute("SELECT pg_advisory_lock(%s, %s)", (LOCKS, MIGRATING))
        harness = InPostgres(where)
        processes = [stack.enter_context(harness.process(opening)) for _ in range(2)]
        assert eventually(lambda: holding.execute(waiting, (LOCKS, MIGRATING)).fetchone() == (2,), 60)
        tables = holding.execute("SELECT to_regclass('agent_resolver.served')").fetchone()
        assert tables == (None,), "none of them has begun"
        holding.execute("SELECT pg_advisory_unlock(%s, %s)", (LOCKS, MIGRATING))
        assert [printed(process) for process in processes] == [str(NEWEST)] * 2
        for process in processes:
            say(process, "end")
    assert version(where) == NEWEST


def test_an_auditor_may_read_the_tables_of_a_later_version(older: str, server: PostgresServer) -> None:
    """With the rights that the documentation gives, which count for tables that a migration adds."""
    edit(
        older,
        """
        CREATE ROLE reviewer LOGIN;
        GRANT USAGE ON SCHEMA agent_resolver TO reviewer;
        GRANT SELECT ON ALL TABLES IN SCHEMA agent_resolver TO reviewer;
        ALTER DEFAULT PRIVILEGES IN SCHEMA agent_resolver GRANT SELECT ON TABLES TO reviewer;
        """,
    )
    with opened(older) as store:
        assert store.version == NEWEST
    with psycopg.connect(server.url(older.rpartition("/")[2], "reviewer")) as connection:
        assert connection.execute("SELECT * FROM agent_resolver.served").fetchall() == []
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("DELETE FROM agent_resolver.served")


DIES = """
import os, signal, sys
from agent_resolver.storage import PostgresAddress, PostgresStore
from agent_resolver.storage.postgres import database, schema

end = "; SELECT pg_terminate_backend(pg_backend_pid())" if sys.argv[2] == "session" else ""
scripts = (*schema.MIGRATIONS[:-1], schema.MIGRATIONS[-1] + end)
schema.MIGRATIONS = database.MIGRATIONS = scripts

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

schema.seal_first = die
try:
    PostgresStore(PostgresAddress(sys.argv[1]))
except Exception as error:
    sys.exit(f"{type(error).__name__}: {error}")
"""


@pytest.mark.parametrize("dies", ["process", "session"])
def test_a_migration_that_is_cut_short_leaves_the_older_state(older: str, dies: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", DIES, older, dies], cwd=ROOT, check=False, capture_output=True, text=True
    )

    assert (done.returncode < 0) == (dies == "process"), done.stderr
    assert "Traceback" not in done.stderr
    assert version(older) == 1
    with opened(older) as store:
        assert store.version == NEWEST
        assert numbers(store) == [1]


def test_an_older_program_refuses_the_state_of_a_newer_one_and_changes_nothing(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(url) as store:
        write(store, append(1))

    with only_version(1, monkeypatch), pytest.raises(UnreadableFile, match="a newer version"), opened(url):
        pass

    assert version(url) == NEWEST


def test_an_older_state_with_a_trigger_is_refused_before_it_is_changed(older: str) -> None:
    edit(older, TRIGGER)

    with pytest.raises(UnreadableFile, match="has a trigger"), opened(older):
        pass

    assert version(older) == 1


@pytest.mark.parametrize(
    "change",
    ["DELETE FROM version", "UPDATE version SET number = NULL", "UPDATE version SET number = -1",
     "INSERT INTO version VALUES (1)", "ALTER TABLE version ALTER number TYPE text"],
)  # fmt: skip
def test_a_version_that_was_edited_is_refused_and_left_alone(url: str, change: str) -> None:
    with opened(url) as store:
        write(store, append(1))
    edit(url, f"SET search_path = agent_resolver; {change}")

    with pytest.raises(UnreadableFile, match="of another program"), opened(url):
        pass


# Tables that answer by themselves -------------------------------------------------------------------------------------

FUNCTION = "CREATE FUNCTION public.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'"
CHECKING = "CREATE FUNCTION public.g(text) RETURNS bool LANGUAGE sql AS 'SELECT true'"
TRIGGER = f"{FUNCTION}; CREATE TRIGGER t BEFORE INSERT ON agent_resolver.audit_seal EXECUTE FUNCTION public.f()"


@pytest.mark.parametrize(
    "change",
    [
        TRIGGER,
        f"{TRIGGER}; ALTER TABLE agent_resolver.audit_seal DISABLE TRIGGER t",
        "CREATE RULE r AS ON INSERT TO agent_resolver.pending DO ALSO SELECT 1",
        "CREATE VIEW agent_resolver.v AS SELECT 1",
        "CREATE MATERIALIZED VIEW agent_resolver.v AS SELECT 1",
        "ALTER TABLE agent_resolver.pending RENAME TO p; CREATE VIEW agent_resolver.pending AS TABLE agent_resolver.p",
        "CREATE TABLE public.child () INHERITS (agent_resolver.pending)",
        "ALTER TABLE agent_resolver.pending ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY",
        "CREATE FUNCTION agent_resolver.pg_advisory_xact_lock(int, int) RETURNS void LANGUAGE sql AS 'SELECT'",
        f"{CHECKING}; ALTER TABLE agent_resolver.pending ADD CHECK (public.g(id))",
    ],
)
def test_a_state_with_parts_that_act_by_themselves_is_refused(url: str, change: str) -> None:
    with opened(url) as store:
        write(store, append(1))
    edit(url, change)

    with pytest.raises(UnreadableFile, match="which this program never makes"), opened(url):
        pass


def test_a_state_whose_table_was_dropped_fails_what_needs_it_and_names_it(url: str) -> None:
    with opened(url) as store:
        edit(url, "DROP TABLE agent_resolver.pending")

        with pytest.raises(UnreadableFile, match='relation "pending" does not exist'):
            write(store, lambda transaction: transaction.put(PENDING, action("a")))
        write(store, append(1))
        assert numbers(store) == [1]


# Keys -----------------------------------------------------------------------------------------------------------------


def test_a_process_cut_off_while_the_key_changed_writes_and_reads_nothing(url: str, tmp_path: Path) -> None:
    keys = KeyRing(url, str(tmp_path / "key"), newest=b"k" * 32)
    with opened(url, keys=keys) as store:
        write(store, lambda transaction: transaction.put(PENDING, action("a")))
        edit(url, "UPDATE agent_resolver.sealed_with SET key = 'another'")
        end_sessions(url)

        for _ in range(2):
            with pytest.raises(UnreadableFile, match="was sealed with another key") as caught:
                write(store, lambda transaction: transaction.put(PENDING, action("b")))
            assert caught.value.exit_code == 1
            with pytest.raises(UnreadableFile, match="was sealed with another key"):
                read(store, lambda snapshot: snapshot.get(PENDING, "a"))

    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT id FROM agent_resolver.pending").fetchall() == [("a",)]


def test_a_process_that_cannot_see_any_more_which_key_it_is_says_so(url: str, tmp_path: Path) -> None:
    """Such as after a right was taken away; until then its sessions had no need to look."""
    keys = KeyRing(url, str(tmp_path / "key"), newest=b"k" * 32)
    with opened(url, keys=keys) as store:
        write(store, append(1))
        edit(url, "DROP TABLE agent_resolver.sealed_with")
        end_sessions(url)

        with pytest.raises(UnreadableFile, match='cannot be used as the state: relation "sealed_with" does not exist'):
            write(store, append(2))
        with pytest.raises(UnreadableFile, match='cannot be used as the state: relation "sealed_with" does not exist'):
            numbers(store)


def test_opening_a_state_that_is_held_alone_says_so(url: str) -> None:
    with opened(url):
        pass
    address = PostgresAddress(f"{url}?options=-c%20lock_timeout%3D200ms")

    with alone_in(address), pytest.raises(UnreadableFile, match="sealed with another key, or moved") as caught:
        PostgresStore(address)

    assert "rotate-key" in caught.value.hint
    PostgresStore(address).close()
