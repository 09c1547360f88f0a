"""The audit of drafts: each rule of Ops, what it finds, and what would mend it."""

from collections.abc import Mapping
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st
from msgspec import structs

from agent_resolver.core import MAX_VIOLATIONS, OPS_RULES, OpsPolicy, OpsSubject, audit_blueprint
from agent_resolver.schema import (
    Blueprint,
    Caller,
    Classification,
    Descriptor,
    GoldenContext,
    TestResult as Result,
    Violation,
    parse_blueprint,
)
from tests.blueprints import REFUND, TEXT, TOOLS, blueprint_documents, gives, tool
from tests.core.blueprint.runs import blueprint

ADA = Caller(
    id="ada", is_verified=True, issuer="https://idp", scopes=frozenset({"pay", "tickets.write"}), clearance="RESTRICTED"
)
CONTEXT = GoldenContext(
    app_id="helpdesk", environment="dev", initiator_id="ada", trace_id="0" * 32, clearance_level="RESTRICTED"
)
PROJECT = {
    each.id: each
    for each in (
        tool("t.read", {}, gives(name=TEXT), classification="PUBLIC"),
        tool("t.pay", {}, gives(id=TEXT), classification="PUBLIC", is_idempotent=False),
        tool("t.unpay", {}, classification="PUBLIC"),
        tool("t.send", {}, classification="PUBLIC"),
        tool("t.internal", {}),
        tool("t.vault", {}, classification="RESTRICTED"),
        tool("t.scoped", {}, classification="PUBLIC", required_scopes=("pay", "admin", "audit")),
        tool("t.keyed", {}, classification="PUBLIC", secrets=("TOKEN", "OTHER")),
    )
}
STAYS: dict[str, tuple[str, ...] | None] = dict.fromkeys(PROJECT, ())
TEST = {"name": "works"}
PASSED = (Result(name="works", passed=True),)
READ = {"id": "read"}


def subject(*steps: Mapping[str, Any], level: str = "PUBLIC", **rest: Any) -> OpsSubject:
    """A draft of these steps that breaks no rule unless they do."""
    more = {"acceptance_tests": [TEST], "security_logic": {"data_classification": level}, **rest}
    return OpsSubject(
        blueprint=blueprint(*steps, **more),
        tools=PROJECT,
        policy=OpsPolicy(authorized=frozenset(PROJECT)),
        context=CONTEXT,
        caller=ADA,
        hosts=STAYS,
        tests=PASSED,
    )


def ids(audited: OpsSubject) -> list[str]:
    return [violation.id for violation in audit_blueprint(audited)]


def only(audited: OpsSubject) -> Violation:
    """The one violation that there is."""
    (violation,) = audit_blueprint(audited)
    return violation


def advice(violation: Violation) -> tuple[str, str, str, tuple[str, ...]]:
    return (violation.id, violation.step, violation.action, violation.choices)


# All rules ------------------------------------------------------------------------------------------------------------


def test_every_rule_has_an_id_a_standard_and_a_sentence() -> None:
    assert [(rule.id, rule.standard) for rule in OPS_RULES] == [
        ("OPS-TOOL-001", "ASS-001"),
        ("OPS-FMT-001", "WCS-001"),
        ("OPS-CLS-001", "GOS-001"),
        ("OPS-EGR-001", "UIM-001"),
        ("OPS-SCP-001", "UIM-001"),
        ("OPS-CMP-001", "WCS-001"),
        ("OPS-BAT-001", "WCS-001"),
        ("OPS-SEC-001", "UIM-001"),
        ("OPS-CST-001", "GOS-001"),
        ("OPS-TST-001", "TCS-001"),
    ]
    assert all(rule.title.endswith(".") for rule in OPS_RULES)


def test_a_right_draft_breaks_no_rule() -> None:
    assert audit_blueprint(subject(READ)) == ()


