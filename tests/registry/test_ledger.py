"""A call under a key is done once, and whoever makes it again is told what came of it."""

import asyncio
from typing import Any

import pytest

from agent_resolver.registry import Call, CallContext, NeedsAction, Pipeline, ToolFailure, ToolRegistry
from agent_resolver.schema import (
    Caller,
    Done,
    Failed,
    FailureCode,
    Outcome,
    Pending,
    PendingAction,
    Rules,
    digest,
    local_caller,
)
from tests.registry.sample import TRACE, MemoryTool, Work, raising
from tests.registry.stage import Stage, code_of, run

PAY = "bank.pay"
ADA = local_caller("ada")
BOB = local_caller("bob")
GRACE = Caller(id="grace", is_verified=True, roles=frozenset({"approver"}))
CANARY = "canary-7f3a"
MAYBE_DONE = (
    FailureCode.TIMEOUT,
    FailureCode.RUNNER_ERROR,
    FailureCode.PROTOCOL_ERROR,
    FailureCode.SERVER_UNAVAILABLE,
    FailureCode.OUTPUT_VALIDATION_FAILED,
)


class Payments(MemoryTool):
    """Does a thing that must not be done twice; how it goes is set from outside."""

    def __init__(self, **rules: Any) -> None:
        schema = {"type": "object", "required": ["number"]}
        super().__init__(PAY, self._pay, rules=Rules(**rules), output_schema=schema)
        self.fails: Work | None = None

    async def _pay(self, arguments: dict[str, Any]) -> Any:
        if self.fails:
            return await self.fails(arguments)
        return {"number": self.calls}


async def _nonsense(_: dict[str, Any]) -> Any:
    return {"no": "number"}


def failing(code: FailureCode) -> Work:
    """Work that ends with this code."""
    known: dict[FailureCode, Work] = {
        FailureCode.RUNNER_ERROR: raising(ValueError("a bug")),
        FailureCode.OUTPUT_VALIDATION_FAILED: _nonsense,
    }
    return known.get(code) or raising(ToolFailure(code, "it went wrong"))


def pay(stage: Stage, key: str | None = "k", by: Caller = ADA, trace: str = TRACE, **arguments: Any) -> Outcome:
    return stage.call(PAY, by, arguments, trace, key=key)


def paid(number: int) -> Done:
    return Done(trace_id=TRACE, result={"number": number})


def questions(stage: Stage) -> list[PendingAction]:
    return [action for action in stage.listed() if action.type == "CLARIFICATION"]


# Done once ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_idempotent", [True, False])
def test_under_one_key_it_is_done_once_and_the_result_told_again(stage: Stage, *, is_idempotent: bool) -> None:
    stage.add(tool := Payments(is_idempotent=is_idempotent))

    assert [pay(stage, to="acme") for _ in range(3)] == [paid(1)] * 3
    assert tool.calls == 1
    assert stage.kinds() == ["call.started", "call.done", "call.done", "call.done"]


def test_whoever_asks_again_is_told_under_their_own_trace(stage: Stage) -> None:
    stage.add(Payments())
    pay(stage)

    assert pay(stage, trace="1" * 32) == Done(trace_id="1" * 32, result={"number": 1})


def test_without_a_key_every_call_is_another(stage: Stage) -> None:
    stage.add(Payments())

    assert [pay(stage, key=None) for _ in range(3)] == [paid(1), paid(2), paid(3)]


def test_another_key_is_another_call(stage: Stage) -> None:
    stage.add(Payments())

    assert [pay(stage, key=key) for key in ("k", "K", "k ", "k")] == [paid(1), paid(2), paid(3), paid(1)]


def test_another_callers_key_is_another_key(stage: Stage) -> None:
    stage.add(Payments())

    assert [pay(stage, by=by) for by in (ADA, BOB, ADA, BOB)] == [paid(1), paid(2), paid(1), paid(2)]


def test_a_key_belongs_to_one_tool(stage: Stage) -> None:
    stage.add(Payments(), MemoryTool())

    assert pay(stage) == paid(1)
    assert stage.call("memory.echo", ADA, {}, key="k") == Done(trace_id=TRACE, result={})


