"""Runs and questions to models as spans."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from opentelemetry.trace import INVALID_SPAN, StatusCode, get_current_span

from agent_resolver.registry import CallContext, Ports
from agent_resolver.runtime import (
    AgentRuntimeBuilder,
    AgentSpec,
    ChatAnswer,
    ChatRequest,
    DataFacts,
    InferenceFailure,
    ModelSpec,
    Piece,
    RunRequest,
    RunResult,
    ToolCall,
    Usage,
    user_message,
)
from agent_resolver.schema import Limits
from tests.telemetry.sample import CALLER, ECHO, TRACE, Watched, ids

CALLS = ChatAnswer(
    calls=(ToolCall("c1", "memory__echo", '{"text": "canary"}'),),
    usage=Usage(20, 7, 5),
    finish="tool_calls",
    model="u-1",
)
ENDS = ChatAnswer(text="canary", usage=Usage(30, 3), model="u-1")


class Answering:
    """Gives one answer after the other, or raises it."""

    def __init__(self, *answers: ChatAnswer | InferenceFailure) -> None:
        self._answers = list(answers)

    async def complete(self, request: ChatRequest) -> ChatAnswer:  # noqa: ARG002 - the port
        answer = self._answers.pop(0)
        if isinstance(answer, InferenceFailure):
            raise answer
        return answer

    async def stream(self, request: ChatRequest) -> AsyncGenerator[Piece]:
        yield await self.complete(request)


class Echo:
    """A tool that gives back its arguments."""

    descriptor = ECHO

    async def invoke(self, arguments: dict[str, Any], context: CallContext) -> Any:  # noqa: ARG002 - the port
        return arguments


def run(watched: Watched, *answers: ChatAnswer | InferenceFailure, parent: str | None = None, **spec: Any) -> RunResult:
    """A run of an agent whose model gives these answers."""
    made = AgentRuntimeBuilder().with_ports(Ports(telemetry=watched.telemetry)).with_caller(CALLER)
    made.with_tool("memory.echo", Echo()).with_provider("acme", Answering(*answers))
    made.with_model(
        ModelSpec(id="m", provider_id="acme", upstream_model="u", data=DataFacts(max_sensitivity="pii.high"))
    )
    made.with_agent_spec(AgentSpec(id="helper", model_id="m", system_prompt="canary", **spec))
    request = RunRequest(
        agent_id="helper", messages=(user_message("canary"),), run_id="run-1", trace_id=TRACE, parent=parent
    )
    return asyncio.run(made.build().run_to_completion(request))


def test_questions_and_calls_are_below_the_run_in_one_trace() -> None:
    watched = Watched()

    run(watched, CALLS, ENDS)
    first, call, second, whole = watched.spans

    names = [span.name for span in (whole, first, call, second)]
    assert names == ["invoke_agent helper", "chat u", "execute_tool memory.echo", "chat u"]
    _, own, above = ids(whole)
    assert above is None
    assert [ids(span)[0] for span in watched.spans] == [TRACE] * 4
    assert [ids(span)[2] for span in (first, call, second)] == [own] * 3


def test_a_run_says_who_ran_what_and_how_it_ended() -> None:
    watched = Watched()

    run(watched, CALLS, ENDS, limits=Limits(sensitivity="pii.low"))

    assert dict(watched.spans[-1].attributes or {}) == {
        "golden.app_id": "console",
        "golden.component_type": "REASONER",
        "golden.data_classification": "CONFIDENTIAL",
        "golden.cost_center": "cc-7",
        "golden.initiator_id": "user:1",
        "golden.is_compensation": False,
        "golden.outcome": "NATURAL_END",
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "helper",
        "gen_ai.conversation.id": "run-1",
        "gen_ai.usage.input_tokens": 50,
        "gen_ai.usage.output_tokens": 10,
        "gen_ai.usage.cache_read.input_tokens": 5,
    }


def test_a_question_says_who_was_asked_and_what_it_took() -> None:
    watched = Watched()

    run(watched, CALLS, ENDS)

    attributes = dict(watched.spans[0].attributes or {})
    assert {key: value for key, value in attributes.items() if key.startswith("gen_ai.")} == {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "u",
        "gen_ai.response.model": "u-1",
        "gen_ai.provider.name": "acme",
        "gen_ai.response.finish_reasons": ("tool_calls",),
        "gen_ai.usage.input_tokens": 20,
        "gen_ai.usage.output_tokens": 7,
        "gen_ai.usage.cache_read.input_tokens": 5,
    }


def test_a_model_that_does_not_answer_is_an_error_of_both() -> None:
    watched = Watched()

    run(watched, InferenceFailure("unauthorized", "canary"))

    for span in watched.spans:
        assert span.status.status_code is StatusCode.ERROR
        assert (span.attributes or {})["error.type"] == "unauthorized"


def test_a_run_belongs_below_its_caller() -> None:
    watched = Watched()

    run(watched, ENDS, parent=f"00-{TRACE}-b7ad6b7169203331-01")

    assert ids(watched.spans[-1])[2] == "b7ad6b7169203331"


def test_no_prompt_answer_or_argument_leaves() -> None:
    watched = Watched()

    run(watched, CALLS, ENDS)

    assert "canary" not in watched.everything()


def test_after_a_run_the_current_span_is_what_it_was() -> None:
    watched = Watched()

    run(watched, CALLS, ENDS)

    assert get_current_span() is INVALID_SPAN