def test_a_violation_says_which_rule_of_which_standard_is_broken_and_what_mends_it() -> None:
    assert only(subject(READ, level="INTERNAL", acceptance_tests=[])) == Violation(
        id="OPS-TST-001/none",
        rule="OPS-TST-001",
        standard="TCS-001",
        message="The draft has no acceptance test",
        remedy="Add an acceptance test with a recorded result of each step",
        action="add-test",
    )


def test_violations_come_in_the_order_of_the_rules_and_then_of_the_steps() -> None:
    found = ids(
        structs.replace(
            subject(
                {"id": "z", "capability": "t.pay"}, {"id": "b", "capability": "no"}, {"id": "a", "capability": "no"}
            ),
            hosts={},
            tests=(),
        )
    )

    assert found == ["OPS-TOOL-001/b", "OPS-TOOL-001/a", "OPS-EGR-001/z", "OPS-CMP-001/z", "OPS-TST-001/works"]


def test_a_draft_with_very_many_faults_has_a_bounded_audit() -> None:
    steps = [{"id": f"s{number}", "capability": "t.send"} for number in range(150)]

    found = ids(structs.replace(subject(*steps), hosts={}))

    assert len(found) == MAX_VIOLATIONS
    assert found[:2] == ["OPS-EGR-001/s0", "OPS-EGR-001/s1"]


def test_messages_and_ids_are_bounded_and_ids_stay_different() -> None:
    names = ["x" * 300 + end for end in "ab"]
    audited = subject(READ, acceptance_tests=[{"name": name} for name in names])

    found = audit_blueprint(structs.replace(audited, tests=tuple(Result(name=name, passed=False) for name in names)))

    assert len({violation.id for violation in found}) == 2
    assert all(len(violation.id) < 120 and len(violation.message) <= 500 for violation in found)


# Tools ----------------------------------------------------------------------------------------------------------------


def test_steps_and_compensations_call_only_authorised_tools() -> None:
    step = {"id": "pay", "compensation": {"capability": "t.unpay"}}
    audited = structs.replace(subject(step, READ), policy=OpsPolicy(authorized=frozenset({"t.read"})))

    first, second = audit_blueprint(audited)

    assert advice(first) == ("OPS-TOOL-001/pay", "pay", "", ("leave-out", "allowed"))
    assert advice(second) == ("OPS-TOOL-001/pay.compensation", "pay", "", ("leave-out", "allowed"))
    assert first.message == "Step `pay` calls `t.pay`, which is not among the tools that this plan may use"
    assert second.message.startswith("The compensation of step `pay` calls `t.unpay`, ")


def test_an_authorised_tool_that_is_not_there_cannot_be_used_either() -> None:
    audited = structs.replace(
        subject({"id": "gone"}, READ), policy=OpsPolicy(authorized=frozenset({"t.gone", "t.read"}))
    )

    assert ids(audited) == ["OPS-TOOL-001/gone"]


def test_two_steps_of_one_id_have_one_violation() -> None:
    gone = {"id": "gone", "capability": "no"}

    assert ids(subject(gone, gone)) == ["OPS-TOOL-001/gone", "OPS-FMT-001/dag.steps.1.id/repeated-step"]


# Form -----------------------------------------------------------------------------------------------------------------


def test_faults_of_the_blueprint_are_for_the_builder_to_correct() -> None:
    violation = only(subject({"id": "read", "input_mapping": {"x": 1}}, {"id": "send"}))

    assert advice(violation) == (
        "OPS-FMT-001/dag.steps.0.input_mapping.x/unknown-argument",
        "read",
        "correct",
        ("leave-out",),
    )
    assert violation.message == "dag.steps.0.input_mapping.x: 't.read' has no argument 'x'"
    assert violation.remedy == "Remove it"


def test_a_fault_outside_of_the_steps_leaves_no_step_to_leave_out() -> None:
    violation = only(subject(READ, output="${"))

    assert advice(violation) == ("OPS-FMT-001/dag.output_mapping/expression", "", "correct", ())
    assert violation.remedy == "Correct the draft"


