"""A process that is to end hands its runs over: what is under way ends, and another process goes on from there."""

import asyncio
from pathlib import Path
from typing import Any

from agent_resolver.runtime import ChatAnswer, ChatRequest, ResumeRequest, ToolCall
from agent_resolver.schema import LEASES
from agent_resolver.storage import SqliteStore
from tests.runtime.journal.lasting import KEY, CountingModel, CountingTool, Stage, calls_then_ends, go, rounds_of
from tests.runtime.journal.test_takeover import SlowTool


def stage_on(path: Path, model: CountingModel, tool: Any, **more: Any) -> Stage:
    return Stage(SqliteStore(str(path), key=KEY), model, [tool], **more)


def test_the_call_under_way_ends_and_the_next_question_is_another_process_s(tmp_path: Path) -> None:
    async def story() -> None:
        path = tmp_path / "state.db"
        reached, goes_on = asyncio.Event(), asyncio.Event()
        first = stage_on(path, CountingModel(calls_then_ends(2)), slow := SlowTool(reached, goes_on))
        running = asyncio.create_task(first.runtime.run_to_completion(go(run_id="r")))
        await reached.wait()
        first.runtime.hand_over()
        goes_on.set()
        handed_over = await running
        assert handed_over.termination.code == "interrupted"
        assert (slow.made, len(first.model.asked)) == ([0], 1)
        [lease] = await first.store.read(lambda snapshot: snapshot.find(LEASES))
        assert (lease.owner, lease.lost) == ("", 0)

        second = stage_on(path, CountingModel(calls_then_ends(2)), quick := CountingTool("act", is_idempotent=True))
        result = await second.runtime.resume(ResumeRequest(run="r"))
        assert result.text == "Done."
        assert [each["n"] for each in quick.made] == [1]
        assert len(second.model.asked) == 2
        first.store.close()
        second.store.close()

    asyncio.run(story())


def test_an_agent_that_delegates_is_handed_over_with_its_delegate(tmp_path: Path) -> None:
    """The run of the delegate stops after its call, and the run that made it waits for no person."""

    def answer(request: ChatRequest) -> ChatAnswer:
        if rounds_of(request):
            return ChatAnswer(text="Done.")
        is_helper = "helper" in (request.messages[0].text or "")
        call = ToolCall("c", "act", '{"n": 0}') if is_helper else ToolCall("c", "agent_run_helper", '{"prompt": "Go"}')
        return ChatAnswer(calls=(call,), finish="tool_calls")

    async def story() -> None:
        path = tmp_path / "state.db"
        agents = {"agent": {"delegates": ("helper",)}, "helper": {}}
        reached, goes_on = asyncio.Event(), asyncio.Event()
        first = stage_on(path, CountingModel(answer), slow := SlowTool(reached, goes_on), agents=agents)
        running = asyncio.create_task(first.runtime.run_to_completion(go(run_id="r")))
        await asyncio.wait_for(reached.wait(), 10)
        first.runtime.hand_over()
        goes_on.set()
        handed_over = await running
        assert (handed_over.termination.code, handed_over.pending) == ("interrupted", None)

        second = stage_on(path, CountingModel(answer), quick := CountingTool("act", is_idempotent=True), agents=agents)
        result = await second.runtime.resume(ResumeRequest(run="r"))
        assert result.text == "Done."
        assert (slow.made, quick.made) == ([0], [])
        first.store.close()
        second.store.close()

    asyncio.run(story())
