"""Where tests keep state: in files of a folder, or in the Postgres database that a file in the folder names.

So the tests of `tests/postgres` are those of the other folders, with a `tmp_path` of their own.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from agent_resolver.engine import ENGINE_SCHEMA, EngineFile, EnginePlace, EngineSchema
from agent_resolver.storage import PostgresAddress, PostgresStore, SqliteStore

_URL_FILE: Final = "postgres.url"


def use_postgres(folder: Path, url: str) -> None:
    """Let everything that tests open in a folder be in this database."""
    (folder / _URL_FILE).write_text(url, encoding="utf-8")


def postgres_url(folder: Path) -> str:
    """The database of a folder; empty where state is in files."""
    file = folder / _URL_FILE
    return file.read_text(encoding="utf-8") if file.exists() else ""


def open_state(folder: Path, **options: Any) -> Any:
    """The state of a folder: its file, or its database. Both have what `SqliteStore` has."""
    url = postgres_url(folder)
    if not url:
        return SqliteStore(str(folder / "state.db"), **options)
    return PostgresStore(PostgresAddress(url), **options)


def engine_place(path: Path) -> EnginePlace:
    """The place of the engine: this file, or the schema in the database of its folder."""
    url = postgres_url(path.parent)
    return EngineSchema(PostgresAddress(url)) if url else EngineFile(str(path))


def edit_engine(path: Path, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Run a statement on the rows of the engine, as another program would; what it returns."""
    url = postgres_url(path.parent)
    if not url:
        with closing(sqlite3.connect(path, timeout=10)) as connection, connection:
            return connection.execute(statement, values).fetchall()
    import psycopg

    with psycopg.connect(url, options=f"-c search_path={ENGINE_SCHEMA}") as client:
        cursor = client.execute(statement.replace("?", "%s").encode(), values)
        return cursor.fetchall() if cursor.description else []


def engine_rows(path: Path) -> str:
    """Everything that the engine keeps, as text."""
    url = postgres_url(path.parent)
    if not url:
        with closing(sqlite3.connect(path)) as connection:
            return "\n".join(connection.iterdump())
    tables = edit_engine(path, "SELECT tablename FROM pg_tables WHERE schemaname = ? ORDER BY 1", (ENGINE_SCHEMA,))
    lines = []
    for (table,) in tables:
        rows = edit_engine(path, f'SELECT row_to_json(x)::text FROM "{table}" x')  # noqa: S608 - names of the engine
        lines += [f"{table} {row}" for (row,) in rows]
    return "\n".join(lines)
