"""One process works on a run at a time; one that lost it stops, and one that cannot write ends without a loss."""

import asyncio
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from agent_resolver.registry import CallContext
from agent_resolver.runtime import (
    ChatAnswer,
    ChatRequest,
    ResumeRequest,
    RunBudget,
    RunRefused,
    ToolCall,
)
from agent_resolver.schema import JOURNAL
from agent_resolver.storage import LEASE_SECONDS, MemoryStore, SqliteStore, UnwritableFile
from tests.dying import Effects
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
from tests.runtime.journal.victim import Process


class Hour:
    """A clock of leases that a test moves."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def stage_on(path: Path, model: Any, tools: list[Any], **more: Any) -> Stage:
    return Stage(SqliteStore(str(path), key=KEY), model, tools, **more)


async def kinds_of(store: Any, run: str = "r") -> list[str]:
    return [row.kind for row in await store.read(lambda snapshot: snapshot.find(JOURNAL, {"run": run}))]


def kinds_now(store: Any, run: str = "r") -> list[str]:
    return [row.kind for row in store.read_now(lambda snapshot: snapshot.find(JOURNAL, {"run": run}))]


def everything(path: Path) -> list[str]:
    """Every row of the state."""
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())


def three_calls(request: ChatRequest) -> ChatAnswer:
    if rounds_of(request):
        return ChatAnswer(text="Done.")
    return ChatAnswer(calls=tuple(ToolCall(f"c{n}", "act", f'{{"n": {n}}}') for n in range(3)), finish="tool_calls")


@pytest.mark.parametrize("jump", [LEASE_SECONDS + 1, -86_400.0], ids=["run out", "clock set back"])
def test_a_process_that_lost_its_run_starts_no_call_and_writes_nothing(tmp_path: Path, jump: float) -> None:
    """The first process hangs in a call until its lease has run out, and another one has finished the run."""

    async def story() -> None:
        path = tmp_path / "state.db"
        hour, reached, goes_on = Hour(), asyncio.Event(), asyncio.Event()
        first = stage_on(path, CountingModel(three_calls), [slow := SlowTool(reached, goes_on)])
        second = stage_on(path, CountingModel(three_calls), [quick := CountingTool("act", is_idempotent=True)])
        first.journal.seconds = second.journal.seconds = hour
        running = asyncio.create_task(first.runtime.run_to_completion(go(run_id="r")))
        await reached.wait()
        with pytest.raises(RunRefused, match="run r is running in another process"):
            await second.runtime.resume(ResumeRequest(run="r"))

        hour.now += jump
        resumed = asyncio.create_task(second.runtime.resume(ResumeRequest(run="r")))
        await comes_true(lambda: "run.resumed" in kinds_now(second.store))
        # The first process may stay frozen for ever, and could not write the end of its call: nothing waits for it.
        result = await resumed
        rows = everything(path)
        goes_on.set()
        lost = await running
        assert (lost.termination.reason, lost.termination.code) == ("error", "lease_lost")
        assert everything(path) == rows
        assert result.text == "Done."
        assert slow.made == [0]
        assert [each["n"] for each in quick.made] == [0, 1, 2]
        assert (len(first.model.asked), len(second.model.asked)) == (1, 1)
        kinds = ["run.started", "model.asked", "model.answered", "run.resumed"]
        assert await kinds_of(second.store) == [*kinds, "model.asked", "model.answered", "run.ended"]
        folded = await second.journal.look_up("r")
        assert folded is not None
        assert folded.state == result.state
        first.store.close()
        second.store.close()

    asyncio.run(story())


class SlowTool(CountingTool):
    """Hangs in its first call until it is let go on."""

    def __init__(self, reached: asyncio.Event, goes_on: asyncio.Event) -> None:
        super().__init__("act", is_idempotent=True)
        self._reached, self._goes_on = reached, goes_on
        self.made: list[Any] = []

    async def invoke(self, arguments: dict[str, Any], context: CallContext) -> Any:  # noqa: ARG002 - the port
        self.made.append(arguments["n"])
        self._reached.set()
        await self._goes_on.wait()
        return {"made": 1}


@pytest.mark.slow
def test_two_tasks_of_one_process_that_resume_one_run_have_one_winner(tmp_path: Path) -> None:
    async def story() -> None:
        tool = CountingTool("act", needs_approval=True)
        stage = stage_on(tmp_path / "state.db", CountingModel(calls_then_ends(1)), [tool])
        for number in range(50):
            run = f"r{number}"
            waiting = await stage.runtime.run_to_completion(go(run_id=run))
            assert waiting.pending is not None
            await stage.inbox.decide(waiting.pending.id, "approved", CallContext.for_caller(CALLER))
            asked = len(stage.model.asked)
            both = (stage.runtime.resume(ResumeRequest(run=run)) for _ in range(2))
            ended = await asyncio.gather(*both, return_exceptions=True)
            refused = [str(each) for each in ended if isinstance(each, RunRefused)]
            assert len(refused) == 1
            assert refused[0] in {f"run {run} is running already", f"run {run} is running in another process"}
            assert [each.text for each in ended if not isinstance(each, BaseException)] == ["Done."]
            assert len(stage.model.asked) == asked + 1
        assert len(tool.made) == 50
        stage.store.close()

    asyncio.run(story())


@pytest.mark.slow
def test_two_processes_that_resume_one_run_have_one_winner_each_time(tmp_path: Path) -> None:
    """50 rounds: both processes start at the same moment, and the one that is refused says why."""
    runs = [f"approved-{number}" for number in range(50)]

    async def prepare() -> None:
        process = Process(tmp_path)
        for run in runs:
            await process.begin(run)
            await process.answer(run)
        process.close()

    asyncio.run(prepare())
    begun = len(Effects(tmp_path).read())
    # A process of its own forks both: this one has threads.
    subprocess.run([sys.executable, "-m", "tests.runtime.journal.victim", tmp_path, *runs], check=True, timeout=60)

    lines = Effects(tmp_path).read()[begun:]
    for run in runs:
        assert [line[2:] for line in lines if line[:2] == ("won", run)] == [("natural_end",)]
        refused = [" ".join(line[2:]) for line in lines if line[:2] == ("refused", run)]
        # Where the winner is quick, the other process finds the run at its end.
        assert refused in (
            [f"run {run} is running in another process"],
            [f"run {run} has ended: natural_end"],
        )
        asked = [line for line in lines if line[:2] == ("asked", run)]
        effects = [line[2] for line in lines if line[:2] == ("effect", run)]
        assert (len(asked), effects) == (1, ["ask", "safe"])


# What a run may use ---------------------------------------------------------------------------------------------------


def test_the_budget_of_seconds_does_not_run_while_a_run_waits(tmp_path: Path) -> None:
    async def story() -> None:
        tool = CountingTool("act", needs_approval=True)
        stage = stage_on(tmp_path / "state.db", CountingModel(calls_then_ends(1)), [tool])
        budget = RunBudget(max_seconds=30)
        waiting = await stage.runtime.run_to_completion(go(run_id="r", budget=budget))
        assert waiting.pending is not None
        await stage.inbox.decide(waiting.pending.id, "approved", CallContext.for_caller(CALLER))
        before = await stage.journal.look_up("r")
        assert before is not None
        # Days later by the clock of the machine: a run counts by another one, and only while it runs.
        stage.journal.seconds = lambda: 1e12
        result = await stage.runtime.resume(ResumeRequest(run="r"))
        assert result.text == "Done."
        assert before.state.seconds <= result.state.seconds < 30
        stage.store.close()

    asyncio.run(story())


def test_a_changed_agent_is_resumed_only_with_changes(tmp_path: Path) -> None:
    async def story() -> None:
        path = tmp_path / "state.db"
        tool = CountingTool("act", needs_approval=True)
        first = stage_on(path, CountingModel(calls_then_ends(1)), [tool])
        waiting = await first.runtime.run_to_completion(go(run_id="r"))
        assert waiting.pending is not None
        await first.inbox.decide(waiting.pending.id, "approved", CallContext.for_caller(CALLER))
        first.store.close()

        changed = {"agent": {"max_rounds": 7}}
        second = stage_on(path, CountingModel(calls_then_ends(1)), [tool], agents=changed)
        for _ in range(2):
            with pytest.raises(RunRefused, match="agent agent changed since run r began") as refused:
                await second.runtime.resume(ResumeRequest(run="r"))
            assert "--with-changes" in (refused.value.hint or "")
        assert tool.made == []
        result = await second.runtime.resume(ResumeRequest(run="r", with_changes=True))
        assert (result.text, len(tool.made)) == ("Done.", 1)
        folded = await second.journal.look_up("r")
        assert folded is not None
        assert folded.state == result.state
        assert folded.state.plan != waiting.plan
        second.store.close()

    asyncio.run(story())


# The state ------------------------------------------------------------------------------------------------------------


class FullDisk:
    """A store that takes so many writes, and then none until there is room again."""

    def __init__(self, store: Any, room: int) -> None:
        self._store, self.room = store, room

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def write(self, work: Any) -> Any:
        self.room -= 1
        if self.room < 0:
            raise UnwritableFile("state.db", "cannot be written: No space left on device")
        return await self._store.write(work)

    async def release(self, lease: Any) -> bool:
        if self.room < 0:
            raise UnwritableFile("state.db", "cannot be written: No space left on device")
        is_released: bool = await self._store.release(lease)
        return is_released


@pytest.mark.parametrize("room", range(1, 12))
def test_a_run_whose_state_cannot_be_written_ends_and_loses_nothing(room: int) -> None:
    """The disk is full from one of its writes on. When there is room again, the same process goes on at once."""

    async def story() -> None:
        store = FullDisk(MemoryStore(), room)
        tool = CountingTool("act", is_idempotent=True)
        stage = Stage(store, CountingModel(calls_then_ends(2)), [tool])
        broken = await stage.runtime.run_to_completion(go(run_id="r"))
        is_written = room >= 11
        codes = {"", "state_unavailable"}
        assert broken.termination.code in codes
        store.room = 1000
        folded = await stage.journal.look_up("r")
        assert folded is not None
        finished = [row for row in store.tables["ledger"].values() if row.row.state == "done"]
        answered = (await kinds_of(store)).count("model.answered")
        made, asked = len(tool.made), len(stage.model.asked)
        if folded.termination is not None:
            assert is_written or broken.termination.code == ""
            return
        result = await stage.runtime.resume(ResumeRequest(run="r"))
        assert result.text == "Done."
        assert len(tool.made) - made == 2 - len(finished)
        assert len(stage.model.asked) - asked == 3 - answered
        again = await stage.journal.look_up("r")
        assert again is not None
        assert again.state == result.state

    asyncio.run(story())


def test_a_state_file_that_is_gone_ends_the_run(tmp_path: Path) -> None:
    async def story() -> None:
        path = tmp_path / "state.db"

        def remove(_: dict[str, Any]) -> Any:
            for file in tmp_path.glob("state.db*"):
                file.rename(tmp_path / f"away-{file.name}")
            return {}

        stage = stage_on(path, CountingModel(calls_then_ends(2)), [CountingTool("act", remove)])
        result = await stage.runtime.run_to_completion(go(run_id="r"))
        assert result.termination.code == "state_unavailable"
        stage.store.close()

    asyncio.run(story())


def test_a_run_that_waits_for_a_call_under_way_looks_without_recording_each_look(tmp_path: Path) -> None:
    async def story() -> None:
        reached, goes_on = asyncio.Event(), asyncio.Event()
        stage = stage_on(tmp_path / "state.db", CountingModel(calls_then_ends(1)), [SlowTool(reached, goes_on)])
        running = asyncio.create_task(stage.runtime.run_to_completion(go(run_id="r")))
        await reached.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        resumed = asyncio.create_task(stage.runtime.resume(ResumeRequest(run="r")))
        store: Any = stage.store

        def codes() -> list[Any]:
            records = store.read_now(lambda snapshot: list(snapshot.records("r")))
            return [record.body.get("code") for record in records if record.kind == "call.failed"]

        await comes_true(lambda: "ALREADY_RUNNING" in codes())
        for _ in range(200):
            await asyncio.sleep(0.001)
        goes_on.set()
        assert (await resumed).text == "Done."
        assert codes() == ["ALREADY_RUNNING"]
        stage.store.close()

    asyncio.run(story())


def test_calls_that_are_returned_again_use_nothing_of_a_rate_limit(tmp_path: Path) -> None:
    """Two calls are done when the run is interrupted in the third one: it is resumed with all three."""

    def three(request: ChatRequest) -> ChatAnswer:
        if rounds_of(request):
            return ChatAnswer(text="Done.")
        calls = [ToolCall(f"c{n}", "limited", f'{{"n": {n}}}') for n in range(2)]
        return ChatAnswer(calls=(*calls, ToolCall("c2", "act", '{"n": 2}')), finish="tool_calls")

    async def story() -> None:
        reached, goes_on = asyncio.Event(), asyncio.Event()
        limited = CountingTool("limited")
        limited.descriptor = structs.replace(limited.descriptor, rate_limit_per_minute=2)
        stage = stage_on(tmp_path / "state.db", CountingModel(three), [limited, SlowTool(reached, goes_on)])
        running = asyncio.create_task(stage.runtime.run_to_completion(go(run_id="r")))
        await reached.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        goes_on.set()
        result = await stage.runtime.resume(ResumeRequest(run="r"))
        assert (result.text, len(limited.made)) == ("Done.", 2)
        assert "RATE_LIMITED" not in "".join(message.text for message in result.state.messages)
        stage.store.close()

    asyncio.run(story())
