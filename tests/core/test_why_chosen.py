"""`why` says of each server that it was chosen, or every reason against it."""

from typing import Any

import pytest
from hypothesis import given, strategies as st
from msgspec import UNSET

from agent_resolver import AgentFile, RejectionCode, Server, resolve
from agent_resolver.core import Answer, judge, why
from agent_resolver.schema import (
    ActionConstraints,
    Constraints,
    DataConstraints,
    Requirement,
    Requires,
    TrustConstraints,
)
from tests.core.strategies import LAW, Case, cases, narrow_cases, shuffled

STRICT = Constraints(
    data=DataConstraints(residency="eu-only", sensitivity="pii.high"),
    actions=ActionConstraints(forbid=("write:*",)),
    trust=TrustConstraints(require_signed=True),
)


def agent(*needs: tuple[str, str], constraints: Any = UNSET) -> AgentFile:
    mcp = tuple(Requirement(category=category, permissions=(scope,)) for category, scope in needs)
    return AgentFile(name="a", version="1", requires=Requires(mcp=mcp), constraints=constraints)


def server(name: str, version: str = "1", **facts: Any) -> Server:
    known = {"categories": ("files",), "scopes": ("read",), "residency": ("any",), "max_sensitivity": "pii.high"}
    return Server(name, version, f"https://{name}.example", **{**known, "signed": True, **facts})


def told(answers: tuple[Answer, ...]) -> list[tuple[str, list[str], int]]:
    """Of each answer its category, what it says of each server, and how many it leaves out."""
    return [
        (
            answer.requirement.category,
            [
                f"{verdict.server}: {verdict.chosen_because or ' '.join(reason.code for reason in verdict.reasons)}"
                for verdict in answer.verdicts
            ],
            answer.others,
        )
        for answer in answers
    ]


def test_a_category_has_its_chosen_server_first_and_then_the_others_by_preference() -> None:
    servers = [
        server("zeta"),
        server("beta", scopes=()),
        server("beta", "0", signed=False),
        server("acme", signed=None),
        server("mail", categories=("mail",)),
    ]
    assert told(why(resolve(agent(("files", "read")), servers), "files")) == [
        (
            "files",
            [
                "zeta@1: Selected by tie-break: signed, id='zeta'",
                "beta@1: MISSING_SCOPE",
                "acme@1: LOST_TIE_BREAK",
                "beta@0: LOST_TIE_BREAK",
            ],
            1,
        )
    ]


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        ({"categories": ()}, "MISSING_CATEGORY"),
        ({"scopes": ()}, "MISSING_SCOPE"),
        ({"residency": ("us-only",)}, "RESIDENCY_MISMATCH"),
        ({"residency": None}, "RESIDENCY_UNKNOWN"),
        ({"max_sensitivity": "pii.low"}, "SENSITIVITY_EXCEEDED"),
        ({"max_sensitivity": None}, "SENSITIVITY_UNKNOWN"),
        ({"signed": False}, "UNSIGNED_NOT_ALLOWED"),
        ({"signed": None}, "UNSIGNED_NOT_ALLOWED"),
        ({}, "LOST_TIE_BREAK"),
    ],
)
def test_each_reason_against_a_server_is_said(facts: dict[str, Any], code: str) -> None:
    resolution = resolve(agent(("files", "read"), constraints=STRICT), [server("acme"), server("other", **facts)])

    assert told(why(resolution, "other")) == [("files", [f"other@1: {code}"], 0)]


def test_every_reason_is_said_and_not_only_the_first() -> None:
    worst = server("worst", categories=(), scopes=(), residency=("us-only",), max_sensitivity="public", signed=False)
    resolution = resolve(agent(("files", "write:all"), constraints=STRICT), [worst])

    assert [reason.code for reason in why(resolution, "worst")[0].verdicts[0].reasons] == [
        RejectionCode.MISSING_CATEGORY,
        RejectionCode.MISSING_SCOPE,
        RejectionCode.FORBIDDEN_ACTION,
        RejectionCode.RESIDENCY_MISMATCH,
        RejectionCode.SENSITIVITY_EXCEEDED,
        RejectionCode.UNSIGNED_NOT_ALLOWED,
    ]


