"""Attacks on runs that last: by changed agents, by other callers, and by what was said in them."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from agent_resolver.project import prune
from agent_resolver.registry import CallContext, ToolFailure
from agent_resolver.runtime import ChatAnswer, ChatRequest, ResumeRequest, RunBudget, ToolCall, Usage, user_message
from agent_resolver.schema import ANONYMOUS, LEDGER, Caller, FailureCode, Limits, local_caller
from agent_resolver.storage import SqliteStore, Transaction
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
LATER = "2999-01-01T00:00:00.000Z"


# Limits ---------------------------------------------------------------------------------------------------------------


def asks_helper(request: ChatRequest) -> ChatAnswer:
    """The agent asks its helper, which makes a call."""
    if rounds_of(request):
        return ChatAnswer(text="Done.", usage=Usage(10, 2))
    is_helper = "helper" in request.messages[0].text
    call = ToolCall("c", "act", '{"n": 1}') if is_helper else ToolCall("c", "agent_run_helper", '{"prompt": "Help"}')
    return ChatAnswer(calls=(call,), finish="tool_calls", usage=Usage(10, 5))


def test_a_delegate_that_goes_on_with_changes_keeps_the_limits_that_it_began_with(tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")
    tools = [CountingTool("act", needs_approval=True), CountingTool("wipe")]
    begun: dict[str, dict[str, Any]] = {
        "agent": {"delegates": ("helper",)},
        "helper": {"limits": Limits(forbid=("wipe",))},
    }

    async def story() -> None:
        first = Stage(SqliteStore(path, key=KEY), CountingModel(asks_helper), tools, begun)
        waiting = await first.runtime.run_to_completion(go(run_id="r"))
        assert waiting.pending is not None
        await first.inbox.decide(waiting.pending.id, "approved", ANSWERING)
        first.store.close()

        loosened = {**begun, "helper": {}}
        second = Stage(SqliteStore(path, key=KEY), CountingModel(asks_helper), tools, loosened)
        result = await second.runtime.resume(ResumeRequest(run="r", with_changes=True))
        second.store.close()
        helped = next(request for request in second.model.asked if "helper" in request.messages[0].text)
        assert result.text == "Done."
        assert "wipe" not in {tool.name for tool in helped.tools}

    asyncio.run(story())


# Budgets --------------------------------------------------------------------------------------------------------------


def test_a_cost_that_is_not_known_leaves_nothing_of_a_budget_that_is_set_later(tmp_path: Path) -> None:
    """The provider hides what it used as long as there is no budget."""

    def answer(request: ChatRequest) -> ChatAnswer:
        call = ToolCall("c", "act", f'{{"n": {rounds_of(request)}}}')
        usage = Usage(1_000_000, 1_000_000) if rounds_of(request) else None
        return ChatAnswer(calls=(call,), finish="tool_calls", usage=usage)

    async def story() -> None:
        model, tool = CountingModel(answer), CountingTool("act", needs_approval=True)
        stage = Stage(SqliteStore(str(tmp_path / "state.db"), key=KEY), model, [tool])
        waiting = await stage.runtime.run_to_completion(go(run_id="r"))
        assert waiting.pending is not None
        await stage.inbox.decide(waiting.pending.id, "approved", ANSWERING)

        result = await stage.runtime.resume(ResumeRequest(run="r", budget=RunBudget(max_cost=0.01)))

        stage.store.close()
        assert (result.termination.code, len(model.asked)) == ("budget_cost", 1)
        assert result.termination.message == "The budget is $0.01, and what the run has cost so far is not known"

    asyncio.run(story())


# Several processes ----------------------------------------------------------------------------------------------------


class LateStore:
    """The store of a process in whose first write another process comes first."""

    def __init__(self, store: SqliteStore, comes_first: Callable[[], Awaitable[object]]) -> None:
        self._store = store
        self._comes_first: Callable[[], Awaitable[object]] | None = comes_first

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def write(self, work: Callable[[Transaction], Any]) -> Any:
        comes_first, self._comes_first = self._comes_first, None
        if comes_first is not None:
            await comes_first()
        return await self._store.write(work)


def test_a_run_that_goes_on_while_the_state_is_pruned_keeps_its_conversation(tmp_path: Path) -> None:
    async def story() -> None:
        store = SqliteStore(str(tmp_path / "state.db"), key=KEY)
        stage = Stage(store, CountingModel(calls_then_ends(1)), [CountingTool("act")])
        await stage.runtime.run_to_completion(go(run_id="first", thread="t"))
        await stage.runtime.run_to_completion(go(run_id="second", thread="t", budget=RunBudget(max_rounds=1)))

        async def go_on() -> None:
            await stage.runtime.resume(ResumeRequest(run="second", budget=RunBudget(max_rounds=1)))

        late: Any = LateStore(store, go_on)
        pruned = await prune(late, "prune", LATER, LATER, None, is_trial=False)

        third = await stage.runtime.run_to_completion(go(run_id="third", thread="t"))
        store.close()
        assert pruned.runs == 0
        assert [message.text for message in third.state.messages if message.role == "user"] == ["Go"] * 3

    asyncio.run(story())


# Calls that were on their way -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["done", "failed", "started"])
def test_a_user_who_goes_on_after_a_crash_does_not_have_a_finished_call_made_again(tmp_path: Path, ending: str) -> None:
    """The model is told what became of the call; before it read that the call was not made, and would repeat it."""

    async def story() -> None:
        store = SqliteStore(str(tmp_path / "state.db"), key=KEY)

        def interrupts(_: dict[str, Any]) -> str:
            # The call goes on, and its run does not wait for it.
            running.cancel()
            if ending == "failed":
                raise ToolFailure(FailureCode.TOOL_ERROR, "The drawer is locked", "open it")
            return "It is in the drawer."

        stage = Stage(store, CountingModel(calls_then_ends(1)), [CountingTool("act", interrupts)])
        running = asyncio.create_task(stage.runtime.run_to_completion(go(run_id="r")))
        with suppress(asyncio.CancelledError):
            await running
        (kept,) = await store.read(lambda snapshot: snapshot.find(LEDGER))
        if ending == "started":
            begun = structs.replace(kept, state="unknown", result=None)
            await store.write(lambda transaction: transaction.put(LEDGER, begun))

        result = await stage.runtime.resume(ResumeRequest(run="r", messages=(user_message("Go on"),)))

        store.close()
        note, *_ = [message.text for message in result.state.messages if message.role == "tool"]
        words = {"done": "It is in the drawer.", "failed": "The drawer is locked", "started": "It may have been done"}
        assert words[ending] in note

    asyncio.run(story())


# Other callers --------------------------------------------------------------------------------------------------------


def person(name: str, *scopes: str, issuer: str = "https://issuer.example") -> Caller:
    """A person that an issuer vouches for."""
    return Caller(id=name, is_verified=True, issuer=issuer, scopes=frozenset(scopes), clearance="INTERNAL")


@pytest.mark.parametrize(
    ("acting", "made"),
    [
        (person("ada", "read", "write"), (1, 1)),
        (person("ada"), (0, 0)),
        (person("bob", "read", "write"), (1, 0)),
        (person("bob", "write"), (0, 0)),
        (person("ada", "read", "write", issuer="https://other.example"), (1, 0)),
        (local_caller("root"), (1, 0)),
        (ANONYMOUS, (0, 0)),
    ],
    ids=["more rights", "fewer rights", "another with more", "another with other", "a namesake", "local", "nobody"],
)
def test_a_run_that_another_lets_go_on_has_the_smaller_rights_of_both(
    tmp_path: Path, acting: Caller, made: tuple[int, int]
) -> None:
    def answer(request: ChatRequest) -> ChatAnswer:
        tool = ("look", "change", "")[rounds_of(request)]
        if not tool:
            return ChatAnswer(text="Done.", usage=Usage(10, 2))
        return ChatAnswer(calls=(ToolCall(tool, tool, '{"n": 1}'),), finish="tool_calls", usage=Usage(10, 5))

    async def story() -> None:
        look = CountingTool("look", needs_approval=True, required_scopes=("read",))
        change = CountingTool("change", required_scopes=("write",))
        stage = Stage(SqliteStore(str(tmp_path / "state.db"), key=KEY), CountingModel(answer), [look, change])
        waiting = await stage.runtime.run_to_completion(go(run_id="r", caller=person("ada", "read")))
        assert waiting.pending is not None
        await stage.inbox.decide(waiting.pending.id, "approved", ANSWERING)

        await stage.runtime.resume(ResumeRequest(run="r", caller=acting))

        stage.store.close()
        assert (len(look.made), len(change.made)) == made

    asyncio.run(story())
