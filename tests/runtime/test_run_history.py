"""What is told of a run later: its questions, its calls, and what is uncertain."""

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from agent_resolver.registry import ToolFailure
from agent_resolver.runtime import (
    ChatAnswer,
    ChatRequest,
    ResumeRequest,
    RunBudget,
    ToolCall,
    Usage,
    export_run,
    read_history,
)
from agent_resolver.schema import PLANS, FailureCode
from agent_resolver.storage import AesSeal, SqliteStore
from tests.process import comes_true
from tests.runtime.journal.lasting import KEY, CountingModel, CountingTool, Stage, calls_then_ends, go

SEAL = AesSeal(KEY)


def test_a_question_without_an_answer_is_told_as_uncertain(tmp_path: Path) -> None:
    async def run() -> None:
        store = SqliteStore(str(tmp_path / "state.db"), key=KEY)
        model = CountingModel(calls_then_ends(1))
        model.hangs = True
        stage = Stage(store, model, [CountingTool("act")])
        running = asyncio.create_task(stage.runtime.run(go(run_id="r")))
        await comes_true(lambda: bool(model.asked))
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

        history = await store.read(lambda snapshot: read_history(snapshot, "r", SEAL))

        store.close()
        assert history is not None
        assert [(each.round, each.outcome, each.seconds) for each in history.questions] == [(1, "unanswered", None)]
        assert history.folded.state.uncertain == 1
        assert history.folded.termination is None

    asyncio.run(run())


def same_id_twice(request: ChatRequest) -> ChatAnswer:
    """Two rounds whose calls have one id, as models of some providers number them."""
    made = sum(message.role == "assistant" for message in request.messages)
    if made == 2:
        return ChatAnswer(text="Done.", usage=Usage(10, 2))
    calls = (ToolCall("c", "act", '{"n": 1}'), ToolCall("c", "act", '{"n": 2}'))
    return ChatAnswer(calls=calls, finish="tool_calls", usage=Usage(10, 5))


def test_calls_of_one_id_are_told_apart(tmp_path: Path) -> None:
    def fails_once(arguments: dict[str, object]) -> object:
        if len(tool.made) == 3:
            raise ToolFailure(FailureCode.TOOL_ERROR, "It does not work", "do something else")
        return arguments

    tool = CountingTool("act", fails_once)

    async def run() -> None:
        store = SqliteStore(str(tmp_path / "state.db"), key=KEY)
        stage = Stage(store, CountingModel(same_id_twice), [tool])
        await stage.runtime.run_to_completion(go(run_id="r"))
        history = await store.read(lambda snapshot: read_history(snapshot, "r", SEAL))
        store.close()
        assert history is not None
        assert [(call.round, call.arguments["n"], call.outcome) for call in history.calls] == [
            (1, 1, "done"),
            (1, 2, "done"),
            (2, 1, "failed"),
            (2, 2, "done"),
        ]
        assert history.calls[2].code == "TOOL_ERROR"

    asyncio.run(run())


def test_there_is_no_history_of_a_run_that_is_not_there(tmp_path: Path) -> None:
    async def run() -> None:
        store = SqliteStore(str(tmp_path / "state.db"), key=KEY)
        assert await store.read(lambda snapshot: read_history(snapshot, "r", SEAL)) is None
        assert await store.read(lambda snapshot: export_run(snapshot, "r", SEAL)) is None
        store.close()

    asyncio.run(run())


def test_an_export_hides_what_stands_in_fields_that_are_usually_secret(tmp_path: Path) -> None:
    canary = "canary-4711"

    def answer(request: ChatRequest) -> ChatAnswer:
        if any(message.role == "tool" for message in request.messages):
            return ChatAnswer(text=f"I used {canary}.", usage=Usage(10, 2))
        call = ToolCall("c", "act", json.dumps({"n": 1, "token": canary}))
        return ChatAnswer(calls=(call,), finish="tool_calls", usage=Usage(10, 5))

    async def run() -> None:
        store = SqliteStore(str(tmp_path / "state.db"), key=KEY)
        tool = CountingTool("act", lambda arguments: {"echo": arguments, "password": "canary-4712"})
        stage = Stage(store, CountingModel(answer), [tool])
        await stage.runtime.run_to_completion(go(run_id="r"))
        document = await store.read(lambda snapshot: export_run(snapshot, "r", SEAL))
        store.close()
        assert document is not None
        text = json.dumps(document)
        assert "canary" not in text
        assert "[redacted]" in text
        assert document["conversation"][-1]["content"][0]["text"] == "I used [redacted]."

    asyncio.run(run())


