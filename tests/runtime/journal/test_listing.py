"""Runs in a list: from their rows alone, and quickly."""

import asyncio
import time
from pathlib import Path

import pytest

from agent_resolver.runtime import ChatAnswer, ChatRequest, ToolCall, Usage
from agent_resolver.schema import JOURNAL, LEASES, PENDING, RUNS, LeaseRow, PendingAction, Run
from agent_resolver.storage import RunFilter, SqliteStore, Transaction, list_runs
from tests.runtime.journal.lasting import KEY, CountingModel, CountingTool, Stage, go

AT = "2026-11-16T13:00:00.000Z"


def keep_runs(transaction: Transaction) -> None:
    """Keep 1,000 runs that wait, each for an action of its own, and a journal that nobody can read."""
    for number in range(1_000):
        name = f"{number:032x}"
        action = PendingAction(
            id=name[-12:], type="APPROVAL", subject="act", message="May it?", asked_at=AT, binding=name, trace_id=name
        )
        transaction.put(PENDING, action)
        row = Run(
            id=name,
            kind="agent",
            status="waiting",
            trace_id=name,
            waits_for=action.id,
            started_at=AT,
            changed_at=AT,
            agent="keeper",
        )
        transaction.put(RUNS, row)
        transaction.put(LEASES, LeaseRow(name=f"run/{name}", owner="", number=1, until=0.0))


def test_a_thousand_suspended_runs_are_listed_with_what_each_waits_for(tmp_path: Path) -> None:
    """How long that takes is in `benchmarks/durable.py`."""

    async def run() -> None:
        store = SqliteStore(str(tmp_path / "state.db"))
        await store.write(keep_runs)
        found = await list_runs(store, time.time(), RunFilter(status="waiting"))
        store.close()
        assert len(found) == 1_000
        assert all(each.action is not None for each in found)

    asyncio.run(run())


def test_a_run_whose_process_is_there_runs_and_every_other_was_interrupted(tmp_path: Path) -> None:
    async def run() -> None:
        store = SqliteStore(str(tmp_path / "state.db"))
        now = time.time()
        leases = {
            "held": LeaseRow(name="run/held", owner=store.owner, number=1, until=now + 60),
            "late": LeaseRow(name="run/late", owner=store.owner, number=1, until=now - 1),
            "released": LeaseRow(name="run/released", owner="", number=1, until=0.0),
        }

        def fill(transaction: Transaction) -> None:
            for name, lease in leases.items():
                transaction.put(LEASES, lease)
                row = Run(id=name, kind="agent", status="running", trace_id="t", started_at=AT, changed_at=AT)
                transaction.put(RUNS, row)

        await store.write(fill)
        everything = {each.row.id: each.status for each in await list_runs(store, now, RunFilter())}
        interrupted = [each.row.id for each in await list_runs(store, now, RunFilter(status="interrupted"))]
        running = [each.row.id for each in await list_runs(store, now, RunFilter(status="running"))]
        store.close()
        assert everything == {"held": "running", "late": "interrupted", "released": "interrupted"}
        assert (sorted(interrupted), running) == (["late", "released"], ["held"])

    asyncio.run(run())


def delegates_once(request: ChatRequest) -> ChatAnswer:
    """The parent delegates, the child calls a tool that takes an approval."""
    is_parent = "parent" in request.messages[0].text
    tool = "agent_run_child" if is_parent else "act"
    arguments = '{"prompt": "Go"}' if is_parent else "{}"
    return ChatAnswer(calls=(ToolCall("c", tool, arguments),), finish="tool_calls", usage=Usage(10, 5))


def test_a_run_that_is_cancelled_while_its_delegate_waits_ends_the_delegate(tmp_path: Path) -> None:
    async def run() -> None:
        store = SqliteStore(str(tmp_path / "state.db"), key=KEY)
        agents = {"parent": {"delegates": ("child",)}, "child": {}}
        tool = CountingTool("act", needs_approval=True)
        stage = Stage(store, CountingModel(delegates_once), [tool], agents)
        result = await stage.runtime.run_to_completion(go("parent", run_id="r"))
        assert result.pending is not None
        before = await list_runs(store, time.time(), RunFilter(status="waiting"))

        await stage.journal.cancel("r")

        after = await list_runs(store, time.time(), RunFilter(status="cancelled"))
        journal = await store.read(lambda snapshot: snapshot.find(JOURNAL))
        store.close()
        assert {each.row.parent for each in before} == {"", "r"}
        assert {each.row.id for each in after} == {each.row.id for each in before}
        assert [row.kind for row in journal].count("run.ended") == 2

    asyncio.run(run())


@pytest.mark.parametrize("agent", ["keeper", "other"])
def test_runs_are_chosen_by_their_agent(tmp_path: Path, agent: str) -> None:
    async def run() -> None:
        store = SqliteStore(str(tmp_path / "state.db"))
        await store.write(keep_runs)
        found = await list_runs(store, time.time(), RunFilter(agent=agent), 5)
        store.close()
        assert len(found) == (5 if agent == "keeper" else 0)

    asyncio.run(run())
