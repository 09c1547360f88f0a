"""A question about a call that cannot be made as it is: a person answers it in the inbox."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from agent_resolver.core import MAX_OPEN_QUESTIONS
from agent_resolver.registry import CallContext, NeedsAction, ToolFailure, ToolRegistry
from agent_resolver.schema import Caller, Failed, FailureCode, Pending, Rules, local_caller
from tests.registry.sample import TRACE, FullStore, MemorySource, MemoryTool, holding
from tests.registry.stage import Stage, in_memory, in_place, run

MOVE = "tickets.move"
QUESTION = "The model gave no queue. Which one?"
SCHEMA = {"type": "object", "required": ["queue"], "properties": {"queue": {"type": "string"}}}
LIN = local_caller("lin")
ADA = Caller(id="ada", is_verified=True, clearance="RESTRICTED", roles=frozenset({"approver"}))
EVE = Caller(id="eve", is_verified=True, clearance="PUBLIC")


@pytest.fixture(params=["memory", "state file", "nothing recorded"])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    """Every place where things are kept, and none."""
    with in_place(request.param, tmp_path) as made:
        yield made


def clarify(
    stage: Stage, by: Caller = LIN, arguments: dict[str, Any] | None = None, question: str = QUESTION, **more: Any
) -> str | Pending | Failed:
    context = CallContext(**{"run": "run-1", "trace_id": TRACE, "caller": by, **more})
    return run(stage.registry.clarify(MOVE, arguments or {"wrong": 1}, question, context))


def waiting(answer: str | Pending | Failed) -> Pending:
    assert isinstance(answer, Pending), answer
    assert (answer.type, answer.code) == ("CLARIFICATION", "CLARIFICATION_REQUIRED")
    return answer


def failed(answer: str | Pending | Failed) -> str:
    assert isinstance(answer, Failed), answer
    return answer.code.value


def test_the_persons_words_come_back_once_they_are_there_and_no_tool_runs(stage: Stage) -> None:
    stage.add(tool := MemoryTool(MOVE, input_schema=SCHEMA))
    question = waiting(clarify(stage))

    assert question.message == QUESTION
    assert waiting(clarify(stage)).id == question.id
    assert [action.message for action in stage.listed()] == [QUESTION]
    assert stage.answer(question.id, "billing", LIN) == "answered"
    assert clarify(stage) == clarify(stage) == "billing"
    assert tool.calls == 0


def test_a_question_and_each_wait_for_it_are_recorded() -> None:
    stage = in_memory().add(MemoryTool(MOVE))
    question = waiting(clarify(stage))
    stage.answer(question.id, "billing", LIN)
    clarify(stage)

    assert stage.kinds() == ["action.asked", "call.pending", "action.answered"]


@pytest.mark.parametrize(
    "other",
    [{"question": "Another?"}, {"arguments": {"wrong": 2}}, {"trace_id": "b" * 32}, {"by": ADA}],
    ids=lambda each: next(iter(each)),
)
def test_an_answer_holds_for_that_very_question_alone(stage: Stage, other: dict[str, Any]) -> None:
    stage.add(MemoryTool(MOVE))
    stage.answer(waiting(clarify(stage)).id, "billing", LIN)

    waiting(clarify(stage, **other))


def test_a_question_keeps_no_secret_is_never_long_and_is_told_apart_by_all_of_it(stage: Stage) -> None:
    stage.add(MemoryTool(MOVE, rules=Rules(secret_fields=("pin",))))
    given = {"pin": "canary-1234"}
    long = "canary-1234 \ud800" + "x" * 100_000
    question = waiting(clarify(stage, arguments=given, question=long))
    other = waiting(clarify(stage, arguments=given, question=f"{long}!"))

    assert "canary" not in str(stage.actions())
    assert question.message.startswith("[redacted] ?xxx")
    assert len(question.message) <= 4_000
    assert question.id != other.id


def test_one_caller_has_no_more_than_so_many_questions_open() -> None:
    stage = in_memory().add(MemoryTool(MOVE))
    for number in range(MAX_OPEN_QUESTIONS):
        waiting(clarify(stage, question=f"Number {number}?"))

    assert failed(clarify(stage, question="One more?")) == "TOO_MANY_QUESTIONS"
    waiting(clarify(stage, by=ADA))


@pytest.mark.parametrize(
    ("rules", "by", "code"),
    [
        ({"required_scopes": ("tickets:write",)}, EVE, "MISSING_SCOPE"),
        ({"classification": "CONFIDENTIAL"}, EVE, "CLEARANCE_TOO_LOW"),
        ({}, structs.replace(ADA, expires_at="2020-01-01T00:00:00.000Z"), "UNAUTHORIZED"),
    ],
)
def test_one_who_may_not_call_the_tool_cannot_ask_about_it(rules: Any, by: Caller, code: str) -> None:
    stage = in_memory().add(MemoryTool(MOVE, rules=Rules(**rules)))

    assert failed(clarify(stage, by)) == code
    assert stage.actions() == []
    assert stage.kinds() == ["call.failed"]


def test_a_tool_that_is_unknown_or_not_allowed_is_not_asked_about() -> None:
    stage = in_memory()
    assert failed(clarify(stage)) == "UNKNOWN_TOOL"
    stage.add(MemoryTool(MOVE))
    stage.registry = stage.registry.for_run({"other"})
    assert failed(clarify(stage)) == "FORBIDDEN_ACTION"


def test_arguments_that_are_not_json_are_refused(stage: Stage) -> None:
    stage.add(MemoryTool(MOVE))
    nested: dict[str, Any] = {}
    nested["self"] = nested

    assert failed(clarify(stage, arguments={"of": object()})) == "INPUT_VALIDATION_FAILED"
    assert failed(clarify(stage, arguments=nested)) == "INPUT_VALIDATION_FAILED"


def test_a_caller_cannot_answer_questions_about_a_call_that_takes_approval(stage: Stage) -> None:
    stage.add(MemoryTool(MOVE, rules=Rules(needs_approval=True)))
    question = waiting(clarify(stage, by=ADA))

    assert stage.answer(question.id, "mine", ADA) == "OWN_CALL"
    assert stage.answer(question.id, "billing", structs.replace(ADA, id="grace")) == "answered"


def test_a_lost_source_is_looked_for_and_its_problem_is_the_answer() -> None:
    stage = in_memory()
    source = MemorySource("acme", MemoryTool(MOVE, source="acme"), registry=stage.registry, prefix="tickets.")
    stage.registry.attach(source)
    source.problem = ToolFailure(FailureCode.SERVER_UNAVAILABLE, "acme is down", "start it")
    assert failed(clarify(stage)) == "SERVER_UNAVAILABLE"
    source.problem = NeedsAction("OAUTH", "acme", "Sign in")
    needed = clarify(stage)
    assert isinstance(needed, Pending)
    assert needed.type == "OAUTH"
    source.problem = None
    waiting(clarify(stage))


def test_a_state_that_cannot_be_written_is_a_failure_and_no_exception() -> None:
    registry = holding(MemoryTool(MOVE), store=FullStore())
    context = CallContext(run="run-1", trace_id=TRACE, caller=LIN)

    assert failed(run(registry.clarify(MOVE, {}, QUESTION, context))) == "STATE_UNAVAILABLE"


def test_a_question_from_another_loop_is_asked_on_the_loop_of_the_calls() -> None:
    registry = ToolRegistry()
    context = CallContext(run="run-1", trace_id=TRACE, caller=LIN)
    answers: list[str | Pending | Failed] = []

    class Elsewhere(MemoryTool):
        async def invoke(self, arguments: dict[str, Any], context: CallContext) -> Any:
            def ask() -> None:
                answers.append(asyncio.run(registry.clarify(MOVE, arguments, QUESTION, context)))

            await asyncio.to_thread(ask)
            return "ok"

    registry.add(Elsewhere(MOVE))
    run(registry.call(MOVE, {}, context))

    waiting(answers[0])
