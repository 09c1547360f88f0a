"""A call that takes an approval, from the question to the one time that it passes."""

import asyncio
from typing import Any

import pytest
from msgspec import structs

from agent_resolver.registry import AnswerRefused, CallContext, Inbox, PendingActions, ToolFailure
from agent_resolver.registry.errors import WaitsFor
from agent_resolver.schema import (
    CLASSIFICATION_RANK,
    Caller,
    Classification,
    Done,
    Failed,
    FailureCode,
    Outcome,
    Pending,
    PendingAction,
    Priority,
    Rules,
    definition_digest,
    digest,
    local_caller,
)
from agent_resolver.storage import Store
from tests.registry.sample import TRACE, MemoryTool, Work, echo, raising
from tests.registry.stage import NOW, Stage, answering, code_of, run

CLOSE = "tickets.close"
ADA = Caller(id="ada", is_verified=True, clearance="RESTRICTED", roles=frozenset({"approver"}))
BOB = structs.replace(ADA, id="bob")
GRACE = Caller(id="grace", is_verified=True, roles=frozenset({"approver"}))
EVE = Caller(id="eve", is_verified=True, roles=frozenset({"auditor"}))
LOCAL = local_caller("lin")


def tool(classification: Classification = "RESTRICTED", work: Work = echo, **more: Any) -> MemoryTool:
    fields = {name: more.pop(name) for name in ("rate_limit_per_minute", "timeout_seconds") if name in more}
    tool_id = more.pop("tool_id", CLOSE)
    return MemoryTool(tool_id, work, rules=Rules(classification=classification, needs_approval=True, **more), **fields)


def asked(stage: Stage, by: Caller = ADA, arguments: dict[str, Any] | None = None, **more: Any) -> Pending:
    outcome = stage.call(CLOSE, by, arguments, **more)
    assert isinstance(outcome, Pending), outcome
    assert outcome.code == "APPROVAL_REQUIRED"
    return outcome


@pytest.mark.parametrize("verdict", [None, "approved"])
def test_what_was_asked_while_the_clock_was_ahead_does_not_last_until_then(stage: Stage, verdict: Any) -> None:
    stage.add(tool())
    ten_years = 10 * 365 * 24 * 60
    stage.clock.forward(ten_years)
    first = asked(stage)
    if verdict:
        assert stage.decide(first.id, verdict, GRACE) == "approved"

    stage.clock.forward(-ten_years)

    second = asked(stage)
    assert second.id != first.id
    assert stage.decide(first.id, "approved", GRACE) == "EXPIRED"
    assert stage.decide(second.id, "approved", GRACE) == "approved"
    assert code_of(stage.call(CLOSE, ADA)) == "DONE"


# The question ---------------------------------------------------------------------------------------------------------


def test_the_question_says_who_asks_for_what_until_when_and_whom_it_takes(stage: Stage) -> None:
    stage.add(tool(approver_role="closer", priority="P2"))

    outcome = asked(stage, arguments={"ticket": 7})

    assert outcome == Pending(
        trace_id=TRACE,
        id=outcome.id,
        type="APPROVAL",
        code="APPROVAL_REQUIRED",
        message="ada asks to call tickets.close (RESTRICTED)",
        remedy=f"once `agent inbox approve {outcome.id}` is done by a caller with a verified token, "
        "make the same call under the same trace",
        expires_at="2026-03-01T12:15:00.000Z",
    )
    (action,) = stage.actions()
    assert action == PendingAction(
        id=outcome.id,
        type="APPROVAL",
        subject=CLOSE,
        message=outcome.message,
        asked_at=NOW,
        binding=action.binding,
        expires_at="2026-03-01T12:15:00.000Z",
        requester="ada",
        trace_id=TRACE,
        arguments=digest({"ticket": 7}),
        classification="RESTRICTED",
        role="closer",
        content=action.content,
        code=action.code,
        effects="may destroy data, may reach other machines (as its server declares, unchecked)",
        takes_approver=True,
    )
    assert stage.inbox.arguments_of(action, BOB) == '{"ticket":7}'