def test_warnings_do_not_reject() -> None:
    assert ids(subject({"id": "w", "wait": {"kind": "time", "seconds": 1, "question": "q"}})) == []


def test_a_step_whose_effect_nothing_takes_back_needs_a_compensation() -> None:
    violation = only(subject({"id": "pay"}, READ))

    assert advice(violation) == ("OPS-CMP-001/pay", "pay", "add-compensation", ("leave-out",))
    assert violation.message == "Step `pay`: If a later step fails, nothing takes back what 't.pay' has done"


@pytest.mark.parametrize(
    "steps",
    [
        [READ, {"id": "pay"}],
        [{"id": "pay", "compensation": {"capability": "t.unpay"}}, READ],
        [{"id": "send"}, READ],
    ],
)
def test_a_last_step_and_one_that_can_be_repeated_or_taken_back_need_none(steps: list[Any]) -> None:
    assert ids(subject(*steps)) == []


def test_over_100_items_come_in_batches() -> None:
    step = {"id": "send", "for_each": {"items": "${input.names}", "max_items": 101}}
    each = {"items": "${input.names}", "max_items": 101, "batch_size": 100}

    assert advice(only(subject(step))) == ("OPS-BAT-001/send", "send", "batch", ())
    assert ids(subject({**step, "for_each": each})) == []


# Data -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("declared", [{}, {"data_classification": "PUBLIC"}])
def test_the_declared_classification_is_at_least_that_of_every_step(declared: dict[str, str]) -> None:
    violation = only(subject({"id": "internal"}, security_logic=declared))

    assert advice(violation) == ("OPS-CLS-001/data_classification", "", "raise-classification", ())
    assert violation.message == "The draft declares PUBLIC data, and its steps handle INTERNAL data"
    assert violation.remedy == "Declare `data_classification: INTERNAL`"


@pytest.mark.parametrize("level", ["INTERNAL", "CONFIDENTIAL", "RESTRICTED"])
def test_a_higher_declaration_than_the_steps_have_is_right(level: str) -> None:
    assert ids(subject({"id": "internal"}, level=level)) == []


@pytest.mark.parametrize(
    ("clearance", "found"),
    [("PUBLIC", ["OPS-CLS-001/vault"]), ("CONFIDENTIAL", ["OPS-CLS-001/vault"]), ("RESTRICTED", [])],
)
def test_the_initiator_is_cleared_for_every_step(clearance: Classification, found: list[str]) -> None:
    audited = subject({"id": "vault"}, level="RESTRICTED")

    assert ids(structs.replace(audited, caller=structs.replace(ADA, clearance=clearance))) == found


def test_the_initiator_is_cleared_for_what_is_declared() -> None:
    audited = subject(READ, level="CONFIDENTIAL")

    violation = only(structs.replace(audited, caller=structs.replace(ADA, clearance="INTERNAL")))

    assert advice(violation) == ("OPS-CLS-001/initiator", "", "", ("allowed",))
    assert violation.message == "The draft declares CONFIDENTIAL data, and the initiator is cleared for INTERNAL data"


def test_an_initiator_whom_no_issuer_vouches_for_plans_nothing_restricted() -> None:
    local = structs.replace(ADA, is_verified=False)
    audited = structs.replace(subject({"id": "vault"}, {"id": "internal"}, level="RESTRICTED"), caller=local)

    violation = only(audited)

    assert advice(violation) == ("OPS-CLS-001/vault", "vault", "", ("leave-out", "allowed"))
    assert violation.message == (
        "Step `vault` handles RESTRICTED data with `t.vault`, and no issuer vouches for the initiator"
    )