def test_a_key_that_was_used_for_other_arguments_is_refused(stage: Stage) -> None:
    stage.add(tool := Payments())
    pay(stage, to="acme")

    other = pay(stage, to="other")

    assert code_of(other) == "KEY_REUSED"
    assert tool.calls == 1
    assert pay(stage, to="acme") == paid(1)


@pytest.mark.parametrize("key", ["", "k" * 201, "\udcff", "a\nb", "\0"])
def test_a_key_that_cannot_be_kept_is_refused(stage: Stage, key: str) -> None:
    stage.add(tool := Payments())

    assert code_of(pay(stage, key=key)) == "INPUT_VALIDATION_FAILED"
    assert tool.calls == 0


@pytest.mark.parametrize("key", ["k" * 200, "é 😀", "'; DROP TABLE ledger; --"])
def test_any_other_key_is_good(stage: Stage, key: str) -> None:
    stage.add(Payments())

    assert [pay(stage, key=key) for _ in range(2)] == [paid(1)] * 2


@pytest.mark.parametrize("result", [None, False, 0, "", [], {"é": [1.5, None, {"deep": "😀"}]}, 2**53])
def test_any_result_is_told_again_as_it_was(stage: Stage, result: Any) -> None:
    async def work(_: dict[str, Any]) -> Any:
        return result

    stage.add(tool := MemoryTool(work=work))
    outcomes = [stage.call("memory.echo", ADA, {}, key="k") for _ in range(2)]

    assert outcomes == [Done(trace_id=TRACE, result=result)] * 2
    assert tool.calls == 1


def test_what_is_refused_before_it_starts_uses_no_key_up(stage: Stage) -> None:
    stage.add(MemoryTool(PAY, input_schema={"required": ["to"]}))

    assert code_of(pay(stage)) == "INPUT_VALIDATION_FAILED"
    assert code_of(pay(stage, to="acme")) == "DONE"


# At the same time -----------------------------------------------------------------------------------------------------


class Gate:
    """Work that waits until it is let through."""

    def __init__(self) -> None:
        self.reached, self.opened = asyncio.Event(), asyncio.Event()

    async def __call__(self, _: dict[str, Any]) -> Any:
        self.reached.set()
        await self.opened.wait()
        return {"number": 7}


@pytest.mark.parametrize("is_idempotent", [True, False])
def test_of_the_same_call_at_the_same_time_one_runs(stage: Stage, *, is_idempotent: bool) -> None:
    tool = MemoryTool(PAY, rules=Rules(is_idempotent=is_idempotent))
    stage.add(tool)

    outcomes = run(twenty_at_once(stage, tool))

    assert list(map(code_of, outcomes)) == ["ALREADY_RUNNING"] * 19 + ["DONE"]
    assert pay(stage) == paid(7)
    assert tool.calls == 1


async def twenty_at_once(stage: Stage, tool: MemoryTool) -> list[Outcome]:
    """What comes of the same call, in that order, when the one that runs goes on after all others ended."""
    tool._work = gate = Gate()
    context = CallContext(run="r", trace_id=TRACE, caller=ADA, key="k")
    calls = [asyncio.create_task(stage.registry.call(PAY, {}, context)) for _ in range(20)]
    outcomes = []
    for ended in asyncio.as_completed(calls):
        outcomes.append(await ended)
        if len(outcomes) == len(calls) - 1:
            gate.opened.set()
    return outcomes


# Failed ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [*MAYBE_DONE, FailureCode.TOOL_ERROR])
def test_an_idempotent_failure_is_repeated_under_its_key_and_retried_under_another(
    stage: Stage, code: FailureCode
) -> None:
    stage.add(tool := Payments(is_idempotent=True))
    tool.fails = failing(code)
    first = pay(stage)
    tool.fails = None

    assert code_of(first) == code.value
    assert [pay(stage) for _ in range(2)] == [first] * 2
    assert tool.calls == 1
    assert [pay(stage, key="another") for _ in range(2)] == [paid(2)] * 2
    assert stage.actions() == []


@pytest.mark.parametrize("code", [FailureCode.TOOL_ERROR, FailureCode.NOT_CONFIGURED])
def test_what_says_that_it_did_nothing_is_told_again_under_its_key(stage: Stage, code: FailureCode) -> None:
    stage.add(tool := Payments())
    tool.fails = failing(code)
    first = pay(stage)
    tool.fails = None

    assert code_of(first) == code.value
    assert pay(stage) == first
    assert tool.calls == 1
    assert questions(stage) == []


