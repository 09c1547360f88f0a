"""A journal that was edited is refused with a reason; it never gives another state than the run had."""

import asyncio
import sqlite3
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent_resolver.registry import CallContext, OpenSeal
from agent_resolver.runtime import (
    MAX_ENTRY_BYTES,
    DamagedJournal,
    ResumeRequest,
    RunBudget,
    RunRefused,
    decode_entry,
)
from agent_resolver.schema import JournalRow, local_caller
from agent_resolver.storage import SqliteStore
from tests.runtime.journal.lasting import CALLER, KEY, CountingModel, CountingTool, Stage, calls_then_ends, go

EDITS = {
    "body": "UPDATE journal SET body = CAST(substr(body, 1, 20) AS BLOB) WHERE run = 'r' AND number = 3",
    "empty": "UPDATE journal SET body = x'' WHERE run = 'r' AND number = 2",
    "kind": "UPDATE journal SET kind = 'model.failed' WHERE run = 'r' AND number = 3",
    "time": "UPDATE journal SET at = 1577836800000 WHERE run = 'r' AND number = 3",
    "first": "DELETE FROM journal WHERE run = 'r' AND number = 1",
    "middle": "DELETE FROM journal WHERE run = 'r' AND number = 3",
    "last": "DELETE FROM journal WHERE run = 'r' AND number = (SELECT max(number) FROM journal WHERE run = 'r')",
    "all": "DELETE FROM journal WHERE run = 'r'",
    "order": """UPDATE journal SET number = 99 WHERE run = 'r' AND number = 2;
        UPDATE journal SET number = 2 WHERE run = 'r' AND number = 3;
        UPDATE journal SET number = 3 WHERE run = 'r' AND number = 99""",
    "older body": """UPDATE journal SET body = (SELECT body FROM journal WHERE run = 'r' AND number = 2)
        WHERE run = 'r' AND number = 4""",
    "other run": """UPDATE journal SET body = (SELECT body FROM journal WHERE run = 'other' AND number = 3)
        WHERE run = 'r' AND number = 3""",
    "whole other run": """DELETE FROM journal WHERE run = 'r'; UPDATE journal SET run = 'r' WHERE run = 'other'""",
    "more": "INSERT INTO journal SELECT run, 40, kind, at, body FROM journal WHERE run = 'r' AND number = 2",
    "result": "DELETE FROM ledger",
    "edited result": "UPDATE ledger SET result = x'00112233'",
}


def stage_on(path: Path, rounds: int = 2, **rules: Any) -> Stage:
    model = CountingModel(calls_then_ends(rounds))
    return Stage(SqliteStore(str(path), key=KEY), model, [CountingTool("act", **rules)])


def run_with(path: Path, *runs: str) -> None:
    """Two rounds of each run, after which a budget is used up: all of them could go on."""

    async def story() -> None:
        stage = stage_on(path, rounds=5)
        for run in runs:
            result = await stage.runtime.run_to_completion(go(run_id=run, budget=RunBudget(max_rounds=2)))
            assert result.is_resumable
        stage.store.close()

    asyncio.run(story())