@pytest.mark.parametrize(("priority", "minutes"), [("P1", 5), ("P2", 15), ("P3", 30), ("P4", 60)])
def test_a_question_lives_as_long_as_its_priority_says(stage: Stage, priority: Priority, minutes: int) -> None:
    stage.add(tool(priority=priority))
    question = asked(stage)

    stage.clock.forward(minutes - 1 / 60_000)
    assert stage.show(question.id).state(stage.clock.now()) == "open"
    stage.clock.forward(1 / 60_000)
    assert stage.show(question.id).state(stage.clock.now()) == "expired"


def test_asking_again_is_the_same_question(stage: Stage) -> None:
    stage.add(tool())
    first = asked(stage)
    stage.clock.forward(10)

    assert asked(stage) == first
    assert len(stage.actions()) == 1


# One call, once -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [None, "k-1"])
@pytest.mark.parametrize(("is_idempotent", "code"), [(True, "DONE"), (False, "APPROVAL_REQUIRED")])
def test_what_is_safe_to_repeat_and_waits_goes_on_under_its_approval(
    stage: Stage, key: str | None, code: str, *, is_idempotent: bool
) -> None:
    """A plan that waits for a run, for example: one person approves it once, and not again for each wait."""
    waits = Pending(trace_id=TRACE, id="run-1", type="RUN", code="RUN_WAITS", message="It waits", remedy="")
    waiting = [waits, waits]

    async def work(arguments: dict[str, Any]) -> Any:
        if waiting:
            raise WaitsFor(waiting.pop())
        return arguments

    stage.add(tool(work=work, is_idempotent=is_idempotent))
    first = asked(stage, key=key)
    assert stage.decide(first.id, "approved", GRACE) == "approved"
    assert code_of(stage.call(CLOSE, ADA, key=key)) == "RUN_WAITS"
    # The approval would have expired meanwhile.
    stage.clock.forward(24 * 60)
    if is_idempotent:
        assert code_of(stage.call(CLOSE, ADA, key=key)) == "RUN_WAITS"

    assert code_of(stage.call(CLOSE, ADA, key=key)) == code
    # It was approved for one call, which has ended.
    after = stage.call(CLOSE, ADA, key=key)
    assert code_of(after) == ("DONE" if is_idempotent and key else "APPROVAL_REQUIRED")


def test_once_approved_the_same_call_passes_once(stage: Stage) -> None:
    stage.add(close := tool())
    first = asked(stage, arguments={"ticket": 7})
    assert stage.decide(first.id, "approved", GRACE) == "approved"
    stage.clock.forward(1)

    done = stage.call(CLOSE, ADA, {"ticket": 7})
    second = asked(stage, arguments={"ticket": 7})

    assert done == Done(trace_id=TRACE, result={"ticket": 7})
    assert close.calls == 1
    assert second.id != first.id
    assert stage.show(first.id).used_at == "2026-03-01T12:01:00.000Z"
    assert stage.decide(second.id, "approved", GRACE) == "approved"
    assert code_of(stage.call(CLOSE, ADA, {"ticket": 7})) == "DONE"
    assert close.calls == 2


def test_a_call_that_takes_no_approval_starts_without_one(stage: Stage) -> None:
    stage.add(MemoryTool(CLOSE))

    stage.call(CLOSE, ADA)

    assert "approval" not in stage.records()[0][1]


def test_everything_that_happens_to_an_approval_is_recorded(stage: Stage) -> None:
    stage.add(tool())
    question = asked(stage, arguments={"ticket": 7})
    stage.decide(question.id, "approved", GRACE, "change 4711")
    stage.call(CLOSE, ADA, {"ticket": 7})

    call = {"caller": "ada", "trace": TRACE, "tool": CLOSE}
    arguments, code = digest({"ticket": 7}), definition_digest(tool().descriptor)
    assert stage.records() == [
        ("action.asked", {**call, "action": question.id, "type": "APPROVAL", "arguments": arguments, "code": code}),
        ("call.pending", {**call, "pending": question.id}),
        (
            "action.approved",
            {
                "caller": "grace",
                "verified": True,
                "trace": TRACE,
                "action": question.id,
                "type": "APPROVAL",
                "tool": CLOSE,
                "arguments": arguments,
            },
        ),
        ("call.started", {**call, "arguments": arguments, "approval": question.id, "content": '{"ticket":7}'}),
        ("call.done", {**call, "result": digest({"ticket": 7}), "content": '{"ticket":7}'}),
    ]
    kept = stage.show(question.id)
    assert (kept.answered_by, kept.reason) == ("grace", "change 4711")


