"""Mentions in runs that go on from their journal."""

import asyncio

from agent_resolver.registry import Ports
from agent_resolver.runtime import (
    AgentRuntime,
    AgentRuntimeBuilder,
    AgentSpec,
    ChatAnswer,
    ChatRequest,
    Journal,
    ModelSpec,
    ResumeRequest,
    RunRequest,
    ToolCall,
    Usage,
    user_message,
)
from agent_resolver.schema import Caller
from agent_resolver.storage import AesSeal, MemoryStore, SystemClock
from tests.runtime.journal.lasting import CALLER, KEY, CountingModel

TEXT = "You review code."


class Definitions:
    """Knows every agent."""

    async def definition(self, uri: str, caller: Caller) -> str | None:
        assert (uri, caller.id) == ("agent://reviewer", CALLER.id)
        return TEXT


def delegating(request: ChatRequest) -> ChatAnswer:
    """Hands its prompt to another agent."""
    is_first = request.messages[0].text == "Delegate." and request.messages[-1].role == "user"
    call = ToolCall("c1", "agent_run_helper", '{"prompt": "Ask @x:agent://reviewer"}')
    return ChatAnswer(calls=(call,), usage=Usage(1, 1)) if is_first else ChatAnswer(text="Done.", usage=Usage(1, 1))


def runtime_on(store: MemoryStore, model: CountingModel) -> AgentRuntime:
    seal = AesSeal(KEY)
    builder = AgentRuntimeBuilder().with_provider("p", model).with_caller(CALLER).with_definitions(Definitions())
    builder.with_model(ModelSpec(id="m", provider_id="p", upstream_model="m"))
    builder.with_ports(Ports(store=store, seal=seal, clock=SystemClock()))
    builder.with_journal(lambda: Journal(store, seal, SystemClock()))
    builder.with_agent_spec(AgentSpec(id="agent", model_id="m", system_prompt="Delegate.", delegates=("helper",)))
    return builder.with_agent_spec(AgentSpec(id="helper", model_id="m", system_prompt="Help.")).build()


class HangsAt(CountingModel):
    """Interrupts all runs when it is asked for the time that is given, and never answers that."""

    def __init__(self, time: int) -> None:
        super().__init__(delegating)
        self.runtime: AgentRuntime | None = None
        self._time = time

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        if len(self.asked) + 1 == self._time:
            self.asked.append(request)
            assert self.runtime is not None
            for run in list(self.runtime._runs._running.values()):
                run.interrupt()
            await asyncio.Event().wait()
        return await super().complete(request)


async def interrupted(store: MemoryStore, time: int) -> HangsAt:
    model = HangsAt(time)
    model.runtime = runtime_on(store, model)
    prompt = user_message("Ask @x:agent://reviewer for it")
    await model.runtime.run_to_completion(RunRequest(agent_id="agent", messages=(prompt,), run_id="r"))
    async with asyncio.timeout(10):
        # Delegates end in the background.
        while model.runtime._runs._running:  # noqa: ASYNC110 - nothing says when they have
            await asyncio.sleep(0)
    return model


def test_an_interrupted_question_gets_its_definition_again_and_the_next_not() -> None:
    async def run() -> None:
        store = MemoryStore(key=KEY)
        before = await interrupted(store, 1)
        model = CountingModel(delegating)
        result = await runtime_on(store, model).resume(ResumeRequest(run="r"))

        assert result.text == "Done."
        assert model.asked[0] == before.asked[0]
        assert [str(request.messages).count(TEXT) for request in model.asked] == [1, 0, 0]

    asyncio.run(run())


def test_a_delegate_that_goes_on_brings_in_nothing_that_a_model_mentions() -> None:
    async def run() -> None:
        store = MemoryStore(key=KEY)
        await interrupted(store, 2)
        model = CountingModel(delegating)
        await runtime_on(store, model).resume(ResumeRequest(run="r"))

        assert model.asked[0].messages[0].text == "Help."
        assert "Ask @x:agent://reviewer" in str(model.asked)
        assert TEXT not in str(model.asked)

    asyncio.run(run())
