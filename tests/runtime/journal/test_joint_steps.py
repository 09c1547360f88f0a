"""Steps of a run that share a transaction: before each effect, all that came before it is on the disk."""

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent_resolver.registry import CallContext
from agent_resolver.runtime import AnswerReceived, ChatAnswer, ChatRequest, RunEvent, ToolEnded, ToolStarted
from agent_resolver.schema import JOURNAL, LEDGER
from agent_resolver.storage import SqliteStore, Transaction
from tests.process import comes_true
from tests.runtime.journal.lasting import KEY, CountingModel, CountingTool, Stage, calls_then_ends, go

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