@pytest.mark.parametrize(
    "other",
    [
        (CLOSE, ADA, {"ticket": 8}, TRACE),
        (CLOSE, ADA, {"ticket": 7, "why": None}, TRACE),
        (CLOSE, ADA, {"ticket": "7"}, TRACE),
        (CLOSE, ADA, {"ticket": 7.5}, TRACE),
        (CLOSE, ADA, {}, TRACE),
        (CLOSE, ADA, {"ticket": 7}, "1" * 32),
        (CLOSE, BOB, {"ticket": 7}, TRACE),
        ("tickets.delete", ADA, {"ticket": 7}, TRACE),
    ],
)
def test_an_approval_binds_one_tool_its_arguments_one_trace_and_one_caller(
    stage: Stage, other: tuple[str, Caller, dict[str, Any], str]
) -> None:
    stage.add(close := tool(), delete := tool(tool_id="tickets.delete"))
    question = asked(stage, arguments={"ticket": 7})
    stage.decide(question.id, "approved", GRACE)

    outcome = stage.call(*other)

    assert code_of(outcome) == "APPROVAL_REQUIRED"
    assert isinstance(outcome, Pending)
    assert outcome.id != question.id
    assert (close.calls, delete.calls) == (0, 0)
    assert code_of(stage.call(CLOSE, ADA, {"ticket": 7})) == "DONE"


def test_the_order_of_arguments_does_not_matter(stage: Stage) -> None:
    stage.add(tool())
    question = asked(stage, arguments={"a": 1, "b": {"c": 2, "d": 3}})
    stage.decide(question.id, "approved", GRACE)

    assert code_of(stage.call(CLOSE, ADA, {"b": {"d": 3, "c": 2}, "a": 1})) == "DONE"


def test_two_of_the_same_call_at_once_run_once(stage: Stage) -> None:
    async def slow(arguments: dict[str, Any]) -> Any:
        await asyncio.sleep(0)
        return arguments

    stage.add(close := tool(work=slow))
    question = asked(stage)
    stage.decide(question.id, "approved", GRACE)
    context = CallContext(run="run-1", trace_id=TRACE, caller=ADA)

    async def both() -> list[Outcome]:
        return list(await asyncio.gather(*(stage.registry.call(CLOSE, {}, context) for _ in range(5))))

    codes = sorted(map(code_of, run(both())))

    assert close.calls == 1
    assert codes.count("DONE") == 1
    assert set(codes) <= {"DONE", "ALREADY_RUNNING", "APPROVAL_REQUIRED"}


def test_an_approved_call_that_fails_has_used_its_approval(stage: Stage) -> None:
    stage.add(close := tool(work=raising(ToolFailure(FailureCode.TOOL_ERROR, "It is closed", ""))))
    question = asked(stage)
    stage.decide(question.id, "approved", GRACE)

    assert code_of(stage.call(CLOSE, ADA)) == "TOOL_ERROR"
    assert asked(stage).id != question.id
    assert close.calls == 1


