"""A token proves a claim of its own caller, and nothing else does."""

import pytest
from msgspec import structs

from agent_resolver.core import answers_by_token, narrowed, proves_claim
from agent_resolver.schema import CONTEXT_CLAIMS, Caller, PendingAction, local_caller

NOW = "2026-03-01T12:00:00.000Z"
LATER = "2026-03-01T12:00:00.001Z"
ADA = Caller(id="ada", is_verified=True, division="retail", clearance="INTERNAL", cost_center="cc-1")
QUESTION = PendingAction(
    id="3f9a1c20b7de",
    type="CLARIFICATION",
    subject="task-1",
    message="The token has no claim `division`",
    asked_at=NOW,
    requester="ada",
    needs="claim/division",
)


@pytest.mark.parametrize("claim", CONTEXT_CLAIMS)
def test_a_verified_token_proves_the_claims_that_it_has(claim: str) -> None:
    assert proves_claim(ADA, claim)
    assert not proves_claim(structs.replace(ADA, absent_claims=(claim,)), claim)
    assert not proves_claim(structs.replace(ADA, is_verified=False), claim)


@pytest.mark.parametrize("claim", ["division", "cost_center"])
def test_a_claim_without_a_value_is_not_proven(claim: str) -> None:
    assert not proves_claim(structs.replace(ADA, **{claim: ""}), claim)


@pytest.mark.parametrize("claim", ["", "roles", "sub", "clearance", "Division"])
def test_no_token_proves_what_is_not_a_claim_of_the_context(claim: str) -> None:
    assert not proves_claim(ADA, claim)


def test_the_token_of_the_requester_answers_while_the_question_is_open() -> None:
    assert answers_by_token(QUESTION, ADA, NOW)
    assert not answers_by_token(structs.replace(QUESTION, answer="ready"), ADA, NOW)
    assert not answers_by_token(structs.replace(QUESTION, expires_at=NOW), ADA, NOW)


@pytest.mark.parametrize(
    "caller",
    [
        structs.replace(ADA, id="grace"),
        structs.replace(ADA, absent_claims=("division",)),
        structs.replace(ADA, division=""),
        structs.replace(ADA, is_verified=False),
        structs.replace(ADA, expires_at=NOW),
        narrowed(ADA, Caller(id="worker", is_verified=True)),
        structs.replace(local_caller("ada"), id="ada", division="retail"),
    ],
)
def test_no_other_caller_answers(caller: Caller) -> None:
    assert not answers_by_token(QUESTION, caller, NOW)


def test_a_token_answers_until_it_expires() -> None:
    assert answers_by_token(QUESTION, structs.replace(ADA, expires_at=LATER), NOW)


@pytest.mark.parametrize(
    "changes",
    [{"needs": ""}, {"needs": "division"}, {"needs": "claim/"}, {"needs": "claim/roles"}, {"type": "SECRET"}],
)
def test_a_token_answers_nothing_but_questions_about_claims(changes: dict[str, str]) -> None:
    assert not answers_by_token(structs.replace(QUESTION, **changes), ADA, NOW)
