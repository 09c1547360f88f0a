"""Requests, and what a careful person would make of them.

The cases of `HELD_OUT` were written before the planner first ran, and nothing was tuned by them: they say how it does
with phrasings that its author did not have in mind while working on it.
A case that led to a change has been moved to `TUNED`.
"""

from typing import Literal

from msgspec import Struct

Kind = Literal["BLUEPRINT", "CAPABILITY", "BOTH"]


class Case(Struct, frozen=True):
    """A request, the kind and tools that it takes, and the questions that it leaves open."""

    intent: str
    kind: Kind | None
    tools: tuple[str, ...] = ()
    asks: tuple[str, ...] = ()
    """The keys of all questions, those of the classifier or those of the Builder."""
    missing: int = 0


TUNED: tuple[Case, ...] = (
    Case('Open a ticket titled "Login fails"', "BLUEPRINT", ("tickets.create",)),
    Case(
        'Create a ticket "Printer on fire" with high priority and assign it to team "devices"',
        "BLUEPRINT",
        ("tickets.create", "tickets.assign"),
    ),
    Case("Close ticket #12", "BLUEPRINT", ("tickets.close",)),
    Case("Close the ticket", "BLUEPRINT", ("tickets.close",), ("input.id",)),
    Case("Show ticket 12 and close it", "BLUEPRINT", ("tickets.get", "tickets.close")),
    Case('Find tickets about "printer" and close them', "BLUEPRINT", ("tickets.search", "tickets.close")),
    Case("Look up the user ada@example.com", "BLUEPRINT", ("users.find",)),
    Case("Look up the user ada@example.com and disable the account", "BLUEPRINT", ("users.find", "users.disable")),
    Case("Send an email to bob@example.com", "BLUEPRINT", ("mail.send",), ("input.subject", "input.body")),
    Case('Send an email to bob@example.com with subject "Hi" and body "All is well"', "BLUEPRINT", ("mail.send",)),
    Case('Post "We are live" in the channel "general"', "BLUEPRINT", ("chat.post",)),
    Case('Schedule a meeting titled "Review" on 2026-05-04', "BLUEPRINT", ("calendar.create_event",)),
    Case("Cancel the meeting ev-12", "BLUEPRINT", ("calendar.cancel_event",)),
    Case("Create an invoice for customer c-77, amount: 120.50", "BLUEPRINT", ("billing.create_invoice",)),
    Case("Refund invoice INV-9", "BLUEPRINT", ("billing.refund",)),
    Case("Reserve items; sku: SKU-9, quantity: 3", "BLUEPRINT", ("inventory.reserve",)),
    Case(
        "Deploy version 1.4.2 of service checkout to staging", "BLUEPRINT", ("deployments.deploy",), ("input.service",)
    ),
    Case("service=checkout version=1.4.2; deploy to production", "BLUEPRINT", ("deployments.deploy",)),
    Case("Restart the coffee machine", "CAPABILITY", missing=1),
    Case("Translate the contract into French", "CAPABILITY", missing=1),
    Case("Delete ticket 12", "CAPABILITY", missing=1),
    Case('Open a ticket titled "Legal" and translate the contract', "BOTH", ("tickets.create",), missing=1),
    Case("", None, asks=("request",)),
    Case("asdf qwer", None, asks=("request",)),
    Case("If the printer is broken, open a ticket", None, asks=("request",)),
    Case('Open a ticket titled "X" but do not send an email', "BLUEPRINT", ("tickets.create",)),
    Case(
        "Summarize document doc-4 and share it with eve@example.com",
        "BLUEPRINT",
        ("documents.summarize", "documents.share"),
    ),
    Case('log a ticket named "Screen flickers", priority low', "BLUEPRINT", ("tickets.create",)),
    Case("I would like you to open two tickets", "BLUEPRINT", ("tickets.create",), ("input.title",)),
    Case("Please resolve ticket number 19", "BLUEPRINT", ("tickets.close",)),
    Case("ticket 19 should be closed", "BLUEPRINT", ("tickets.close",)),
    Case("read ticket no. 7 for me", "BLUEPRINT", ("tickets.get",)),
    Case('look for tickets containing the words "mouse"', "BLUEPRINT", ("tickets.search",)),
    Case('hand ticket 3 over to the team "network"', "BLUEPRINT", ("tickets.assign",)),
    Case('comment on ticket 8 with body "Fixed"', "BLUEPRINT", ("tickets.add_comment",)),
    Case("remove comment 55", "BLUEPRINT", ("tickets.remove_comment",)),
    Case("deactivate user u-9", "BLUEPRINT", ("users.disable",)),
    Case("Disable the account of ada@example.com", "BLUEPRINT", ("users.disable",)),
    Case("make u-9 an admin", "CAPABILITY", missing=1),
    Case("grant the admin role to user u-9", "BLUEPRINT", ("access.grant",)),
    Case("Revoke grant g-1", "BLUEPRINT", ("access.revoke",)),
    Case("Tell bob@example.com that the server is up", "BLUEPRINT", ("mail.send",), ("input.subject", "input.body")),
    Case('announce "maintenance tonight" in channel "ops"', "BLUEPRINT", ("chat.post",)),
    Case("Which meetings are there on 2026-05-04?", "BLUEPRINT", ("calendar.list_events",)),
    Case("Bill customer c-3, amount=12", "BLUEPRINT", ("billing.create_invoice",)),
    Case("reimburse invoice INV-7 because of a mistake", "BLUEPRINT", ("billing.refund",)),
    Case("How many items of sku: SKU-5 are in stock", "BLUEPRINT", ("inventory.check_stock",)),
    Case("hold 4 items; sku=SKU-5; quantity=4", "BLUEPRINT", ("inventory.reserve",)),
    Case("free the reservation r-12", "BLUEPRINT", ("inventory.release",)),
    Case('ship version "3.1" of service "web" to production', "BLUEPRINT", ("deployments.deploy",)),
    Case("revert deployment d-4", "BLUEPRINT", ("deployments.rollback",)),
    Case('how is service "web" doing?', "BLUEPRINT", ("deployments.status",)),
    Case("give me a summary of document doc-2", "BLUEPRINT", ("documents.summarize",)),
    Case("send document doc-2 to eve@example.com", None, asks=("choice.1",)),
    Case("erase document doc-2 permanently", "BLUEPRINT", ("documents.delete",)),
    Case(
        'Create a ticket titled "A" and schedule a meeting titled "B" on 2026-07-01',
        "BLUEPRINT",
        ("tickets.create", "calendar.create_event"),
    ),
    Case(
        "Create a ticket and an invoice",
        "BLUEPRINT",
        ("tickets.create", "billing.create_invoice"),
        ("input.title", "input.customer_id", "input.amount"),
    ),
    Case(
        "Reserve items (sku: SKU-1, quantity: 2), create an invoice for customer c-1 with amount: 10"
        ' and email bob@example.com with subject "Hi" and body "Done"',
        "BLUEPRINT",
        ("inventory.reserve", "billing.create_invoice", "mail.send"),
    ),
    Case(
        'Find the members of team "ops" and send each of them an email with subject "Hi" and body "Yo"',
        "BLUEPRINT",
        ("users.list", "mail.send"),
    ),
    Case('Close all tickets about "printer"', "BLUEPRINT", ("tickets.close",)),
    Case(
        'Find all tickets about "printer" and hand them to team "devices"',
        "BLUEPRINT",
        ("tickets.search", "tickets.assign"),
    ),
    Case('Open a ticket titled "Close ticket 5; then delete everything"', "BLUEPRINT", ("tickets.create",)),
    Case("paint the fence", "CAPABILITY", missing=1),
    Case("Merge ticket 4 and ticket 5", "CAPABILITY", missing=1),
    Case("Renew the certificate of service web", "CAPABILITY", missing=1),
    Case("Send a fax", "CAPABILITY", missing=1),
    Case("Escalate ticket 5 to the board", "CAPABILITY", missing=1),
    Case("Thanks!", None, asks=("request",)),
    Case("What is the status of ticket 41?", "BLUEPRINT", ("tickets.get",)),
    Case(
        "Create an account, grant a role and schedule a meeting for a new colleague, "
        "name: Ann Lee, email: ann@example.com, date: 2026-05-04",
        "BLUEPRINT",
        ("people.onboard",),
    ),
)

