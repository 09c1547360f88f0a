from typing import Any

import pytest
from msgspec import UNSET, structs

from agent_resolver.schema import Blueprint
from agent_resolver.schema.planning import Drafted, RemedyRequest
from tests.reasoner.planner.manifest import CONTEXT, TOOLS, ask
from tests.reasoner.planner.stage import build, faults, plan

INTENT = 'Show invoice INV-3, then create a ticket "x" and assign it to team "devices"'
MANY = 'Find the members of team "ops" and send each of them an email with subject "a" and body "b"'


def mend(intent: str, draft: Blueprint, *remedies: tuple[str, str], **more: Any) -> Drafted:
    asked = tuple(
        RemedyRequest(id=f"R{number}", rule="OPS", action=action, step=step)
        for number, (action, step) in enumerate(remedies, start=1)
    )
    chosen = plan(ask(intent)).classified.tools
    return build(ask(intent, draft=draft, remedies=asked, chosen=chosen, **more))


def mended(intent: str, draft: Blueprint, *remedies: tuple[str, str], **more: Any) -> Blueprint:
    found = mend(intent, draft, *remedies, **more)
    assert found.applied == tuple(f"R{number}" for number in range(1, len(remedies) + 1))
    assert found.blueprint
    assert faults(found.blueprint, TOOLS) == []
    return found.blueprint


def without_undo(blueprint: Blueprint) -> Blueprint:
    steps = tuple(structs.replace(step, compensation=UNSET) for step in blueprint.dag.steps)
    return structs.replace(blueprint, dag=structs.replace(blueprint.dag, steps=steps))


def test_a_compensation_is_added_where_a_tool_takes_the_step_back() -> None:
    whole = plan(ask(INTENT)).blueprint

    assert mended(INTENT, without_undo(whole), ("add-compensation", "create")) == whole


def test_a_compensation_that_there_is_no_tool_for_is_not_applied() -> None:
    draft = plan(ask(MANY)).blueprint
    found = mend(MANY, draft, ("add-compensation", "send"))

    assert found.applied == ()
    assert found.blueprint == draft


def test_a_step_is_left_out_with_what_depends_on_it() -> None:
    draft = plan(ask(INTENT)).blueprint
    changed = mend(INTENT, draft, ("leave-out", "create"))

    assert changed.applied == ("R1",)
    assert changed.blueprint
    assert [step.id for step in changed.blueprint.dag.steps] == ["get_invoice"]
    assert changed.arguments == {"invoice_id": "INV-3"}
    assert changed.blueprint.dag.input_schema["required"] == ["invoice_id"]
    assert changed.blueprint.id != draft.id
    assert faults(changed.blueprint, TOOLS) == []


def test_a_step_that_another_one_needs_besides_others_is_kept() -> None:
    draft = plan(ask(INTENT)).blueprint
    first, second, third = draft.dag.steps
    needy = structs.replace(third, input_mapping={"id": "${steps.create.id}", "team": "${steps.get_invoice.email}"})
    tangled = structs.replace(draft, dag=structs.replace(draft.dag, steps=(first, second, needy)))

    assert mend(INTENT, tangled, ("leave-out", "create")).applied == ()


def test_the_last_step_of_a_plan_cannot_be_left_out() -> None:
    draft = plan(ask("Close ticket 12")).blueprint

    assert mend("Close ticket 12", draft, ("leave-out", "close")).applied == ()


def test_items_come_in_batches() -> None:
    draft = plan(ask(MANY)).blueprint
    first, last = draft.dag.steps
    assert last.for_each
    unbatched = structs.replace(last, for_each=structs.replace(last.for_each, batch_size=UNSET, max_items=100))
    changed = mended(
        MANY, structs.replace(draft, dag=structs.replace(draft.dag, steps=(first, unbatched))), ("batch", "send")
    )

    assert changed.dag.steps[1].for_each
    assert changed.dag.steps[1].for_each.batch_size == 100


def test_a_classification_is_raised_and_never_lowered() -> None:
    draft = plan(ask(INTENT)).blueprint
    lowered = structs.replace(draft, security_logic=structs.replace(draft.security_logic, data_classification="PUBLIC"))
    assert mended(INTENT, lowered, ("raise-classification", "")) == draft

    raised = structs.replace(
        draft, security_logic=structs.replace(draft.security_logic, data_classification="RESTRICTED")
    )
    assert mended(INTENT, raised, ("raise-classification", "")) == raised
    assert mended(INTENT, raised, ("leave-out", "get_invoice")).security_logic.data_classification == "RESTRICTED"


def test_the_cost_center_comes_from_the_context() -> None:
    draft = plan(ask(INTENT)).blueprint
    free = structs.replace(draft, blueprint_metadata=structs.replace(draft.blueprint_metadata, cost_center=""))

    assert mended(INTENT, free, ("add-cost-center", "")) == draft
    assert mend(INTENT, free, ("add-cost-center", ""), context=structs.replace(CONTEXT, cost_center="")).applied == ()


def test_an_acceptance_test_is_added() -> None:
    draft = plan(ask(INTENT)).blueprint

    assert mended(INTENT, structs.replace(draft, acceptance_tests=()), ("add-test", "")) == draft


@pytest.mark.parametrize("remedy", [("sing", ""), ("leave-out", "nowhere"), ("batch", "create"), ("", "")])
def test_a_remedy_that_cannot_be_applied_is_left_out(remedy: tuple[str, str]) -> None:
    draft = plan(ask(INTENT)).blueprint
    found = mend(INTENT, draft, remedy)

    assert (found.applied, found.blueprint) == ((), draft)
    assert found.arguments == plan(ask(INTENT)).drafted.arguments


def test_a_step_that_is_left_out_is_left_out_of_the_description() -> None:
    draft = plan(ask(INTENT)).blueprint

    changed = mended(INTENT, draft, ("leave-out", "get_invoice"))

    assert "billing.get_invoice" in draft.blueprint_metadata.description
    assert "billing.get_invoice" not in changed.blueprint_metadata.description
    assert changed.blueprint_metadata.description[0].isupper()
