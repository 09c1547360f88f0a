import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.sqlite import SqliteSaver

from agent_resolver.reasoner.checkpoint import StoreSaver
from agent_resolver.storage import AesSeal, SqliteStore

KEY = bytes(32)


@checkpointer_test(name="StoreSaver")
async def store_saver() -> AsyncIterator[StoreSaver]:
    with TemporaryDirectory() as folder:
        store = SqliteStore(f"{folder}/state.db", key=KEY)
        yield StoreSaver(store, AesSeal(KEY))
        store.close()


@pytest.mark.slow
def test_saver_passes_the_conformance_suite_of_langgraph() -> None:
    report = asyncio.run(validate(store_saver))

    assert report.passed_all_base(), report.results
    assert all(result.passed is not False for result in report.results.values()), report.results


def test_migration_makes_the_tables_that_upstream_would_make(tmp_path: Path) -> None:
    """The saver never makes its tables itself: a table that upstream changes must be changed in a migration."""
    SqliteStore(str(tmp_path / "state.db"), key=KEY).close()
    ours = sqlite3.connect(tmp_path / "state.db")
    theirs = sqlite3.connect(tmp_path / "upstream.db")
    SqliteSaver(theirs).setup()

    for table in ("checkpoints", "writes"):
        statement = f"PRAGMA table_info({table})"
        assert ours.execute(statement).fetchall() == theirs.execute(statement).fetchall()
    ours.close()
    theirs.close()
