"""The table of rules, and the rules about data for something that is not a server."""

import pytest
from msgspec import convert, json, structs

from agent_resolver import AgentFile, Server, resolve
from agent_resolver.core import CHECKS, CONSTRAINTS, FACTS, RunLimits, broken_data_rules, names_behind, servers_of
from agent_resolver.schema import (
    Constraints,
    DataConstraints,
    Limits,
    RejectionCode,
    Requirement,
    Requires,
    Residency,
    Sensitivity,
    limits_in,
    parse_index,
)

INDEX_ENTRY = {
    "id": "acme",
    "version": "1.0.0",
    "endpoint": "https://acme.example",
    "categories": ["crm"],
    "scopes": ["crm.read"],
    "data": {"residency": ["eu-only"], "maxSensitivity": "pii.low"},
    "trust": {"signed": True, "publisher": "Acme"},
    "status": "deprecated",
}
KNOWN: tuple[tuple[Residency, ...], Sensitivity] = (("eu-only",), "confidential")


@pytest.mark.parametrize(
    ("residency", "highest", "limits", "expected"),
    [
        # Nothing is constrained: whatever it is, and whatever nobody knows, is fine.
        (None, None, Limits(), []),
        (None, None, Limits(residency="any"), []),
        (*KNOWN, Limits(forbid=("*",), require_signed=True), []),
        # Where data must stay.
        (*KNOWN, Limits(residency="eu-only"), []),
        (("any",), None, Limits(residency="us-only"), []),
        (*KNOWN, Limits(residency="us-only"), ["Agent requires 'us-only' but model supports: eu-only"]),
        ((), None, Limits(residency="us-only"), ["Agent requires 'us-only' but model supports: (none)"]),
        (None, None, Limits(residency="us-only"), ["Agent requires 'us-only' but the model's residency is not known"]),
        # How sensitive it may be.
        (*KNOWN, Limits(sensitivity="confidential"), []),
        (*KNOWN, Limits(sensitivity="public"), []),
        (*KNOWN, Limits(sensitivity="pii.low"), ["Agent sensitivity 'pii.low' exceeds model max 'confidential'"]),
        (None, None, Limits(sensitivity="public"), ["Agent sensitivity 'public' but the model's max is not known"]),
        # Both at once.
        (
            None,
            "internal",
            Limits(residency="eu-only", sensitivity="pii.high"),
            [
                "Agent requires 'eu-only' but the model's residency is not known",
                "Agent sensitivity 'pii.high' exceeds model max 'internal'",
            ],
        ),
    ],
)
def test_every_rule_that_is_broken_is_told(
    residency: tuple[Residency, ...] | None, highest: Sensitivity | None, limits: Limits, expected: list[str]
) -> None:
    asked = RunLimits().narrowed_by(limits)

    assert [reason.message for reason in broken_data_rules("model", residency, highest, asked)] == expected


def test_of_two_regions_each_must_be_kept() -> None:
    limits = RunLimits(residencies=("eu-only", "us-only"))

    assert broken_data_rules("model", ("us-only", "eu-only"), None, limits) == ()
    assert broken_data_rules("model", ("any",), None, limits) == ()
    assert [reason.message for reason in broken_data_rules("model", ("us-only",), None, limits)] == [
        "Agent requires 'eu-only' but model supports: us-only"
    ]


def test_the_codes_are_those_of_servers() -> None:
    limits = RunLimits(residencies=("eu-only",), sensitivity="pii.high")

    known = broken_data_rules("model", ("us-only",), "public", limits)
    unknown = broken_data_rules("model", None, None, limits)

    assert [reason.code for reason in known] == [
        RejectionCode.RESIDENCY_MISMATCH,
        RejectionCode.SENSITIVITY_EXCEEDED,
    ]
    assert [reason.code for reason in unknown] == [
        RejectionCode.RESIDENCY_UNKNOWN,
        RejectionCode.SENSITIVITY_UNKNOWN,
    ]


def test_every_code_belongs_to_one_check_in_the_order_of_the_codes() -> None:
    found = [code for check in CHECKS for code in check.codes]

    assert found == [code for code in RejectionCode if code is not RejectionCode.LOST_TIE_BREAK]


def test_every_limit_is_a_constraint_of_one_check_at_its_place_in_agent_files() -> None:
    limits = Limits(residency="eu-only", sensitivity="pii.low", require_signed=True, forbid=("*.delete",))
    document: dict[str, dict[str, object]] = {}
    for constraint in CONSTRAINTS:
        _, section, key = constraint.path
        document.setdefault(section, {})[key] = constraint.value(limits)

    assert len(CONSTRAINTS) == len(Limits.__struct_fields__)
    assert limits_in(convert(document, Constraints)) == limits


def test_every_fact_is_read_from_its_place_in_the_index() -> None:
    entry = json.encode(INDEX_ENTRY)
    document = json.decode(entry)
    [server] = servers_of(parse_index(b"[" + entry + b"]"))

    for fact in FACTS:
        stated = document
        for key in fact.path:
            stated = stated[key]
        assert json.encode(fact.value(server)) == json.encode(stated)


def test_only_a_status_other_than_active_is_worth_reporting() -> None:
    [status] = [fact for fact in FACTS if fact.name == "status"]
    [scopes] = [fact for fact in FACTS if fact.name == "scopes"]
    server = Server("acme", "1.0.0", "https://acme.example", (), None)

    assert not status.is_worth_reporting(server)
    assert status.is_worth_reporting(structs.replace(server, status="deleted"))
    assert scopes.is_worth_reporting(server)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (RejectionCode.MISSING_SCOPE, ("scopes",)),
        (RejectionCode.SCOPES_UNKNOWN, ("scopes",)),
        (RejectionCode.SERVER_WITHDRAWN, ("status",)),
        (RejectionCode.FORBIDDEN_ACTION, ("forbid",)),
        (RejectionCode.SENSITIVITY_UNKNOWN, ("maxSensitivity",)),
        (RejectionCode.LOST_TIE_BREAK, ("signed", "id", "version")),
    ],
)
def test_a_code_names_the_facts_that_it_rests_on(code: RejectionCode, expected: tuple[str, ...]) -> None:
    assert names_behind(code) == expected


@pytest.mark.parametrize(
    ("asked", "offered", "expected"),
    [
        ("eu-only", ("any",), ["files"]),
        ("eu-only", ("any", "us-only"), ["files"]),
        ("eu-only", ("any", "eu-only"), []),
        ("eu-only", ("eu-only",), []),
        ("eu-only", ("us-only",), []),
        ("any", ("any",), []),
        (None, ("any",), []),
        (None, None, []),
    ],
)
def test_a_server_that_passes_because_it_says_any_promises_no_region(
    asked: Residency | None, offered: tuple[Residency, ...] | None, expected: list[str]
) -> None:
    data = DataConstraints(residency=asked) if asked else DataConstraints()
    needs = Requires(mcp=(Requirement(category="files", permissions=("read",)),))
    agent = AgentFile(name="a", version="1", requires=needs, constraints=Constraints(data=data))
    server = Server("a", "1", "https://a.example", ("files",), scopes=("read",), residency=offered)

    found = resolve(agent, [server]).without_region

    assert [choice.requirement.category for choice in found] == expected
