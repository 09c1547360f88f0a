"""Runs that are cancelled or interrupted, with those that they delegate to."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_resolver.registry import CallContext
from agent_resolver.runtime import (
    ChatAnswer,
    ChatRequest,
    ResumeRequest,
    RunBudget,
    RunRefused,
    ToolCall,
    Usage,
    spent,
)
from agent_resolver.schema import PENDING, RUNS, Run
from agent_resolver.storage import SqliteStore
from tests.process import comes_true
from tests.runtime.journal.lasting import (
    CALLER,
    KEY,
    CountingModel,
    CountingTool,
    Stage,
    calls_then_ends,
    go,
    rounds_of,
)

ANSWERING = CallContext.for_caller(CALLER)
CHAIN: dict[str, dict[str, Any]] = {"agent": {"delegates": ("middle",)}, "middle": {"delegates": ("deep",)}, "deep": {}}


def delegates(request: ChatRequest) -> ChatAnswer:
    """The agent asks the middle one, which asks the deep one, which makes a call."""
    if rounds_of(request):
        return ChatAnswer(text="Done.", usage=Usage(10, 2))
    system = request.messages[0].text
    if "deep" in system:
        call = ToolCall("c", "act", '{"n": 1}')
    else:
        deeper = "deep" if "middle" in system else "middle"
        call = ToolCall("c", f"agent_run_{deeper}", '{"prompt": "Go on"}')
    return ChatAnswer(calls=(call,), finish="tool_calls", usage=Usage(10, 5))


def chain_on(path: Path, tool: CountingTool) -> Stage:
    return Stage(SqliteStore(str(path), key=KEY), CountingModel(delegates), [tool], CHAIN)


async def rows_of(stage: Stage) -> dict[str, Run]:
    """The run of each agent."""
    return {row.agent: row for row in await stage.store.read(lambda snapshot: snapshot.find(RUNS))}


class HangingTool(CountingTool):
    """Does not come back from its first call."""

    def __init__(self, **rules: Any) -> None:
        super().__init__("act", **rules)
        self.reached = asyncio.Event()

    async def invoke(self, arguments: dict[str, Any], context: CallContext) -> Any:
        result = await super().invoke(arguments, context)
        if len(self.made) == 1:
            self.reached.set()
            await asyncio.Event().wait()
        return result


# Delegates ------------------------------------------------------------------------------------------------------------


def test_a_waiting_delegate_suspends_the_chain_until_another_process_resumes(tmp_path: Path) -> None:
    async def story() -> None:
        path, tool = tmp_path / "state.db", CountingTool("act", needs_approval=True)
        first = chain_on(path, tool)
        budget = RunBudget(max_rounds=6, max_tokens=81, max_calls={"*": 3})
        waiting = await first.runtime.run_to_completion(go(run_id="r", budget=budget))
        rows = await rows_of(first)
        assert waiting.pending is not None
        assert {row.status for row in rows.values()} == {"waiting"}
        assert {row.waits_for for row in rows.values()} == {waiting.pending.id}
        for agent in ("middle", "deep"):
            with pytest.raises(RunRefused, match=f"is a part of run {rows[agent].parent}"):
                await first.runtime.resume(ResumeRequest(run=rows[agent].id, with_changes=True))
        # Nothing is used by asking again before there is an answer.
        again = await first.runtime.resume(ResumeRequest(run="r"))
        assert (again.pending, again.usage) == (waiting.pending, waiting.usage)
        assert sum(spent(again.state).calls.values()) == 0
        await first.inbox.decide(waiting.pending.id, "approved", ANSWERING)
        first.store.close()

        second = chain_on(path, tool)
        result = await second.runtime.resume(ResumeRequest(run="r"))
        assert (result.text, len(tool.made), len(second.model.asked)) == ("Done.", 1, 3)
        assert result.usage.total_tokens == 3 * 15 + 3 * 12
        used = spent(result.state)
        assert (used.rounds, sum(used.calls.values())) == (6, 3)
        assert {row.status for row in (await rows_of(second)).values()} == {"done"}
        second.store.close()

    asyncio.run(story())


def test_an_interrupted_chain_goes_on_in_another_process_and_repeats_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        path, tool = tmp_path / "state.db", HangingTool(is_idempotent=True)
        first = chain_on(path, tool)
        running = asyncio.create_task(first.runtime.run_to_completion(go(run_id="r")))
        await tool.reached.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        # The call of the tool hangs on; the calls of the delegates come to their end.
        await comes_true(lambda: len(asyncio.all_tasks()) <= 2)
        assert {row.status for row in (await rows_of(first)).values()} == {"running"}
        assert len(first.model.asked) == 3
        first.store.close()

        second = chain_on(path, tool)
        result = await second.runtime.resume(ResumeRequest(run="r"))
        assert (result.text, len(second.model.asked), result.state.uncertain) == ("Done.", 3, 0)
        assert spent(result.state).rounds == 6
        assert result.usage.total_tokens == 3 * 15 + 3 * 12
        second.store.close()

    asyncio.run(story())


def test_agents_delegate_to_each_other_to_a_bounded_depth(tmp_path: Path) -> None:
    def again(request: ChatRequest) -> ChatAnswer:
        if rounds_of(request):
            return ChatAnswer(text=request.messages[-1].text)
        return ChatAnswer(calls=(ToolCall("c", "agent_run_agent", '{"prompt": "Go"}'),), finish="tool_calls")

    async def story() -> None:
        store = SqliteStore(str(tmp_path / "state.db"), key=KEY)
        stage = Stage(store, CountingModel(again), [], {"agent": {"delegates": ("agent",)}})
        result = await stage.runtime.run_to_completion(go(run_id="r"))
        assert "at most 8 deep" in result.text
        rows = await store.read(lambda snapshot: snapshot.find(RUNS))
        assert (len(rows), {row.status for row in rows}) == (8, {"done"})
        store.close()

    asyncio.run(story())


# Cancellation ---------------------------------------------------------------------------------------------------------


def test_cancelling_a_run_that_waits_ends_its_delegates_as_well(tmp_path: Path) -> None:
    async def story() -> None:
        stage = chain_on(tmp_path / "state.db", CountingTool("act", needs_approval=True))
        await stage.runtime.run_to_completion(go(run_id="r"))
        assert await stage.journal.cancel("r") == "cancelled"
        rows = await rows_of(stage)
        assert {row.status for row in rows.values()} == {"cancelled"}
        for row in rows.values():
            folded = await stage.journal.look_up(row.id)
            assert folded is not None
            assert folded.termination is not None
            assert (folded.termination.reason, folded.state.open_calls) == ("cancelled", [])
        with pytest.raises(RunRefused, match="run r has ended: cancelled"):
            await stage.journal.cancel("r")
        with pytest.raises(RunRefused, match="run r has ended: cancelled"):
            await stage.runtime.resume(ResumeRequest(run="r"))
        stage.store.close()

    asyncio.run(story())


def test_a_user_who_goes_on_without_a_waiting_delegate_leaves_none_behind(tmp_path: Path) -> None:
    async def story() -> None:
        stage = chain_on(tmp_path / "state.db", CountingTool("act", needs_approval=True))
        await stage.runtime.run_to_completion(go(run_id="r"))
        result = await stage.runtime.resume(ResumeRequest(run="r", messages=go(prompt="Leave it").messages))
        assert result.pending is not None
        result = await stage.runtime.resume(ResumeRequest(run="r", messages=go(prompt="No").messages))
        await stage.journal.cancel("r")
        rows = await stage.store.read(lambda snapshot: snapshot.find(RUNS))
        assert {row.status for row in rows} == {"cancelled"}
        stage.store.close()

    asyncio.run(story())


def test_cancelling_a_running_run_ends_its_delegates_as_well(tmp_path: Path) -> None:
    async def story() -> None:
        tool = HangingTool()
        stage = chain_on(tmp_path / "state.db", tool)
        running = asyncio.create_task(stage.runtime.run_to_completion(go(run_id="r")))
        await tool.reached.wait()
        assert await stage.journal.cancel("r") == "cancelling"
        result = await running
        assert result.termination.reason == "cancelled"
        store: Any = stage.store
        await comes_true(
            lambda: {row.status for row in store.read_now(lambda snapshot: snapshot.find(RUNS))} == {"cancelled"}
        )
        stage.store.close()

    asyncio.run(story())


def test_an_interrupted_run_that_was_asked_to_end_makes_no_call_when_it_is_resumed(tmp_path: Path) -> None:
    """The process of the run was killed before it heard that the run shall end."""

    path, tool = tmp_path / "state.db", CountingTool("act")
    child = subprocess.run([sys.executable, "-c", _KILLED, path], check=False, timeout=60)
    assert child.returncode == -9

    async def story() -> None:
        stage = Stage(SqliteStore(str(path), key=KEY), CountingModel(calls_then_ends(1)), [tool])
        row = await stage.store.read(lambda snapshot: snapshot.get(RUNS, "r"))
        assert row is not None
        assert row.status == "cancelling"
        result = await stage.runtime.resume(ResumeRequest(run="r"))
        assert (result.termination.reason, tool.made, stage.model.asked) == ("cancelled", [], [])
        stage.store.close()

    asyncio.run(story())


_KILLED = """
import asyncio, os, signal, sys
from agent_resolver.storage import SqliteStore
from tests.runtime.journal.lasting import KEY, CountingModel, CountingTool, Stage, calls_then_ends, go

