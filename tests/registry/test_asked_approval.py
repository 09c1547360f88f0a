"""A call for which its caller asks an approval though its tool takes none, such as a permission rule does."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from agent_resolver.registry import CallContext, ToolFailure, ToolRegistry
from agent_resolver.schema import Caller, Done, FailureCode, Pending, Rules, local_caller
from tests.registry.sample import MemoryTool, raising
from tests.registry.stage import Stage, code_of, in_place, run

BASH = "bash"
RULE = "permission rule `Bash(npm *)` asks before this call"
LIN = local_caller("lin")
ADA = Caller(id="ada", is_verified=True, clearance="RESTRICTED", roles=frozenset({"approver"}))
GRACE = structs.replace(ADA, id="grace")
LEAD = structs.replace(ADA, id="lea", roles=frozenset({"lead"}))
EVE = structs.replace(ADA, id="eve", roles=frozenset())


@pytest.fixture(params=["memory", "state file", "nothing recorded"])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    """Every place where things are kept, and none."""
    with in_place(request.param, tmp_path) as made:
        yield made


def asked(stage: Stage, by: Caller = ADA, reason: str = RULE, **more: Any) -> Pending:
    outcome = stage.call(BASH, by, approval_reason=reason, **more)
    assert isinstance(outcome, Pending), outcome
    assert outcome.code == "APPROVAL_REQUIRED"
    return outcome


def test_a_call_that_is_asked_for_waits_says_why_and_goes_on_once_it_is_approved(stage: Stage) -> None:
    stage.add(tool := MemoryTool(BASH))
    waiting = asked(stage, LIN)

    assert waiting.message == f"local:lin asks to call bash (INTERNAL): {RULE}"
    assert stage.listed()[0].message == waiting.message
    assert asked(stage, LIN).id == waiting.id
    assert tool.calls == 0
    assert stage.decide(waiting.id, "approved", LIN) == "approved"
    assert stage.call(BASH, LIN, approval_reason=RULE) == Done(trace_id=waiting.trace_id, result={})
    assert tool.calls == 1


def test_a_rejected_call_is_not_made(stage: Stage) -> None:
    stage.add(tool := MemoryTool(BASH))
    stage.decide(asked(stage).id, "rejected", GRACE, "not now")

    assert code_of(stage.call(BASH, ADA, approval_reason=RULE)) == "APPROVAL_REJECTED"
    assert tool.calls == 0


@pytest.mark.parametrize(
    "other",
    [{"arguments": {"n": 1}}, {"trace": "b" * 32}, {"by": GRACE}, {"by": LIN}],
    ids=lambda each: next(iter(each)),
)
def test_an_approval_holds_for_that_very_call_alone(stage: Stage, other: dict[str, Any]) -> None:
    stage.add(MemoryTool(BASH))
    stage.decide(asked(stage).id, "approved", GRACE)

    asked(stage, **other)


def test_an_approval_is_good_for_one_call(stage: Stage) -> None:
    stage.add(tool := MemoryTool(BASH))
    stage.decide(asked(stage).id, "approved", GRACE)
    stage.call(BASH, ADA, approval_reason=RULE)

    asked(stage)
    assert tool.calls == 1


def test_the_one_who_calls_cannot_approve_and_neither_can_one_without_the_role(stage: Stage) -> None:
    stage.add(MemoryTool(BASH))
    waiting = asked(stage)

    assert stage.decide(waiting.id, "approved", ADA) == "OWN_CALL"
    assert stage.decide(waiting.id, "approved", EVE) == "MISSING_ROLE"
    assert stage.decide(waiting.id, "approved", GRACE) == "approved"


def test_a_tool_that_takes_approvals_itself_keeps_its_role_and_its_class(stage: Stage) -> None:
    stage.add(MemoryTool(BASH, rules=Rules(needs_approval=True, approver_role="lead", classification="RESTRICTED")))
    waiting = asked(stage)

    assert "(RESTRICTED)" in waiting.message
    assert stage.decide(waiting.id, "approved", LIN) == "UNVERIFIED_APPROVER"
    assert stage.decide(waiting.id, "approved", GRACE) == "MISSING_ROLE"
    assert stage.decide(waiting.id, "approved", LEAD) == "approved"
    # One approval is enough, whichever of the two asked for it.
    assert code_of(stage.call(BASH, ADA)) == "DONE"


def test_a_requested_approval_does_not_open_a_tool_with_a_stricter_one(stage: Stage) -> None:
    """Its rules became stricter after the approval: another role, or data of a higher class."""
    for rules in (Rules(needs_approval=True, approver_role="lead"), Rules(classification="CONFIDENTIAL")):
        open_registry, stricter = ToolRegistry(stage.ports), ToolRegistry(stage.ports)
        open_registry.add(MemoryTool(BASH))
        stricter.add(tool := MemoryTool(BASH, rules=rules))
        if stage.ports.store is None:
            stricter._pipeline = open_registry._pipeline
            stage.pending._store = stage.inbox._store = stage.inbox._pending._store = open_registry._pipeline._store
        context = CallContext(run="r", trace_id="c" * 32, caller=ADA, approval_reason=RULE)
        waiting = run(open_registry.call(BASH, {"of": rules.approver_role}, context))
        assert isinstance(waiting, Pending)
        stage.decide(waiting.id, "approved", GRACE)

        again = run(stricter.call(BASH, {"of": rules.approver_role}, context))

        assert code_of(again) == "APPROVAL_REQUIRED"
        assert tool.calls == 0


def test_without_a_reason_a_tool_that_takes_no_approval_needs_none(stage: Stage) -> None:
    stage.add(MemoryTool(BASH))
    asked(stage)

    assert code_of(stage.call(BASH, ADA)) == "DONE"


def test_a_reason_shows_no_secret_and_is_never_long(stage: Stage) -> None:
    stage.add(MemoryTool(BASH, rules=Rules(secret_fields=("pin",))))
    waiting = asked(stage, arguments={"pin": "canary-1234"}, reason="because of canary-1234 \ud800\n" + "x " * 10_000)

    assert "canary" not in waiting.message
    assert waiting.message.startswith("ada asks to call bash (INTERNAL): because of [redacted] ? x x")
    assert len(waiting.message) < 600


def test_a_tool_never_sees_the_reason_and_what_it_calls_in_turn_does_not_ask(stage: Stage) -> None:
    seen: list[CallContext] = []

    class Outer(MemoryTool):
        async def invoke(self, arguments: dict[str, Any], context: CallContext) -> Any:
            seen.append(context)
            return code_of(await stage.registry.call("inner", arguments, context))

    stage.add(Outer(BASH), MemoryTool("inner"))
    stage.decide(asked(stage).id, "approved", GRACE)
    outcome = stage.call(BASH, ADA, approval_reason=RULE)

    assert isinstance(outcome, Done)
    assert outcome.result == "DONE"
    assert seen[0].approval_reason == ""


def test_a_question_of_an_asked_call_is_answered_by_those_who_may_approve_it(stage: Stage) -> None:
    class Asking(MemoryTool):
        async def invoke(self, arguments: dict[str, Any], context: CallContext) -> Any:  # noqa: ARG002
            return context.ask("Which?")

    stage.add(Asking(BASH))
    stage.decide(asked(stage).id, "approved", GRACE)
    question = stage.call(BASH, ADA, approval_reason=RULE)

    assert isinstance(question, Pending)
    assert question.type == "CLARIFICATION"
    assert stage.answer(question.id, "mine", ADA) == "OWN_CALL"
    assert stage.answer(question.id, "this", GRACE) == "answered"


def test_an_interrupted_call_that_was_asked_for_is_not_for_its_caller_to_repeat(stage: Stage) -> None:
    """Nobody knows whether it was done; `retry` would make it a second time under the same approval."""
    stage.add(tool := MemoryTool(BASH, raising(ToolFailure(FailureCode.TIMEOUT, "No answer"))))
    stage.decide(asked(stage, key="k").id, "approved", GRACE)

    assert code_of(stage.call(BASH, ADA, key="k", approval_reason=RULE)) == "TIMEOUT"
    assert code_of(stage.call(BASH, ADA, key="k", approval_reason=RULE)) == "OUTCOME_UNKNOWN"
    question = next(action for action in stage.actions() if action.type == "CLARIFICATION")
    assert stage.answer(question.id, "retry", ADA) == "OWN_CALL"
    assert stage.answer(question.id, "retry", GRACE) == "answered"
    assert code_of(stage.call(BASH, ADA, key="k", approval_reason=RULE)) == "TIMEOUT"
    assert tool.calls == 2
