"""A question about a claim is answered by the requester's own token, and by nothing else."""

import pytest
from msgspec import structs

from agent_resolver.schema import Caller, PendingAction, local_caller
from tests.registry.sample import TRACE
from tests.registry.stage import NOW, Stage, answering, run

LACKING = Caller(id="ada", is_verified=True, issuer="https://one.example.com", absent_claims=("division",))
ADA = structs.replace(LACKING, division="retail", absent_claims=())
GRACE = Caller(id="grace", is_verified=True, roles=frozenset({"approver"}), division="retail", cost_center="cc-1")


def ask(stage: Stage, claim: str = "division", **changes: object) -> PendingAction:
    asked = PendingAction(
        id="a1",
        type="CLARIFICATION",
        subject="task-1",
        message=f"The token has no claim `{claim}`",
        asked_at=NOW,
        requester="ada",
        issuer="https://one.example.com",
        trace_id=TRACE,
        role="approver",
        needs=f"claim/{claim}",
    )
    kept = run(stage.pending.ask(structs.replace(asked, **changes)))
    assert kept is not None
    return kept


def settle(stage: Stage, caller: Caller) -> tuple[str, ...]:
    return run(stage.inbox.settle_claims(caller, answering(caller)))


def test_a_fresh_token_with_the_claim_settles_the_question_and_is_recorded(stage: Stage) -> None:
    ask(stage)
    stage.clock.forward(2)

    assert settle(stage, ADA) == ("a1",)
    assert settle(stage, ADA) == ()

    settled = stage.show("a1")
    assert (settled.answer, settled.answered_by, settled.answered_at) == ("ready", "ada", "2026-03-01T12:02:00.000Z")
    about = {"trace": TRACE, "action": "a1", "type": "CLARIFICATION", "tool": "task-1", "claim": "division"}
    who = {"caller": "ada", "issuer": "https://one.example.com", "verified": True}
    assert stage.records() == [("action.settled", {**who, **about})]


def test_only_the_claims_that_the_token_has_are_settled_oldest_first(stage: Stage) -> None:
    ask(stage, "division", id="later", asked_at="2026-03-01T11:00:02.000Z")
    ask(stage, "clearance_level", id="earlier", asked_at="2026-03-01T11:00:01.000Z")
    ask(stage, "cost_center", id="lacking")

    assert settle(stage, ADA) == ("earlier", "later")
    assert [action.id for action in stage.listed()] == ["lacking"]


@pytest.mark.parametrize(
    "caller",
    [
        LACKING,
        GRACE,
        local_caller("ada"),
        structs.replace(ADA, is_verified=False),
        structs.replace(ADA, expires_at=NOW),
        structs.replace(ADA, via="worker", via_issuer="https://one.example.com"),
        Caller(id="anonymous"),
    ],
)
def test_nobody_else_settles_it(stage: Stage, caller: Caller) -> None:
    asked = ask(stage)

    assert settle(stage, caller) == ()
    assert stage.actions() == [asked]
    assert stage.records() == []


@pytest.mark.parametrize("caller", [LACKING, ADA, GRACE, local_caller("ada")])
@pytest.mark.parametrize("words", ["retail", "ready", ""])
def test_words_never_answer_it(stage: Stage, caller: Caller, words: str) -> None:
    asked = ask(stage)

    assert stage.answer("a1", words, caller) == "ANSWERED_BY_READINESS"
    assert stage.decide("a1", "approved", caller) == stage.decide("a1", "rejected", caller) == "ANSWERED_BY_READINESS"
    assert stage.actions() == [asked]
    assert stage.kinds() == ["action.refused"] * 3


@pytest.mark.parametrize("kind", ["CLARIFICATION", "SECRET", "OAUTH"])
def test_a_secret_of_the_same_name_never_answers_it(stage: Stage, kind: str) -> None:
    stage.secrets.values["claim/division"] = stage.secrets.values["division"] = "retail"
    asked = ask(stage, type=kind)

    assert stage.listed() == [asked]
    assert stage.show("a1") == asked
    assert stage.answer("a1", "retail", GRACE) == "ANSWERED_BY_READINESS"


def test_other_questions_of_the_requester_stay_open(stage: Stage) -> None:
    ask(stage, id="words", needs="")
    ask(stage, id="approval", type="APPROVAL", needs="")
    ask(stage, id="secret", type="SECRET", needs="KEY")

    assert settle(stage, ADA) == ()
    assert len(stage.listed()) == 3