def die(arguments):
    os.kill(os.getpid(), signal.SIGKILL)

class Model(CountingModel):
    async def complete(self, request):
        await stage.journal.cancel("r")
        return await super().complete(request)

class Store:
    def __init__(self, store):
        self.store = store
    def __getattr__(self, name):
        return getattr(self.store, name)
    async def write(self, work):
        result = await self.store.write(work)
        row = await self.store.read(lambda snapshot: snapshot.find(JOURNAL))
        if row and row[-1].kind == "model.answered":
            die(None)
        return result

from agent_resolver.schema import JOURNAL
store = Store(SqliteStore(sys.argv[1], key=KEY))
stage = Stage(store, Model(calls_then_ends(1)), [CountingTool("act")])
# With a sink, each step is on the disk before the next one.
asyncio.run(stage.runtime.run(go(run_id="r"), lambda event: None))
"""


@pytest.mark.slow
def test_a_run_of_another_process_is_cancelled_from_here(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    child = subprocess.Popen([sys.executable, "-c", _HANGS, path], stdout=subprocess.PIPE, text=True)
    assert child.stdout
    assert child.stdout.readline() == "hangs\n"

    async def story() -> None:
        stage = Stage(SqliteStore(str(path), key=KEY), CountingModel(calls_then_ends(1)), [])
        assert await stage.journal.cancel("r") == "cancelling"
        assert child.communicate(timeout=20)[0] == "cancelled\n"
        row = await stage.store.read(lambda snapshot: snapshot.get(RUNS, "r"))
        assert row is not None
        assert (row.status, row.uncertain) == ("cancelled", 1)
        stage.store.close()

    asyncio.run(story())


_HANGS = """
import asyncio, sys
from agent_resolver.storage import SqliteStore
from tests.runtime.journal.lasting import KEY, CountingModel, Stage, calls_then_ends, go

