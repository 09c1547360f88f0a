"""What a caller may use, and which waiting actions a caller may see."""

import pytest
from hypothesis import given, strategies as st
from msgspec import structs

from agent_resolver.core import (
    acting_for,
    is_cleared,
    is_expired,
    is_own_run,
    may_read_action,
    may_read_all,
    may_read_record,
    may_read_run,
    may_see_action,
    may_see_run,
    may_use,
    missing_scopes,
    narrowed,
)
from agent_resolver.schema import (
    ANONYMOUS,
    CLASSIFICATION_RANK,
    Caller,
    Classification,
    PendingAction,
    Rules,
    Run,
    local_caller,
)

ADA = Caller(id="ada", is_verified=True, scopes=frozenset({"read"}), clearance="INTERNAL")
LOCAL = local_caller("lin")
WAITING = PendingAction(
    id="a1", type="APPROVAL", subject="tickets.close", message="?", asked_at="now", requester="bob", role="closer"
)


def test_missing_scopes_are_those_not_held_in_order() -> None:
    rules = Rules(required_scopes=("write", "read", "admin"))

    assert missing_scopes(rules, ADA) == ["admin", "write"]
    assert missing_scopes(rules, LOCAL) == []


@pytest.mark.parametrize("needed", CLASSIFICATION_RANK)
def test_a_caller_is_cleared_up_to_their_clearance(needed: Classification) -> None:
    assert is_cleared(ADA, needed) == (needed in {"PUBLIC", "INTERNAL"})


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (Rules(), True),
        (Rules(required_scopes=("read",)), True),
        (Rules(required_scopes=("write",)), False),
        (Rules(classification="CONFIDENTIAL"), False),
    ],
)
def test_a_tool_is_for_callers_with_its_scopes_and_clearance(rules: Rules, *, expected: bool) -> None:
    assert may_use(rules, ADA) is expected


@pytest.mark.parametrize(
    ("caller", "expected"),
    [
        (Caller(id="bob"), True),
        (LOCAL, True),
        (Caller(id="eve", is_verified=True, roles=frozenset({"closer"})), True),
        (Caller(id="eve", is_verified=True, roles=frozenset({"approver"})), False),
        (Caller(id="eve", roles=frozenset({"closer"})), False),
        (ANONYMOUS, False),
    ],
)
def test_an_action_is_seen_by_its_caller_its_role_and_the_local_user(caller: Caller, *, expected: bool) -> None:
    assert may_see_action(WAITING, caller) is expected


OLGA = Caller(id="olga", issuer="https://a", is_verified=True, roles=frozenset({"auditor"}))


@pytest.mark.parametrize(
    ("caller", "expected"),
    [(OLGA, True), (LOCAL, True), (structs.replace(OLGA, is_verified=False), False), (ADA, False), (ANONYMOUS, False)],
)
def test_auditors_and_the_local_user_read_everything(caller: Caller, *, expected: bool) -> None:
    assert may_read_all(caller) is expected
    assert may_read_record({"caller": "bob", "issuer": "https://a"}, caller) is expected
    assert may_read_record({}, caller) is expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"caller": "eve", "issuer": "https://a"}, True),
        ({"caller": "eve", "issuer": "https://b"}, False),
        ({"caller": "eve"}, False),
        ({"caller": "bob", "issuer": "https://a", "via": "eve"}, False),
    ],
)
def test_others_read_the_records_that_name_them_as_the_caller(body: dict[str, object], *, expected: bool) -> None:
    eve = Caller(id="eve", issuer="https://a", is_verified=True)

    assert may_read_record(body, eve) is expected


# Two identities -------------------------------------------------------------------------------------------------------

NAMES = st.frozensets(st.sampled_from(["read", "write", "admin"]))
CALLERS = st.builds(
    Caller,
    id=st.sampled_from(["ada", "worker"]),
    is_verified=st.booleans(),
    issuer=st.sampled_from(["", "https://one.example.com", "https://two.example.com"]),
    scopes=st.none() | NAMES,
    roles=NAMES,
    clearance=st.sampled_from(list(CLASSIFICATION_RANK)),
    cost_center=st.sampled_from(["", "cc-1"]),
    division=st.sampled_from(["", "retail"]),
    absent_claims=st.sampled_from([(), ("division", "cost_center")]),
    app_id=st.sampled_from(["", "app"]),
    expires_at=st.none() | st.sampled_from(["2026-03-01T12:00:00.000Z", "2026-03-01T13:00:00.000Z"]),
)
RULES = st.builds(
    Rules,
    required_scopes=st.lists(st.sampled_from(["read", "write", "admin"]), unique=True).map(tuple),
    classification=st.sampled_from(list(CLASSIFICATION_RANK)),
)