PIN = "canary-4711"


def says_the_pin(request: ChatRequest) -> ChatAnswer:
    """Calls a tool with a secret once in a conversation, and says it afterwards."""
    if any(message.role == "tool" for message in request.messages):
        return ChatAnswer(text=f"I used {PIN}.", usage=Usage(10, 2))
    call = ToolCall("c", "act", json.dumps({"n": 1, "pin": PIN}))
    return ChatAnswer(calls=(call,), finish="tool_calls", usage=Usage(10, 5))


def test_a_secret_of_an_earlier_run_of_a_thread_stays_hidden_after_its_tool_is_gone(tmp_path: Path) -> None:
    async def run() -> None:
        store = SqliteStore(str(tmp_path / "state.db"), key=KEY)
        first = Stage(store, CountingModel(says_the_pin), [CountingTool("act", secret_fields=("pin",))])
        await first.runtime.run_to_completion(go(run_id="first", thread="t"))
        second = Stage(store, CountingModel(says_the_pin), [CountingTool("other")])
        await second.runtime.run_to_completion(go(run_id="second", thread="t"))

        history = await store.read(lambda snapshot: read_history(snapshot, "second", SEAL))
        document = await store.read(lambda snapshot: export_run(snapshot, "second", SEAL))

        store.close()
        assert history is not None
        assert history.text == "I used [redacted]."
        assert PIN not in json.dumps(document)

    asyncio.run(run())


@pytest.mark.parametrize("is_plan_gone", [False, True])
def test_a_secret_stays_hidden_after_its_tool_declares_another_one(tmp_path: Path, *, is_plan_gone: bool) -> None:
    async def run() -> None:
        store = SqliteStore(str(tmp_path / "state.db"), key=KEY)
        first = Stage(store, CountingModel(says_the_pin), [CountingTool("act", secret_fields=("pin",))])
        begun = await first.runtime.run_to_completion(go(run_id="r", budget=RunBudget(max_rounds=1)))
        if is_plan_gone:
            # Pruning keeps the newest plan of a run.
            await store.write(lambda transaction: transaction.drop(PLANS, begun.plan))
        second = Stage(store, CountingModel(says_the_pin), [CountingTool("act", secret_fields=("code",))])
        await second.runtime.resume(ResumeRequest(run="r", with_changes=True, budget=RunBudget()))

        history = await store.read(lambda snapshot: read_history(snapshot, "r", SEAL))
        document = await store.read(lambda snapshot: export_run(snapshot, "r", SEAL))

        store.close()
        assert history is not None
        assert PIN not in history.text
        assert PIN not in json.dumps(document)

    asyncio.run(run())


def test_a_secret_that_a_delegate_repeats_stays_hidden_in_the_calling_run(tmp_path: Path) -> None:
    def answer(request: ChatRequest) -> ChatAnswer:
        if "helper" in request.messages[0].text or any(message.role == "tool" for message in request.messages):
            return says_the_pin(request)
        call = ToolCall("h", "agent_run_helper", '{"prompt": "Help"}')
        return ChatAnswer(calls=(call,), finish="tool_calls", usage=Usage(10, 5))

    async def run() -> None:
        store = SqliteStore(str(tmp_path / "state.db"), key=KEY)
        tool = CountingTool("act", secret_fields=("pin",))
        agents: dict[str, dict[str, Any]] = {"agent": {"delegates": ("helper",)}, "helper": {}}
        stage = Stage(store, CountingModel(answer), [tool], agents)
        await stage.runtime.run_to_completion(go(run_id="r"))

        history = await store.read(lambda snapshot: read_history(snapshot, "r", SEAL))
        document = await store.read(lambda snapshot: export_run(snapshot, "r", SEAL))

        store.close()
        assert len(tool.made) == 1
        assert history is not None
        assert history.text == "I used [redacted]."
        assert PIN not in json.dumps(document)

    asyncio.run(run())
