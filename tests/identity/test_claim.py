"""What a token says of a caller: what it does not say clearly, they do not have."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from agent_resolver.identity import InvalidToken, TokenCode, caller_of
from agent_resolver.schema import ANONYMOUS, CONTEXT_CLAIMS, Caller, local_caller
from tests.identity.issued import ISSUER, claims

OPTIONAL = ("scope", "scp", "scopes", "roles", "realm_access", "clearance_level", "azp", "cost_center", "division")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


def caller(**changes: Any) -> Caller:
    return caller_of(claims(**changes))


def test_everything_that_a_token_says_is_in_the_caller() -> None:
    found = caller(
        scope="tickets:read tickets:write",
        realm_access={"roles": ["approver", "offline_access"]},
        roles=["Task.Run"],
        clearance_level="CONFIDENTIAL",
        cost_center="CC-17",
        division="retail",
        azp="console",
        client_id="ignored",
    )

    assert found == Caller(
        id="u-17",
        is_verified=True,
        issuer=ISSUER,
        scopes=frozenset({"tickets:read", "tickets:write"}),
        roles=frozenset({"approver", "offline_access", "Task.Run"}),
        clearance="CONFIDENTIAL",
        cost_center="CC-17",
        app_id="console",
        expires_at="2027-01-15T08:05:00.000Z",
        division="retail",
    )


def test_a_token_that_says_nothing_gives_nothing() -> None:
    assert caller() == Caller(
        id="u-17",
        is_verified=True,
        issuer=ISSUER,
        expires_at="2027-01-15T08:05:00.000Z",
        absent_claims=CONTEXT_CLAIMS,
    )


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"scope": "a  b\ta"}, {"a", "b"}),
        ({"scope": ""}, set()),
        ({"scope": ["a", "b"]}, {"a", "b"}),
        ({"scp": ["a", "b"]}, {"a", "b"}),
        ({"scp": "a b"}, {"a", "b"}),
        ({"scopes": ["a"]}, {"a"}),
        ({"scope": "a", "scp": ["b"], "scopes": ["c"]}, {"a"}),
        ({"scp": ["b"], "scopes": ["c"]}, {"b"}),
        ({"scope": ["a", 7, None, "", "b c", "d\ne", "x" * 256]}, {"a"}),
        ({"scope": "a \x1b[31m"}, {"a"}),
        ({"scope": {"a": True}}, set()),
        ({"scope": True}, set()),
    ],
)
def test_scopes_are_told_in_several_ways(said: dict[str, Any], expected: set[str]) -> None:
    assert caller(**said).scopes == frozenset(expected)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"realm_access": {"roles": ["a"]}}, {"a"}),
        ({"roles": ["a"]}, {"a"}),
        ({"realm_access": {"roles": ["a"]}, "roles": ["b"]}, {"a", "b"}),
        ({"roles": "approver"}, set()),
        ({"realm_access": ["approver"]}, set()),
        ({"realm_access": {"roles": "approver"}}, set()),
        ({"realm_access": {}}, set()),
        ({"roles": [["approver"], {"approver": True}, 7, "", "\x07"]}, set()),
        ({"resource_access": {"us": {"roles": ["approver"]}}}, set()),
    ],
)
def test_roles_are_those_of_the_realm_and_of_the_token(said: dict[str, Any], expected: set[str]) -> None:
    assert caller(**said).roles == expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("PUBLIC", "PUBLIC"),
        ("internal", "INTERNAL"),
        ("Confidential", "CONFIDENTIAL"),
        ("RESTRICTED", "RESTRICTED"),
        ("secret", "PUBLIC"),
        (" RESTRICTED", "PUBLIC"),
        ("\u0131NTERNAL", "PUBLIC"),
        ("", "PUBLIC"),
        (3, "PUBLIC"),
        (["RESTRICTED"], "RESTRICTED"),
        (["confidential"], "CONFIDENTIAL"),
        (["INTERNAL", "RESTRICTED"], "PUBLIC"),
        ([["RESTRICTED"]], "PUBLIC"),
        ([], "PUBLIC"),
        ({"RESTRICTED": True}, "PUBLIC"),
        (None, "PUBLIC"),
    ],
)
def test_a_clearance_that_nobody_knows_clears_for_nothing(said: object, expected: str) -> None:
    assert caller(clearance_level=said).clearance == expected


@pytest.mark.parametrize("value", [7, ["CC-17", "CC-18"], [["CC-17"]], [], [7], ["x" * 256], "x" * 256, "a\nb", ""])
def test_what_is_no_name_is_left_out(value: object) -> None:
    found = caller(cost_center=value, azp=value, client_id="console")

    assert (found.cost_center, found.app_id) == ("", "console")


STATED: dict[str, Any] = {"division": "retail", "clearance_level": "internal", "cost_center": "CC-17"}


def test_an_attribute_of_a_user_may_come_as_a_list_with_one_text() -> None:
    found = caller(**{name: [value] for name, value in STATED.items()})

    assert (found.division, found.clearance, found.cost_center) == ("retail", "INTERNAL", "CC-17")
    assert found.absent_claims == ()
    assert caller(azp=["console"]).app_id == ""


@pytest.mark.parametrize("lacking", [set(), *({name} for name in CONTEXT_CLAIMS), {"division", "cost_center"}])
def test_the_claims_that_a_token_lacks_are_named_in_a_fixed_order(lacking: set[str]) -> None:
    found = caller(**{name: value for name, value in STATED.items() if name not in lacking})

    assert found.absent_claims == tuple(name for name in CONTEXT_CLAIMS if name in lacking)


@pytest.mark.parametrize("value", [7, True, "", "  ", "x" * 256, "a\nb", [], ["a", "b"], [["a"]], {"a": "b"}])
@pytest.mark.parametrize("name", CONTEXT_CLAIMS)
def test_a_claim_that_cannot_be_used_counts_as_absent(name: str, value: object) -> None:
    assert caller(**{**STATED, name: value}).absent_claims == (name,)


def test_an_unknown_clearance_counts_as_absent() -> None:
    found = caller(**{**STATED, "clearance_level": "secret"})

    assert (found.clearance, found.absent_claims) == ("PUBLIC", ("clearance_level",))


@pytest.mark.parametrize(
    "subject",
    [
        "",
        " ",
        "x" * 256,
        "a\nb",
        "a\x00",
        "\x1b[31mu-17",
        "u-17\u202e",
        "\ud800",
        " u-17",
        "u-17 ",
        7,
        ["u-17"],
        {},
        True,
    ],
)
def test_a_subject_is_printable_and_bounded(subject: object) -> None:
    with pytest.raises(InvalidToken) as caught:
        caller(sub=subject)

    assert caught.value.code is TokenCode.INVALID_CLAIM


@pytest.mark.parametrize("subject", ["local:u-17", "local:", "LOCAL:u-17", "anonymous", "Anonymous", "anonymous:1"])
def test_a_subject_cannot_pass_for_somebody_without_a_token(subject: str) -> None:
    with pytest.raises(InvalidToken) as caught:
        caller(sub=subject)

    assert caught.value.code is TokenCode.INVALID_CLAIM


@pytest.mark.parametrize(
    "subject", ["u-17", "x" * 255, "f:17:u-17", "auth0|17", "u-17@example.com", "ю-17", "localhost"]
)
def test_other_subjects_are_taken_as_they_are(subject: str) -> None:
    assert caller(sub=subject).id == subject


def test_nobody_is_somebody_that_no_issuer_can_name() -> None:
    assert Caller(id="anonymous", is_verified=False, scopes=frozenset(), clearance="PUBLIC") == ANONYMOUS
    assert local_caller("u-17").id.startswith("local:")


@given(st.dictionaries(st.sampled_from(OPTIONAL), JSON))
def test_whatever_else_a_token_says_the_caller_is_sound(said: dict[str, Any]) -> None:
    found = caller(**said)

    assert found.is_verified
    assert found.scopes is not None
    assert all(name.isprintable() and 0 < len(name) <= 255 for name in (*found.scopes, *found.roles))
    assert len(found.app_id) <= 255