def test_a_caller_with_every_scope_takes_those_of_the_other() -> None:
    everything = Caller(id="ada", scopes=None)
    one = Caller(id="ben", scopes=frozenset({"read"}))

    assert narrowed(everything, one).scopes == one.scopes
    assert narrowed(one, everything).scopes == one.scopes


@given(starter=CALLERS, acting=CALLERS, rules=RULES)
def test_a_narrowed_caller_may_use_exactly_what_both_may(starter: Caller, acting: Caller, rules: Rules) -> None:
    both = narrowed(starter, acting)

    assert may_use(rules, both) == (may_use(rules, starter) and may_use(rules, acting))
    assert both.roles == starter.roles & acting.roles
    assert both.is_verified == (starter.is_verified and acting.is_verified)


@given(starter=CALLERS, acting=CALLERS)
def test_a_narrowed_caller_keeps_its_name_and_names_who_acts(starter: Caller, acting: Caller) -> None:
    both = narrowed(starter, acting)

    kept = ("id", "issuer", "cost_center", "division", "absent_claims", "app_id")
    assert [getattr(both, name) for name in kept] == [getattr(starter, name) for name in kept]
    assert (both.via, both.via_issuer, both.expires_at) == (acting.id, acting.issuer, acting.expires_at)


@given(starter=CALLERS, acting=CALLERS)
def test_narrowing_twice_by_the_same_identity_changes_nothing(starter: Caller, acting: Caller) -> None:
    once = narrowed(starter, acting)

    assert narrowed(once, acting) == once


@given(starter=CALLERS, one=CALLERS, other=CALLERS, rules=RULES)
def test_a_right_that_one_identity_lacks_does_not_come_back(
    starter: Caller, one: Caller, other: Caller, rules: Rules
) -> None:
    both = narrowed(narrowed(starter, one), other)

    assert may_use(rules, both) <= may_use(rules, narrowed(starter, one))


@pytest.mark.parametrize(
    ("expires_at", "expected"),
    [(None, False), ("2026-03-01T12:00:00.001Z", False), ("2026-03-01T12:00:00.000Z", True)],
)
def test_a_token_is_expired_from_the_moment_it_names(expires_at: str | None, *, expected: bool) -> None:
    assert is_expired(Caller(id="ada", expires_at=expires_at), "2026-03-01T12:00:00.000Z") is expected


def test_a_caller_resumes_with_current_rights_and_another_with_the_overlap() -> None:
    ada = Caller(id="ada", issuer="https://one", scopes=frozenset({"read"}))
    richer = Caller(id="ada", issuer="https://one", scopes=frozenset({"read", "write"}))
    stranger = Caller(id="ada", issuer="https://two", scopes=frozenset({"write"}))

    assert acting_for(ada, richer) == richer
    assert acting_for(ada, stranger) == narrowed(ada, stranger)
    assert acting_for(ada, stranger).scopes == frozenset()


def test_a_run_is_seen_by_its_starter_and_the_local_user() -> None:
    namesake = structs.replace(ADA, issuer="https://other.example.com")

    assert may_see_run(ADA, ADA)
    assert may_see_run(ADA, local_caller("bob"))
    assert not may_see_run(ADA, namesake)


def test_a_row_is_read_by_its_starter_at_the_same_issuer_and_by_auditors() -> None:
    row = Run(id="r", kind="task", status="done", trace_id="t", started_at="", changed_at="", caller="ada", issuer="i")
    ada, namesake = structs.replace(ADA, issuer="i"), structs.replace(ADA, issuer="j")
    auditor = structs.replace(namesake, id="olga", roles=frozenset({"auditor"}))

    assert [may_read_run(row, each) for each in (ada, namesake, auditor, LOCAL)] == [True, False, True, True]
    assert [is_own_run(row, each) for each in (ada, namesake, auditor, LOCAL)] == [True, False, False, False]


def test_an_action_is_read_by_its_requester_at_the_same_issuer_and_by_auditors() -> None:
    asked = structs.replace(WAITING, requester="ada", issuer="i", role="")
    ada, namesake = structs.replace(ADA, issuer="i"), structs.replace(ADA, issuer="j")
    auditor = structs.replace(namesake, id="olga", roles=frozenset({"auditor"}))

    assert [may_read_action(asked, each) for each in (ada, namesake, auditor, LOCAL)] == [True, False, True, True]
    # To read it is not to answer it.
    assert not may_see_action(asked, auditor)
