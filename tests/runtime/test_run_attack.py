"""Runs under attack: by models, plugins, tools and callers that do what they should not."""

import asyncio
import gc
import threading
import tracemalloc
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from agent_resolver.registry import CallContext, Inbox, Ports, ToolFailure, ToolRegistry
from agent_resolver.runtime import (
    AgentRuntime,
    AgentRuntimeBuilder,
    AgentSpec,
    ChatAnswer,
    ChatRequest,
    Command,
    InferenceFailure,
    ModelSpec,
    OpenedTools,
    Phase,
    PhaseContext,
    Piece,
    Plugin,
    Registrar,
    ResolvedRunPlan,
    RunBudget,
    RunEvent,
    RunFacts,
    RunRefused,
    RunRequest,
    RunResult,
    StopCondition,
    Suspend,
    TextDelta,
    ToolCall,
    ToolEnded,
    Usage,
    spent,
    user_message,
)
from agent_resolver.schema import Descriptor, FailureCode, local_caller
from agent_resolver.storage import MemoryStore

GO = RunRequest(agent_id="agent", messages=(user_message("Go"),))
SEARCH = ChatAnswer(calls=(ToolCall("c1", "search", '{"q": ["a"]}'),), usage=Usage(1, 1))
DONE = ChatAnswer(text="done", usage=Usage(1, 1))


class Model:
    """Answers what `answer` says to the number of its earlier answers and the first message."""

    def __init__(self, answer: Callable[[int, str], Awaitable[ChatAnswer]]) -> None:
        self._answer = answer

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        count = sum(message.role == "assistant" for message in request.messages)
        return await self._answer(count, request.messages[0].text)

    async def stream(self, request: ChatRequest) -> AsyncGenerator[Piece]:
        answer = await self.complete(request)
        for start in range(0, len(answer.text), 500_000):
            yield TextDelta(answer.text[start : start + 500_000])
        yield answer


def answering(*answers: ChatAnswer) -> Model:
    async def answer(count: int, _: str) -> ChatAnswer:
        return answers[min(count, len(answers) - 1)]

    return Model(answer)


class Search:
    """A tool that keeps what it was given, and does `work`."""

    def __init__(self, work: Callable[[CallContext], Awaitable[None]] | None = None) -> None:
        self.descriptor = Descriptor(
            id="search", description="For a test.", input_schema={"type": "object"}, source="memory"
        )
        self.given: list[dict[str, Any]] = []
        self._work = work

    async def invoke(self, arguments: dict[str, Any], context: CallContext) -> Any:
        self.given.append(arguments)
        if self._work:
            await self._work(context)
        return "ok"


class Hooked:
    """A plugin with one hook."""

    def __init__(self, phase: Phase, hook: Callable[[PhaseContext], Any], plugin_id: str = "hooked") -> None:
        self.id = plugin_id
        self._phase = phase
        self._hook = hook

    def register(self, registrar: Registrar) -> None:
        registrar.key("k", merge="append", default=[])
        registrar.phase_hook(self._phase, self._hook)


def runtime_of(
    model: Model, tool: Search | None = None, plugin: Plugin | None = None, ports: Ports | None = None, **spec: Any
) -> AgentRuntime:
    builder = AgentRuntimeBuilder().with_provider("p", model).with_ports(ports or Ports())
    builder.with_model(ModelSpec(id="m", provider_id="p", upstream_model="u"))
    builder.with_tool("search", tool or Search())
    if plugin:
        builder.with_plugin(plugin)
    fields = {"plugin_ids": (plugin.id,) if plugin else (), **spec}
    return builder.with_agent_spec(AgentSpec(id="agent", model_id="m", **fields)).build()


def run(runtime: AgentRuntime, request: RunRequest = GO) -> RunResult:
    return asyncio.run(runtime.run_to_completion(request))


# Models ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("streams", [False, True])
def test_an_answer_of_a_hundred_megabytes_ends_the_run_and_is_not_kept(streams: bool) -> None:  # noqa: FBT001
    runtime = runtime_of(answering(ChatAnswer(text="x" * 100_000_000)))
    request = RunRequest(agent_id="agent", messages=GO.messages, streams=streams)
    events: list[RunEvent] = []
    result = asyncio.run(runtime.run(request, events.append))

    assert (result.termination.reason, result.termination.code) == ("error", "answer_too_large")
    assert len(result.state.messages) == 1
    assert sum(len(getattr(event, "text", "")) for event in events) < 3_000_000


