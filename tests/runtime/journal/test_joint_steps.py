"""Steps of a run that share a transaction: before each effect, all that came before it is on the disk."""

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from agent_resolver.core import MAX_OPEN_QUESTIONS
from agent_resolver.registry import CallContext
from agent_resolver.runtime import (
    AnswerReceived,
    ChatAnswer,
    ChatRequest,
    ResumeRequest,
    RunEvent,
    RunResult,
    ToolEnded,
    ToolStarted,
)
from agent_resolver.schema import JOURNAL, LEDGER, PENDING, RUNS, PendingAction
from agent_resolver.storage import SqliteStore, Transaction, UnwritableFile
from tests.process import comes_true
from tests.runtime.journal.lasting import CALLER, KEY, CountingModel, CountingTool, Stage, calls_then_ends, go

ROUNDS = 3


class CountedStore:
    """A store that counts its writes."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self.writes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def write(self, work: Callable[[Transaction], Any]) -> Any:
        self.writes += 1
        return await self._store.write(work)


def kept(path: Path) -> tuple[list[str], list[str]]:
    """The kinds of all entries and the states of all calls, as another process finds them."""
    store = SqliteStore(str(path), key=KEY)
    entries, calls = store.read_now(lambda snapshot: (snapshot.find(JOURNAL), snapshot.find(LEDGER)))
    store.close()
    return [entry.kind for entry in entries], sorted(call.state for call in calls)


class Watching:
    """A plugin that sees each call that was made."""

    id = "watching"

    def __init__(self, see: Callable[[], None]) -> None:
        self._see = see

    def register(self, registrar: Any) -> None:
        registrar.phase_hook("after_tool_execute", lambda context: self._see())  # noqa: ARG005 - the shape of hooks


def run(path: Path, sink: Any = None, plugins: tuple[Any, ...] = (), **parts: Any) -> int:
    """Run an agent, and count the writes."""
    store: Any = CountedStore(SqliteStore(str(path), key=KEY))
    model = parts.get("model", CountingModel(calls_then_ends(ROUNDS)))
    tool = parts.get("tool", CountingTool("act"))
    plugin_ids = tuple(plugin.id for plugin in plugins)
    stage = Stage(store, model, [tool], {"agent": {"plugin_ids": plugin_ids}}, plugins)
    result = asyncio.run(stage.runtime.run(go(run_id="r"), sink))
    assert result.text == "Done."
    store.close()
    return int(store.writes)


def test_a_round_that_nothing_watches_takes_two_writes(tmp_path: Path) -> None:
    # The start of the run and its first question are on their own; its last answer goes with its end.
    assert run(tmp_path / "state.db") == 1 + 1 + 2 * ROUNDS + 1


def test_each_step_of_a_run_with_a_sink_is_a_write(tmp_path: Path) -> None:
    assert run(tmp_path / "state.db", lambda event: None) == 1 + 4 * ROUNDS + 2 + 1  # noqa: ARG005 - a sink


def test_each_effect_comes_after_all_steps_before_it(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    seen: list[tuple[str, str, list[str]]] = []

    class Tool(CountingTool):
        async def invoke(self, arguments: dict[str, Any], context: CallContext) -> Any:
            entries, calls = kept(path)
            seen.append(("tool", entries[-1], calls))
            return await super().invoke(arguments, context)

    class Model(CountingModel):
        async def complete(self, request: ChatRequest) -> ChatAnswer:
            entries, calls = kept(path)
            seen.append(("model", entries[-1], calls))
            return await super().complete(request)

    run(path, model=Model(calls_then_ends(ROUNDS)), tool=Tool("act"))

    expected: list[tuple[str, str, list[str]]] = []
    for number in range(ROUNDS):
        expected.append(("model", "model.asked", ["done"] * number))
        expected.append(("tool", "model.answered", [*["done"] * number, "started"]))
    assert seen == [*expected, ("model", "model.asked", ["done"] * ROUNDS)]


def test_each_event_comes_after_the_step_that_it_tells_of(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    seen: list[tuple[str, str, int]] = []

    def sink(event: RunEvent) -> None:
        entries, calls = kept(path)
        if isinstance(event, AnswerReceived | ToolStarted | ToolEnded):
            seen.append((type(event).__name__, entries[-1], calls.count("done")))

    run(path, sink)

    first_round = [
        ("AnswerReceived", "model.answered", 0),
        ("ToolStarted", "model.answered", 0),
        ("ToolEnded", "model.answered", 1),
    ]
    assert seen[:3] == first_round


def test_a_plugin_sees_a_call_once_its_end_is_on_the_disk(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    seen: list[list[str]] = []
    plugin = Watching(lambda: seen.append(kept(path)[1]))

    run(path, plugins=(plugin,))

    assert seen == [["done"] * number for number in range(1, ROUNDS + 1)]


def test_a_run_that_was_asked_to_end_while_its_model_answers_makes_no_call(tmp_path: Path) -> None:
    tool = CountingTool("act")

    class Model(CountingModel):
        async def complete(self, request: ChatRequest) -> ChatAnswer:
            assert await stage.journal.cancel("r") == "cancelling"
            return await super().complete(request)

    stage = Stage(SqliteStore(str(tmp_path / "state.db"), key=KEY), Model(calls_then_ends(1)), [tool])
    result = asyncio.run(stage.runtime.run_to_completion(go(run_id="r")))

    assert (result.termination.reason, tool.made) == ("cancelled", [])
    stage.store.close()


def test_a_call_whose_run_another_process_has_taken_up_leaves_its_end(tmp_path: Path) -> None:
    """The process that has the run waits for the end of the call, and does not make it again."""
    path = tmp_path / "state.db"
    store = SqliteStore(str(path), key=KEY)

    def take_away(_: dict[str, Any]) -> str:
        connection = sqlite3.connect(path)
        connection.execute("UPDATE lease SET number = number + 1")
        connection.commit()
        connection.close()
        return "made"

    stage = Stage(store, CountingModel(calls_then_ends(1)), [CountingTool("act", take_away)])
    result = asyncio.run(stage.runtime.run_to_completion(go(run_id="r")))
    store.close()

    assert result.termination.code == "lease_lost"
    entries, calls = kept(path)
    assert (entries[-1], calls) == ("model.answered", ["done"])


def test_a_call_that_ends_after_its_run_was_interrupted_leaves_its_end(tmp_path: Path) -> None:
    path = tmp_path / "state.db"

    async def story() -> None:
        reached, goes_on = asyncio.Event(), asyncio.Event()

        class Tool(CountingTool):
            async def invoke(self, arguments: dict[str, Any], context: CallContext) -> Any:
                reached.set()
                await goes_on.wait()
                return await super().invoke(arguments, context)

        store = SqliteStore(str(path), key=KEY)
        stage = Stage(store, CountingModel(calls_then_ends(1)), [Tool("act")])
        running = asyncio.create_task(stage.runtime.run_to_completion(go(run_id="r")))
        await reached.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        goes_on.set()
        await comes_true(lambda: kept(path)[1] == ["done"])
        store.close()

    asyncio.run(story())


# Approvals ------------------------------------------------------------------------------------------------------------


class ApprovedStage(Stage):
    """A process whose tool takes an approval; something may happen while its model answers."""

    def __init__(self, path: Path, while_answering: Callable[[], Any] | None = None, rounds: int = 1) -> None:
        self.path = path
        self.tool = CountingTool("act", needs_approval=True)
        self.counted: Any = CountedStore(SqliteStore(str(path), key=KEY))
        model = CountingModel(calls_then_ends(rounds))
        super().__init__(self.counted, model, [self.tool])
        self._while_answering = while_answering
        model.complete = self._complete  # type: ignore[method-assign]

    async def _complete(self, request: ChatRequest) -> ChatAnswer:
        answer = await CountingModel.complete(self.model, request)
        while_answering, self._while_answering = self._while_answering, None
        if while_answering is not None:
            await while_answering()
        return answer

    async def run(self) -> RunResult:
        return await self.runtime.run_to_completion(go(run_id="r"))

    async def go_on(self) -> RunResult:
        return await self.runtime.resume(ResumeRequest(run="r"))

    async def approve(self) -> None:
        (question,) = await self.questions()
        await self.inbox.decide(question.id, "approved", CallContext.for_caller(CALLER))

    async def questions(self) -> list[PendingAction]:
        return await self.store.read(lambda snapshot: snapshot.find(PENDING))

    async def entries(self) -> list[str]:
        return [entry.kind for entry in await self.store.read(lambda snapshot: snapshot.find(JOURNAL))]


def test_an_approval_takes_two_writes_more_than_a_call_without_one(tmp_path: Path) -> None:
    async def story() -> list[int]:
        stage = ApprovedStage(tmp_path / "state.db")
        counts = []
        for step in (stage.run, stage.approve, stage.go_on):
            before = stage.counted.writes
            await step()
            counts.append(stage.counted.writes - before)
        stage.store.close()
        return counts

    # The start, the question to the model, and its answer with the question to the person and the wait; the approval;
    # the call with the step that the run goes on, its end with the next question, and the end of the run. Taking the
    # run up writes a lease, which is not flushed.
    assert asyncio.run(story()) == [3, 1, 3]


def test_a_question_is_kept_with_the_wait_for_it(tmp_path: Path) -> None:
    """No process ever finds a question of a run that does not wait, or a run that waits for no question."""
    seen: set[tuple[bool, bool]] = set()

    class Watched(CountedStore):
        async def write(self, work: Callable[[Transaction], Any]) -> Any:
            result = await super().write(work)
            seen.add(await self._store.read(lambda found: (bool(found.find(PENDING)), _is_waiting(found))))
            return result

    async def story() -> None:
        store: Any = Watched(SqliteStore(str(tmp_path / "state.db"), key=KEY))
        stage = Stage(store, CountingModel(calls_then_ends(1)), [CountingTool("act", needs_approval=True)])
        await stage.runtime.run_to_completion(go(run_id="r"))
        store.close()

    asyncio.run(story())
    assert seen == {(False, False), (True, True)}


def _is_waiting(snapshot: Any) -> bool:
    (row,) = snapshot.find(RUNS)
    return bool(row.status == "waiting")


def test_no_person_is_asked_by_a_run_that_was_asked_to_end(tmp_path: Path) -> None:
    async def story() -> None:
        async def cancel() -> None:
            assert await stage.journal.cancel("r") == "cancelling"

        stage = ApprovedStage(tmp_path / "state.db", cancel)
        result = await stage.run()

        assert (result.termination.reason, result.pending, stage.tool.made) == ("cancelled", None, [])
        assert await stage.questions() == []
        assert (await stage.entries())[-2:] == ["model.answered", "run.ended"]
        stage.store.close()

    asyncio.run(story())


def test_no_person_is_asked_by_a_run_that_another_process_has_taken_up(tmp_path: Path) -> None:
    async def story() -> None:
        async def take_away() -> None:
            connection = sqlite3.connect(stage.path)
            connection.execute("UPDATE lease SET number = number + 1")
            connection.commit()
            connection.close()

        stage = ApprovedStage(tmp_path / "state.db", take_away)
        result = await stage.run()

        assert (result.termination.code, result.pending) == ("lease_lost", None)
        assert await stage.questions() == []
        assert (await stage.entries())[-1] == "model.asked"
        stage.store.close()

    asyncio.run(story())


def test_a_run_whose_question_cannot_be_written_says_so_and_goes_on_later(tmp_path: Path) -> None:
    class Full(CountedStore):
        room = 2

        async def write(self, work: Callable[[Transaction], Any]) -> Any:
            if self.writes == self.room:
                raise UnwritableFile("state.db", "cannot be written: No space left on device")
            return await super().write(work)

    async def story() -> None:
        store: Any = Full(SqliteStore(str(tmp_path / "state.db"), key=KEY))
        stage = Stage(store, CountingModel(calls_then_ends(1)), [CountingTool("act", needs_approval=True)])
        broken = await stage.runtime.run_to_completion(go(run_id="r"))
        assert (broken.termination.code, broken.pending) == ("state_unavailable", None)

        store.room = 1000
        waiting = await stage.runtime.resume(ResumeRequest(run="r"))
        assert waiting.pending is not None
        await stage.inbox.decide(waiting.pending.id, "approved", CallContext.for_caller(CALLER))
        done = await stage.runtime.resume(ResumeRequest(run="r"))
        assert done.text == "Done."
        store.close()

    asyncio.run(story())


@pytest.mark.parametrize("others", [MAX_OPEN_QUESTIONS - 1, MAX_OPEN_QUESTIONS])
def test_questions_that_come_in_between_count(tmp_path: Path, others: int) -> None:
    """Other processes ask for the same caller after the run has seen that there is room for its question."""

    class Late(CountedStore):
        comes_first: Callable[[], Any] | None = None

        async def write(self, work: Callable[[Transaction], Any]) -> Any:
            if self.writes == 2 and self.comes_first is not None:
                comes_first, self.comes_first = self.comes_first, None
                await comes_first()
            return await super().write(work)

    async def story() -> None:
        store: Any = Late(SqliteStore(str(tmp_path / "state.db"), key=KEY))
        stage = Stage(store, CountingModel(calls_then_ends(1)), [CountingTool("act", needs_approval=True)])
        asked = PendingAction(
            id="", type="APPROVAL", subject="act", message="", asked_at=stage.journal.clock.now(), requester=CALLER.id
        )

        async def ask_others() -> None:
            def put(transaction: Transaction) -> None:
                for number in range(others):
                    transaction.put(PENDING, structs.replace(asked, id=str(number), binding=str(number)))

            await SqliteStore.write(store._store, put)

        store.comes_first = ask_others
        result = await stage.runtime.run_to_completion(go(run_id="r"))
        (row,) = await store.read(lambda snapshot: snapshot.find(RUNS))
        questions = await store.read(lambda snapshot: snapshot.find(PENDING))
        records = await store.read(lambda snapshot: [record.kind for record in snapshot.records("r")])
        if others < MAX_OPEN_QUESTIONS:
            assert (result.termination.reason, row.status) == ("suspended", "waiting")
            assert records == ["run.started", "action.asked", "call.pending", "run.ended"]
        else:
            # The model reads that there are too many, as if the run had seen so at once.
            assert (result.text, row.status) == ("Done.", "done")
            assert "100 questions open" in result.state.messages[-2].text
            assert records == ["run.started", "call.failed", "run.ended"]
        assert len(questions) == MAX_OPEN_QUESTIONS
        store.close()

    asyncio.run(story())
