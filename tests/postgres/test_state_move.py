"""Moving a state from its file into Postgres."""

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from msgspec import structs

from agent_resolver.project.errors import MoveRefused
from agent_resolver.project.session import Session
from agent_resolver.project.state_move import Moved, move_state
from agent_resolver.schema import LEASES, LEDGER, PENDING, RUNS, TABLES, AuditKind, LeaseRow, LedgerEntry, Record, Run
from agent_resolver.storage import PostgresAddress, PostgresStore, Snapshot, StateInUse, Transaction, trail_faults
from tests.postgres_server import postgres_server
from tests.process import eventually
from tests.storage.conformance import full_row

EXCERPT = {"content": {"card": "4000"}, "tool": "pay"}


def session_in(folder: Path, **variables: str) -> Session:
    return Session(str(folder / "agents.md"), str(folder / "i.json"), environment=variables, trusts=True)


def entry(key: str, owner: str, state: Any = "started") -> LedgerEntry:
    return LedgerEntry(
        key=key,
        tool="pay",
        arguments="a",
        is_idempotent=False,
        state=state,
        caller="c",
        trace_id="t",
        owner=owner,
        started_at="2026-01-01T00:00:00.000Z",
    )


def run_row(number: int) -> Run:
    at = "2026-01-01T00:00:00.000Z"
    return Run(
        id=f"r{number:04}", kind="agent", status="failed", trace_id="t", started_at=at, changed_at=at, reason="why so"
    )


def fill(session: Session, runs: int = 3) -> tuple[str, int]:
    """Put something of every kind into a state; the name of its process, and the number of a lease that it holds."""
    store = session.store

    async def story() -> int:
        first = await store.claim("run/a", 60)
        assert first is not None
        await store.release(first)
        lease = await store.claim("run/a", 60)
        assert lease is not None

        def put_all(transaction: Transaction) -> None:
            for number in range(runs):
                transaction.put(RUNS, run_row(number))
                transaction.append(Record(f"r{number}", AuditKind.CALL_DONE, EXCERPT))

        await store.write(put_all)
        await store.write(lambda transaction: transaction.put(LEDGER, entry("k", store.owner)))
        return lease.number

    return store.owner, asyncio.run(story())


def dump(connection: Any, statement: str) -> list[Any]:
    return [tuple(row) for row in connection.execute(statement).fetchall()]


TRAIL = "SELECT position, run, sequence, at, kind, body, previous, hash, sealed FROM audit ORDER BY position"
SEAL = (
    "SELECT count, root, anchor, anchor_root, anchor_heads, anchor_seal, number, seal, mark"
    " FROM audit_seal JOIN audit_mark USING (id)"
)


def test_processes_of_the_file_are_gone_also_in_a_server_that_has_just_crashed(tmp_path: Path) -> None:
    """No process of the file can come back to the server, so that none is waited for."""
    with postgres_server() as server:
        url = server.new_database()
        with session_in(tmp_path) as session:
            owner, _ = fill(session)
        server.crash()
        assert eventually(partial(answers, url))

        with session_in(tmp_path) as session:
            move_state(session, PostgresAddress(url))
            with closing(PostgresStore(PostgresAddress(url), keys=session.keys)) as store:
                assert store.is_gone(owner)


def answers(url: str) -> bool:
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return False
    return True


@pytest.fixture
def moved(tmp_path: Path, url: str) -> Iterator[tuple[Moved, PostgresStore, str, int]]:
    with session_in(tmp_path) as session:
        owner, number = fill(session, 1203)
    with session_in(tmp_path) as session:
        found = move_state(session, PostgresAddress(url))
        store = PostgresStore(PostgresAddress(url), keys=session.keys)
        yield found, store, owner, number
        store.close()


def test_a_moved_state_has_every_row_and_the_same_trail(
    moved: tuple[Moved, PostgresStore, str, int], tmp_path: Path, url: str
) -> None:
    found, store, owner, number = moved

    rows = store.read_now(lambda snapshot: snapshot.find(RUNS))
    assert [row.id for row in rows] == [f"r{number:04}" for number in range(1203)]
    assert {row.reason for row in rows} == {"why so"}
    assert store.read_now(lambda snapshot: snapshot.find(PENDING)) == []
    assert store.read_now(lambda snapshot: trail_faults(snapshot, store.trail_key)[0]) == []
    with closing(sqlite3.connect(tmp_path / ".agent/state.db")) as source, psycopg.connect(url) as target:
        target.execute("SET search_path = agent_resolver")
        assert dump(source, TRAIL) == dump(target, TRAIL)
        assert dump(source, SEAL) == dump(target, SEAL)
    assert found.records == 1203
    assert found.rows["run"] == 1203
    # The process that held the lease, and began a call, is gone.
    lease = store.read_now(lambda snapshot: snapshot.get(LEASES, "run/a"))
    assert lease is not None
    assert (lease.owner, lease.number) == ("", number)
    claimed = asyncio.run(store.claim("run/a", 10))
    assert claimed is not None
    assert claimed.number == number + 1
    assert store.is_gone(owner)