HELD_OUT: tuple[Case, ...] = (
    Case('Please file an issue called "VPN drops every hour"', "BLUEPRINT", ("tickets.create",)),
    Case('Could you raise a support ticket about "broken keyboard"?', "BLUEPRINT", ("tickets.create",)),
    Case("I need ticket 88 resolved", "BLUEPRINT", ("tickets.close",)),
    Case(
        'Search for tickets with text: "monitor", then assign them to team: devices',
        "BLUEPRINT",
        ("tickets.search", "tickets.assign"),
    ),
    Case('Add a comment to ticket 5: "Ordered a new one"', "BLUEPRINT", ("tickets.add_comment",)),
    Case('Register a new employee, name: "Grace Hopper", email grace@example.com', "BLUEPRINT", ("users.create",)),
    Case('Who are the members of team "ops"?', "BLUEPRINT", ("users.list",)),
    Case("Lock the account of user u-77", "BLUEPRINT", ("users.disable",)),
    Case("Give user u-5 the role editor", "BLUEPRINT", ("access.grant",)),
    Case('Email carol@example.com, subject: "Lunch", body: "At noon?"', "BLUEPRINT", ("mail.send",)),
    Case("Call off the meeting ev-3", "BLUEPRINT", ("calendar.cancel_event",)),
    Case(
        'Arrange an appointment "Budget" for 2026-06-01 with dan@example.com', "BLUEPRINT", ("calendar.create_event",)
    ),
    Case(
        "List meetings on 2026-05-04 and check stock of sku: SKU-1",
        "BLUEPRINT",
        ("calendar.list_events", "inventory.check_stock"),
    ),
    Case(
        "Void the invoice INV-100 and then notify the customer",
        "BLUEPRINT",
        ("billing.void_invoice", "mail.send"),
        ("choice.2",),
    ),
    Case("Show invoice INV-3", "BLUEPRINT", ("billing.get_invoice",)),
    Case("Is SKU-77 in stock?", "BLUEPRINT", ("inventory.check_stock",)),
    Case("Buy 20 parts, sku: SKU-4", "BLUEPRINT", ("inventory.order_parts",), ("input.quantity",)),
    Case("Roll out version 2.0 of service: checkout in production", "BLUEPRINT", ("deployments.deploy",)),
    Case('Is the service "billing-api" healthy?', "BLUEPRINT", ("deployments.status",)),
    Case('Reboot the service "search"', "BLUEPRINT", ("deployments.restart",)),
    Case("Upload https://example.com/a.pdf and summarize it", "BLUEPRINT", ("documents.upload", "documents.summarize")),
    Case("Get rid of document doc-9", "BLUEPRINT", ("documents.delete",)),
    Case("Order a pizza for the team", "CAPABILITY", missing=1),
    Case("Archive all chat channels", "CAPABILITY", missing=1),
    Case("Print the invoice INV-3", "CAPABILITY", missing=1),
    Case('Back up the database and restart the service "db"', "BOTH", ("deployments.restart",), missing=1),
    Case(
        "Reserve 3 items of sku: SKU-2, quantity: 3, and book a flight to Paris",
        "BOTH",
        ("inventory.reserve",),
        missing=1,
    ),
    Case("hello", None, asks=("request",)),
    Case(
        'Close ticket 4 after adding the comment "Done" to it',
        "BLUEPRINT",
        ("tickets.add_comment", "tickets.close"),
        ("input.ticket_id",),
    ),
    Case(
        'Before you close ticket 9, send an email to zoe@example.com, subject: Bye, body: "We are done"',
        "BLUEPRINT",
        ("mail.send", "tickets.close"),
    ),
    Case("Every Monday post the stock in the channel general", None, asks=("request",)),
    Case("Never delete document doc-1", None, asks=("request",)),
)
