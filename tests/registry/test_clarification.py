"""A tool that asks a person something, from the question to the call that has the answer."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec import structs

from agent_resolver.registry import CallContext, NeedsAction
from agent_resolver.schema import Caller, Descriptor, Done, Failed, Outcome, Pending, Rules, local_caller
from tests.capability import isolated_tools
from tests.registry.sample import ANYTHING, MemoryTool
from tests.registry.stage import Stage, code_of, in_memory

MOVE = "tickets.move"
QUEUE = "Which queue?"
LIN = local_caller("lin")
ADA = Caller(id="ada", is_verified=True, clearance="RESTRICTED", roles=frozenset({"approver"}))
GRACE = structs.replace(ADA, id="grace")
EVE = structs.replace(ADA, id="eve", roles=frozenset())

Work = Callable[[dict[str, Any], CallContext], Awaitable[Any]]


class AskingTool:
    """A tool that is given its context."""

    def __init__(self, work: Work, tool_id: str = MOVE, **fields: Any) -> None:
        known = {"description": "For a test.", "input_schema": ANYTHING, "source": "memory", **fields}
        self.descriptor = Descriptor(id=tool_id, **known)
        self._work = work

    async def invoke(self, arguments: dict[str, Any], context: CallContext) -> Any:
        return await self._work(arguments, context)


async def move(arguments: dict[str, Any], context: CallContext) -> Any:
    return {**arguments, "queue": context.ask(QUEUE)}


async def move_with_care(arguments: dict[str, Any], context: CallContext) -> Any:
    queue = context.ask(QUEUE)
    return {**arguments, "queue": queue, "is_sure": context.ask(f"Really to {queue}?")}


def asked(outcome: Outcome) -> Pending:
    assert isinstance(outcome, Pending), outcome
    assert (outcome.type, outcome.code) == ("CLARIFICATION", "CLARIFICATION_REQUIRED")
    return outcome


def test_a_question_keeps_nothing_of_a_secret_field(stage: Stage) -> None:
    async def sign(arguments: dict[str, Any], context: CallContext) -> Any:
        return {"answer": context.ask(f"Sign with {arguments['pin']} for {arguments['to']}?")}

    stage.add(AskingTool(sign, rules=Rules(secret_fields=("pin",))))
    arguments = {"pin": "canary-1234", "to": "Ada"}

    question = asked(stage.call(MOVE, LIN, arguments))

    assert question.message == "Sign with [redacted] for Ada?"
    assert "canary" not in str(stage.actions())
    stage.answer(question.id, "yes", LIN)
    assert stage.call(MOVE, LIN, arguments) == Done(trace_id=question.trace_id, result={"answer": "yes"})


def test_the_call_waits_for_the_answer_and_then_has_it(stage: Stage) -> None:
    stage.add(AskingTool(move))
    first = asked(stage.call(MOVE, LIN, {"ticket": 7}))
    again = asked(stage.call(MOVE, LIN, {"ticket": 7}))

    assert first.id == again.id
    assert first.message == QUEUE
    assert first.remedy == f"`agent inbox answer {first.id} TEXT`, then make the same call under the same trace"
    question = stage.show(first.id)
    assert (question.subject, question.requester, question.classification) == (MOVE, "local:lin", "INTERNAL")
    assert stage.answer(first.id, "ops", LIN) == "answered"
    assert stage.call(MOVE, LIN, {"ticket": 7}) == Done(trace_id=first.trace_id, result={"ticket": 7, "queue": "ops"})
    assert stage.kinds() == [
        *("call.started", "action.asked", "call.pending", "call.started", "call.pending"),
        *("action.answered", "call.started", "call.done"),
    ]
    about = [body["arguments"] for kind, body in stage.records() if kind in {"action.asked", "action.answered"}]
    assert about == [question.arguments] * 2


def test_one_question_may_follow_from_the_answer_to_another(stage: Stage) -> None:
    stage.add(AskingTool(move_with_care))
    for words in ("ops", "yes"):
        assert stage.answer(asked(stage.call(MOVE, LIN)).id, words, LIN) == "answered"

    outcome = stage.call(MOVE, LIN)

    assert isinstance(outcome, Done)
    assert outcome.result == {"queue": "ops", "is_sure": "yes"}
    assert {action.message for action in stage.actions()} == {QUEUE, "Really to ops?"}


@pytest.mark.parametrize(
    "other", [{"arguments": {"ticket": 8}}, {"trace": "b" * 32}, {"by": local_caller("sam")}], ids=str
)
def test_an_answer_is_for_this_very_call(stage: Stage, other: dict[str, Any]) -> None:
    stage.add(AskingTool(move))
    first = asked(stage.call(MOVE, LIN, {"ticket": 7}))
    stage.answer(first.id, "ops", LIN)

    second = asked(stage.call(**{"tool_id": MOVE, "by": LIN, "arguments": {"ticket": 7}, **other}))

    assert second.id != first.id


def test_a_key_makes_it_the_same_call_which_is_done_once(stage: Stage) -> None:
    stage.add(AskingTool(move))
    stage.answer(asked(stage.call(MOVE, LIN, key="k")).id, "ops", LIN)

    assert stage.call(MOVE, LIN, key="k") == stage.call(MOVE, LIN, key="k")
    assert stage.kinds().count("call.done") == 2  # The second is told again.


def test_what_a_restricted_tool_does_is_answered_by_whoever_may_approve_it(stage: Stage) -> None:
    stage.add(AskingTool(move, rules=Rules(classification="RESTRICTED")))
    approval = stage.call(MOVE, ADA)
    assert isinstance(approval, Pending)
    stage.decide(approval.id, "approved", GRACE)
    question = asked(stage.call(MOVE, ADA))

    refusals = {by.id: stage.answer(question.id, "ops", by) for by in (LIN, ADA, EVE)}

    assert refusals == {"local:lin": "UNVERIFIED_APPROVER", "ada": "OWN_CALL", "eve": "MISSING_ROLE"}
    assert stage.answer(question.id, "ops", GRACE) == "answered"
    # An approval is good for one attempt, and that one ended with the question.
    approval = stage.call(MOVE, ADA)
    assert isinstance(approval, Pending)
    assert approval.type == "APPROVAL"
    stage.decide(approval.id, "approved", GRACE)
    assert code_of(stage.call(MOVE, ADA)) == "DONE"


def test_a_tool_that_does_not_take_the_answer_does_not_ask_for_ever(stage: Stage) -> None:
    async def stubborn(_: dict[str, Any], __: CallContext) -> Any:
        raise NeedsAction("CLARIFICATION", "", QUEUE)

    stage.add(AskingTool(stubborn))
    stage.answer(asked(stage.call(MOVE, LIN)).id, "ops", LIN)

    outcome = stage.call(MOVE, LIN)

    assert isinstance(outcome, Failed)
    assert (outcome.code.value, outcome.message) == ("TOOL_ERROR", f"{MOVE} asks again what was answered")


def test_a_tool_that_calls_another_does_not_hand_on_its_answers(stage: Stage) -> None:
    async def outer(arguments: dict[str, Any], context: CallContext) -> Any:
        context.ask(QUEUE)
        inner = await stage.registry.call("tickets.inner", arguments, context)
        return {"inner": code_of(inner)}

    stage.add(AskingTool(outer), AskingTool(move, "tickets.inner"))
    stage.answer(asked(stage.call(MOVE, LIN)).id, "ops", LIN)

    outcome = stage.call(MOVE, LIN)

    assert isinstance(outcome, Done)
    assert outcome.result == {"inner": "CLARIFICATION_REQUIRED"}


def test_a_secret_in_a_question_is_masked(stage: Stage) -> None:
    async def indiscreet(_: dict[str, Any], context: CallContext) -> Any:
        return {"said": context.ask(f"Is {context.secrets['TOKEN'].reveal()} right?")}

    stage.secrets.values["TOKEN"] = "s3cret-value"
    stage.add(AskingTool(indiscreet, rules=Rules(secrets=("TOKEN",))))
    question = asked(stage.call(MOVE, LIN))
    stage.answer(question.id, "yes", LIN)

    assert "s3cret" not in question.message
    assert code_of(stage.call(MOVE, LIN)) == "DONE"


def test_an_isolated_capability_asks_and_has_the_answer(stage: Stage) -> None:
    stage.add(isolated_tools.wonder)
    question = asked(stage.call("isolated.wonder", LIN, {"words": "x"}))
    stage.answer(question.id, "y", LIN)

    outcome = stage.call("isolated.wonder", LIN, {"words": "x"})

    assert isinstance(outcome, Done)
    assert outcome.result == {"words": "x y"}


def test_without_a_trail_or_a_key_it_waits_as_well() -> None:
    stage = in_memory(store=None)
    stage.add(AskingTool(move), MemoryTool())
    question = asked(stage.call(MOVE, LIN, {"ticket": 7}))
    stage.answer(question.id, "ops", LIN)

    assert code_of(stage.call(MOVE, LIN, {"ticket": 7})) == "DONE"
    assert code_of(stage.call(MOVE, LIN, {"ticket": 8})) == "CLARIFICATION_REQUIRED"


def test_an_answer_that_a_worker_gave_before_it_took_over_is_asked_for_again(stage: Stage) -> None:
    """The worker would otherwise say itself what the RESTRICTED call that it makes does."""
    stage.add(AskingTool(move, rules=Rules(classification="RESTRICTED")))
    worker = structs.replace(GRACE, id="worker")
    through_worker = structs.replace(ADA, via="worker")

    def approved(by: Caller) -> Outcome:
        approval = stage.call(MOVE, by)
        assert isinstance(approval, Pending)
        stage.decide(approval.id, "approved", GRACE)
        return stage.call(MOVE, by)

    before = asked(approved(ADA))
    assert stage.answer(before.id, "ops", worker) == "answered"

    again = asked(approved(through_worker))

    assert again.id != before.id
    assert stage.answer(again.id, "ops", worker) == "OWN_CALL"