@pytest.mark.parametrize("edit", EDITS)
def test_a_journal_that_was_edited_is_refused_and_nothing_is_done(tmp_path: Path, edit: str) -> None:
    path = tmp_path / "state.db"
    run_with(path, "r", "other")
    with closing(sqlite3.connect(path)) as state, state:
        state.executescript(EDITS[edit])

    async def story() -> None:
        stage = stage_on(path)
        with pytest.raises(DamagedJournal, match="the journal of run r cannot be read: ") as refused:
            await stage.runtime.resume(ResumeRequest(run="r", budget=RunBudget()))
        assert refused.value.hint
        assert stage.model.asked == []
        with pytest.raises(DamagedJournal):
            await stage.journal.look_up("r")
        stage.store.close()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        ("agent = 'another'", "is one of agent agent, not another|not found|no agent"),
        ("status = 'running', reason = '', code = ''", ""),
        ("caller = 'root', plan = 'sha256:00', parent = '', trace_id = ''", ""),
        ("entries = 2", "cannot be read"),
    ],
)
def test_an_edited_row_changes_neither_agent_nor_caller_nor_state(tmp_path: Path, edit: str, message: str) -> None:
    path = tmp_path / "state.db"
    run_with(path, "r")
    with closing(sqlite3.connect(path)) as state, state:
        state.execute(f"UPDATE run SET {edit}")  # noqa: S608 - one of ours

    async def story() -> None:
        stage = stage_on(path)
        request = ResumeRequest(run="r", budget=RunBudget())
        if message:
            with pytest.raises(Exception, match=message):
                await stage.runtime.resume(request)
            assert stage.model.asked == []
        else:
            result = await stage.runtime.resume(request)
            assert (result.agent_id, result.text, result.rounds) == ("agent", "Done.", 3)
            folded = await stage.journal.look_up("r")
            assert folded is not None
            assert folded.caller.id == CALLER.id
        stage.store.close()

    asyncio.run(story())


def sealed(content: bytes) -> JournalRow:
    return JournalRow(run="r", number=1, kind="run.started", at=0, body=content)


@pytest.mark.parametrize(
    "content",
    [
        b"\1" + zlib.compress(b" " * (MAX_ENTRY_BYTES + 1), 9),
        b"\1" + zlib.compress(b"{}")[:-3],
        b"\1{}",
        b"\2{}",
        b"",
        b"\0[1",
        b"\0" + b"[" * 100_000,
    ],
    ids=["bomb", "cut", "not packed", "unknown form", "empty", "not JSON", "deep"],
)
def test_an_entry_that_is_not_one_is_refused_without_filling_the_memory(content: bytes) -> None:
    with pytest.raises((ValueError, RecursionError)):
        decode_entry(sealed(content), OpenSeal())


def test_a_step_that_could_not_be_read_again_is_not_written(tmp_path: Path) -> None:
    async def story() -> None:
        stage = stage_on(tmp_path / "state.db")
        with pytest.raises(RunRefused, match="cannot be written"):
            await stage.runtime.run_to_completion(go(run_id="r", prompt="\ud800"))
        with pytest.raises(RunRefused, match="is the most"):
            await stage.runtime.run_to_completion(go(run_id="r", prompt="x" * (MAX_ENTRY_BYTES + 1)))
        assert await stage.journal.look_up("r") is None
        stage.store.close()

    asyncio.run(story())


# Threads --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("edit", "agent"),
    [("run = 'theirs'", "agent"), ("agent = 'second'", "second"), ("run = 'alone'", "agent")],
    ids=["another caller's", "another agent's", "not of a thread"],
)
def test_the_row_of_a_thread_leads_to_no_conversation_but_its_own(tmp_path: Path, edit: str, agent: str) -> None:
    path = tmp_path / "state.db"

    def stage() -> Stage:
        model = CountingModel(calls_then_ends(0))
        return Stage(SqliteStore(str(path), key=KEY), model, [], {"agent": {}, "second": {}})

    async def begin() -> None:
        first = stage()
        await first.runtime.run_to_completion(go(run_id="mine", thread="t"))
        await first.runtime.run_to_completion(go(run_id="theirs", thread="t", caller=local_caller("other")))
        await first.runtime.run_to_completion(go(run_id="alone"))
        first.store.close()

    async def attack() -> None:
        second = stage()
        with pytest.raises(DamagedJournal, match="is not a run of thread t"):
            await second.runtime.run_to_completion(go(agent, run_id="next", thread="t"))
        assert second.model.asked == []
        second.store.close()

    asyncio.run(begin())
    with closing(sqlite3.connect(path)) as state, state:
        state.execute(f"UPDATE thread SET {edit} WHERE name = 't' AND caller = ?", (CALLER.id,))  # noqa: S608
    asyncio.run(attack())


