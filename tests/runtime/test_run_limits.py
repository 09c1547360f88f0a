"""Limits that a run is given with the results of others: they hold as its agent's own, also when it goes on."""

import asyncio

import pytest
from msgspec import structs

from agent_resolver.core import RunLimits
from agent_resolver.runtime import (
    AgentRuntime,
    AgentSpec,
    ChatAnswer,
    ConstraintBroken,
    DataFacts,
    ModelSpec,
    RunBudget,
    RunRequest,
    ScriptedExecutor,
    ToolCall,
    user_message,
)
from tests.runtime.sample import MemoryTool, builder

EU = RunLimits(residencies=("eu-only",), forbid=("delete*",))
GO = RunRequest(agent_id="agent", messages=(user_message("Go"),), limits=EU)


def runtime_in(region: str, executor: ScriptedExecutor) -> AgentRuntime:
    """One agent, whose model keeps its data in a region, with a tool that deletes."""
    data = DataFacts(residency=(region,))  # type: ignore[arg-type]  # a test names each region by its word
    made = builder(AgentSpec(id="agent", model_id="there")).with_provider("there", executor)
    made.with_model(ModelSpec(id="there", provider_id="there", upstream_model="there", data=data))
    return made.with_tool("delete_all", MemoryTool("delete_all")).build_unchecked()


def test_a_model_that_may_not_see_the_results_of_others_is_not_asked() -> None:
    executor = ScriptedExecutor([ChatAnswer(text="Seen.")])

    with pytest.raises(ConstraintBroken, match="'eu-only'"):
        asyncio.run(runtime_in("us-only", executor).run(GO))

    assert executor.requests == []


def test_a_run_says_which_limits_it_ran_under_and_has_no_forbidden_tool() -> None:
    executor = ScriptedExecutor([ChatAnswer(text="Done.")])

    result = asyncio.run(runtime_in("eu-only", executor).run(GO))

    assert result.state.limits == EU
    assert executor.requests[0].tools == ()


def test_a_run_that_goes_on_keeps_the_limits_that_it_began_with() -> None:
    """Whoever resumes it need not know them."""
    call = ChatAnswer(text="", calls=(ToolCall("c", "unknown", "{}"),))
    begun = structs.replace(GO, budget=RunBudget(max_rounds=1))
    stopped = asyncio.run(runtime_in("eu-only", ScriptedExecutor([call])).run(begun))
    request = RunRequest(agent_id="agent", resume=stopped.state, with_changes=True)

    resumed = asyncio.run(runtime_in("eu-only", ScriptedExecutor([ChatAnswer(text="Done.")])).run(request))

    assert (resumed.text, resumed.state.limits) == ("Done.", EU)
    with pytest.raises(ConstraintBroken):
        asyncio.run(runtime_in("us-only", ScriptedExecutor([])).run(request))