def test_arguments_of_a_hundred_megabytes_end_the_run() -> None:
    call = ToolCall("c", "search", '{"q": "' + "x" * 100_000_000 + '"}')

    assert run(runtime_of(answering(ChatAnswer(calls=(call,))))).termination.code == "answer_too_large"


def test_parts_of_an_answer_that_never_ends_are_not_collected_without_end() -> None:
    part = ChatAnswer(text="x" * 1_900_000, finish="length")
    result = run(runtime_of(answering(part), max_continuation_retries=1_000))

    assert result.termination.code == "answer_too_large"


@pytest.mark.parametrize("depth", [600, 100_000])
def test_arguments_nested_without_end_are_given_back(depth: int) -> None:
    deep = ToolCall("c", "search", '{"q":' * depth + "1" + "}" * depth)
    result = run(runtime_of(answering(ChatAnswer(calls=(deep,)), DONE)))

    assert result.termination.reason == "natural_end"


def test_an_executor_that_cancels_itself_has_failed() -> None:
    async def cancel(_: int, __: str) -> ChatAnswer:
        raise asyncio.CancelledError

    end = run(runtime_of(Model(cancel))).termination

    assert (end.reason, end.code) == ("error", "cancelled")


def test_the_words_of_an_executor_that_breaks_are_not_repeated() -> None:
    async def leak(_: int, __: str) -> ChatAnswer:
        raise KeyError("sk-secret")

    end = run(runtime_of(Model(leak))).termination

    assert (end.reason, end.code) == ("error", "provider")
    assert "sk-secret" not in end.message


def test_a_pattern_that_takes_exponential_time_elsewhere_does_not_here() -> None:
    stop = StopCondition(type="content_match", pattern="^(a+)+$")
    result = run(runtime_of(answering(ChatAnswer(text="a" * 100_000 + "!")), stop_conditions=(stop,)))

    assert result.termination.reason == "natural_end"


@pytest.mark.slow
def test_ten_thousand_rounds_come_to_their_end() -> None:
    result = run(runtime_of(answering(*[SEARCH] * 10_000, DONE), max_rounds=0))

    assert (result.termination.reason, result.rounds) == ("natural_end", 10_001)


# Plugins --------------------------------------------------------------------------------------------------------------


def change_arguments(context: PhaseContext) -> None:
    assert context.call is not None
    with suppress(TypeError):
        context.call.arguments["q"] = "evil"
    with suppress(TypeError):
        context.call.arguments["q"].append("evil")


@pytest.mark.parametrize("phase", ["tool_gate", "before_tool_execute"])
def test_a_plugin_cannot_change_the_arguments_that_were_judged(phase: Phase) -> None:
    tool = Search()
    run(runtime_of(answering(SEARCH, DONE), tool, Hooked(phase, change_arguments)))

    assert tool.given == [{"q": ["a"]}]


def change_state(context: PhaseContext) -> Command:
    with suppress(TypeError):
        context.state["k"].append(1)
    with suppress(TypeError):
        context.state["k"] = 1  # type: ignore[index]
    update = [{"n": 1}]
    command = Command(updates={"k": update})
    asyncio.get_running_loop().call_soon(update[0].clear)
    return command


def test_a_plugin_cannot_change_the_state_but_by_commands() -> None:
    """Neither what it was given nor what it gave."""
    result = run(runtime_of(answering(SEARCH, DONE), None, Hooked("step_start", change_state)))

    assert result.state.values["k"] == [{"n": 1}, {"n": 1}]


def test_a_plugin_is_given_nothing_by_which_it_could_call_tools() -> None:
    seen: list[RunFacts] = []
    plugin = Hooked("step_start", lambda context: seen.append(context.run))
    run(runtime_of(answering(DONE), None, plugin))

    public = {name for name in dir(seen[0]) if not name.startswith("_")}
    assert public == {name for name in dir(RunFacts) if not name.startswith("_")}


def test_a_hook_that_swallows_its_cancellation_does_not_keep_the_run_going() -> None:
    hanging = asyncio.Event()

    async def stubborn(_: PhaseContext) -> None:
        hanging.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    runtime = runtime_of(answering(SEARCH), None, Hooked("step_start", stubborn), max_rounds=0)

    async def cancelled() -> RunResult:
        running = asyncio.create_task(runtime.run_to_completion(RunRequest(**as_fields(GO), run_id="r")))
        await hanging.wait()
        assert runtime.cancel("r")
        return await running

    assert asyncio.run(cancelled()).termination.reason == "cancelled"


