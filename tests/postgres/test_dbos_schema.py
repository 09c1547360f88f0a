"""The schema of the engine: what is in it, who may use it, and a server that goes away."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import psycopg
import pytest

from agent_resolver.engine import ENGINE_SCHEMA, DbosSystem, EngineAway, EngineBroken, EngineSchema
from agent_resolver.storage import AesSeal, PostgresAddress
from tests.engine.test_dbos_system import KEY, Opened, opened, three_steps
from tests.loopback import free_port
from tests.postgres_server import PostgresServer, postgres_server
from tests.state_place import engine_rows, use_postgres


def schemas(url: str) -> dict[str, int]:
    """The number of tables in each schema of a database."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT schemaname, count(*) FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
            " GROUP BY 1"
        ).fetchall()
    return {str(schema): int(count) for schema, count in rows}


async def run_steps(path: Path) -> list[Any]:
    async with opened(path, three_steps) as made:
        await made.system.start("r:0")
        found: list[Any] = await made.wait_for("r:0")
        return found


async def open_at(url: str) -> None:
    made = Opened()

    async def workflow(segment: str, payload: Any) -> None:
        """Nothing: it is never reached."""

    place = EngineSchema(PostgresAddress(url))
    try:
        await made.system.open(place, AesSeal(KEY), "a", "1", workflow)
    finally:
        await made.system.close()


def test_the_engine_makes_tables_in_its_own_schema_alone(tmp_path: Path, url: str) -> None:
    use_postgres(tmp_path, url)
    path = tmp_path / "engine.db"

    assert len(asyncio.run(run_steps(path))) == 3
    assert set(schemas(url)) == {ENGINE_SCHEMA}
    assert "step2" in engine_rows(path)
    assert [each.name for each in tmp_path.iterdir()] == ["postgres.url"]


def test_no_connection_is_left_open_by_a_closed_engine(tmp_path: Path, url: str) -> None:
    use_postgres(tmp_path, url)
    asyncio.run(run_steps(tmp_path / "engine.db"))

    with psycopg.connect(url) as connection:
        left = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        ).fetchone()
    assert left == (0,)


def test_a_server_that_does_not_answer_is_an_error_without_the_password(caplog: pytest.LogCaptureFixture) -> None:
    url = f"postgresql://user:hunter2@127.0.0.1:{free_port()}/state"

    with caplog.at_level(logging.DEBUG), pytest.raises(EngineAway) as found:
        asyncio.run(open_at(url))

    assert "does not answer" in str(found.value)
    assert "hunter2" not in f"{found.value}{caplog.text}"


def test_a_user_who_may_not_make_the_schema_is_told_so(server: PostgresServer, url: str) -> None:
    """The schema belongs to the user who runs the workers, or that user may make it."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS reader")
        connection.execute("CREATE ROLE reader LOGIN")
    database = url.rpartition("/")[2]

    with pytest.raises(EngineBroken, match="permission denied") as found:
        asyncio.run(open_at(server.url(database, "reader")))

    assert ENGINE_SCHEMA in found.value.hint


def test_an_engine_goes_on_after_its_connections_were_cut(tmp_path: Path, url: str) -> None:
    use_postgres(tmp_path, url)

    async def scenario() -> list[Any]:
        async with opened(tmp_path / "engine.db", three_steps) as made:
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
            await made.system.start("r:0")
            found: list[Any] = await made.wait_for("r:0")
            return found

    assert len(asyncio.run(scenario())) == 3


def test_an_engine_whose_server_is_gone_can_be_closed(tmp_path: Path) -> None:
    """What it has not recorded is found as interrupted by another worker."""
    with postgres_server() as server:
        use_postgres(tmp_path, server.new_database())
        reached = asyncio.Event()

        async def run(system: DbosSystem, segment: str, payload: Any) -> None:
            async def hang() -> None:
                reached.set()
                await asyncio.Event().wait()

            await three_steps(system, segment, payload)
            await system.step("hang", hang)

        async def scenario() -> None:
            async with opened(tmp_path / "engine.db", run, lag_seconds=60) as made:
                await made.system.start("r:0")
                await reached.wait()
                server.kill()
                with pytest.raises(EngineAway):
                    await made.system.state("r:0")

        asyncio.run(asyncio.wait_for(scenario(), 60))