@pytest.mark.parametrize("key", [None, "key-1"])
def test_an_approved_call_that_waits_goes_on_under_its_approval(stage: Stage, key: str | None) -> None:
    """Such as that of a blueprint whose run waits for a person, a day or longer."""
    waits = Pending(trace_id=TRACE, id="run-1", type="RUN", code="RUN_WAITS", message="It waits", remedy="")
    answers: list[BaseException | None] = [WaitsFor(waits), WaitsFor(waits), None]

    async def work(arguments: dict[str, Any]) -> Any:
        if (problem := answers.pop(0)) is not None:
            raise problem
        return arguments

    stage.add(close := tool(work=work, is_idempotent=True))
    question = asked(stage, key=key)
    stage.decide(question.id, "approved", GRACE)

    assert code_of(stage.call(CLOSE, ADA, key=key)) == "RUN_WAITS"
    stage.clock.forward(24 * 60)
    assert code_of(stage.call(CLOSE, ADA, key=key)) == "RUN_WAITS"
    # Other arguments are another call, which nobody approved.
    other = stage.call(CLOSE, ADA, {"other": 1}, key=key)
    assert code_of(other) == "APPROVAL_REQUIRED"
    assert code_of(stage.call(CLOSE, ADA, key=key)) == "DONE"
    assert close.calls == 3
    # Once it is done, only its own key returns its result; otherwise it is another call.
    assert code_of(stage.call(CLOSE, ADA, key=key)) == ("APPROVAL_REQUIRED" if key is None else "DONE")


def test_an_approved_waiting_call_that_is_not_idempotent_is_approved_again(stage: Stage) -> None:
    waits = Pending(trace_id=TRACE, id="run-1", type="RUN", code="RUN_WAITS", message="It waits", remedy="")
    stage.add(tool(work=raising(WaitsFor(waits))))
    question = asked(stage)
    stage.decide(question.id, "approved", GRACE)

    assert code_of(stage.call(CLOSE, ADA)) == "RUN_WAITS"
    assert asked(stage).id != question.id


def test_what_keeps_an_approved_call_from_running_does_not_use_its_approval(stage: Stage) -> None:
    stage.add(close := tool(secrets=("KEY",), rate_limit_per_minute=1))
    question = asked(stage)
    stage.decide(question.id, "approved", GRACE)

    assert code_of(stage.call(CLOSE, ADA)) == "SECRET_REQUIRED"
    assert code_of(stage.call(CLOSE, ADA)) == "SECRET_REQUIRED"
    stage.secrets.values["KEY"] = "there"
    assert code_of(stage.call(CLOSE, ADA)) == "DONE"
    again = asked(stage)
    stage.decide(again.id, "approved", GRACE)
    assert code_of(stage.call(CLOSE, ADA)) == "RATE_LIMITED"
    assert stage.show(again.id).state(stage.clock.now()) == "approved"
    assert close.calls == 1


def test_a_call_with_a_key_tells_its_result_again_without_a_second_approval(stage: Stage) -> None:
    stage.add(close := tool())
    question = asked(stage, key="key-1")
    stage.decide(question.id, "approved", GRACE)

    first = stage.call(CLOSE, ADA, key="key-1")
    again = stage.call(CLOSE, ADA, key="key-1")

    assert isinstance(first, Done)
    assert again == first
    assert close.calls == 1
    # Under no key or another one it is another call.
    assert code_of(stage.call(CLOSE, ADA)) == "APPROVAL_REQUIRED"
    assert code_of(stage.call(CLOSE, ADA, key="key-2")) == "APPROVAL_REQUIRED"


def test_an_interrupted_restricted_call_is_repeated_if_another_person_decides(stage: Stage) -> None:
    async def never(_: dict[str, Any]) -> Any:
        await asyncio.Event().wait()

    stage.add(close := tool(work=never, timeout_seconds=0.01))
    stage.decide(asked(stage, key="key-1").id, "approved", GRACE)
    assert code_of(stage.call(CLOSE, ADA, key="key-1")) == "TIMEOUT"
    assert code_of(stage.call(CLOSE, ADA, key="key-1")) == "OUTCOME_UNKNOWN"
    (question,) = stage.listed()
    assert (question.type, question.classification, question.role) == ("CLARIFICATION", "RESTRICTED", "approver")

    refused = {by.id: stage.answer(question.id, "retry", by) for by in (ADA, EVE, LOCAL)}

    assert refused == {"ada": "OWN_CALL", "eve": "MISSING_ROLE", "local:lin": "UNVERIFIED_APPROVER"}
    assert code_of(stage.call(CLOSE, ADA, key="key-1")) == "OUTCOME_UNKNOWN"
    assert close.calls == 1
    assert stage.answer(question.id, "retry", GRACE) == "answered"
    assert code_of(stage.call(CLOSE, ADA, key="key-1")) == "TIMEOUT"
    assert close.calls == 2