# Egress ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hosts", "egress", "target"),
    [
        ((), (), ""),
        (("a.example", "b.example"), ("*.example",), ""),
        (("a.example", "b.example"), ("a.example",), "hosts that are not listed: b.example"),
        (("b.example", "a.example"), (), "hosts that are not listed: a.example, b.example"),
        (None, ("*.example",), "hosts that are not known"),
        (None, ("*",), ""),
    ],
)
def test_data_leaves_only_for_listed_hosts(hosts: tuple[str, ...] | None, egress: tuple[str, ...], target: str) -> None:
    audited = structs.replace(
        subject({"id": "vault"}, level="RESTRICTED"),
        policy=OpsPolicy(authorized=frozenset(PROJECT), egress=egress),
        hosts={"t.vault": hosts},
    )

    found = [(advice(each), each.message) for each in audit_blueprint(audited)]

    message = f"Step `vault` may send RESTRICTED data with `t.vault` to {target}"
    expected = (("OPS-EGR-001/vault", "vault", "", ("leave-out", "allowed")), message)
    assert found == ([expected] if target else [])


def test_a_tool_whose_hosts_nobody_gave_reaches_unknown_hosts() -> None:
    assert ids(structs.replace(subject(READ), hosts={})) == ["OPS-EGR-001/read"]


def test_a_compensation_sends_data_too() -> None:
    audited = subject({"id": "pay", "compensation": {"capability": "t.unpay"}}, READ)

    assert ids(structs.replace(audited, hosts={**STAYS, "t.unpay": None})) == ["OPS-EGR-001/pay.compensation"]


# Access ---------------------------------------------------------------------------------------------------------------


def test_scopes_are_held_by_the_initiator_and_admitted_by_the_lock() -> None:
    policy = OpsPolicy(authorized=frozenset(PROJECT), locked_scopes=frozenset({"admin", "pay"}))

    violation = only(structs.replace(subject({"id": "scoped"}), policy=policy))

    assert advice(violation) == ("OPS-SCP-001/scoped", "scoped", "", ("leave-out", "allowed"))
    assert violation.message == (
        "Step `scoped` calls `t.scoped`: the initiator does not hold admin, audit; the lock has not audit"
    )


def test_whoever_holds_every_scope_needs_no_lock_that_there_is_not() -> None:
    local = structs.replace(ADA, scopes=None)

    assert ids(structs.replace(subject({"id": "scoped"}), caller=local)) == []


def test_the_scopes_of_the_draft_itself_count_too() -> None:
    logic = {"data_classification": "PUBLIC", "required_scopes": ["pay", "admin"]}

    violation = only(subject(READ, security_logic=logic))

    assert advice(violation) == ("OPS-SCP-001/required_scopes", "", "", ("allowed",))


def test_each_secret_that_the_project_has_not_is_named_once() -> None:
    steps = [{"id": "one", "capability": "t.keyed"}, {"id": "two", "capability": "t.keyed"}]

    violation = only(structs.replace(subject(*steps), secrets_present=frozenset({"OTHER"})))

    assert advice(violation) == ("OPS-SEC-001/TOKEN", "", "", ())
    assert violation.message == "Steps `one`, `two` cannot run without the secret TOKEN"


# Accounting -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ("", "The draft has no cost centre, and the initiator's is CC-1"),
        ("CC-2", "The draft has the cost centre CC-2, and the initiator's is CC-1"),
        ("CC-1", ""),
    ],
)
@pytest.mark.parametrize("is_of_context", [True, False])
def test_the_costs_go_to_the_initiator(metadata: str, message: str, *, is_of_context: bool) -> None:
    named = {"id": "t.flow", "version": "1", "description": "d", "cost_center": metadata}
    audited = structs.replace(
        subject(READ, blueprint_metadata=named),
        context=structs.replace(CONTEXT, cost_center="CC-1" if is_of_context else ""),
        caller=structs.replace(ADA, cost_center="CC-9" if is_of_context else "CC-1"),
    )

    found = [(advice(each), each.message) for each in audit_blueprint(audited)]

    expected = (("OPS-CST-001/cost_center", "", "add-cost-center", ()), message)
    assert found == ([expected] if message else [])


