"""The blueprints that requests become."""

from typing import Any

import pytest
from msgspec import UNSET, structs

from agent_resolver.core import check_blueprint
from agent_resolver.registry.compiled_schema import compile_schema
from agent_resolver.schema import Blueprint, Step
from agent_resolver.schema.blueprint_file import encode_blueprint
from tests.reasoner.planner.manifest import BY_ID, CONTEXT, TOOLS, ask, shape, text, tool
from tests.reasoner.planner.stage import faults, plan

CREATE_AND_ASSIGN = 'Create a ticket "Printer on fire" with high priority and assign it to team "devices"'


def steps(intent: str, answers: dict[str, str] | None = None, **more: Any) -> dict[str, Step]:
    return {step.id: step for step in plan(ask(intent, answers, **more)).blueprint.dag.steps}


# Inputs ---------------------------------------------------------------------------------------------------------------


def test_stated_values_become_inputs_and_not_part_of_the_plan() -> None:
    planned = plan(ask(CREATE_AND_ASSIGN))

    assert planned.drafted.arguments == {"title": "Printer on fire", "priority": "high", "team": "devices"}
    assert planned.blueprint.dag.input_schema["properties"]["priority"] == {
        "type": "string",
        "enum": ["low", "medium", "high"],
        "description": "How urgent it is.",
    }
    assert b"Printer on fire" not in encode_blueprint(planned.blueprint)


def test_optional_inputs_are_left_out_unless_they_are_stated() -> None:
    assert steps('Open a ticket titled "x"')["create"].input_mapping == {"title": "${input.title}"}


def test_two_inputs_of_one_name_are_told_apart_by_their_steps() -> None:
    planned = plan(ask('Create a ticket titled "A" and schedule a meeting titled "B" on 2026-07-01'))

    assert planned.drafted.arguments == {"create_title": "A", "create_event_title": "B", "date": "2026-07-01"}


def test_the_same_tool_may_be_called_twice() -> None:
    planned = plan(ask('Open a ticket titled "A" and open a ticket titled "B"'))

    assert [step.id for step in planned.blueprint.dag.steps] == ["create", "create_ticket"]
    assert planned.drafted.arguments == {"create_title": "A", "create_ticket_title": "B"}


def test_a_question_quotes_the_description_and_lists_the_choices() -> None:
    planned = plan(ask('Deploy version "1.2" of service "web"'))
    (question,) = planned.drafted.questions

    assert question.key == "input.environment"
    assert question.choices == ("staging", "production")
    assert "Where it runs." in question.text


def test_an_answer_that_does_not_fit_is_asked_for_again_with_the_reason() -> None:
    (question,) = plan(ask("Close the ticket", {"input.id": "0"})).drafted.questions

    assert question.key == "input.id"
    assert "minimum" in question.text


def test_a_stated_value_that_does_not_fit_is_asked_for() -> None:
    planned = plan(ask('Cancel the meeting, event id: "tomorrow"'))
    assert planned.asks == ("input.event_id",)

    answered = plan(ask('Cancel the meeting, event id: "tomorrow"', {"input.event_id": "ev-7"}))
    assert answered.drafted.arguments == {"event_id": "ev-7"}


def test_a_value_that_is_stated_twice_is_asked_for() -> None:
    (question,) = plan(ask("Close the ticket, id: 4, id: 5")).drafted.questions

    assert "twice" in question.text


# Data flow ------------------------------------------------------------------------------------------------------------


def test_the_id_that_one_step_returns_is_the_input_of_the_next() -> None:
    assert steps(CREATE_AND_ASSIGN)["assign"].input_mapping["id"] == "${steps.create.id}"


def test_an_id_flows_to_an_input_that_is_called_after_the_thing() -> None:
    made = steps('Open a ticket titled "x" and add the comment "y" to it')

    assert made["add_comment"].input_mapping["ticket_id"] == "${steps.create.id}"


def test_a_value_does_not_flow_where_the_schema_of_the_output_is_wider() -> None:
    anything = {"id": {"type": "integer"}, "title": text("Its title."), "status": {"type": "string"}}
    wider = structs.replace(BY_ID["tickets.create"], output_schema=shape(anything))
    tools = tuple(wider if each.id == wider.id else each for each in TOOLS)

    assert plan(ask(CREATE_AND_ASSIGN, tools=tools)).asks == ("input.id",)


def test_an_output_that_may_be_absent_does_not_flow() -> None:
    given = BY_ID["tickets.create"].output_schema or {}
    partial = structs.replace(BY_ID["tickets.create"], output_schema={**given, "required": ["title"]})
    tools = tuple(partial if each.id == partial.id else each for each in TOOLS)

    assert plan(ask(CREATE_AND_ASSIGN, tools=tools)).asks == ("input.id",)


def test_a_list_feeds_a_step_once_for_each_item() -> None:
    close = steps('Find tickets about "printer" and close them')["close"]

    assert close.for_each
    assert (close.for_each.items, close.for_each.max_items) == ("${steps.search.tickets}", 50)
    assert close.for_each.batch_size is UNSET
    assert close.input_mapping == {"id": "${item.id}"}


def test_more_than_a_hundred_items_come_in_batches() -> None:
    mail = steps('Find the members of team "ops" and send each of them an email with subject "a" and body "b"')["send"]

    assert mail.for_each
    assert (mail.for_each.max_items, mail.for_each.batch_size) == (500, 100)
    assert mail.input_mapping["to"] == "${item.email}"


def test_one_thing_of_a_list_is_asked_for() -> None:
    """Which of the tickets that were found is meant, only the person knows."""
    assert plan(ask('Find tickets about "printer" and close the ticket')).asks == ("input.id",)