def as_fields(request: RunRequest) -> dict[str, Any]:
    return {"agent_id": request.agent_id, "messages": request.messages}


# Tools ----------------------------------------------------------------------------------------------------------------


def test_no_event_follows_the_last_though_a_tool_still_tells_how_far_it_is() -> None:
    tasks: list[asyncio.Task[None]] = []
    release = asyncio.Event()

    async def linger(context: CallContext) -> None:
        async def tell_later() -> None:
            await release.wait()
            await context.progress(1, None, None)

        tasks.append(asyncio.create_task(tell_later()))

    events: list[RunEvent] = []

    async def runs() -> None:
        await runtime_of(answering(SEARCH, DONE), Search(linger)).run(GO, events.append)
        release.set()
        await asyncio.gather(*tasks)

    asyncio.run(runs())
    assert type(events[-1]).__name__ == "RunEnded"


def test_no_event_repeats_a_secret_field_that_a_tool_quotes() -> None:
    async def quote(context: CallContext) -> None:
        await context.progress(1, None, "trying canary-4711")
        raise ToolFailure(FailureCode.TOOL_ERROR, "canary-4711 is not the password")

    call = ToolCall("c", "search", '{"password": "canary-4711"}')
    events: list[RunEvent] = []
    runtime = runtime_of(answering(ChatAnswer(calls=(call,)), DONE), Search(quote))
    asyncio.run(runtime.run(GO, events.append))

    (ended,) = [event for event in events if isinstance(event, ToolEnded)]
    assert ended.message.endswith("is not the password")
    assert "canary-4711" not in str(events)


