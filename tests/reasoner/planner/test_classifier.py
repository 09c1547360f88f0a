import time

import pytest
from msgspec import structs

from tests.reasoner.planner.manifest import BY_ID, TOOLS, ask, text, tool
from tests.reasoner.planner.stage import build, plan

TWINS = (
    tool("red.create_note", "Create a note.", {"text": text("The note.")}, {}),
    tool("blue.create_note", "Create a note.", {"text": text("The note.")}, {}),
)


def test_two_tools_that_fit_alike_are_a_question() -> None:
    (question,) = plan(ask('Create a note "x"', tools=TWINS)).classified.questions

    assert question.key == "choice.1"
    assert question.choices == ("blue.create_note", "red.create_note")


def test_the_answer_to_a_choice_decides() -> None:
    planned = plan(ask('Create a note "x"', {"choice.1": "red.create_note"}, tools=TWINS))

    assert planned.called == ["red.create_note"]


@pytest.mark.parametrize("answer", ["the red one", "", "none", "tickets.create"])
def test_an_answer_that_is_not_a_choice_is_asked_for_again(answer: str) -> None:
    assert plan(ask('Create a note "x"', {"choice.1": answer}, tools=TWINS)).asks == ("choice.1",)


def test_a_doubtful_tool_can_be_turned_down() -> None:
    intent = "send document doc-2 to eve@example.com"
    (question,) = plan(ask(intent)).classified.questions
    assert question.choices == ("documents.share", "none")

    refused = plan(ask(intent, {"choice.1": "none"})).classified
    assert (refused.kind, refused.tools) == ("CAPABILITY", ())
    assert plan(ask(intent, {"choice.1": "documents.share"})).called == ["documents.share"]


def test_one_tool_that_does_it_all_is_preferred() -> None:
    intent = "Create an account, grant a role and schedule a meeting for a new colleague"

    assert plan(ask(intent)).classified.tools == ("people.onboard",)


def test_a_tool_that_does_more_is_not_taken_for_one_thing() -> None:
    assert plan(ask("Create an account, name: Ann, email: a@b.example")).classified.tools == ("users.create",)


def test_a_verb_excludes_tools_that_do_something_else() -> None:
    tools = tuple(each for each in TOOLS if each.id != "tickets.close")

    assert plan(ask("Close ticket 12", tools=tools)).classified.kind == "CAPABILITY"


def test_the_builder_works_without_the_classifier() -> None:
    drafted = build(ask('Open a ticket titled "x"'))

    assert drafted.blueprint
    assert [step.capability for step in drafted.blueprint.dag.steps] == ["tickets.create"]


def test_the_builder_follows_another_classifier() -> None:
    """A tool that no clause asks for, in our reading, still finds the values that the request states."""
    drafted = build(ask('Something broke: "Login fails"', chosen=("tickets.create",)))

    assert drafted.arguments == {"title": "Login fails"}


def test_a_request_without_a_tool_that_is_chosen_is_not_planned() -> None:
    drafted = build(ask("Translate the contract", chosen=("admin.shell",), missing=("Translate the contract",)))

    assert drafted.blueprint is None
    assert [draft.id for draft in drafted.capabilities] == ["contract.translate_contract"]


def test_the_first_of_two_tools_with_one_id_counts() -> None:
    twin = structs.replace(BY_ID["tickets.close"], description="Open a ticket.")

    assert plan(ask("Close ticket 12", tools=(*TOOLS, twin))).classified.tools == ("tickets.close",)


def test_a_hundred_tools_take_no_time_to_speak_of() -> None:
    copies = [structs.replace(each, id=f"copy{number}.{each.id}") for number in range(2) for each in TOOLS]
    request = ask('Open a ticket titled "x" and close it', tools=(*TOOLS, *copies)[:100])
    plan(request)

    # The time of this process alone: other tests run beside it.
    start = time.process_time()
    plan(request)
    assert time.process_time() - start < 0.2


@pytest.mark.parametrize(
    ("request_text", "tool"),
    [
        ("Is there any SKU-31 left in the warehouse?", "inventory.check_stock"),
        ("How many SKU-88 do we still have?", "inventory.check_stock"),
        ("Who is rob@example.com?", "users.find"),
        ("What's going on with ticket 315?", "tickets.get"),
        ("Show INV-5", "billing.get_invoice"),
    ],
)
def test_a_question_that_names_only_values_asks_for_the_tool_that_reads_them(request_text: str, tool: str) -> None:
    assert plan(ask(request_text)).called == [tool]


@pytest.mark.parametrize("request_text", ["What is the salary of rob@example.com?", "How many are there?"])
def test_a_question_about_something_that_no_tool_knows_is_not_guessed(request_text: str) -> None:
    assert plan(ask(request_text)).classified.tools == ()


@pytest.mark.parametrize(
    ("request_text", "tool"),
    [
        ("Roll service 'pay' version '5.2' out to staging", "deployments.deploy"),
        ("Pass document doc-7 on to ray@example.com", "documents.share"),
        ("Take grant g-12 away again", "access.revoke"),
        ("Set aside 6 units of SKU-12", "inventory.reserve"),
        ("Ticket 61 is done, you can close it", "tickets.close"),
    ],
)
def test_verbs_of_several_words_and_statements_are_understood(request_text: str, tool: str) -> None:
    assert plan(ask(request_text)).called == [tool]


def test_a_pronoun_means_the_thing_that_the_tool_acts_on() -> None:
    planned = plan(ask('Add the comment "Done" to ticket 93 and close it'))

    assert planned.called == ["tickets.add_comment", "tickets.close"]
    assert planned.drafted.arguments == {"ticket_id": 93, "body": "Done"}


def test_a_step_takes_the_identifier_that_a_later_one_states() -> None:
    planned = plan(ask('Close ticket 4 after adding the comment "Done" to it'))

    assert planned.called == ["tickets.add_comment", "tickets.close"]
    assert planned.drafted.arguments == {"body": "Done", "id": 4}
