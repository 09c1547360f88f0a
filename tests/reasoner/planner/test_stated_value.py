from typing import Any

import pytest

from agent_resolver.reasoner.planner.input_field import fields_of
from agent_resolver.reasoner.planner.masked_text import mask_text
from agent_resolver.reasoner.planner.stated_value import read_named, read_stated
from tests.reasoner.planner.manifest import BY_ID


def stated(tool: str, text: str, thing: str = "ticket", verb: str = "") -> dict[str, Any]:
    found = read_stated(mask_text(text), fields_of(BY_ID[tool].input_schema), [thing], verb)
    return {name: words[0] if len(words) == 1 else words for name, words in found.values.items()}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("create a ticket, title: Login fails, priority: high", {"title": "Login fails", "priority": "high"}),
        ('create a ticket with title="Login, and more"', {"title": "Login, and more"}),
        ('create a ticket title "Login fails"', {"title": "Login fails"}),
        ('create a ticket titled "Login fails"', {"title": "Login fails"}),
        ('create a ticket called "Login fails"', {"title": "Login fails"}),
        ('create a ticket about "Login fails"', {"title": "Login fails"}),
        ('create a ticket "Login fails"', {"title": "Login fails"}),
        ("create a ticket “Login fails”", {"title": "Login fails"}),
        ('create a high priority ticket "Login fails"', {"title": "Login fails", "priority": "high"}),
    ],
)
def test_what_is_named_quoted_or_one_of_a_few_texts_is_read(text: str, expected: dict[str, Any]) -> None:
    assert stated("tickets.create", text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "create a ticket Login fails",
        "create a ticket about the printer",
        'create tickets "one" and "two"',
        "create a ticket with low or high priority",
        "create a ticket for ada@example.com",
    ],
)
def test_what_is_less_certain_is_not_read(text: str) -> None:
    assert stated("tickets.create", text) == {}


@pytest.mark.parametrize(
    "text", ["close ticket 12", "close ticket #12", "close #12", "close ticket number 12", "id: 12"]
)
def test_an_identifier_is_read_after_the_name_of_its_thing(text: str) -> None:
    assert stated("tickets.close", text) == {"id": "12"}


@pytest.mark.parametrize("text", ["close the ticket of order 12", "close 12 tickets", "close the ticket in 5 minutes"])
def test_a_number_of_something_else_is_not_an_identifier(text: str) -> None:
    assert stated("tickets.close", text) == {}


def test_a_value_that_is_stated_twice_keeps_both() -> None:
    assert stated("tickets.close", "id: 12, id: 13") == {"id": ("12", "13")}


def test_addresses_and_days_are_read_by_their_format() -> None:
    text = "schedule a meeting on 2026-05-04 with dan@example.com"

    assert stated("calendar.create_event", text, "event") == {"date": "2026-05-04", "attendee": "dan@example.com"}


def test_two_addresses_for_one_field_are_not_a_choice_for_us() -> None:
    assert "to" not in stated("mail.send", "send a mail, ada@example.com or bob@example.com", "mail")


def test_a_text_that_two_fields_have_is_left_open() -> None:
    fields = fields_of(
        {
            "properties": {"before": {"enum": ["open", "closed"]}, "after": {"enum": ["open", "closed"]}},
            "required": ["before", "after"],
        }
    )

    assert read_stated(mask_text("move it to closed"), fields, [], "mov").values == {}


def test_the_verb_is_not_one_of_the_texts_of_a_field() -> None:
    fields = fields_of({"properties": {"status": {"enum": ["open", "closed"]}}})

    assert read_stated(mask_text("open a ticket"), fields, ["ticket"], "open").values == {}


def test_a_list_of_addresses_takes_all_of_them() -> None:
    fields = fields_of({"properties": {"to": {"type": "array", "items": {"type": "string", "format": "email"}}}})
    found = read_stated(mask_text("mail ada@example.com and bob@example.com"), fields, [], "mail")

    assert found.values == {"to": ("ada@example.com, bob@example.com",)}


def test_a_number_before_the_name_of_a_field_is_read() -> None:
    fields = fields_of({"properties": {"duration_minutes": {"type": "integer"}}})

    assert read_stated(mask_text("wait for 30 minutes"), fields, [], "wait").values == {"duration_minutes": ("30",)}


def test_details_are_read_by_name_alone() -> None:
    fields = fields_of(BY_ID["tickets.create"].input_schema)

    assert read_named(mask_text('priority: high, "Login"'), fields, []).values == {"priority": ("high",)}


@pytest.mark.parametrize(
    ("tool", "text", "expected"),
    [
        ("inventory.check_stock", "how many items of sku: SKU-5 are in stock", {"sku": "SKU-5"}),
        ("inventory.order_parts", "sku: SKU-1, quantity: 25 from the supplier", {"sku": "SKU-1", "quantity": "25"}),
        (
            "deployments.deploy",
            "version: 2.0 of service: checkout in production",
            {"version": "2.0", "service": "checkout", "environment": "production"},
        ),
        ("tickets.create", "title: 3 printers are broken", {"title": "3 printers are broken"}),
        ("tickets.assign", "team: quality of service", {"team": "quality of service"}),
        ("users.list", "team: 5 musketeers", {"team": "5 musketeers"}),
    ],
)
def test_an_unquoted_value_ends_where_something_else_clearly_begins(
    tool: str, text: str, expected: dict[str, Any]
) -> None:
    assert stated(tool, text) == expected


@pytest.mark.parametrize(
    ("tool", "text", "expected"),
    [
        ("deployments.restart", "restart service checkout", {"service": "checkout"}),
        (
            "deployments.restart",
            "restart service checkout in staging",
            {"service": "checkout", "environment": "staging"},
        ),
        ("deployments.restart", "restart the service somehow", {}),
        ("deployments.restart", "restart service in staging", {"environment": "staging"}),
        ("deployments.restart", "restart service gracefully", {}),
        ("deployments.restart", "restart service desk app", {}),
        ("deployments.status", "is service healthy?", {}),
        ("users.list", "show team members", {}),
        ("tickets.create", "open a ticket with title printer", {}),
    ],
)
def test_one_word_after_the_name_of_a_field_is_its_value(tool: str, text: str, expected: dict[str, Any]) -> None:
    assert stated(tool, text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("set aside 6 units of SKU-12", {"sku": "SKU-12", "quantity": "6"}),
        ("reserve 3 of SKU-9", {"sku": "SKU-9", "quantity": "3"}),
        ("reserve 3 items, or 4 items, of SKU-9", {"sku": "SKU-9"}),
        ("reserve XYZ-9", {}),
    ],
)
def test_counts_and_identifiers_are_known_by_their_form(text: str, expected: dict[str, Any]) -> None:
    assert stated("inventory.reserve", text) == expected


def test_an_identifier_is_known_by_the_examples_of_a_field() -> None:
    assert stated("users.disable", "deactivate u-9") == {"user_id": "u-9"}