# Callers --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"run_id": "x" * 65}, "the id of a run has 1 to 64 printable characters"),
        ({"run_id": "a\nb"}, "the id of a run has 1 to 64 printable characters"),
        ({"trace_id": "f" * 31}, "the trace id is not 32 hexadecimal digits"),
        ({"messages": ()}, "there is nothing to run: the request has no message"),
    ],
)
def test_requests_that_cannot_be_run_are_refused_before_anything_happens(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(RunRefused, match=message):
        run(runtime_of(answering(DONE)), RunRequest(**{**as_fields(GO), **fields}))


def test_a_run_whose_id_runs_already_is_refused_and_so_is_its_resumption() -> None:
    started, release = asyncio.Event(), asyncio.Event()

    async def wait(_: int, __: str) -> ChatAnswer:
        started.set()
        await release.wait()
        return DONE

    runtime = runtime_of(Model(wait))
    request = RunRequest(**as_fields(GO), run_id="r")

    async def runs() -> RunResult:
        running = asyncio.create_task(runtime.run_to_completion(request))
        await started.wait()
        with pytest.raises(RunRefused, match="run r is running already"):
            await runtime.run_to_completion(request)
        release.set()
        result = await running
        started.clear()
        release.clear()
        resumed = RunRequest(**as_fields(GO), resume=result.state)
        running = asyncio.create_task(runtime.run_to_completion(resumed))
        await started.wait()
        with pytest.raises(RunRefused, match="run r is running already"):
            await runtime.run_to_completion(resumed)
        release.set()
        return await running

    assert asyncio.run(runs()).termination.reason == "natural_end"


def test_a_later_run_of_the_same_id_makes_its_calls_itself() -> None:
    """The ledger knows calls by keys; those of the first run must not answer for the second."""
    tool = Search()
    runtime = runtime_of(answering(SEARCH, DONE), tool, ports=Ports(store=MemoryStore()))
    request = RunRequest(**as_fields(GO), run_id="r")
    run(runtime, request)
    run(runtime, request)

    assert len(tool.given) == 2


def test_a_resumed_state_stays_as_its_holder_has_it() -> None:
    runtime = runtime_of(answering(DONE, SEARCH, DONE))
    state = run(runtime).state
    before = repr(state)
    run(runtime, RunRequest(agent_id="agent", messages=(user_message("more"),), resume=state))

    assert repr(state) == before


def test_a_run_can_be_cancelled_from_another_thread() -> None:
    started = threading.Event()

    async def wait(_: int, __: str) -> ChatAnswer:
        started.set()
        await asyncio.Event().wait()
        return DONE

    runtime = runtime_of(Model(wait))
    cancelled: list[bool] = []

    def cancel() -> None:
        started.wait(10)
        cancelled.append(runtime.cancel("r"))

    thread = threading.Thread(target=cancel)
    thread.start()
    result = run(runtime, RunRequest(**as_fields(GO), run_id="r"))
    thread.join()

    assert (result.termination.reason, cancelled) == ("cancelled", [True])
    assert not runtime.cancel("r")


class SlowTools:
    """Tools that are opened once they may be."""

    def __init__(self) -> None:
        self.opening, self.release = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def open(self, plan: ResolvedRunPlan, run: str) -> AsyncIterator[OpenedTools]:  # noqa: ARG002 - the port
        self.opening.set()
        await self.release.wait()
        yield OpenedTools(registry=ToolRegistry())


def test_a_run_can_be_cancelled_while_its_tools_are_opened() -> None:
    asked: list[int] = []

    async def answer(count: int, _: str) -> ChatAnswer:
        asked.append(count)
        return DONE

    tools = SlowTools()
    builder = AgentRuntimeBuilder().with_provider("p", Model(answer)).with_run_tools(tools)
    builder.with_model(ModelSpec(id="m", provider_id="p", upstream_model="u"))
    runtime = builder.with_agent_spec(AgentSpec(id="agent", model_id="m")).build()
    request = RunRequest(**as_fields(GO), run_id="r")

    async def cancelled() -> RunResult:
        running = asyncio.create_task(runtime.run_to_completion(request))
        await tools.opening.wait()
        with pytest.raises(RunRefused, match="run r is running already"):
            await runtime.run_to_completion(request)
        assert runtime.cancel("r")
        tools.release.set()
        return await running

    assert asyncio.run(cancelled()).termination.reason == "cancelled"
    assert asked == []
    assert not runtime.cancel("r")


def test_cancelling_a_run_cancels_the_agent_that_it_delegates_to() -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def answer(count: int, first: str) -> ChatAnswer:
        if first == "Go":
            return ChatAnswer(calls=(ToolCall("c", "agent_run_agent", '{"prompt": "help"}'),))
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise InferenceFailure("cancelled", str(count))

    runtime = runtime_of(Model(answer), delegates=("agent",))

    async def cancelled() -> RunResult:
        running = asyncio.create_task(runtime.run_to_completion(RunRequest(**as_fields(GO), run_id="r")))
        await started.wait()
        runtime.cancel("r")
        result = await running
        async with asyncio.timeout(10):
            await ended.wait()
        return result

    assert asyncio.run(cancelled()).termination.reason == "cancelled"


def test_a_thousand_runs_at_once_share_nothing() -> None:
    async def answer(count: int, first: str) -> ChatAnswer:
        await asyncio.sleep(0)
        return SEARCH if count < 2 else ChatAnswer(text=f"{first} done")

    def note(context: PhaseContext) -> Command:
        return Command(updates={"k": [context.run.messages[0].text]})

    runtime = runtime_of(Model(answer), None, Hooked("step_end", note))

    async def runs() -> list[RunResult]:
        requests = [RunRequest(agent_id="agent", messages=(user_message(str(number)),)) for number in range(1_000)]
        return list(await asyncio.gather(*map(runtime.run_to_completion, requests)))

    results = asyncio.run(runs())
    assert [result.text for result in results] == [f"{number} done" for number in range(1_000)]
    assert all(result.state.values["k"] == [str(number)] * 3 for number, result in enumerate(results))
    assert len({result.run for result in results}) == 1_000


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_runs() -> None:
    async def runs() -> int:
        tool = Search()
        runtime = runtime_of(answering(SEARCH, DONE), tool, Hooked("step_end", lambda _: None), delegates=("agent",))

        async def many(count: int) -> int:
            for _ in range(count):
                await runtime.run(GO, lambda _: None)
            tool.given.clear()
            gc.collect()
            return tracemalloc.get_traced_memory()[0]

        await many(200)
        tracemalloc.start()
        before = await many(100)
        after = await many(2_000)
        tracemalloc.stop()
        return after - before

    assert asyncio.run(runs()) < 50_000


# Budgets --------------------------------------------------------------------------------------------------------------


def delegating(count: int) -> ChatAnswer:
    """An answer of 20 tokens that asks for so many delegates."""
    calls = [ToolCall(f"c{number}", "agent_run_agent", '{"prompt": "help"}') for number in range(count)]
    return ChatAnswer(calls=tuple(calls), usage=Usage(10, 10))


@pytest.mark.parametrize(
    ("budget", "most"),
    [
        (RunBudget(max_tokens=20), 1),
        (RunBudget(max_tokens=60), 3),
        (RunBudget(max_rounds=1), 1),
        (RunBudget(max_rounds=4), 4),
        (RunBudget(max_cost=0.00002), 1),
    ],
)
def test_delegates_cannot_ask_models_beyond_the_budget_of_their_run(budget: RunBudget, most: int) -> None:
    """Each of many delegates that asks its model once more delegates as often itself, eight levels deep."""
    asked = 0

    async def answer(_: int, __: str) -> ChatAnswer:
        nonlocal asked
        asked += 1
        return delegating(5) if asked < 100 else DONE

    builder = AgentRuntimeBuilder().with_provider("p", Model(answer))
    builder.with_model(ModelSpec(id="m", provider_id="p", upstream_model="u", input_price=1, output_price=1))
    runtime = builder.with_agent_spec(AgentSpec(id="agent", model_id="m", delegates=("agent",))).build()
    result = run(runtime, RunRequest(**as_fields(GO), budget=budget))

    assert result.termination.code.startswith("budget_")
    assert asked == most


def test_what_a_delegate_used_counts_though_it_was_cancelled() -> None:
    async def answer(count: int, first: str) -> ChatAnswer:
        if first == "Go":
            return delegating(1)
        if count:
            runtime.cancel("r")
            await asyncio.Event().wait()
        return ChatAnswer(calls=SEARCH.calls, usage=Usage(100, 100))

    runtime = runtime_of(Model(answer), delegates=("agent",))

    async def cancelled() -> RunResult:
        result = await runtime.run_to_completion(RunRequest(**as_fields(GO), run_id="r"))
        others = asyncio.all_tasks() - {asyncio.current_task()}
        if others:
            await asyncio.wait(others, timeout=10)
        return result

    result = asyncio.run(cancelled())
    assert result.termination.reason == "cancelled"
    assert spent(result.state).usage.total_tokens == 220


@pytest.mark.parametrize(("limit", "end"), [(3, ("budget_rounds", 1, 2)), (4, ("", 2, 2))])
def test_rounds_of_a_delegate_that_waits_are_counted_once(limit: int, end: tuple[str, int, int]) -> None:
    def suspend(context: PhaseContext) -> Command | None:
        assert context.call is not None
        return Command(gate=Suspend("why not")) if context.call.tool == "search" else None

    async def answer(count: int, first: str) -> ChatAnswer:
        if count:
            return DONE
        return delegating(1) if first == "Go" else SEARCH

    ports = Ports(store=MemoryStore())
    runtime = runtime_of(Model(answer), None, Hooked("tool_gate", suspend), ports, delegates=("agent",))
    inbox = Inbox(ports.store or MemoryStore(), ports.secrets, ports.clock)
    waiting = run(runtime, RunRequest(**as_fields(GO), budget=RunBudget(max_rounds=4)))
    assert waiting.pending is not None
    asyncio.run(inbox.decide(waiting.pending.id, "approved", CallContext.for_caller(local_caller("program"))))

    result = run(runtime, RunRequest(agent_id="agent", resume=waiting.state, budget=RunBudget(max_rounds=limit)))

    delegated = sum(each.rounds for each in result.state.delegated.values())
    assert (result.termination.code, result.rounds, delegated) == end


# Approvals ------------------------------------------------------------------------------------------------------------


def test_a_plugin_that_suspends_without_a_reason_still_asks_a_person() -> None:
    tool = Search()
    suspend = Hooked("tool_gate", lambda _: Command(gate=Suspend("")))
    result = run(runtime_of(answering(SEARCH, DONE), tool, suspend))

    assert (result.termination.reason, tool.given) == ("suspended", [])


@pytest.mark.parametrize("counts", [(-1, 1), (1, 1, -5), (float("nan"), 1), (True, 1), (10**400, 1), (1, None)])
def test_tokens_that_cannot_be_counted_end_a_run_that_has_a_budget(counts: tuple[Any, ...]) -> None:
    events: list[RunEvent] = []
    runtime = runtime_of(answering(ChatAnswer(text="Hi", usage=Usage(*counts))))
    request = RunRequest(**as_fields(GO), budget=RunBudget(max_tokens=100))
    result = asyncio.run(runtime.run(request, events.append))

    assert (result.termination.code, result.usage) == ("usage_unknown", Usage())
    assert run(runtime).usage == Usage()
