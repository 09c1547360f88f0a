"""For any script of a model, its tools, plugins and people, the replay of an unchanged agent shows no difference."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from msgspec import structs

from agent_resolver.registry import CallContext, Inbox, MemorySecrets, Ports
from agent_resolver.runtime import (
    AgentRuntime,
    AgentRuntimeBuilder,
    Effect,
    Journal,
    ModelSpec,
    Phase,
    ResumeRequest,
    RunBudget,
    RunResult,
    ScheduledAction,
    read_recording,
    replay_run,
)
from agent_resolver.schema import JOURNAL, LEDGER, PENDING, RUNS, local_caller
from agent_resolver.storage import AesSeal, MemoryStore, Snapshot, SystemClock, Transaction
from tests.runtime.journal.lasting import KEY, go
from tests.runtime.journal.replaying import Untouchable, forbidden_answer
from tests.runtime.run_part import (
    AnswerCase,
    CallCase,
    HookCase,
    Log,
    PluginCase,
    ScriptedModel,
    ScriptedPlugin,
    ScriptedTool,
    ToolCase,
)
from tests.runtime.run_scenario import spec_of
from tests.runtime.test_run_property import BUDGETS, KEYS, STOPS, TOOLS, tools

SEAL = AesSeal(KEY)
CALLS = st.builds(
    CallCase,
    st.sampled_from([*TOOLS, "files__write", "note", "nobody"]),
    st.sampled_from(["{}", "{}", '{"q": 1}', '{"q": 2}', '{"q": "x"}', "{", "[]"]),
)
USUAL_ANSWERS = st.builds(
    AnswerCase,
    text=st.sampled_from(["", "again", "more"]),
    calls=st.lists(CALLS, min_size=1, max_size=3),
    finish=st.sampled_from(["stop"] * 8 + ["length"]),
    fails=st.sampled_from([None] * 12 + ["provider"]),
)
ACTIONS = [
    ScheduledAction("add_context_message", {"content": "hi"}),
    ScheduledAction("exclude_tool", {"tool": "search"}),
    ScheduledAction("act"),
]
USUAL_HOOKS = st.builds(
    HookCase,
    updates=st.sampled_from([{}, {"add": 1}, {"append": ["x"]}, {"merge": {"a": 1}}]),
    actions=st.lists(st.sampled_from(ACTIONS), max_size=2),
    effects=st.just([Effect("mail", 1)]) | st.just([]),
    block=st.sampled_from([None] * 9 + ["no"]),
    suspend=st.sampled_from([None] * 5 + ["ask"]),
    set=st.sampled_from([None] * 5 + ["set", {"a": 1}]),
    tool=st.sampled_from(TOOLS),
    round=st.integers(0, 3),
    is_async=st.booleans(),
)
PHASES_OF_CALLS: list[Phase] = ["tool_gate", "before_tool_execute", "after_tool_execute"]
OTHER_PHASES: list[Phase] = ["run_start", "step_start", "before_inference", "after_inference", "step_end", "run_end"]


@st.composite
def usual_plugins(draw: st.DrawFn) -> list[PluginCase]:
    """Plugins that keep to the rules, so that runs last."""
    of_calls = draw(st.dictionaries(st.sampled_from(PHASES_OF_CALLS), USUAL_HOOKS, max_size=2))
    others = draw(st.dictionaries(st.sampled_from(OTHER_PHASES), USUAL_HOOKS, max_size=2))
    # Only hooks of calls have a tool to look for.
    hooks = {**of_calls, **{phase: structs.replace(hook, tool="") for phase, hook in others.items()}}
    first = PluginCase(
        id="first",
        keys=KEYS,
        hooks=hooks,
        actions={"act": HookCase(updates={"add": 1})},
        effects={"mail": HookCase(logs="mail")},
        transforms=draw(st.lists(st.sampled_from(["shout", "narrow"]), max_size=1)),
        tools=[ToolCase(id="note")],
    )
    return [first]


PERMISSIONS = st.sampled_from(
    [
        {},
        {"default_behavior": "ask"},
        {"default_behavior": "allow", "rules": [{"tool": "pay", "behavior": "deny"}]},
        {"default_behavior": "allow", "rules": [{"tool": "search", "behavior": "ask"}]},
    ]
)


class ForbiddenModel(ScriptedModel):
    """A model that no replay may ask."""

    async def complete(self, request: Any) -> Any:
        forbidden_answer(request)


def runtime_of(
    store: MemoryStore, agent: dict[str, Any], plugged: list[PluginCase], script: list[AnswerCase] | None, log: Log
) -> AgentRuntime:
    """A runtime; without a script, one in which nothing may act."""
    model = ForbiddenModel([], log) if script is None else ScriptedModel(script, log)
    ports = Ports(store=store, seal=SEAL, clock=SystemClock())
    builder = AgentRuntimeBuilder().with_provider("p", model).with_ports(ports).with_caller(local_caller("lin"))
    builder.with_model(ModelSpec(id="m", provider_id="p", upstream_model="m", input_price=1.0, output_price=1.0))
    for case in tools():
        tool = ScriptedTool(case, log)
        builder.with_tool(case.id, Untouchable(tool.descriptor) if script is None else tool)
    for plugin in plugged:
        builder.with_plugin(ScriptedPlugin(plugin, log))
    builder.with_agent_spec(spec_of({"id": "agent", "plugin_ids": [plugin.id for plugin in plugged], **agent}))
    return builder.with_journal(lambda: Journal(store, SEAL, SystemClock())).build()


def everything_in(snapshot: Snapshot) -> list[Any]:
    return [*(snapshot.find(table) for table in (RUNS, JOURNAL, LEDGER, PENDING)), len(list(snapshot.records()))]


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    script=st.lists(USUAL_ANSWERS, min_size=2, max_size=6),
    plugged=usual_plugins(),
    budget=st.just(RunBudget()) | BUDGETS,
    stops=st.just([]) | STOPS,
    permission=PERMISSIONS,
    max_rounds=st.integers(3, 9),
    said=st.lists(st.sampled_from(["approved", "rejected", "words", "nothing"]), max_size=3),
    cut=st.integers(0, 9),
)
def test_the_replay_of_an_unchanged_agent_shows_no_difference(  # noqa: PLR0913, PLR0917 - the parts of a run
    script: list[AnswerCase],
    plugged: list[PluginCase],
    budget: RunBudget,
    stops: list[dict[str, Any]],
    permission: dict[str, Any],
    max_rounds: int,
    said: list[str],
    cut: int,
) -> None:
    sections = {"permission": permission} if permission else {}
    agent = {"max_rounds": max_rounds, "stop_conditions": stops, "sections": sections, "delegates": ["agent"]}

    async def run() -> None:
        store = MemoryStore()
        runtime = runtime_of(store, agent, plugged, script, Log())
        await play(runtime, store, budget, said)
        await cut_off(store, cut)
        before = await store.read(everything_in)
        log = Log()
        later = runtime_of(store, agent, plugged, None, log)
        recording = await store.read(lambda snapshot: read_recording(snapshot, "r", SEAL))
        replay = await replay_run(recording, later.resolve("agent", is_dry_run=True))
        assert replay.difference is None
        assert replay.notes == ()
        assert await store.read(everything_in) == before
        assert "mail" not in log.lines

    asyncio.run(run())


async def play(runtime: AgentRuntime, store: MemoryStore, budget: RunBudget, said: list[str]) -> None:
    """A run, and how it goes on with what people say."""
    result = await runtime.run_to_completion(go(run_id="r", budget=budget))
    for words in said:
        if not result.is_resumable:
            return
        await decide(store, result, words)
        result = await runtime.resume(ResumeRequest(run="r"))


async def cut_off(store: MemoryStore, count: int) -> None:
    """Take the newest entries of the journal away, as if the process had been killed before it wrote them."""
    rows = await store.read(lambda snapshot: snapshot.find(JOURNAL, {"run": "r"}))
    gone = rows[max(1, len(rows) - count) :]

    def drop(transaction: Transaction) -> None:
        for row in gone:
            transaction.drop(JOURNAL, "r", row.number)
        known = transaction.get(RUNS, "r")
        assert known is not None
        transaction.put(RUNS, structs.replace(known, entries=len(rows) - len(gone)))

    await store.write(drop)


async def decide(store: MemoryStore, result: RunResult, words: str) -> None:
    pending = result.pending
    if pending is None or words == "nothing":
        return
    inbox = Inbox(store, MemorySecrets(), SystemClock())
    context = CallContext.for_caller(local_caller("ada"))
    if pending.type == "APPROVAL":
        await inbox.decide(pending.id, "rejected" if words == "rejected" else "approved", context)
    else:
        await inbox.answer(pending.id, words, context)