class Model(CountingModel):
    async def complete(self, request):
        print("hangs", flush=True)
        await asyncio.Event().wait()

stage = Stage(SqliteStore(sys.argv[1], key=KEY), Model(calls_then_ends(1)), [])
print(asyncio.run(stage.runtime.run_to_completion(go(run_id="r"))).termination.reason, flush=True)
"""


# Calls that were interrupted ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("words", "made"), [("retry", 2), ("done", 1)])
def test_a_call_with_an_unknown_outcome_is_a_question_that_the_run_waits_for(
    tmp_path: Path, words: str, made: int
) -> None:
    async def interrupt() -> None:
        stage = Stage(SqliteStore(str(path), key=KEY), CountingModel(calls_then_ends(1)), [tool])
        running = asyncio.create_task(stage.runtime.run_to_completion(go(run_id="r")))
        await tool.reached.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        stage.store.close()

    async def go_on() -> None:
        stage = Stage(SqliteStore(str(path), key=KEY), CountingModel(calls_then_ends(1)), [tool])
        first = await stage.runtime.resume(ResumeRequest(run="r"))
        waiting = await stage.runtime.resume(ResumeRequest(run="r"))
        assert waiting.pending is not None
        assert (waiting.pending, first.pending) == (first.pending, waiting.pending)
        assert (waiting.pending.type, waiting.pending.code) == ("CLARIFICATION", "OUTCOME_UNKNOWN")
        assert len(tool.made) == 1
        questions = await stage.store.read(lambda snapshot: snapshot.find(PENDING))
        assert [question.id for question in questions] == [waiting.pending.id]
        await stage.inbox.answer(waiting.pending.id, words, ANSWERING)
        result = await stage.runtime.resume(ResumeRequest(run="r"))
        assert (result.text, len(tool.made), len(stage.model.asked)) == ("Done.", made, 1)
        assert ("says: done" in result.state.messages[-2].text) == (words == "done")
        stage.store.close()

    path, tool = tmp_path / "state.db", HangingTool()
    asyncio.run(interrupt())
    asyncio.run(go_on())


def test_a_second_loop_does_not_wait_for_a_call_of_the_first(tmp_path: Path) -> None:
    """The first loop ends, and its calls with it; the process and its store stay."""

    async def interrupt() -> None:
        running = asyncio.create_task(stage.runtime.run_to_completion(go(run_id="r")))
        await tool.reached.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    async def go_on() -> None:
        async with asyncio.timeout(10):
            result = await stage.runtime.resume(ResumeRequest(run="r"))
        assert (result.text, len(tool.made)) == ("Done.", 2)

    tool = HangingTool(is_idempotent=True)
    store = SqliteStore(str(tmp_path / "state.db"), key=KEY)
    stage = Stage(store, CountingModel(calls_then_ends(1)), [tool])
    asyncio.run(interrupt())
    asyncio.run(go_on())
    store.close()


def test_a_delegate_that_changed_keeps_the_chain_waiting_until_changes_are_allowed(tmp_path: Path) -> None:
    async def story() -> None:
        path, tool = tmp_path / "state.db", CountingTool("act", needs_approval=True)
        first = chain_on(path, tool)
        waiting = await first.runtime.run_to_completion(go(run_id="r"))
        assert waiting.pending is not None
        await first.inbox.decide(waiting.pending.id, "approved", ANSWERING)
        first.store.close()

        changed = {**CHAIN, "deep": {"max_rounds": 7}}
        second = Stage(SqliteStore(str(path), key=KEY), CountingModel(delegates), [tool], changed)
        for _ in range(2):
            still = await second.runtime.resume(ResumeRequest(run="r"))
            assert still.pending is not None
            assert "agent deep changed since run" in still.pending.message
            assert "--with-changes" in still.pending.remedy
        assert (tool.made, second.model.asked) == ([], [])
        result = await second.runtime.resume(ResumeRequest(run="r", with_changes=True))
        assert (result.text, len(tool.made), len(second.model.asked)) == ("Done.", 1, 3)
        second.store.close()

    asyncio.run(story())


def test_an_unanswered_question_of_a_delegate_is_uncertain_for_its_caller(tmp_path: Path) -> None:
    async def story() -> None:
        path, tool = tmp_path / "state.db", CountingTool("act")
        first = chain_on(path, tool)
        asked: list[ChatRequest] = first.model.asked
        first.model.hangs_at = 2
        running = asyncio.create_task(first.runtime.run_to_completion(go(run_id="r")))
        await comes_true(lambda: len(asked) == 2)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await comes_true(lambda: len(asyncio.all_tasks()) == 1)
        first.store.close()

        second = chain_on(path, tool)
        result = await second.runtime.resume(ResumeRequest(run="r"))
        rows = await rows_of(second)
        assert (spent(result.state).uncertain, result.state.uncertain) == (1, 0)
        assert (rows["agent"].uncertain, rows["middle"].uncertain, rows["deep"].uncertain) == (1, 1, 0)
        assert len(second.model.asked) == 5
        second.store.close()

    asyncio.run(story())