def test_a_server_is_held_against_every_requirement_whose_category_it_offers() -> None:
    resolution = resolve(agent(("mail", "send"), ("files", "read")), [server("acme"), server("zeta")])

    assert told(why(resolution, "acme")) == [("files", ["acme@1: Selected by tie-break: signed, id='acme'"], 0)]
    assert told(why(resolution, "zeta"))[0] == ("files", ["zeta@1: LOST_TIE_BREAK"], 0)
    lost = why(resolution, "zeta")[0].verdicts[0].reasons[0]
    assert lost.message == "Not selected: lost tie-break to 'acme@1'"


def test_a_server_without_a_wanted_category_is_judged_against_all_of_them() -> None:
    resolution = resolve(agent(("mail", "send"), ("files", "read")), [server("acme", categories=("other",))])

    assert told(why(resolution, "acme")) == [
        ("files", ["acme@1: MISSING_CATEGORY"], 0),
        ("mail", ["acme@1: MISSING_CATEGORY MISSING_SCOPE"], 0),
    ]


def test_an_id_means_all_its_versions_and_a_version_means_one() -> None:
    resolution = resolve(agent(("files", "read")), [server("acme", "2"), server("acme", "1"), server("acme-2", "1")])

    assert told(why(resolution, "acme")) == [
        ("files", ["acme@1: Selected by tie-break: signed, id='acme'", "acme@2: LOST_TIE_BREAK"], 0)
    ]
    assert told(why(resolution, "acme@2")) == [("files", ["acme@2: LOST_TIE_BREAK"], 0)]
    assert why(resolution, "acme@3") == ()
    assert why(resolution, "acm") == ()


def test_a_word_that_is_a_category_and_a_server_is_answered_as_both() -> None:
    servers = [
        server("files", categories=("files", "mail")),
        server("acme", scopes=()),
        server("mail", categories=("mail",), scopes=("send",)),
    ]
    resolution = resolve(agent(("mail", "send"), ("files", "read")), servers)

    assert told(why(resolution, "files")) == [
        ("files", ["files@1: Only matching candidate", "acme@1: MISSING_SCOPE"], 1),
        ("mail", ["files@1: MISSING_SCOPE"], 0),
    ]


def test_two_requirements_of_one_category_are_answered_each() -> None:
    servers = [server("acme"), server("beta", scopes=("write",))]
    resolution = resolve(agent(("files", "write"), ("files", "read")), servers)

    assert told(why(resolution, "files")) == [
        ("files", ["acme@1: Only matching candidate", "beta@1: MISSING_SCOPE"], 0),
        ("files", ["beta@1: Only matching candidate", "acme@1: MISSING_SCOPE"], 0),
    ]


def test_a_category_that_nobody_offers_has_an_answer_without_servers() -> None:
    assert told(why(resolve(agent(("mail", "send")), [server("acme")]), "mail")) == [("mail", [], 1)]


def test_a_category_that_is_not_required_has_no_answer() -> None:
    assert why(resolve(agent(("files", "read")), [server("acme", categories=("files", "mail"))]), "mail") == ()


@LAW
@given(case=cases | narrow_cases, data=st.data())
def test_what_it_says_is_what_the_explanation_says_and_more(case: Case, data: st.DataObject) -> None:
    resolution = resolve(case.agent, case.servers)
    for choice in resolution.choices:
        first_broken = judge(choice.requirement, resolution.limits)
        for asked in {choice.requirement.category, *map(str, case.servers)}:
            for answer in why(resolution, asked):
                if answer.requirement != choice.requirement:
                    continue
                for verdict in answer.verdicts:
                    assert (verdict.chosen_because is not None) is (verdict.server is choice.server)
                    assert bool(verdict.reasons) is (verdict.chosen_because is None)
                    if broken := first_broken(verdict.server):
                        assert verdict.reasons[0] == broken
    shuffle = resolve(case.agent, shuffled(data, case.servers))
    for word in {choice.requirement.category for choice in resolution.choices}:
        assert told(why(shuffle, word)) == told(why(resolution, word))