def test_a_tool_that_finds_what_is_needed_is_added() -> None:
    planned = plan(ask("Disable the account of ada@example.com"))

    assert planned.classified.tools == ("users.disable",)
    assert planned.called == ["users.find", "users.disable"]
    assert planned.blueprint.dag.steps[1].input_mapping == {"user_id": "${steps.find.id}"}


def test_a_tool_that_changes_something_is_never_added() -> None:
    writing = structs.replace(BY_ID["users.find"], hints={"readOnlyHint": False})
    tools = tuple(writing if each.id == writing.id else each for each in TOOLS)

    assert plan(ask("Disable the account of ada@example.com", tools=tools)).asks == ("input.user_id",)


# Order and safety -----------------------------------------------------------------------------------------------------


def test_neighbours_that_only_read_run_together() -> None:
    made = steps("List the meetings on 2026-05-04 and check the stock of sku: SKU-1")

    assert [step.is_parallel for step in made.values()] == [True, True]


def test_a_step_that_reads_what_another_returns_waits_for_it() -> None:
    made = steps("Upload https://example.com/a.pdf and summarize it")

    assert [step.is_parallel for step in made.values()] == [False, False]


@pytest.mark.parametrize(
    ("intent", "step", "undo", "mapping"),
    [
        (CREATE_AND_ASSIGN, "create", "tickets.close", {"id": "${result.id}"}),
        (
            "Reserve items, sku: SKU-1, quantity: 2, then close ticket 5",
            "reserve",
            "inventory.release",
            {"reservation_id": "${result.reservation_id}"},
        ),
        (
            "Grant the admin role to user u-1, then close ticket 5",
            "grant",
            "access.revoke",
            {"grant_id": "${result.grant_id}"},
        ),
        ("Disable user u-1, then close ticket 5", "disable", "users.enable", {"user_id": "${result.id}"}),
        (
            'Add the comment "x" to ticket 5, then close ticket 5',
            "add_comment",
            "tickets.remove_comment",
            {"comment_id": "${result.comment_id}"},
        ),
    ],
)
def test_a_step_is_taken_back_by_the_tool_that_clearly_does(
    intent: str, step: str, undo: str, mapping: dict[str, Any]
) -> None:
    found = steps(intent)[step].compensation

    assert found
    assert (found.capability, found.input_mapping) == (undo, mapping)


def test_a_step_that_no_tool_takes_back_has_no_compensation() -> None:
    made = steps("Send an email to a@b.example, subject: x, body: y; then close ticket 5")

    assert made["send"].compensation is UNSET


def test_the_last_step_needs_no_compensation() -> None:
    assert steps('Open a ticket titled "x"')["create"].compensation is UNSET


def test_the_draft_is_classified_like_its_highest_step() -> None:
    blueprint = plan(ask("Grant the admin role to user u-1")).blueprint

    assert blueprint.security_logic.data_classification == "RESTRICTED"
    assert [requirement.step for requirement in blueprint.hitl_requirements] == ["grant"]


def test_a_tool_that_needs_an_approval_keeps_it() -> None:
    blueprint = plan(ask("Disable user u-1")).blueprint

    assert [requirement.step for requirement in blueprint.hitl_requirements] == ["disable"]


# Metadata and examples ------------------------------------------------------------------------------------------------


def test_the_metadata_name_the_plan_without_repeating_the_request() -> None:
    metadata = plan(ask('Open a ticket titled "Ada Lovelace is ill"')).blueprint.blueprint_metadata

    assert metadata.id.startswith("plans.open_ticket_")
    assert metadata.version == "1.0.0"
    assert metadata.description == "Open ticket (`tickets.create`)."
    assert metadata.cost_center == "CC-42"
    assert metadata.tags == ("tickets",)


def test_the_id_depends_on_the_steps_and_on_who_pays_for_them() -> None:
    first = plan(ask('Open a ticket titled "A"')).blueprint
    second = plan(ask('Open a ticket titled "B"', context=structs.replace(CONTEXT, initiator_id="x"))).blueprint
    charged = plan(ask('Open a ticket titled "A"', context=structs.replace(CONTEXT, cost_center="CC-1"))).blueprint

    assert first.id == second.id
    assert first.id != charged.id
    assert first.id != plan(ask('Open a ticket titled "A", priority: high')).blueprint.id


def example_of(blueprint: Blueprint) -> Any:
    (test,) = blueprint.acceptance_tests
    return test


def test_the_acceptance_test_has_all_results_and_the_output() -> None:
    blueprint = plan(ask('Find tickets about "printer" and close them')).blueprint
    test = example_of(blueprint)

    assert compile_schema(blueprint.dag.input_schema).is_valid(test.input)
    assert len(test.results["close"]) == len(test.results["search"]["tickets"]) == 1
    assert test.output == {"results": test.results["close"], "count": 1}


def test_what_was_read_for_the_person_is_returned() -> None:
    blueprint = plan(ask("Show ticket 3 and show invoice INV-3")).blueprint

    assert blueprint.dag.output_mapping.keys() == {"get", "get_invoice"}


def test_a_tool_without_an_output_schema_can_be_planned() -> None:
    ping = tool("network.ping", "Ping a host.", {"host": text("The host.")}, None)
    planned = plan(ask('Ping the host "a"', tools=(ping,)))

    assert planned.blueprint.dag.output_mapping == "${steps.ping}"
    assert faults(planned.blueprint, (ping,)) == []


def test_a_draft_has_no_warning_that_the_planner_could_have_avoided() -> None:
    for intent in (CREATE_AND_ASSIGN, 'Find tickets about "x" and close them', "Show ticket 12 and close it"):
        assert check_blueprint(plan(ask(intent)).blueprint, BY_ID) == []