def test_a_thread_is_one_conversation_over_its_runs(tmp_path: Path) -> None:
    async def story() -> None:
        stage = stage_on(tmp_path / "state.db", rounds=1)
        first = await stage.runtime.run_to_completion(go(run_id="1", thread="t"))
        second = await stage.runtime.run_to_completion(go(run_id="2", thread="t", prompt="And now?"))
        asked = stage.model.asked[-1].messages
        said = [message.text for message in asked if message.role in {"user", "assistant"}]
        assert said == ["Go", "Round 0", "Done.", "And now?", "Round 0"]
        assert second.state.messages[: len(first.state.messages)] == first.state.messages
        other = await stage.runtime.run_to_completion(go(run_id="3", thread="t", caller=local_caller("other")))
        assert [message.text for message in other.state.messages if message.role == "user"] == ["Go"]
        with pytest.raises(RunRefused, match="thread t went on in run 2"):
            await stage.runtime.resume(ResumeRequest(run="1"))
        stage.store.close()

    asyncio.run(story())


def test_a_thread_of_another_agent_is_refused(tmp_path: Path) -> None:
    async def story() -> None:
        model = CountingModel(calls_then_ends(0))
        stage = Stage(SqliteStore(str(tmp_path / "state.db"), key=KEY), model, [], {"agent": {}, "second": {}})
        await stage.runtime.run_to_completion(go(run_id="1", thread="t"))
        with pytest.raises(RunRefused, match="thread t is a conversation with agent"):
            await stage.runtime.run_to_completion(go("second", thread="t"))
        stage.store.close()

    asyncio.run(story())


def test_a_thread_goes_on_after_a_spent_budget_with_a_result_for_each_call(tmp_path: Path) -> None:
    async def story() -> None:
        stage = stage_on(tmp_path / "state.db", rounds=5)
        budget = RunBudget(max_calls={"act": 1})
        first = await stage.runtime.run_to_completion(go(run_id="1", thread="t", budget=budget))
        assert (first.is_resumable, len(first.state.open_calls)) == (True, 1)
        second = await stage.runtime.run_to_completion(go(run_id="2", thread="t", prompt="Stop", budget=budget))
        assert_every_call_has_its_result(second.state.messages)
        folded = await stage.journal.look_up("2")
        assert folded is not None
        assert folded.state == second.state
        with pytest.raises(RunRefused, match="thread t went on in run 2"):
            await stage.runtime.resume(ResumeRequest(run="1"))
        stage.store.close()

    asyncio.run(story())


def assert_every_call_has_its_result(messages: list[Any]) -> None:
    waiting: list[str] = []
    for message in messages:
        if message.role == "tool":
            waiting.remove(message.call_id)
        else:
            assert not waiting
        waiting += [call.id for call in message.calls]


@pytest.mark.parametrize("answer", ["cancel", "resume"])
def test_a_thread_with_a_run_that_waits_takes_no_other_until_it_has_ended(tmp_path: Path, answer: str) -> None:
    async def story() -> None:
        stage = stage_on(tmp_path / "state.db", rounds=1, needs_approval=True)
        waiting = await stage.runtime.run_to_completion(go(run_id="1", thread="t"))
        assert waiting.pending is not None
        with pytest.raises(RunRefused, match="run 1 of thread t has not ended") as refused:
            await stage.runtime.run_to_completion(go(run_id="2", thread="t"))
        assert "agent runs cancel 1" in (refused.value.hint or "")
        if answer == "cancel":
            assert await stage.journal.cancel("1") == "cancelled"
        else:
            await stage.inbox.decide(waiting.pending.id, "approved", CallContext.for_caller(CALLER))
            await stage.runtime.resume(ResumeRequest(run="1"))
        result = await stage.runtime.run_to_completion(go(run_id="2", thread="t", prompt="Again"))
        assert_every_call_has_its_result(result.state.messages)
        stage.store.close()

    asyncio.run(story())
