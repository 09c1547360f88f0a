"""Runs that go on from their journal."""

import asyncio
from pathlib import Path

import pytest

from agent_resolver.registry import CallContext
from agent_resolver.runtime import ResumeRequest, RunRefused
from agent_resolver.schema import JOURNAL, RUNS
from agent_resolver.storage import SqliteStore
from tests.runtime.journal.lasting import CALLER, KEY, CountingModel, CountingTool, Stage, calls_then_ends, go


def test_a_run_is_in_the_journal_with_every_step(tmp_path: Path) -> None:
    async def run() -> None:
        store = SqliteStore(str(tmp_path / "state.db"), key=KEY)
        tool = CountingTool("act")
        stage = Stage(store, CountingModel(calls_then_ends(2)), [tool])
        result = await stage.runtime.run_to_completion(go(run_id="r"))
        assert result.termination.reason == "natural_end"
        folded = await stage.journal.look_up("r")
        assert folded is not None
        assert folded.state == result.state
        kinds = [row.kind for row in await store.read(lambda snapshot: snapshot.find(JOURNAL, {"run": "r"}))]
        asked = ["model.asked", "model.answered"]
        assert kinds == ["run.started", *asked * 3, "run.ended"]
        store.close()

    asyncio.run(run())


def test_a_run_that_waits_goes_on_in_another_process_after_the_answer(tmp_path: Path) -> None:
    async def run() -> None:
        path = str(tmp_path / "state.db")
        first = SqliteStore(path, key=KEY)
        tool = CountingTool("act", needs_approval=True)
        stage = Stage(first, CountingModel(calls_then_ends(1)), [tool])
        waiting = await stage.runtime.run_to_completion(go(run_id="r"))
        assert waiting.pending is not None
        await stage.inbox.decide(waiting.pending.id, "approved", CallContext.for_caller(CALLER))
        first.close()

        second = SqliteStore(path, key=KEY)
        again = Stage(second, CountingModel(calls_then_ends(1)), [tool])
        result = await again.runtime.resume(ResumeRequest(run="r"))
        assert (result.text, len(tool.made), len(again.model.asked)) == ("Done.", 1, 1)
        row = await second.read(lambda snapshot: snapshot.get(RUNS, "r"))
        assert row is not None
        assert (row.status, row.rounds) == ("done", 2)
        with pytest.raises(RunRefused, match="has ended"):
            await again.runtime.resume(ResumeRequest(run="r"))
        second.close()

    asyncio.run(run())