def test_what_had_to_wait_may_be_tried_again_under_its_key(stage: Stage) -> None:
    stage.add(tool := Payments())
    tool.fails = raising(NeedsAction("OAUTH", "bank", "Sign in"))
    assert isinstance(pay(stage), Pending)
    tool.fails = None

    assert pay(stage) == paid(2)


def unknown(stage: Stage, tool: Payments, code: FailureCode = FailureCode.TIMEOUT) -> PendingAction:
    """The question that is asked when it was interrupted."""
    tool.fails = failing(code)
    assert code_of(pay(stage)) == code.value
    tool.fails = None
    assert code_of(pay(stage)) == "OUTCOME_UNKNOWN"
    (question,) = questions(stage)
    return question


@pytest.mark.parametrize("code", MAYBE_DONE)
def test_a_possible_effect_is_retried_once_and_only_after_a_person_decides(stage: Stage, code: FailureCode) -> None:
    stage.add(tool := Payments())
    question = unknown(stage, tool, code)

    outcome = pay(stage)

    assert isinstance(outcome, Failed)
    assert outcome.code == "OUTCOME_UNKNOWN"
    assert outcome.remedy == f"look; then `agent inbox answer {question.id} retry`, or `done`"
    assert tool.calls == 1
    assert (question.subject, question.requester, question.trace_id) == (PAY, "local:ada", TRACE)
    assert question.arguments == digest({})

    assert stage.answer(question.id, "retry", BOB) == "answered"
    assert [pay(stage) for _ in range(3)] == [paid(2)] * 3
    assert tool.calls == 2
    assert questions(stage) == []
    assert stage.show(question.id).state(stage.clock.now()) == "used"


def test_what_never_answers_may_have_been_done(stage: Stage) -> None:
    async def never(_: dict[str, Any]) -> Any:
        await asyncio.Event().wait()

    stage.add(tool := MemoryTool(PAY, never, timeout_seconds=0.01))

    assert [code_of(pay(stage)) for _ in range(3)] == ["TIMEOUT", "OUTCOME_UNKNOWN", "OUTCOME_UNKNOWN"]
    assert tool.calls == 1


def test_what_a_person_found_done_stays_undone_by_us(stage: Stage) -> None:
    stage.add(tool := Payments())
    question = unknown(stage, tool)
    stage.answer(question.id, "done", BOB)

    outcome = pay(stage)

    assert isinstance(outcome, Failed)
    assert outcome.code == "OUTCOME_UNKNOWN"
    assert outcome.message.endswith("; local:bob says: done")
    assert tool.calls == 1
    assert questions(stage) == []


def test_what_is_interrupted_once_more_is_asked_about_once_more(stage: Stage) -> None:
    stage.add(tool := Payments())
    first = unknown(stage, tool)
    stage.answer(first.id, "retry", BOB)

    second = unknown(stage, tool)

    assert second.id != first.id
    assert tool.calls == 2
    stage.answer(second.id, "retry", BOB)
    assert pay(stage) == paid(3)


def test_an_answer_for_one_call_lets_no_other_be_tried_again(stage: Stage) -> None:
    stage.add(tool := Payments())
    question = unknown(stage, tool)
    tool.fails = failing(FailureCode.TIMEOUT)
    pay(stage, key="other")
    tool.fails = None
    stage.answer(question.id, "retry", BOB)

    assert code_of(pay(stage, key="other")) == "OUTCOME_UNKNOWN"
    assert tool.calls == 2


def test_of_those_who_try_again_at_the_same_time_one_does_and_nobody_is_asked_anew(stage: Stage) -> None:
    stage.add(tool := Payments())
    stage.answer(unknown(stage, tool).id, "retry", BOB)

    outcomes = run(twenty_at_once(stage, tool))

    assert list(map(code_of, outcomes)) == ["ALREADY_RUNNING"] * 19 + ["DONE"]
    assert tool.calls == 2
    assert questions(stage) == []


# With an approval -----------------------------------------------------------------------------------------------------


def approve(stage: Stage, **arguments: Any) -> None:
    outcome = pay(stage, **arguments)
    assert isinstance(outcome, Pending)
    assert stage.decide(outcome.id, "approved", GRACE) == "approved"


