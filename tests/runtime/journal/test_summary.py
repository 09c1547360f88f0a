"""Summaries of long conversations in the journal: paid once, whatever happens in between."""

import asyncio
from functools import partial
from typing import Any

import msgspec

from agent_resolver.runtime import (
    AgentRuntimeBuilder,
    AgentSpec,
    ChatAnswer,
    ChatRequest,
    ContextPolicy,
    ModelSpec,
    RunRequest,
    RunResult,
    RunState,
    ToolCall,
    Usage,
    fold_run,
    user_message,
)
from agent_resolver.schema import JOURNAL
from agent_resolver.storage import AesSeal, MemoryStore
from tests.runtime.journal.lasting import KEY, CountingModel, CountingTool, Stage, go

SUMMING = "Sum up."
ROUNDS = 5
POLICY = ContextPolicy(autocompact_threshold=800, compaction_raw_suffix_messages=0)
SECTION = {"summarizer_system_prompt": SUMMING, "summarizer_user_prompt": "{messages}", "min_savings_ratio": 0.3}
SPEC: dict[str, Any] = {"context_policy": POLICY, "sections": {"compaction": SECTION}}


def answer(request: ChatRequest) -> ChatAnswer:
    """A call a round, then the end; which round it is, the newest call says."""
    if request.messages[0].text == SUMMING:
        return ChatAnswer(text="They act.", usage=Usage(10, 5))
    numbers = [msgspec.json.decode(call.arguments)["n"] for message in request.messages for call in message.calls]
    number = max(numbers, default=-1) + 1
    if number == ROUNDS:
        return ChatAnswer(text="Done.", usage=Usage(10, 5))
    call = ToolCall(f"c{number}", "act", f'{{"n": {number}}}')
    return ChatAnswer(calls=(call,), finish="tool_calls", usage=Usage(10, 5))


def tool() -> CountingTool:
    return CountingTool("act", lambda _: "x" * 1_500)


async def gone_on(state: RunState, model: CountingModel) -> RunResult:
    """The end of a run that another process goes on with from here."""
    builder = AgentRuntimeBuilder().with_provider("p", model).with_tool("act", tool())
    builder.with_model(ModelSpec(id="m", provider_id="p", upstream_model="m", input_price=1.0, output_price=1.0))
    builder.with_agent_spec(AgentSpec(id="agent", model_id="m", system_prompt="You are agent.", **SPEC))
    request = RunRequest(agent_id="agent", resume=state, with_changes=True)
    return await builder.build().run_to_completion(request)


def test_a_run_killed_at_any_entry_pays_for_no_answer_twice() -> None:
    async def run() -> None:
        store = MemoryStore(key=KEY)
        stage = Stage(store, CountingModel(answer), [tool()], {"agent": SPEC})
        whole = await stage.runtime.run_to_completion(go(run_id="r"))
        rows = await store.read(lambda snapshot: list(snapshot.find(JOURNAL, {"run": "r"})))
        kinds = [row.kind for row in rows]
        assert whole.state.summary is not None
        assert kinds.count("model.answered") == len(stage.model.asked) > ROUNDS + 1

        # The last entry is the end of the run.
        for through in range(1, len(kinds)):
            folded = await store.read(partial(fold_run, run="r", seal=AesSeal(KEY), through=through))
            assert folded is not None
            model = CountingModel(answer)
            result = await gone_on(folded.state, model)

            paid = kinds[:through].count("model.answered")
            assert (result.text, result.rounds) == ("Done.", whole.rounds), through
            assert model.asked == stage.model.asked[paid:], through
            assert result.usage == whole.usage

    asyncio.run(run())


def test_a_conversation_keeps_its_summary_from_run_to_run() -> None:
    async def run() -> None:
        stage = Stage(MemoryStore(key=KEY), CountingModel(answer), [tool()], {"agent": SPEC})
        first = await stage.runtime.run_to_completion(go(thread="t"))
        asked = len(stage.model.asked)
        request = RunRequest(agent_id="agent", messages=(user_message("And now?"),), thread="t")
        second = await stage.runtime.run_to_completion(request)

        assert second.state.summary is not None
        assert first.state.summary is not None
        assert second.state.messages[: len(first.state.messages)] == first.state.messages
        # What was summed up is not summed up again.
        assert "They act." in str(stage.model.asked[asked].messages)
        assert "Go" not in [message.text for message in stage.model.asked[-1].messages]

    asyncio.run(run())