# Who may answer -------------------------------------------------------------------------------------------------------


def test_whoever_asks_for_a_restricted_call_cannot_approve_it_and_can_take_it_back(stage: Stage) -> None:
    stage.add(close := tool())
    question = asked(stage)

    assert stage.decide(question.id, "approved", ADA) == "OWN_CALL"
    assert stage.show(question.id).is_open
    assert stage.decide(question.id, "rejected", ADA) == "rejected"

    outcome = stage.call(CLOSE, ADA)
    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.message) == (FailureCode.APPROVAL_REJECTED, "ada rejected this call")
    assert close.calls == 0


@pytest.mark.parametrize("classification", CLASSIFICATION_RANK)
def test_a_verified_caller_cannot_approve_their_own_call(stage: Stage, classification: Classification) -> None:
    stage.add(tool(classification))
    question = asked(stage)

    assert stage.decide(question.id, "approved", ADA) == "OWN_CALL"


@pytest.mark.parametrize("classification", CLASSIFICATION_RANK)
@pytest.mark.parametrize("by", [LOCAL, local_caller("kim"), Caller(id="anonymous")])
def test_somebody_whom_nobody_vouches_for_cannot_approve_a_restricted_call(
    stage: Stage, classification: Classification, by: Caller
) -> None:
    stage.add(tool(classification))
    question = asked(stage, LOCAL)

    expected = "UNVERIFIED_APPROVER" if classification == "RESTRICTED" else "approved"
    assert stage.decide(question.id, "approved", by) == expected
    assert stage.records()[-1][1].get("verified", False) is False


def test_a_role_is_needed(stage: Stage) -> None:
    stage.add(tool("INTERNAL", approver_role="closer"))
    question = asked(stage)

    for by in (GRACE, EVE, BOB):
        assert stage.decide(question.id, "approved", by) == "MISSING_ROLE"
    assert stage.show(question.id).is_open
    assert stage.decide(question.id, "approved", structs.replace(EVE, roles=frozenset({"closer"}))) == "approved"


def test_a_refused_answer_changes_nothing_of_what_waits(stage: Stage) -> None:
    stage.add(tool())
    question = asked(stage)
    before = stage.actions()

    for by in (ADA, EVE, LOCAL):
        stage.decide(question.id, "approved", by)
    stage.answer(question.id, "approved", GRACE)

    assert stage.actions() == before


# Too late, twice, at once ---------------------------------------------------------------------------------------------


def test_what_expired_before_anybody_answered_takes_no_answer_and_is_asked_anew(stage: Stage) -> None:
    stage.add(tool(priority="P1"))
    question = asked(stage)
    stage.clock.forward(5)

    assert stage.decide(question.id, "approved", GRACE) == "EXPIRED"
    assert stage.decide(question.id, "rejected", ADA) == "EXPIRED"
    anew = asked(stage)
    assert anew.id != question.id
    assert anew.expires_at == "2026-03-01T12:10:00.000Z"
    assert stage.decide(anew.id, "approved", GRACE) == "approved"
    assert code_of(stage.call(CLOSE, ADA)) == "DONE"


def test_what_expired_after_it_was_approved_does_not_pass(stage: Stage) -> None:
    stage.add(close := tool(priority="P1"))
    question = asked(stage)
    stage.clock.forward(4)
    stage.decide(question.id, "approved", GRACE)
    stage.clock.forward(1)

    assert asked(stage).id != question.id
    assert close.calls == 0


def test_no_is_no_however_long_ago_and_only_for_this_trace(stage: Stage) -> None:
    stage.add(tool(priority="P1"))
    question = asked(stage)
    assert stage.decide(question.id, "rejected", GRACE, "not before the release") == "rejected"

    for _ in range(2):
        outcome = stage.call(CLOSE, ADA)
        assert isinstance(outcome, Failed)
        assert (outcome.code, outcome.message, outcome.remedy) == (
            FailureCode.APPROVAL_REJECTED,
            "grace rejected this call: not before the release",
            "a call under another trace asks again",
        )
        stage.clock.forward(10)
    assert code_of(stage.call(CLOSE, ADA, trace="1" * 32)) == "APPROVAL_REQUIRED"
    kind, body = stage.records()[2]
    assert (kind, body["arguments"]) == ("action.rejected", digest({}))


