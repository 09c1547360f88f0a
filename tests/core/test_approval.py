"""Who may answer what waits, and until when."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, strategies as st
from msgspec import structs

from agent_resolver.core import (
    LIFETIME_MINUTES,
    AnswerCode,
    AnswerRefusal,
    Verdict,
    effects_of,
    expiry,
    instant,
    is_answered_by_worker,
    refuse_verdict,
    refuse_words,
)
from agent_resolver.schema import (
    CLASSIFICATION_RANK,
    Caller,
    Classification,
    Descriptor,
    Labels,
    PendingAction,
    PendingType,
    Priority,
    Rules,
    local_caller,
)

NOW = "2026-03-01T12:00:00.000Z"
EXPIRY = "2026-03-01T12:15:00.000Z"
ACTION = PendingAction(
    id="3f9a1c20b7de",
    type="APPROVAL",
    subject="tickets.close",
    message="ada asks to call tickets.close (RESTRICTED)",
    asked_at=NOW,
    expires_at=EXPIRY,
    requester="ada",
    classification="RESTRICTED",
    role="closer",
)
ADA = Caller(id="ada", is_verified=True, roles=frozenset({"closer"}))
GRACE = Caller(id="grace", is_verified=True, roles=frozenset({"closer", "other"}))
EVE = Caller(id="eve", is_verified=True, roles=frozenset({"other"}))
LOCAL = local_caller("bob")
ANONYMOUS = Caller(id="anonymous")

BELOW_RESTRICTED: tuple[Classification, ...] = ("PUBLIC", "INTERNAL", "CONFIDENTIAL")
OTHER_TYPES: tuple[PendingType, ...] = ("CLARIFICATION", "OAUTH", "SECRET")


def code(refused: AnswerRefusal | None) -> str | None:
    return refused.code.value if refused else None


def about(classification: Classification, requester: str = "ada", kind: PendingType = "APPROVAL") -> PendingAction:
    return structs.replace(ACTION, type=kind, classification=classification, requester=requester)


# Until when -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("priority", "expected"),
    [
        ("P1", "2026-03-01T12:05:00.000Z"),
        ("P2", "2026-03-01T12:15:00.000Z"),
        ("P3", "2026-03-01T12:30:00.000Z"),
        ("P4", "2026-03-01T13:00:00.000Z"),
    ],
)
def test_what_is_urgent_expires_soon(priority: Priority, expected: str) -> None:
    assert expiry(NOW, priority) == expected


@pytest.mark.parametrize(
    ("asked_at", "expected"),
    [
        ("2026-03-01T23:59:59.999Z", "2026-03-02T00:04:59.999Z"),
        ("2026-12-31T23:57:30.001Z", "2027-01-01T00:02:30.001Z"),
        ("2028-02-28T23:58:00.000Z", "2028-02-29T00:03:00.000Z"),
        ("2027-02-28T23:58:00.000Z", "2027-03-01T00:03:00.000Z"),
        ("2100-02-28T23:58:00.000Z", "2100-03-01T00:03:00.000Z"),
        # Clocks are put forward and back in many places on these nights; this is none of them.
        ("2026-03-29T00:58:00.000Z", "2026-03-29T01:03:00.000Z"),
        ("2026-10-25T00:58:00.000Z", "2026-10-25T01:03:00.000Z"),
        # Whoever asked elsewhere asked at the same moment.
        ("2026-03-01T23:59:00.000+02:00", "2026-03-01T22:04:00.000Z"),
        ("2026-03-01T12:00:00Z", "2026-03-01T12:05:00.000Z"),
    ],
)
def test_expiry_goes_past_the_ends_of_days_months_and_years(asked_at: str, expected: str) -> None:
    assert expiry(asked_at, "P1") == expected


def test_every_priority_has_a_lifetime_and_the_less_urgent_the_longer() -> None:
    assert [LIFETIME_MINUTES[priority] for priority in sorted(LIFETIME_MINUTES)] == [5, 15, 30, 60]


def test_a_moment_is_written_in_milliseconds_whatever_it_has() -> None:
    assert instant(datetime(2026, 3, 1, 12, tzinfo=UTC)) == "2026-03-01T12:00:00.000Z"
    assert instant(datetime(2026, 3, 1, 12, 0, 0, 999_999, tzinfo=UTC)) == "2026-03-01T12:00:00.999Z"


def test_a_moment_elsewhere_is_written_in_utc() -> None:
    assert instant(datetime(2026, 3, 1, 12, tzinfo=timezone(timedelta(hours=2)))) == "2026-03-01T10:00:00.000Z"


moments = st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(9998, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


@given(moments, moments)
def test_moments_sort_as_texts_as_they_do_in_time(first: datetime, second: datetime) -> None:
    early, late = sorted((first, second))

    assert instant(early) <= instant(late)


@given(moments, st.sampled_from(sorted(LIFETIME_MINUTES)))
def test_what_is_asked_expires_after_it_was_asked(moment: datetime, priority: Priority) -> None:
    assert expiry(instant(moment), priority) > instant(moment)


# Who may approve and reject -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("by", "verdict", "expected"),
    [
        (GRACE, "approved", None),
        (GRACE, "rejected", None),
        (ADA, "approved", "OWN_CALL"),
        (ADA, "rejected", None),
        (EVE, "approved", "MISSING_ROLE"),
        (EVE, "rejected", "MISSING_ROLE"),
        (LOCAL, "approved", "UNVERIFIED_APPROVER"),
        (LOCAL, "rejected", "UNVERIFIED_APPROVER"),
        (ANONYMOUS, "approved", "UNVERIFIED_APPROVER"),
        (ANONYMOUS, "rejected", "UNVERIFIED_APPROVER"),
    ],
)
def test_who_may_answer_for_a_restricted_call(by: Caller, verdict: Verdict, expected: str | None) -> None:
    assert code(refuse_verdict(ACTION, verdict, by, NOW)) == expected


@pytest.mark.parametrize("classification", BELOW_RESTRICTED)
@pytest.mark.parametrize(
    ("by", "expected"),
    [(GRACE, None), (ADA, "OWN_CALL"), (EVE, "MISSING_ROLE"), (LOCAL, None)],
)
def test_who_may_approve_any_other_call(classification: Classification, by: Caller, expected: str | None) -> None:
    assert code(refuse_verdict(about(classification), "approved", by, NOW)) == expected


@pytest.mark.parametrize("classification", BELOW_RESTRICTED)
def test_a_local_user_approves_their_own_call_in_a_terminal_only(classification: Classification) -> None:
    own = about(classification, requester=LOCAL.id)

    assert refuse_verdict(own, "approved", LOCAL, NOW) is None
    over_a_connection = refuse_verdict(own, "approved", LOCAL, NOW, "stdio 1")
    assert over_a_connection is not None
    assert (over_a_connection.code, over_a_connection.remedy) == (
        "OWN_CALL",
        "approve it with `agent inbox` in a terminal",
    )


@pytest.mark.parametrize("classification", CLASSIFICATION_RANK)
def test_the_connection_of_a_call_cannot_approve_it_whoever_answers(classification: Classification) -> None:
    waiting = structs.replace(about(classification), connection="http 7")

    assert code(refuse_verdict(waiting, "approved", GRACE, NOW, "http 7")) == "OWN_CALL"
    assert refuse_verdict(waiting, "approved", GRACE, NOW, "http 8") is None
    assert refuse_verdict(waiting, "approved", GRACE, NOW) is None


@pytest.mark.parametrize("classification", CLASSIFICATION_RANK)
@pytest.mark.parametrize("by", [ADA, EVE, LOCAL, ANONYMOUS])
def test_whoever_asked_may_always_take_it_back(classification: Classification, by: Caller) -> None:
    assert refuse_verdict(about(classification, requester=by.id), "rejected", by, NOW) is None


def test_a_local_user_cannot_approve_their_own_restricted_call_either() -> None:
    own = about("RESTRICTED", requester=LOCAL.id)

    assert code(refuse_verdict(own, "approved", LOCAL, NOW)) == "UNVERIFIED_APPROVER"


def test_an_unverified_caller_with_the_role_is_still_unverified() -> None:
    pretender = structs.replace(GRACE, is_verified=False)

    assert code(refuse_verdict(ACTION, "approved", pretender, NOW)) == "UNVERIFIED_APPROVER"


def test_a_role_is_the_whole_word() -> None:
    for role in ("close", "closer2", "CLOSER", " closer", ""):
        near = structs.replace(GRACE, roles=frozenset({role}))

        assert code(refuse_verdict(ACTION, "approved", near, NOW)) == "MISSING_ROLE"


@pytest.mark.parametrize("verdict", ["approved", "rejected"])
@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("CLARIFICATION", "NOT_AN_APPROVAL"),
        ("OAUTH", "ANSWERED_BY_READINESS"),
        ("SECRET", "ANSWERED_BY_READINESS"),
    ],
)
def test_only_an_approval_can_be_approved_or_rejected(verdict: Verdict, kind: PendingType, expected: str) -> None:
    for by in (GRACE, ADA, LOCAL):
        assert code(refuse_verdict(structs.replace(ACTION, type=kind), verdict, by, NOW)) == expected


# Who may answer in words ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("CLARIFICATION", None),
        ("APPROVAL", "NOT_A_QUESTION"),
        ("OAUTH", "ANSWERED_BY_READINESS"),
        ("SECRET", "ANSWERED_BY_READINESS"),
    ],
)
def test_only_a_question_is_answered_in_words(kind: PendingType, expected: str | None) -> None:
    assert code(refuse_words(about("INTERNAL", kind=kind), LOCAL, NOW)) == expected


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        (GRACE, None),
        (ADA, "OWN_CALL"),
        (EVE, "MISSING_ROLE"),
        (LOCAL, "UNVERIFIED_APPROVER"),
        (ANONYMOUS, "UNVERIFIED_APPROVER"),
    ],
)
def test_a_question_about_a_restricted_call_takes_an_approver(by: Caller, expected: str | None) -> None:
    question = about("RESTRICTED", kind="CLARIFICATION")

    assert code(refuse_words(question, by, NOW)) == expected


@pytest.mark.parametrize("classification", BELOW_RESTRICTED)
@pytest.mark.parametrize(
    ("by", "expected"),
    [(GRACE, None), (ADA, "OWN_CALL"), (EVE, "MISSING_ROLE"), (LOCAL, None), (ANONYMOUS, None)],
)
def test_a_question_about_a_call_that_takes_an_approval_takes_an_approver(
    classification: Classification, by: Caller, expected: str | None
) -> None:
    question = structs.replace(about(classification, kind="CLARIFICATION"), takes_approver=True)

    assert code(refuse_words(question, by, NOW)) == expected


@pytest.mark.parametrize("classification", BELOW_RESTRICTED)
@pytest.mark.parametrize(
    ("by", "expected"),
    [(GRACE, None), (ADA, None), (EVE, "MISSING_ROLE"), (LOCAL, None), (ANONYMOUS, "MISSING_ROLE")],
)
def test_any_other_question_is_answered_by_those_who_may_see_it(
    classification: Classification, by: Caller, expected: str | None
) -> None:
    assert code(refuse_words(about(classification, kind="CLARIFICATION"), by, NOW)) == expected


# What no longer waits -------------------------------------------------------------------------------------------------

ANSWERED = {"answered_by": "grace", "answered_at": NOW}


@pytest.mark.parametrize("kind", ["APPROVAL", *OTHER_TYPES])
@pytest.mark.parametrize(
    ("changes", "now", "expected"),
    [
        ({"answer": "approved", **ANSWERED}, NOW, "ALREADY_ANSWERED"),
        ({"answer": "rejected", **ANSWERED}, NOW, "ALREADY_ANSWERED"),
        ({"answer": "approved", "used_at": NOW, **ANSWERED}, NOW, "ALREADY_ANSWERED"),
        # Used up in time, it stays answered.
        ({"answer": "approved", "used_at": NOW, **ANSWERED}, EXPIRY, "ALREADY_ANSWERED"),
        # Not answered, or not used, in time.
        ({}, EXPIRY, "EXPIRED"),
        ({}, "2026-03-01T12:15:00.001Z", "EXPIRED"),
        ({"answer": "approved", **ANSWERED}, EXPIRY, "EXPIRED"),
    ],
)
def test_what_no_longer_waits_takes_no_answer_from_anybody(
    kind: PendingType, changes: dict[str, str], now: str, expected: str
) -> None:
    action = structs.replace(ACTION, type=kind, **changes)

    for by in (GRACE, ADA, LOCAL, ANONYMOUS):
        assert code(refuse_words(action, by, now)) == expected
        for verdict in ("approved", "rejected"):
            assert code(refuse_verdict(action, verdict, by, now)) == expected


def test_an_approval_that_was_rejected_in_time_stays_rejected() -> None:
    action = structs.replace(ACTION, answer="rejected", **ANSWERED)

    for by in (GRACE, ADA, LOCAL, ANONYMOUS):
        assert code(refuse_words(action, by, EXPIRY)) == "ALREADY_ANSWERED"


def test_until_the_last_millisecond_an_answer_is_taken() -> None:
    assert refuse_verdict(ACTION, "approved", GRACE, "2026-03-01T12:14:59.999Z") is None


def test_what_has_no_end_never_expires() -> None:
    question = structs.replace(ACTION, type="CLARIFICATION", expires_at=None)

    assert refuse_words(question, GRACE, "9999-12-31T23:59:59.999Z") is None


# What is said ---------------------------------------------------------------------------------------------------------


def test_each_refusal_says_why_and_what_to_do() -> None:
    def asked(**changes: object) -> PendingAction:
        return structs.replace(ACTION, **changes)

    found = [
        refuse_verdict(ACTION, "approved", LOCAL, NOW),
        refuse_verdict(ACTION, "approved", ADA, NOW),
        refuse_verdict(ACTION, "approved", EVE, NOW),
        refuse_verdict(ACTION, "approved", GRACE, EXPIRY),
        refuse_verdict(asked(answer="rejected", answered_by="eve"), "approved", GRACE, NOW),
        refuse_verdict(asked(type="CLARIFICATION"), "approved", GRACE, NOW),
        refuse_words(ACTION, GRACE, NOW),
        refuse_words(asked(type="SECRET", message="Set ACME_TOKEN"), GRACE, NOW),
        refuse_words(asked(type="CLARIFICATION", needs="claim/division"), GRACE, NOW),
    ]

    assert [(each.code, each.message, each.remedy) for each in found if each] == [
        (
            AnswerCode.UNVERIFIED_APPROVER,
            "local:bob is not verified, and a RESTRICTED call takes an approver that an issuer vouches for",
            "name an issuer in `[identity]` of agent.toml and give a token of it: docs/inbox.md shows a trial",
        ),
        (
            AnswerCode.OWN_CALL,
            "ada asked for this call, and cannot approve it",
            "ask another person with the role `closer`",
        ),
        (AnswerCode.MISSING_ROLE, "eve does not have the role `closer`", "ask a person who has it"),
        (
            AnswerCode.EXPIRED,
            "3f9a1c20b7de expired at 2026-03-01T12:15:00.000Z",
            "make the call again: it asks again",
        ),
        (
            AnswerCode.ALREADY_ANSWERED,
            "3f9a1c20b7de was answered by eve: rejected",
            "an answer is given once; make the call again",
        ),
        (
            AnswerCode.NOT_AN_APPROVAL,
            "3f9a1c20b7de waits for an answer in words",
            "`agent inbox answer 3f9a1c20b7de TEXT`",
        ),
        (
            AnswerCode.NOT_A_QUESTION,
            "3f9a1c20b7de waits for an approval",
            "`agent inbox approve 3f9a1c20b7de`, or `reject`",
        ),
        (
            AnswerCode.ANSWERED_BY_READINESS,
            "3f9a1c20b7de is answered by what it waits for being there; a secret is never typed in here",
            "Set ACME_TOKEN",
        ),
        (
            AnswerCode.ANSWERED_BY_READINESS,
            "3f9a1c20b7de is answered by a token that has the claim `division`; a claim is never typed in here",
            "have the issuer put `division` into tokens of ada, then resume the task with a new one",
        ),
    ]


@pytest.mark.parametrize("by", [ADA, GRACE, LOCAL, ANONYMOUS])
def test_a_question_about_a_claim_takes_neither_words_nor_a_verdict_from_anybody(by: Caller) -> None:
    question = structs.replace(ACTION, type="CLARIFICATION", classification="PUBLIC", needs="claim/cost_center")

    assert code(refuse_words(question, by, NOW)) == "ANSWERED_BY_READINESS"
    for verdict in ("approved", "rejected"):
        assert code(refuse_verdict(question, verdict, by, NOW)) == "ANSWERED_BY_READINESS"


def test_a_question_that_a_secret_also_answers_still_takes_words() -> None:
    assert refuse_words(structs.replace(ACTION, type="CLARIFICATION", needs="KEY"), GRACE, NOW) is None


# What an approver is told ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "may destroy data, may reach other machines (as its server declares, unchecked)"),
        (
            {"hints": {"readOnlyHint": True, "openWorldHint": False}},
            "only reads (as its server declares, unchecked)",
        ),
        ({"labels": Labels(kind="CAPABILITY")}, "may change data"),
        (
            {
                "labels": Labels(kind="CAPABILITY", allow_outbound=True),
                "rules": Rules(is_idempotent=True, secrets=("KEY", "PIN")),
            },
            "may change data, is safe to repeat, may reach other machines, is given KEY, PIN",
        ),
        ({"labels": Labels(kind="CAPABILITY"), "hints": {"destructiveHint": True}}, "may destroy data"),
    ],
)
def test_an_approver_reads_what_the_tool_declares_about_its_effects(changes: dict[str, Any], expected: str) -> None:
    described = Descriptor(id="a.b", description="", input_schema={}, source="server x", **changes)

    assert effects_of(described) == expected


# A worker that acts for the caller ------------------------------------------------------------------------------------

WORKER = Caller(id="worker", is_verified=True, roles=frozenset({"closer"}))


@pytest.mark.parametrize("classification", CLASSIFICATION_RANK)
def test_neither_the_caller_nor_the_worker_that_acts_for_them_approves(classification: Classification) -> None:
    action = structs.replace(about(classification), via="worker")

    by_worker = refuse_verdict(action, "approved", WORKER, NOW)
    assert by_worker is not None
    assert (by_worker.code, by_worker.message) == (
        AnswerCode.OWN_CALL,
        "worker makes this call, and cannot approve it",
    )
    assert code(refuse_verdict(action, "approved", ADA, NOW)) == "OWN_CALL"
    assert refuse_verdict(action, "approved", GRACE, NOW) is None


def test_a_worker_does_not_approve_in_the_name_of_an_approver() -> None:
    through_worker = structs.replace(GRACE, via="worker")

    assert code(refuse_verdict(ACTION, "approved", through_worker, NOW)) == "UNVERIFIED_APPROVER"
    assert refuse_verdict(ACTION, "rejected", structs.replace(ADA, via="worker"), NOW) is None


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (ACTION, True),
        (about("INTERNAL"), True),
        (about("INTERNAL", kind="CLARIFICATION"), False),
        (about("RESTRICTED", kind="CLARIFICATION"), True),
        (structs.replace(about("INTERNAL", kind="CLARIFICATION"), takes_approver=True), True),
    ],
)
def test_an_approval_by_the_worker_does_not_count_once_it_acts(action: PendingAction, *, expected: bool) -> None:
    answered = structs.replace(action, answer="approved", answered_by="worker")

    assert is_answered_by_worker(answered, structs.replace(ADA, via="worker")) is expected
    assert not is_answered_by_worker(answered, ADA)
    assert not is_answered_by_worker(structs.replace(answered, answered_by="grace"), structs.replace(ADA, via="worker"))
