"""Checkpoints of tasks in Postgres: LangGraph's own saver on the connection that the store lends."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.postgres import PostgresSaver

from agent_resolver.project.state_move import move_state
from agent_resolver.reasoner.checkpoint import StoreSaver
from agent_resolver.storage import AesSeal, PostgresAddress, PostgresStore
from tests.postgres.test_state_move import session_in
from tests.postgres_server import PostgresServer

KEY = bytes(32)
SECRET = "4000-1234-5678-9010"
CONFIG: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}


def test_saver_passes_the_conformance_suite_of_langgraph(server: PostgresServer) -> None:
    @checkpointer_test(name="StoreSaver on Postgres")
    async def store_saver() -> AsyncIterator[StoreSaver]:
        store = PostgresStore(PostgresAddress(server.new_database()), key=KEY)
        yield StoreSaver(store, AesSeal(KEY))
        store.close()

    report = asyncio.run(validate(store_saver))

    assert report.passed_all_base(), report.results
    assert all(result.passed is not False for result in report.results.values()), report.results


async def put_one(saver: StoreSaver, number: int = 1) -> Any:
    """Keep a checkpoint with secrets of every form, and a write."""
    checkpoint = {**empty_checkpoint(), "channel_values": {"text": SECRET, "task": {"card": SECRET}, "n": number}}
    config = await saver.aput(CONFIG, checkpoint, {"step": number}, {"text": "1", "task": "1", "n": "1"})  # type: ignore[arg-type]
    await saver.aput_writes(config, [("text", SECRET), ("task", {"card": SECRET})], "task-1", "path")
    return config


@pytest.fixture
def saver(url: str) -> Any:
    store = PostgresStore(PostgresAddress(url), key=KEY)
    yield StoreSaver(store, AesSeal(KEY))
    store.close()


def everything(url: str) -> str:
    tables = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")
    with psycopg.connect(url, options="-c search_path=agent_resolver") as connection:
        found = [connection.execute(f"SELECT * FROM {table}".encode()).fetchall() for table in tables]  # noqa: S608
    return repr(found)


def edit(url: str, statement: str) -> None:
    with psycopg.connect(url, options="-c search_path=agent_resolver") as connection:
        connection.execute(statement.encode())


def test_nothing_of_a_checkpoint_can_be_read_without_the_key(saver: StoreSaver, url: str) -> None:
    asyncio.run(put_one(saver))

    found = asyncio.run(saver.aget_tuple(CONFIG))
    assert found is not None
    assert found.checkpoint["channel_values"] == {"text": SECRET, "task": {"card": SECRET}, "n": 1}
    assert found.pending_writes == [("task-1", "text", SECRET), ("task-1", "task", {"card": SECRET})]
    assert "checkpoint" in everything(url)
    assert SECRET not in everything(url)


FORGED = """UPDATE checkpoints SET checkpoint = checkpoint
    || '{"channel_versions": {}, "channel_values": {"checkpoint": {"id": "x"}, "text": "forged"}}'"""


@pytest.mark.parametrize(
    "statement",
    [
        FORGED,
        "DELETE FROM checkpoint_blobs",
        "UPDATE checkpoint_blobs SET type = 'msgpack'",
        "UPDATE checkpoint_blobs SET type = 'msgpack', blob = '\\x80'",
        "UPDATE checkpoint_writes SET type = 'pickle'",
    ],
)
def test_an_edited_checkpoint_is_refused(saver: StoreSaver, url: str, statement: str) -> None:
    asyncio.run(put_one(saver))
    edit(url, statement)

    with pytest.raises(ValueError, match="a checkpoint"):
        asyncio.run(saver.aget_tuple(CONFIG))


def test_a_checkpoint_of_another_row_is_refused(saver: StoreSaver, url: str) -> None:
    first = asyncio.run(put_one(saver, 1))
    second = asyncio.run(put_one(saver, 2))
    # The older one takes the place of the newer.
    old, new = (each["configurable"]["checkpoint_id"] for each in (first, second))
    edit(
        url,
        f"UPDATE checkpoints SET checkpoint = (SELECT checkpoint FROM checkpoints WHERE checkpoint_id = '{old}')"  # noqa: S608
        f" WHERE checkpoint_id = '{new}'",
    )

    with pytest.raises(ValueError, match="moved from another row"):
        asyncio.run(saver.aget_tuple(CONFIG))


def test_the_tables_are_those_that_upstream_would_make(server: PostgresServer, url: str) -> None:
    """The saver never makes its tables itself: a table that upstream changes must be changed in a migration."""
    PostgresStore(PostgresAddress(url), key=KEY).close()
    theirs = server.new_database()
    with PostgresSaver.from_conn_string(theirs) as upstream:
        upstream.setup()

    def columns(address: str, schema: str) -> list[Any]:
        with psycopg.connect(address) as connection:
            return connection.execute(
                "SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns"
                " WHERE table_schema = %s AND table_name LIKE 'checkpoint%%' ORDER BY 1, 2",
                (schema,),
            ).fetchall()

    assert columns(url, "agent_resolver") == columns(theirs, "public")
    with psycopg.connect(url) as ours, psycopg.connect(theirs) as other:
        newest = "SELECT max(v) FROM {}.checkpoint_migrations"
        mine = ours.execute(newest.format("agent_resolver").encode()).fetchone()
        assert mine == other.execute(newest.format("public").encode()).fetchone()


def test_moved_checkpoints_are_the_same(tmp_path: Path, url: str) -> None:
    with session_in(tmp_path) as session:
        before_saver = StoreSaver(session.store, session.seal)
        for number in (1, 2):
            asyncio.run(put_one(before_saver, number))
        before = asyncio.run(_all(before_saver))
    with session_in(tmp_path) as session:
        move_state(session, PostgresAddress(url))
        store = PostgresStore(PostgresAddress(url), keys=session.keys)
        after = asyncio.run(_all(StoreSaver(store, store.find_seal())))
        store.close()

    assert len(before) == 2
    assert after == before


async def _all(saver: StoreSaver) -> list[Any]:
    return [each async for each in saver.alist(CONFIG)]