def test_rows_of_every_table_are_the_same_after_the_move(tmp_path: Path, url: str) -> None:
    rows = {table.name: [full_row(table, number) for number in (1, 2)] for table in TABLES}

    def put_all(transaction: Transaction) -> None:
        for table in TABLES:
            for row in rows[table.name]:
                transaction.put(table, row)

    def look(snapshot: Snapshot) -> dict[str, list[Any]]:
        return {table.name: snapshot.find(table) for table in TABLES}

    with session_in(tmp_path) as session:
        asyncio.run(session.store.write(put_all))
        before = session.store.read_now(look)
    with session_in(tmp_path) as session:
        found = move_state(session, PostgresAddress(url))
        store = PostgresStore(PostgresAddress(url), keys=session.keys)
        after = store.read_now(look)
        store.close()

    assert {name: count for name, count in found.rows.items() if count} == dict.fromkeys(rows, 2)
    # No process holds a lease any more, and none works: those of the file had ended.
    for name, found_rows in before.items():
        released = [_released(row) for row in found_rows]
        assert after[name] == released, name
    assert sum(map(len, before.values())) == 2 * len(TABLES)


def _released(row: Any) -> Any:
    return structs.replace(row, owner="", until=0.0) if isinstance(row, LeaseRow) else row


def test_a_state_in_use_is_not_moved(tmp_path: Path, url: str) -> None:
    with session_in(tmp_path) as session:
        fill(session)
        with session_in(tmp_path) as other, pytest.raises(StateInUse):
            move_state(other, PostgresAddress(url))
    store = PostgresStore(PostgresAddress(url))
    assert store.read_now(lambda snapshot: snapshot.find(RUNS)) == []
    with session_in(tmp_path) as session, pytest.raises(StateInUse):
        move_state(session, PostgresAddress(url))
    store.close()


def test_a_database_that_holds_a_state_is_refused(tmp_path: Path, url: str) -> None:
    with session_in(tmp_path) as session:
        fill(session)
    with session_in(tmp_path) as session:
        move_state(session, PostgresAddress(url))
    with session_in(tmp_path) as session, pytest.raises(MoveRefused, match="holds a state already"):
        move_state(session, PostgresAddress(url))


def test_an_edited_trail_is_not_moved(tmp_path: Path, url: str) -> None:
    with session_in(tmp_path) as session:
        fill(session)
    with closing(sqlite3.connect(tmp_path / ".agent/state.db")) as connection, connection:
        connection.execute("UPDATE audit SET body = '{}' WHERE position = 2")
    with session_in(tmp_path) as session, pytest.raises(MoveRefused, match="does not verify"):
        move_state(session, PostgresAddress(url))
    store = PostgresStore(PostgresAddress(url))
    assert store.read_now(lambda snapshot: snapshot.find(RUNS)) == []
    store.close()


KILLED = """
import os, signal, sys
from pathlib import Path
from agent_resolver.project.state_move import move_state
from agent_resolver.storage import PostgresAddress
from tests.postgres.test_state_move import session_in

def report(table, count):
    if table == sys.argv[3]:
        os.kill(os.getpid(), signal.SIGKILL)

with session_in(Path(sys.argv[1])) as session:
    move_state(session, PostgresAddress(sys.argv[2]), report)
"""


@pytest.mark.parametrize("table", ["run", "audit", "verified"])
def test_a_killed_move_leaves_nothing_behind_and_can_be_done_again(tmp_path: Path, url: str, table: str) -> None:
    with session_in(tmp_path) as session:
        fill(session)
    before = (tmp_path / ".agent/state.db").read_bytes()
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path), url, table], cwd=Path(__file__).parents[2], check=False
    )
    assert killed.returncode == -9
    assert (tmp_path / ".agent/state.db").read_bytes() == before

    def is_free() -> bool:
        with psycopg.connect(url) as connection:
            held = connection.execute(
                "SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = database"
                " WHERE locktype = 'advisory' AND datname = current_database()"
            ).fetchone()
            return held == (0,)

    assert eventually(is_free)
    with session_in(tmp_path) as session:
        assert move_state(session, PostgresAddress(url)).records == 3


def test_a_key_in_a_variable_seals_the_moved_state_too(tmp_path: Path, url: str) -> None:
    (tmp_path / "agent.toml").write_text('[state]\nkey_env = "STATE_KEY"\n', encoding="utf-8")
    with session_in(tmp_path, STATE_KEY="k" * 40) as session:
        fill(session)
    with session_in(tmp_path, STATE_KEY="k" * 40) as session:
        move_state(session, PostgresAddress(url))
        store = PostgresStore(PostgresAddress(url), keys=session.keys)
        assert store.trail_key == b"k" * 40
        assert store.read_now(lambda snapshot: trail_faults(snapshot, b"k" * 40)[0]) == []
        assert store.read_now(lambda snapshot: trail_faults(snapshot, None)[0]) != []
        store.close()


def test_moving_uses_no_more_memory_for_more_rows(tmp_path: Path, url: str) -> None:
    """Rows are read a page at a time: at no time does the process hold more than some hundred of them."""
    counts: list[int] = []
    with session_in(tmp_path) as session:
        fill(session, 1203)
    with session_in(tmp_path) as session:
        move_state(session, PostgresAddress(url), lambda table, count: counts.append(count) if table == "run" else None)
    assert counts == [500, 1000, 1203]
