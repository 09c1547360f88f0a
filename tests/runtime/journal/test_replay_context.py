"""Replays of runs whose conversation was summed up, or whose user mentioned an agent."""

import asyncio
from typing import Any

import pytest
from msgspec import structs

from agent_resolver.runtime import (
    ChatAnswer,
    ChatRequest,
    ContextPolicy,
    InferenceFailure,
    ToolCall,
    Usage,
    read_recording,
    replay_run,
    user_message,
)
from agent_resolver.schema import Caller
from agent_resolver.storage import AesSeal, MemoryStore
from tests.runtime.journal.lasting import KEY, CountingModel, CountingTool, Stage, go
from tests.runtime.journal.replaying import later_stage, replay_now

SUMMING = "Sum up."
AGENTS: dict[str, Any] = {
    "agent": {
        "context_policy": ContextPolicy(
            max_context_tokens=20_000, max_output_tokens=1_000, autocompact_threshold=1_000
        ),
        "sections": {
            "compaction": {
                "summarizer_system_prompt": SUMMING,
                "summarizer_user_prompt": "Of this:\n{messages}",
                "min_savings_ratio": 0.3,
            }
        },
    }
}


class Reader:
    """A model that reads page after page, and sums up as it is told to."""

    def __init__(self, summary: str) -> None:
        self._summary = summary
        self._read = 0
        self.summed = 0

    def __call__(self, request: ChatRequest) -> ChatAnswer:
        if request.messages[0].text == SUMMING:
            self.summed += 1
            if not self._summary:
                raise InferenceFailure("provider", "no")
            return ChatAnswer(text=self._summary, usage=Usage(10, 1))
        self._read += 1
        if self._read > 6:
            return ChatAnswer(text="Done.", usage=Usage(10, 1))
        return ChatAnswer(calls=(ToolCall(f"c{self._read}", "act", "{}"),), finish="tool_calls", usage=Usage(10, 1))


@pytest.mark.parametrize("summary", ["They read pages.", "long " * 3_000, "x" * 2_000_001, ""])
def test_a_run_that_was_summed_up_is_replayed_with_its_summaries(summary: str) -> None:
    """One that is used, one that saves too little, one that is refused, and none."""

    async def run() -> None:
        store, tools = MemoryStore(), [CountingTool("act", lambda _: "page " * 400)]
        reader = Reader(summary)
        stage = Stage(store, CountingModel(reader), tools, AGENTS)
        result = await stage.runtime.run_to_completion(go(run_id="r"))
        assert (result.text, reader.summed > 0) == ("Done.", True)

        replay = await replay_now(later_stage(store, tools, AGENTS))

        assert (replay.difference, replay.notes, replay.rounds) == (None, (), 7)

    asyncio.run(run())


class Texts:
    """Knows one agent."""

    def __init__(self, text: str) -> None:
        self.text = text

    async def definition(self, uri: str, caller: Caller) -> str | None:  # noqa: ARG002 - the port
        return self.text if uri == "agent://helper" else None


def test_a_mentioned_agent_that_changed_is_a_difference() -> None:
    async def run() -> None:
        store = MemoryStore()
        stage = Stage(store, CountingModel(lambda _: ChatAnswer(text="Done.")), [])
        # The stage is built without definitions.
        stage.runtime._runs._definitions = Texts("Helps.")
        words = user_message("Ask @project:agent://helper")
        asked = structs.replace(go(run_id="r"), messages=(words,))
        await stage.runtime.run_to_completion(asked)
        assert "Helps." in str(stage.model.asked[0].messages)
        recording = await store.read(lambda snapshot: read_recording(snapshot, "r", AesSeal(KEY)))
        plan = later_stage(store, []).runtime.resolve("agent", is_dry_run=True)

        same = await replay_run(recording, plan, definitions=Texts("Helps."))
        other = await replay_run(recording, plan, definitions=Texts("Hinders."))

        assert same.difference is None
        assert other.difference is not None
        assert (other.difference.round, other.difference.part) == (1, "messages")

    asyncio.run(run())
