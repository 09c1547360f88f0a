"""The builder of blueprints: the data of a file, written in Python."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from agent_resolver.core import check_blueprint
from agent_resolver.engine import BlueprintBuilder
from agent_resolver.schema import (
    Blueprint,
    Compensation,
    ForEach,
    InvalidBlueprint,
    Retry,
    encode_blueprint,
    parse_blueprint,
)
from tests.blueprints import REFUND, TOOLS


def refund() -> BlueprintBuilder:
    """The example of `tests/blueprints.py`, in Python."""
    return (
        BlueprintBuilder(
            "tickets.refund",
            "1.2.0",
            "Refunds the order of a ticket, after a person has agreed",
            maintainer="support",
            cost_center="CC-42",
            tags=("tickets", "money"),
        )
        .takes(
            {
                "type": "object",
                "properties": {"ticket": {"type": "integer", "minimum": 1}, "reason": {"type": "string"}},
                "required": ["ticket"],
                "additionalProperties": False,
            }
        )
        .call("find", "tickets.find", {"ticket": "${input.ticket}"})
        .ask("agree", "Refund ticket ${input.ticket}?")
        .call(
            "refund",
            "payments.refund",
            {"order": "${steps.find.order}", "note": "Ticket ${input.ticket}"},
            condition="steps.agree == 'yes'",
            compensation=Compensation(capability="payments.charge", input_mapping={"refund": "${result.refund}"}),
            retry=Retry(max_attempts=3),
        )
        .call(
            "mail",
            "tickets.mail",
            {"to": "${item}"},
            is_parallel=True,
            for_each=ForEach(items="${steps.find.watchers}"),
        )
        .call("close", "tickets.close", {"ticket": "${input.ticket}"}, is_parallel=True)
        .gives(
            {"refund": "${steps.refund.refund ?? 'none'}"},
            {"type": "object", "properties": {"refund": {"type": "string"}}, "required": ["refund"]},
        )
        .approve("refund", "It moves money")
        .secure(data_classification="CONFIDENTIAL", required_scopes=("tickets.write",))
        .test("a refund", {"ticket": 7}, {"refund": {"refund": "r-1"}}, {"refund": "r-1"})
        .tune(max_parallel=10)
    )


def from_yaml(text: str) -> Blueprint:
    blueprint = parse_blueprint(text.encode(), is_json=False).blueprint
    assert blueprint
    return blueprint


def test_the_builder_and_a_file_give_the_same_blueprint_and_bytes() -> None:
    built, read = refund().build(TOOLS), from_yaml(REFUND)

    assert built == read
    assert encode_blueprint(built) == encode_blueprint(read)


def test_every_kind_of_wait_can_be_built() -> None:
    built = (
        BlueprintBuilder("waits", "1", "Waits")
        .ask("person", "Go on?", role="lead", timeout_seconds=60, default="no")
        .receive("paid", "payment", {"type": "object"}, timeout_seconds=60)
        .pause("while", seconds=5)
        .pause("day", until="2030-01-01T00:00:00Z")
        .build({})
    )

    assert built == from_yaml(
        """
blueprint_metadata: {id: waits, version: '1', description: Waits}
dag:
  steps:
    - {id: person, wait: {kind: person, question: Go on?, role: lead, timeout_seconds: 60, default: 'no'}}
    - {id: paid, wait: {kind: signal, signal: payment, schema: {type: object}, timeout_seconds: 60}}
    - {id: while, wait: {kind: time, seconds: 5}}
    - {id: day, wait: {kind: time, until: '2030-01-01T00:00:00Z'}}
"""
    )


def test_a_fault_is_the_finding_that_the_check_of_a_file_has() -> None:
    builder = refund().call("again", "tickets.fnd", {"ticket": "${steps.later}"})
    text = REFUND.replace(
        "  output_mapping",
        "    - {id: again, capability: tickets.fnd, input_mapping: {ticket: '${steps.later}'}}\n  output_mapping",
    )

    with pytest.raises(InvalidBlueprint) as caught:
        builder.build(TOOLS)

    assert list(caught.value.issues) == check_blueprint(from_yaml(text), TOOLS)
    assert [issue.code for issue in caught.value.issues] == ["unknown-capability", "unknown-step"]


def test_without_tools_only_the_form_is_checked() -> None:
    assert BlueprintBuilder("a", "1", "d").call("one", "absent").build().dag.steps[0].capability == "absent"
    with pytest.raises(InvalidBlueprint) as caught:
        BlueprintBuilder("a", "1", "d").call("One", "absent", retry=Retry(max_attempts=11)).build()

    assert [(str(issue), issue.line, issue.column) for issue in caught.value.issues] == [
        ("dag.steps.0.id: Must be 1 to 64 small letters, digits and `_`, with a letter first", 1, 1),
        ("dag.steps.0.retry.max_attempts: Must be from 1 to 10", 1, 1),
    ]


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("value", [lambda: float("nan"), object, lambda: nested(100), lambda: nested(100_000)])
def test_what_is_not_json_or_nests_too_deep_is_refused(value: Callable[[], Any]) -> None:
    with pytest.raises(InvalidBlueprint):
        BlueprintBuilder("a", "1", "d").call("one", "x", {"value": value()}).build()


def test_a_value_that_changes_later_changes_no_blueprint() -> None:
    items = [1]
    mapping = {"at": datetime(2030, 1, 1, tzinfo=UTC), "list": items}
    built = BlueprintBuilder("a", "1", "d").call("one", "x", mapping).build()

    items.append(2)

    assert built.dag.steps[0].input_mapping == {"at": "2030-01-01T00:00:00Z", "list": [1]}
