"""What a run holds is freed when it ends: a service that runs agents all day should not need the garbage collector."""

import asyncio
import gc
from typing import Any

import pytest

from agent_resolver.registry import CallContext
from agent_resolver.runtime import (
    AgentRuntimeBuilder,
    AgentSpec,
    ChatAnswer,
    ModelSpec,
    RunEvent,
    RunRequest,
    ScriptedExecutor,
    ToolCall,
    user_message,
)
from agent_resolver.schema import Descriptor

CALLS = ChatAnswer(calls=(ToolCall("1", "search", "{}"),), finish="tool_calls")
PERMISSION = {"default_behavior": "deny", "rules": [{"tool": "search", "behavior": "allow"}]}


class Search:
    """A tool that does nothing."""

    descriptor = Descriptor(id="search", description="Search.", input_schema={"type": "object"}, source="test")

    async def invoke(self, _arguments: dict[str, Any], _context: CallContext) -> str:
        return "ok"


def take(_event: RunEvent) -> None:
    """A sink that keeps nothing."""


@pytest.mark.slow
def test_a_run_that_ended_leaves_nothing_to_the_garbage_collector() -> None:
    runtime = (
        AgentRuntimeBuilder()
        .with_tool("search", Search())
        .with_provider("memory", ScriptedExecutor([CALLS, ChatAnswer(text="done")] * 2))
        .with_model(ModelSpec(id="model", provider_id="memory", upstream_model="model"))
        .with_agent_spec(AgentSpec(id="agent", model_id="model", sections={"permission": PERMISSION}))
        .build()
    )
    request = RunRequest(agent_id="agent", messages=(user_message("Find it."),))

    async def garbage_of_a_run() -> int:
        gc.collect()
        gc.disable()
        try:
            assert (await runtime.run(request, take)).text == "done"
            return gc.collect()
        finally:
            gc.enable()

    async def story() -> int:
        # The first run fills caches.
        await garbage_of_a_run()
        return await garbage_of_a_run()

    assert asyncio.run(story()) == 0