@pytest.mark.parametrize("is_idempotent", [True, False])
def test_what_was_approved_and_done_is_told_again_without_asking(stage: Stage, *, is_idempotent: bool) -> None:
    stage.add(tool := Payments(needs_approval=True, is_idempotent=is_idempotent))
    approve(stage)

    assert [pay(stage) for _ in range(3)] == [paid(1)] * 3
    assert tool.calls == 1
    assert stage.listed() == []


def test_an_approval_is_good_for_one_key(stage: Stage) -> None:
    stage.add(tool := Payments(needs_approval=True))
    approve(stage)
    pay(stage)

    assert code_of(pay(stage, key="other")) == "APPROVAL_REQUIRED"
    assert code_of(pay(stage, key=None)) == "APPROVAL_REQUIRED"
    assert tool.calls == 1


def test_what_was_approved_and_interrupted_needs_a_person_and_no_second_approval(stage: Stage) -> None:
    stage.add(tool := Payments(needs_approval=True))
    approve(stage)
    question = unknown(stage, tool)
    stage.answer(question.id, "retry", BOB)

    assert [pay(stage) for _ in range(2)] == [paid(2)] * 2
    assert sorted(action.type for action in stage.actions()) == ["APPROVAL", "CLARIFICATION"]


def test_what_was_approved_and_failed_is_told_again_under_its_key_without_asking(stage: Stage) -> None:
    stage.add(tool := Payments(needs_approval=True, is_idempotent=True))
    approve(stage)
    tool.fails = failing(FailureCode.TOOL_ERROR)
    first = pay(stage)
    tool.fails = None

    assert code_of(first) == "TOOL_ERROR"
    assert pay(stage) == first
    assert tool.calls == 1
    assert stage.listed() == []


def test_what_was_approved_and_failed_takes_a_new_approval_without_a_key(stage: Stage) -> None:
    stage.add(tool := Payments(needs_approval=True, is_idempotent=True))
    approve(stage, key=None)
    tool.fails = failing(FailureCode.TOOL_ERROR)
    pay(stage, key=None)
    tool.fails = None

    assert code_of(pay(stage, key=None)) == "APPROVAL_REQUIRED"
    assert tool.calls == 1


class Late(Pipeline):
    """Holds one call between its approval and its start."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.reached, self.opened, self.is_holding = asyncio.Event(), asyncio.Event(), False

    async def rate_limit(self, call: Call) -> Failed | Pending | None:
        if self.is_holding:
            self.is_holding = False
            self.reached.set()
            await self.opened.wait()
        return await super().rate_limit(call)


@pytest.mark.parametrize("key", ["k", None])
@pytest.mark.parametrize("when", ["before the first", "while the first runs"])
def test_one_approval_never_lets_two_calls_run_however_they_overlap(stage: Stage, when: str, key: str | None) -> None:
    """The second passes the approval on account of the first, which then fails."""
    stage.add(tool := Payments(needs_approval=True, is_idempotent=True))
    approve(stage, key=key)
    late = ToolRegistry(stage.ports, pipeline=Late)
    late.add(tool)

    async def story() -> tuple[Outcome, Outcome]:
        holding = late._pipeline
        assert isinstance(holding, Late)
        holding.is_holding = True
        context = CallContext(run="r", trace_id=TRACE, caller=ADA, key=key)
        gate = Gate()
        tool.fails = _and_then(gate, failing(FailureCode.TOOL_ERROR))
        first = second = asyncio.create_task(stage.registry.call(PAY, {}, context))
        if when == "while the first runs":
            await gate.reached.wait()
        second = asyncio.create_task(late.call(PAY, {}, context))
        await holding.reached.wait()
        await gate.reached.wait()
        gate.opened.set()
        await first
        holding.opened.set()
        return first.result(), await second

    first, second = run(story())

    # Under a key the failure is kept, and is the answer to the second call as well.
    assert (code_of(first), code_of(second)) == ("TOOL_ERROR", "TOOL_ERROR" if key else "APPROVAL_REQUIRED")
    assert tool.calls == 1


def _and_then(first: Work, second: Work) -> Work:
    async def both(arguments: dict[str, Any]) -> Any:
        await first(arguments)
        return await second(arguments)

    return both
