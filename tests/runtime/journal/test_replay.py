"""Replays of recorded runs: the same agent shows no difference, and nothing acts."""

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

import pytest
from msgspec import structs

from agent_resolver.registry import CallContext, ToolFailure
from agent_resolver.runtime import (
    AgentRuntimeBuilder,
    AgentSpec,
    Beginning,
    ChatAnswer,
    ChatRequest,
    Command,
    DamagedJournal,
    Effect,
    InferenceFailure,
    ModelSpec,
    PhaseContext,
    Question,
    Registrar,
    Replay,
    Reply,
    ResumeRequest,
    RunBudget,
    RunStart,
    RunState,
    ToolCall,
    Usage,
    read_recording,
    user_message,
)
from agent_resolver.schema import JOURNAL, FailureCode
from agent_resolver.storage import AesSeal, MemoryStore, Transaction
from tests.runtime.journal.lasting import (
    CALLER,
    KEY,
    Answer,
    CountingModel,
    CountingTool,
    Stage,
    calls_then_ends,
    go,
    rounds_of,
)
from tests.runtime.journal.replaying import Untouchable, forbidden_answer, later_stage, replay_now


class HangingModel(CountingModel):
    """Says when it was asked, and does not answer."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer)
        self.hangs = True
        self.asking = asyncio.Event()

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        self.asking.set()
        return await super().complete(request)


def run_async(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def spec(**more: Any) -> AgentSpec:
    return AgentSpec(**{"id": "agent", "model_id": "m", "system_prompt": "You are agent.", **more})


async def recorded(answer: Any = None, tools: list[Any] | None = None, **more: Any) -> Stage:
    """A run that was recorded, and the stage of later."""
    store = MemoryStore()
    tools = [CountingTool("act")] if tools is None else tools
    stage = Stage(store, CountingModel(answer or calls_then_ends(3)), tools, **more)
    await stage.runtime.run_to_completion(go(run_id="r"))
    return later_stage(store, tools, **more)


def require_same(replay: Replay, rounds: int) -> None:
    assert replay.difference is None
    assert (replay.rounds, replay.notes) == (rounds, ())


def script(*answers: ChatAnswer) -> Any:
    """A model that gives these answers in turn."""
    return lambda request: answers[rounds_of(request)]


def calls_once_unless_told(words: str) -> Any:
    def answer(request: ChatRequest) -> ChatAnswer:
        return ChatAnswer(text="Left.") if request.messages[-1].text == words else calling(("act", "{}"))

    return answer


def calling(*calls: tuple[str, str]) -> ChatAnswer:
    made = tuple(ToolCall(f"c{place}", name, arguments) for place, (name, arguments) in enumerate(calls))
    return ChatAnswer(calls=made, finish="tool_calls", usage=Usage(10, 5))


# The same agent -------------------------------------------------------------------------------------------------------


def test_an_unchanged_agent_shows_no_difference() -> None:
    async def run() -> None:
        require_same(await replay_now(await recorded()), rounds=4)

    run_async(run())


def test_calls_that_failed_fail_again_in_a_replay() -> None:
    def fail(_: dict[str, Any]) -> Any:
        raise ToolFailure(FailureCode.TOOL_ERROR, "no", details=("one", "two"))

    async def run() -> None:
        seen: list[str] = []

        class Watcher:
            id = "watcher"

            def register(self, registrar: Registrar) -> None:
                registrar.phase_hook("after_tool_execute", self.note)

            def note(self, context: PhaseContext) -> None:
                seen.append(type(context.outcome).__name__)

        watched: dict[str, Any] = {"agents": {"agent": {"plugin_ids": ("watcher",)}}, "plugins": (Watcher(),)}
        later = await recorded(tools=[CountingTool("act", fail)], **watched)
        before = list(seen)
        require_same(await replay_now(later), rounds=4)
        assert seen == before * 2 == ["Failed"] * 6

    run_async(run())


def test_a_blocked_call_and_an_unknown_tool_are_replayed() -> None:
    async def run() -> None:
        answers = script(calling(("act", "{}"), ("other", "{}")), calling(("act", '{"n": 1}'), ("act", "{}")))
        denied = {"default_behavior": "allow", "rules": [{"tool": 'act(n = "1")', "behavior": "deny"}]}
        agents = {"agent": {"sections": {"permission": denied}}}
        replay = await replay_now(await recorded(answers, agents=agents))
        require_same(replay, rounds=2)
        assert replay.ended is not None
        assert replay.ended.reason == "blocked"

    run_async(run())


def test_arguments_that_were_mended_are_mended_in_a_replay() -> None:
    async def run() -> None:
        bad = (calling(("act", "{"), ("act", '{"n": "x"}')), calling(("act", '{"n": 1}')), ChatAnswer(text="Done."))
        require_same(await replay_now(await recorded(script(*bad))), rounds=3)

    run_async(run())


def test_what_a_person_said_about_a_call_is_replayed() -> None:
    async def run() -> None:
        bad = calling(("act", '{"n": "x"}'))
        answers = script(bad, bad, ChatAnswer(text="Done."))
        store, tools = MemoryStore(), [CountingTool("act")]
        stage = Stage(store, CountingModel(answers), tools)
        waiting = await stage.runtime.run_to_completion(go(run_id="r"))
        assert waiting.pending is not None
        later = later_stage(store, tools)
        replay = await replay_now(later)
        require_same(replay, rounds=2)
        assert replay.ended is not None
        assert replay.ended.reason == "suspended"

        await stage.inbox.answer(waiting.pending.id, "leave it", CallContext.for_caller(CALLER))
        await stage.runtime.resume(ResumeRequest(run="r"))
        require_same(await replay_now(later), rounds=3)

    run_async(run())


def test_a_run_that_waited_is_replayed_with_what_came_after() -> None:
    async def run() -> None:
        store, tools = MemoryStore(), [CountingTool("act", needs_approval=True)]
        stage = Stage(store, CountingModel(calls_then_ends(2)), tools)
        result = await stage.runtime.run_to_completion(go(run_id="r"))
        for verdict in ("approved", "rejected"):
            assert result.pending is not None
            await stage.inbox.decide(result.pending.id, verdict, CallContext.for_caller(CALLER))
            result = await stage.runtime.resume(ResumeRequest(run="r"))
        assert result.text == "Done."
        require_same(await replay_now(later_stage(store, tools)), rounds=3)

    run_async(run())


def test_an_answer_in_pieces_is_replayed_in_pieces() -> None:
    async def run() -> None:
        asked: list[ChatRequest] = []

        def answer(request: ChatRequest) -> ChatAnswer:
            asked.append(request)
            finish: Any = "length" if len(asked) < 3 else "stop"
            return ChatAnswer(text=f"piece {len(asked)}. ", finish=finish, usage=Usage(1, 1))

        later = await recorded(answer, agents={"agent": {"max_continuation_retries": 3}})
        require_same(await replay_now(later), rounds=1)
        assert len(asked) == 3

    run_async(run())


def test_a_model_that_failed_fails_again_in_a_replay() -> None:
    async def run() -> None:
        asked: list[ChatRequest] = []

        def answer(request: ChatRequest) -> ChatAnswer:
            asked.append(request)
            if len(asked) == 1:
                raise InferenceFailure("provider", "no")
            return ChatAnswer(text="Done.")

        stops = {"stop_conditions": ({"type": "consecutive_errors", "value": 2},)}
        later = await recorded(answer, agents={"agent": stops, "other": {}})
        require_same(await replay_now(later), rounds=len(asked))

    run_async(run())


def test_plugins_run_in_a_replay_and_their_effects_do_not() -> None:
    async def run() -> None:
        mailed: list[Any] = []

        class Counter:
            id = "counter"

            def register(self, registrar: Registrar) -> None:
                registrar.key("count", merge="add", default=0)
                registrar.phase_hook("step_end", self.count)
                registrar.effect("mail", lambda _, payload: mailed.append(payload))
                registrar.request_transform(self.show)

            def count(self, context: PhaseContext) -> Command:
                return Command(updates={"count": 1}, effects=(Effect("mail", context.run.round),))

            def show(self, request: ChatRequest, context: PhaseContext) -> ChatRequest:
                note = user_message(f"count {context.state['count']}")
                return ChatRequest(model=request.model, messages=(note, *request.messages), tools=request.tools)

        plugged: dict[str, Any] = {"agents": {"agent": {"plugin_ids": ("counter",)}}, "plugins": (Counter(),)}
        later = await recorded(**plugged)
        assert mailed == [1, 2, 3, 4]
        require_same(await replay_now(later), rounds=4)
        assert mailed == [1, 2, 3, 4]

    run_async(run())


def test_a_run_of_a_thread_is_replayed_with_the_conversation_before_it() -> None:
    async def run() -> None:
        store, tools = MemoryStore(), [CountingTool("act")]
        stage = Stage(store, CountingModel(calls_then_ends(1)), tools)
        for run_id in ("first", "second"):
            await stage.runtime.run_to_completion(go(run_id=run_id, thread="talk"))
        replay = await replay_now(later_stage(store, tools), "second")
        require_same(replay, rounds=2)

    run_async(run())


def test_an_interrupted_run_is_replayed_up_to_its_newest_entry() -> None:
    async def run() -> None:
        store, tools = MemoryStore(), [CountingTool("act")]
        model = HangingModel(calls_then_ends(3))
        stage = Stage(store, model, tools)
        running = asyncio.create_task(stage.runtime.run_to_completion(go(run_id="r")))
        await model.asking.wait()
        running.cancel()
        await asyncio.wait([running])
        replay = await replay_now(later_stage(store, tools))
        require_same(replay, rounds=1)
        assert (replay.ended, replay.entries) == (None, 2)

        model.hangs = False
        await stage.runtime.resume(ResumeRequest(run="r"))
        replay = await replay_now(later_stage(store, tools))
        require_same(replay, rounds=4)
        assert replay.ended is not None

    run_async(run())


def test_a_run_that_went_on_with_more_budget_is_replayed() -> None:
    async def run() -> None:
        store, tools = MemoryStore(), [CountingTool("act")]
        stage = Stage(store, CountingModel(calls_then_ends(3)), tools)
        result = await stage.runtime.run_to_completion(go(run_id="r", budget=RunBudget(max_rounds=2)))
        assert result.termination.code == "budget_rounds"
        await stage.runtime.resume(ResumeRequest(run="r", budget=RunBudget(max_rounds=9)))
        require_same(await replay_now(later_stage(store, tools)), rounds=4)

    run_async(run())


def test_a_delegate_is_not_run_again_and_has_a_replay_of_its_own() -> None:
    async def run() -> None:
        def answer(request: ChatRequest) -> ChatAnswer:
            is_lead = "lead" in request.messages[0].text
            return calls_then_ends(1, "agent_run_helper" if is_lead else "act")(request)

        def delegating(request: ChatRequest) -> ChatAnswer:
            made = answer(request)
            calls = tuple(ToolCall(call.id, call.name, '{"prompt": "Help"}') for call in made.calls)
            return made if "helper" in request.messages[0].text else ChatAnswer(text=made.text, calls=calls)

        agents: dict[str, Any] = {"lead": {"delegates": ("helper",)}, "helper": {}}
        store, tools = MemoryStore(), [CountingTool("act")]
        stage = Stage(store, CountingModel(delegating), tools, agents)
        result = await stage.runtime.run_to_completion(go("lead", run_id="r"))
        (child,) = result.state.delegated
        later = later_stage(store, tools, agents)
        require_same(await replay_now(later), rounds=2)
        require_same(await replay_now(later, child), rounds=2)

    run_async(run())


def test_a_run_that_was_given_other_words_is_replayed_with_them() -> None:
    async def run() -> None:
        store, tools = MemoryStore(), [CountingTool("act", needs_approval=True)]
        stage = Stage(store, CountingModel(calls_once_unless_told("Leave it")), tools)
        await stage.runtime.run_to_completion(go(run_id="r"))
        await stage.runtime.resume(ResumeRequest(run="r", messages=(user_message("Leave it"),)))
        require_same(await replay_now(later_stage(store, tools)), rounds=2)

    run_async(run())


def test_a_cancelled_run_is_replayed_up_to_its_end() -> None:
    async def run() -> None:
        store, model = MemoryStore(), HangingModel(calls_then_ends(1))
        stage = Stage(store, model, [])
        running = asyncio.create_task(stage.runtime.run_to_completion(go(run_id="r")))
        await model.asking.wait()
        assert stage.runtime.cancel("r")
        assert (await running).termination.reason == "cancelled"
        require_same(await replay_now(later_stage(store, [])), rounds=1)

    run_async(run())


def test_a_damaged_journal_is_refused_in_words() -> None:
    async def run() -> None:
        later = await recorded()

        def damage(transaction: Transaction) -> None:
            row = transaction.get(JOURNAL, "r", 3)
            assert row is not None
            transaction.put(JOURNAL, structs.replace(row, body=row.body[:-1] + b"x"))

        await later.store.write(damage)
        with pytest.raises(DamagedJournal, match="entry 3"):
            await replay_now(later)

    run_async(run())


def test_an_answer_outside_of_the_conversation_is_recorded_with_its_words() -> None:
    async def run() -> None:
        store = MemoryStore()
        stage = Stage(store, CountingModel(forbidden_answer), [])
        state = RunState(run="r", trace_id="0" * 32, agent_id="agent", plan="p", messages=[user_message("Go")])
        beginning = Beginning(state=structs.replace(state, messages=[]), caller=CALLER)
        writer = await stage.journal.begin(RunStart(state=state, beginning=beginning, plan=b"{}", facts={}))
        await writer.ask({}, Question(model="small"))
        await writer.answer({}, Reply(model="small", text="A summary.", usage=Usage(7, 3)), writer.row)
        recording = await store.read(lambda snapshot: read_recording(snapshot, "r", AesSeal(KEY)))
        _, answered = recording.stretches[0].steps
        assert answered.answer.text == "A summary."  # type: ignore[union-attr]

    run_async(run())


# Another agent --------------------------------------------------------------------------------------------------------


def test_a_changed_prompt_is_the_first_difference() -> None:
    async def run() -> None:
        later = await recorded()
        later.runtime.replace(spec(system_prompt="You are agent.\nBe brief."))
        found = (await replay_now(later)).difference
        assert found is not None
        assert (found.round, found.part) == (1, "system prompt")
        assert found.lines == ("--- recorded", "+++ now", "@@ -1 +1,2 @@", " You are agent.", "+Be brief.")

    run_async(run())


def test_a_long_prompt_is_shown_in_a_bounded_number_of_lines() -> None:
    async def run() -> None:
        later = await recorded()
        later.runtime.replace(spec(system_prompt="\n".join(f"{number} " + "x" * 5_000 for number in range(1_000))))
        found = (await replay_now(later)).difference
        assert found is not None
        assert len(found.lines) == 41
        assert max(map(len, (*found.lines, found.before, found.after))) <= 200

    run_async(run())


def test_another_model_is_a_difference() -> None:
    async def run() -> None:
        store, tools = MemoryStore(), [CountingTool("act")]
        stage = Stage(store, CountingModel(calls_then_ends(1)), tools)
        await stage.runtime.run_to_completion(go(run_id="r"))
        other = ModelSpec(id="m", provider_id="p", upstream_model="other-9")
        builder = AgentRuntimeBuilder().with_provider("p", CountingModel(forbidden_answer)).with_model(other)
        builder.with_tool("act", Untouchable(tools[0].descriptor)).with_agent_spec(spec())
        plan = builder.build().resolve("agent", is_dry_run=True)
        found = (await replay_now(later_stage(store, tools), plan=plan)).difference
        assert found is not None
        assert (found.round, found.part, found.before, found.after) == (1, "model", "m", "other-9")

    run_async(run())


def test_tools_that_came_went_or_changed_are_named() -> None:
    async def run() -> None:
        store = MemoryStore()
        stage = Stage(store, CountingModel(calls_then_ends(1)), [CountingTool("act"), CountingTool("gone")])
        await stage.runtime.run_to_completion(go(run_id="r"))
        changed = CountingTool("act")
        changed.descriptor = type(changed.descriptor)(
            id="act", description="It does more", input_schema={"type": "object"}, source="test"
        )
        found = (await replay_now(later_stage(store, [changed, CountingTool("new")]))).difference
        assert found is not None
        assert (found.round, found.part, found.before, found.after) == (1, "tools", "2 tools", "2 tools")
        assert found.lines == ("~ act: its definition changed", "- gone", "+ new")

    run_async(run())


def test_a_setting_that_changed_is_named() -> None:
    async def run() -> None:
        later = await recorded()
        later.runtime.replace(spec(reasoning_effort="high"))
        found = (await replay_now(later)).difference
        assert found is not None
        assert (found.part, found.before, found.after) == (
            "settings",
            "reasoning_effort: None",
            "reasoning_effort: high",
        )

    run_async(run())


def test_a_rule_that_now_denies_a_call_differs_in_the_round_of_the_call() -> None:
    async def run() -> None:
        later = await recorded()
        rules = {"default_behavior": "allow", "rules": [{"tool": 'act(n = "2")', "behavior": "deny"}]}
        later.runtime.replace(spec(sections={"permission": rules}))
        replay = await replay_now(later)
        found = replay.difference
        assert found is not None
        assert (found.round, found.part) == (3, "call")
        assert found.before == "act was called"
        assert found.after == "act is blocked: Tool 'act' denied by permission rules"

    run_async(run())


def test_a_rule_that_denied_a_call_and_no_longer_does_is_a_difference() -> None:
    async def run() -> None:
        rules = {"default_behavior": "allow", "rules": [{"tool": 'act(n = "1")', "behavior": "deny"}]}
        later = await recorded(agents={"agent": {"sections": {"permission": rules}}})
        later.runtime.replace(spec())
        found = (await replay_now(later)).difference
        assert found is not None
        assert (found.round, found.part, found.after) == (2, "call", "act is called")

    run_async(run())


def test_a_rule_that_now_asks_is_a_difference_and_one_that_asked_too() -> None:
    async def run() -> None:
        asks: dict[str, Any] = {"default_behavior": "allow", "rules": [{"tool": 'act(n = "1")', "behavior": "ask"}]}
        later = await recorded()
        later.runtime.replace(spec(sections={"permission": asks}))
        found = (await replay_now(later)).difference
        assert found is not None
        assert (found.round, found.part, found.before) == (2, "call", "act was called without asking")
        assert "act has to wait for an approval: permission rule" in found.after

        asking = await recorded(agents={"agent": {"sections": {"permission": asks}}})
        require_same(await replay_now(asking), rounds=2)
        asking.runtime.replace(spec())
        found = (await replay_now(asking)).difference
        assert found is not None
        assert (found.round, found.part, found.after) == (2, "call", "act is called")

    run_async(run())


def test_a_plugin_that_gives_a_result_in_place_of_a_call_is_a_difference() -> None:
    from agent_resolver.runtime import SetResult

    class Setter:
        id = "setter"

        def register(self, registrar: Registrar) -> None:
            registrar.phase_hook("tool_gate", lambda _: Command(gate=SetResult({"made": 1})))

    async def run() -> None:
        store, tools = MemoryStore(), [CountingTool("act")]
        stage = Stage(store, CountingModel(calls_then_ends(1)), tools, plugins=(Setter(),))
        await stage.runtime.run_to_completion(go(run_id="r"))
        later = later_stage(store, tools, plugins=(Setter(),))
        later.runtime.replace(spec(plugin_ids=("setter",)))
        # The result reads the same: only that the call is not made differs.
        found = (await replay_now(later)).difference
        assert found is not None
        assert (found.round, found.part) == (2, "call")
        assert "is not made" in found.after

    run_async(run())


def test_another_stop_rule_or_budget_is_another_end() -> None:
    async def run() -> None:
        later = await recorded()
        later.runtime.replace(spec(max_rounds=2))
        found = (await replay_now(later)).difference
        assert found is not None
        assert (found.round, found.part) == (2, "end")
        assert found.after == "stopped (max_rounds): The limit of 2 rounds is reached"

        later.runtime.replace(spec(budget=RunBudget(max_tokens=30)))
        found = (await replay_now(later)).difference
        assert found is not None
        assert (found.round, found.part) == (2, "end")
        assert "budget_tokens" in found.after

        stopped = await recorded(agents={"agent": {"max_rounds": 2}})
        stopped.runtime.replace(spec())
        found = (await replay_now(stopped)).difference
        assert found is not None
        assert (found.round, found.part, found.after) == (2, "end", "act is called")
        assert "max_rounds" in found.before

    run_async(run())


def take_milliseconds(_: dict[str, Any]) -> str:
    """Take longer than the journal rounds."""
    end = time.monotonic() + 0.003
    while time.monotonic() < end:
        pass
    return "done"


def test_a_budget_of_less_time_than_the_run_took_is_another_end() -> None:
    async def run() -> None:
        later = await recorded(tools=[CountingTool("act", take_milliseconds)])
        later.runtime.replace(spec(budget=RunBudget(max_seconds=0.000_001)))
        found = (await replay_now(later)).difference
        assert found is not None
        assert found.part == "end"
        assert found.round <= 2
        assert "budget_seconds" in found.after

        later.runtime.replace(spec(budget=RunBudget(max_seconds=3600)))
        replay = await replay_now(later)
        assert (replay.difference, replay.notes) == (None, ("budget",))

    run_async(run())


def test_what_changed_and_reaches_no_question_is_a_note() -> None:
    async def run() -> None:
        later = await recorded()
        later.runtime.replace(spec(max_rounds=9, budget=RunBudget(max_tokens=10_000)))
        replay = await replay_now(later)
        assert (replay.difference, replay.notes) == (None, ("budget", "max_rounds"))

    run_async(run())