@pytest.mark.parametrize("first", ["approved", "rejected"])
@pytest.mark.parametrize("second", ["approved", "rejected"])
def test_an_answer_is_given_once(stage: Stage, first: Any, second: Any) -> None:
    stage.add(tool())
    question = asked(stage)
    stage.decide(question.id, first, GRACE)

    for by in (GRACE, structs.replace(GRACE, id="hal"), ADA):
        assert stage.decide(question.id, second, by) == "ALREADY_ANSWERED"
    assert (stage.show(question.id).answer, stage.show(question.id).answered_by) == (first, "grace")


class BothHaveRead(PendingActions):
    """Lets nobody answer before two have read that it is open."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._barrier = asyncio.Barrier(2)

    async def get(self, action_id: str) -> PendingAction | None:
        found = await super().get(action_id)
        await self._barrier.wait()
        return found


def test_of_two_people_who_answer_at_once_one_is_taken_and_the_other_is_told(stage: Stage) -> None:
    stage.add(tool())
    question = asked(stage)

    async def both() -> list[PendingAction | BaseException]:
        inbox = Inbox(stage.store, stage.secrets, stage.clock)
        inbox._pending = BothHaveRead(stage.store)
        hal = structs.replace(GRACE, id="hal")
        answers = (
            inbox.decide(question.id, "approved", answering(GRACE)),
            inbox.decide(question.id, "rejected", answering(hal)),
        )
        return list(await asyncio.gather(*answers, return_exceptions=True))

    taken, refused = sorted(run(both()), key=lambda each: isinstance(each, AnswerRefused))

    assert isinstance(taken, PendingAction)
    assert isinstance(refused, AnswerRefused)
    assert (refused.refusal.code, refused.refusal.message) == (
        "ALREADY_ANSWERED",
        f"{question.id} was answered by another person a moment ago",
    )
    assert stage.show(question.id).answered_by == taken.answered_by
    assert stage.kinds()[2:] == [f"action.{taken.answer}", "action.refused"]
    assert stage.records()[3][1]["caller"] in {"grace", "hal"} - {taken.answered_by}


# A worker that acts for the caller ------------------------------------------------------------------------------------

WORKER = structs.replace(ADA, id="worker")
THROUGH_WORKER = structs.replace(ADA, via="worker")


def test_a_worker_does_not_approve_the_call_that_it_makes(stage: Stage) -> None:
    stage.add(tool())
    question = asked(stage, THROUGH_WORKER)

    assert question.message == "worker asks for ada to call tickets.close (RESTRICTED)"
    assert [stage.decide(question.id, "approved", by) for by in (WORKER, ADA, THROUGH_WORKER)] == [
        "OWN_CALL",
        "OWN_CALL",
        "UNVERIFIED_APPROVER",
    ]
    assert stage.decide(question.id, "approved", GRACE) == "approved"
    assert code_of(stage.call(CLOSE, THROUGH_WORKER)) == "DONE"


def test_what_a_worker_approved_before_it_took_over_is_asked_again(stage: Stage) -> None:
    stage.add(tool())
    before = asked(stage, ADA)
    assert stage.decide(before.id, "approved", WORKER) == "approved"

    again = asked(stage, THROUGH_WORKER)

    assert again.id != before.id
    assert stage.decide(again.id, "approved", WORKER) == "OWN_CALL"
    assert stage.decide(again.id, "approved", GRACE) == "approved"
    assert code_of(stage.call(CLOSE, THROUGH_WORKER)) == "DONE"


def test_an_approval_holds_when_a_worker_takes_over(stage: Stage) -> None:
    stage.add(tool())
    question = asked(stage, ADA)
    assert stage.decide(question.id, "approved", GRACE) == "approved"

    assert code_of(stage.call(CLOSE, THROUGH_WORKER)) == "DONE"