def test_an_initiator_without_a_cost_centre_asks_for_none() -> None:
    named = {"id": "t.flow", "version": "1", "description": "d", "cost_center": "CC-2"}

    assert ids(subject(READ, blueprint_metadata=named)) == []


@pytest.mark.parametrize(
    ("results", "message"),
    [
        ([], "The acceptance test 'works' was not run"),
        ([Result(name="other", passed=True)], "The acceptance test 'works' was not run"),
        ([Result(name="works", passed=False, message="It is odd")], "The acceptance test 'works' fails: It is odd"),
    ],
)
def test_every_acceptance_test_passes(results: list[Result], message: str) -> None:
    violation = only(structs.replace(subject(READ), tests=tuple(results)))

    assert advice(violation) == ("OPS-TST-001/works", "", "correct", ())
    assert violation.message == message


def test_tests_of_one_name_pass_together() -> None:
    audited = subject(READ, acceptance_tests=[TEST, TEST])
    failed = Result(name="works", passed=False, message="It is odd")

    assert ids(structs.replace(audited, tests=(*PASSED, *PASSED))) == []
    assert ids(structs.replace(audited, tests=PASSED)) == ["OPS-TST-001/works"]
    assert ids(structs.replace(audited, tests=(*PASSED, failed))) == ["OPS-TST-001/works"]


# Any draft ------------------------------------------------------------------------------------------------------------


def shuffled_mapping(mapping: Mapping[str, Any], shuffle: Random) -> dict[str, Any]:
    items = list(mapping.items())
    shuffle.shuffle(items)
    return dict(items)


def tools_of(flow: Blueprint, names: set[str]) -> dict[str, Descriptor]:
    """A tool for some of the names that a draft calls."""
    called = {step.capability or "" for step in flow.dag.steps}
    undo = {step.compensation.capability for step in flow.dag.steps if step.compensation}
    return {name: structs.replace(PROJECT["t.keyed"], id=name) for name in sorted((called | undo) & names)}


@given(
    document=blueprint_documents(),
    names=st.sets(st.text("abcxyz01. é", min_size=1, max_size=2)),
    results=st.lists(st.builds(Result, name=st.text("abc01", max_size=2), passed=st.booleans(), message=st.text())),
    shuffle=st.randoms(use_true_random=False),
)
def test_the_order_of_what_a_draft_is_held_against_never_reaches_the_audit(
    document: Any, names: set[str], results: list[Result], shuffle: Random
) -> None:
    flow = msgspec.convert(document, Blueprint)
    tools = tools_of(flow, names)
    policy = OpsPolicy(authorized=frozenset(names), egress=("a.example", "b.example"))
    hosts = dict.fromkeys(tools, ("c.example", "a.example"))
    first = OpsSubject(
        blueprint=flow, tools=tools, policy=policy, context=CONTEXT, caller=ADA, hosts=hosts, tests=tuple(results)
    )
    shuffle.shuffle(results)
    second = structs.replace(
        first,
        tools=shuffled_mapping(tools, shuffle),
        hosts=shuffled_mapping(dict.fromkeys(tools, ("a.example", "c.example")), shuffle),
        policy=structs.replace(policy, egress=policy.egress[::-1]),
        tests=tuple(results),
    )

    assert audit_blueprint(first) == audit_blueprint(second)


REFUND_BLUEPRINT = parse_blueprint(REFUND.encode(), is_json=False).blueprint


@given(authorized=st.sets(st.sampled_from([*TOOLS, "other"])))
def test_a_draft_without_a_violation_calls_only_authorised_tools(authorized: set[str]) -> None:
    assert REFUND_BLUEPRINT
    audited = OpsSubject(
        blueprint=REFUND_BLUEPRINT,
        tools=TOOLS,
        policy=OpsPolicy(authorized=frozenset(authorized)),
        context=CONTEXT,
        caller=ADA,
        hosts=dict.fromkeys(TOOLS, ()),
        tests=(Result(name="a refund", passed=True),),
    )

    assert (not audit_blueprint(audited)) is (set(TOOLS) <= authorized)
