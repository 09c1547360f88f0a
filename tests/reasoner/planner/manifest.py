"""Thirty-six tools of ten domains, as a company could have them, and requests to plan with them."""

from typing import Any

from agent_resolver.schema import Descriptor, Labels, Rules
from agent_resolver.schema.golden_context import GoldenContext
from agent_resolver.schema.golden_path import Answer
from agent_resolver.schema.planning import PlanRequest

CONTEXT = GoldenContext(
    app_id="helpdesk", environment="dev", initiator_id="local:you", trace_id="0" * 32, cost_center="CC-42"
)

TICKET_ID = {"type": "integer", "minimum": 1, "description": "The number of the ticket.", "examples": [7]}
USER_ID = {"type": "string", "minLength": 1, "maxLength": 40, "description": "The id of the user.", "examples": ["u-1"]}
EMAIL = {"type": "string", "format": "email", "description": "The address.", "examples": ["ada@example.com"]}
EVENT_ID = {"type": "string", "pattern": "^ev-[0-9]+$", "description": "The event.", "examples": ["ev-1"]}
INVOICE_ID = {"type": "string", "description": "The number of the invoice.", "examples": ["INV-1"]}
SKU = {"type": "string", "description": "The article number.", "examples": ["SKU-9"]}
DOCUMENT_ID = {"type": "string", "description": "The document.", "examples": ["doc-1"]}
SERVICE = {"type": "string", "description": "The name of the service.", "examples": ["checkout"]}
ENVIRONMENT = {"type": "string", "enum": ["staging", "production"], "description": "Where it runs."}
TEXT = {"type": "string", "minLength": 1, "maxLength": 2000}


def text(description: str, **more: Any) -> dict[str, Any]:
    return {**TEXT, "description": description, **more}


def shape(members: dict[str, Any], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    required = [name for name in members if name not in optional]
    return {"type": "object", "properties": members, "required": required, "additionalProperties": False}


def tool(  # noqa: PLR0913 - the attributes of a tool
    id: str,  # noqa: A002
    description: str,
    takes: dict[str, Any],
    gives: dict[str, Any] | None,
    *,
    optional: tuple[str, ...] = (),
    reads: bool = False,
    idempotent: bool = False,
    kind: Any = "CAPABILITY",
    **rules: Any,
) -> Descriptor:
    return Descriptor(
        id=id,
        description=description,
        input_schema=shape(takes, optional),
        output_schema=None if gives is None else shape(gives),
        source=f"module {id.partition('.')[0]}",
        hints={"readOnlyHint": reads, "idempotentHint": idempotent or reads},
        rules=Rules(is_idempotent=idempotent or reads, **rules),
        labels=Labels(kind=kind, domain=id.partition(".")[0], tags=(id.partition(".")[0],)),
    )


TICKET = {"id": TICKET_ID, "title": text("Its title."), "status": {"type": "string", "enum": ["open", "closed"]}}
PRIORITY = {"type": "string", "enum": ["low", "medium", "high"], "description": "How urgent it is."}
USER = {"id": USER_ID, "name": text("The full name."), "email": EMAIL}
EVENT = {"id": EVENT_ID, "title": text("Its title.")}
DATE = {"type": "string", "format": "date", "description": "The day.", "examples": ["2026-05-04"]}

TOOLS: tuple[Descriptor, ...] = (
    # tickets
    tool(
        "tickets.create",
        "Open a support ticket.",
        {"title": text("What it is about.", maxLength=200), "priority": PRIORITY},
        TICKET,
        optional=("priority",),
    ),
    tool(
        "tickets.close", "Close a ticket; one that is closed stays closed.", {"id": TICKET_ID}, TICKET, idempotent=True
    ),
    tool("tickets.get", "Read one ticket.", {"id": TICKET_ID}, TICKET, reads=True),
    tool(
        "tickets.search",
        "Find tickets whose title has some words.",
        {"text": text("The words to look for."), "limit": {"type": "integer", "minimum": 1, "maximum": 50}},
        {"tickets": {"type": "array", "items": shape(TICKET), "maxItems": 50}},
        optional=("limit",),
        reads=True,
    ),
    tool(
        "tickets.assign",
        "Give a ticket to a team.",
        {"id": TICKET_ID, "team": text("The team that shall take it.", maxLength=40, examples=["devices"])},
        {"id": TICKET_ID, "team": text("The team.")},
        idempotent=True,
    ),
    tool(
        "tickets.add_comment",
        "Add a comment to a ticket.",
        {"ticket_id": TICKET_ID, "body": text("The words of the comment.")},
        {"comment_id": {"type": "integer"}},
    ),
    tool(
        "tickets.remove_comment",
        "Remove a comment from a ticket.",
        {"comment_id": {"type": "integer", "description": "The number of the comment."}},
        {},
        idempotent=True,
    ),
    # users
    tool(
        "users.find",
        "Look up a user by email address.",
        {"email": EMAIL},
        USER,
        reads=True,
        classification="CONFIDENTIAL",
    ),
    tool(
        "users.create",
        "Create an account for a new employee.",
        {"name": text("The full name.", maxLength=100), "email": EMAIL},
        USER,
    ),
    tool("users.disable", "Disable the account of a user.", {"user_id": USER_ID}, {"id": USER_ID}, needs_approval=True),
    tool("users.enable", "Enable the account of a user again.", {"user_id": USER_ID}, {"id": USER_ID}, idempotent=True),
    tool(
        "users.list",
        "List the members of a team.",
        {"team": text("The team.", maxLength=40)},
        {"users": {"type": "array", "items": shape(USER), "maxItems": 500}},
        reads=True,
    ),
    # access
    tool(
        "access.grant",
        "Grant a role to a user.",
        {
            "user_id": USER_ID,
            "role": {"type": "string", "enum": ["reader", "editor", "admin"], "description": "The role."},
        },
        {"grant_id": {"type": "string"}},
        classification="RESTRICTED",
    ),
    tool("access.revoke", "Revoke a role that was granted.", {"grant_id": {"type": "string"}}, {}, idempotent=True),
    # mail
    tool(
        "mail.send",
        "Send an email.",
        {"to": EMAIL, "subject": text("The subject line.", maxLength=200), "body": text("The text of the email.")},
        {"message_id": {"type": "string"}},
    ),
    tool(
        "chat.post",
        "Post a message in a chat channel.",
        {"channel": text("The channel.", maxLength=80), "message": text("The words to post.")},
        {"message_id": {"type": "string"}},
    ),
    # calendar
    tool(
        "calendar.create_event",
        "Schedule a meeting.",
        {"title": text("What the meeting is about.", maxLength=200), "date": DATE, "attendee": EMAIL},
        EVENT,
        optional=("attendee",),
    ),
    tool("calendar.cancel_event", "Cancel a meeting.", {"event_id": EVENT_ID}, {}, idempotent=True),
    tool(
        "calendar.list_events",
        "List the meetings of a day.",
        {"date": DATE},
        {"events": {"type": "array", "items": shape(EVENT)}},
        reads=True,
    ),
    # billing
    tool(
        "billing.create_invoice",
        "Create an invoice for a customer.",
        {
            "customer_id": {"type": "string", "description": "The customer.", "examples": ["c-1"]},
            "amount": {"type": "number", "exclusiveMinimum": 0, "description": "The amount in euros."},
        },
        {"invoice_id": INVOICE_ID, "amount": {"type": "number"}},
        classification="CONFIDENTIAL",
    ),
    tool("billing.void_invoice", "Void an invoice.", {"invoice_id": INVOICE_ID}, {}, idempotent=True),
    tool(
        "billing.refund",
        "Refund a payment to a customer.",
        {"invoice_id": INVOICE_ID, "reason": text("Why it is refunded.")},
        {"refund_id": {"type": "string"}},
        optional=("reason",),
        needs_approval=True,
    ),
    tool(
        "billing.get_invoice",
        "Read an invoice.",
        {"invoice_id": INVOICE_ID},
        {"invoice_id": INVOICE_ID, "amount": {"type": "number"}, "email": EMAIL},
        reads=True,
    ),
    # inventory
    tool(
        "inventory.check_stock",
        "Check how many items of an article are in stock.",
        {"sku": SKU},
        {"sku": SKU, "available": {"type": "integer", "minimum": 0}},
        reads=True,
    ),
    tool(
        "inventory.reserve",
        "Reserve items of an article.",
        {"sku": SKU, "quantity": {"type": "integer", "minimum": 1, "description": "How many."}},
        {"reservation_id": {"type": "string"}},
    ),
    tool(
        "inventory.release",
        "Release a reservation of items.",
        {"reservation_id": {"type": "string"}},
        {},
        idempotent=True,
    ),
    tool(
        "inventory.order_parts",
        "Order parts from a supplier.",
        {"sku": SKU, "quantity": {"type": "integer", "minimum": 1, "maximum": 1000, "description": "How many."}},
        {"order_id": {"type": "string"}},
        needs_approval=True,
    ),
    # deployments
    tool(
        "deployments.deploy",
        "Deploy a version of a service.",
        {"service": SERVICE, "version": text("The version.", maxLength=40), "environment": ENVIRONMENT},
        {"deployment_id": {"type": "string"}},
    ),
    tool(
        "deployments.rollback",
        "Roll back a deployment.",
        {"deployment_id": {"type": "string", "description": "The deployment."}},
        {},
        idempotent=True,
    ),
    tool(
        "deployments.status",
        "Show the health of a service.",
        {"service": SERVICE},
        {"service": SERVICE, "health": {"type": "string"}},
        reads=True,
    ),
    tool(
        "deployments.restart",
        "Restart a service.",
        {"service": SERVICE, "environment": ENVIRONMENT},
        {},
        optional=("environment",),
        idempotent=True,
    ),
    # documents
    tool(
        "documents.summarize",
        "Summarize a document.",
        {"document_id": DOCUMENT_ID},
        {"summary": text("The summary.")},
        reads=True,
    ),
    tool(
        "documents.upload",
        "Upload a file from a web address.",
        {"url": {"type": "string", "format": "uri", "description": "Where the file is."}},
        {"document_id": DOCUMENT_ID},
    ),
    tool("documents.delete", "Delete a document for good.", {"document_id": DOCUMENT_ID}, {}, idempotent=True),
    tool(
        "documents.share",
        "Share a document with a person.",
        {"document_id": DOCUMENT_ID, "email": EMAIL},
        {"link": {"type": "string"}},
        idempotent=True,
    ),
    # a blueprint of several steps
    tool(
        "people.onboard",
        "Create an account, grant a role and schedule a welcome meeting for a new colleague.",
        {"name": text("The full name."), "email": EMAIL, "date": DATE},
        {"user_id": USER_ID},
        idempotent=True,
        kind="BLUEPRINT",
        classification="RESTRICTED",
    ),
)
BY_ID = {each.id: each for each in TOOLS}


def ask(intent: str, answers: dict[str, str] | None = None, **more: Any) -> PlanRequest:
    """A request over all tools."""
    given = tuple(Answer(key=key, words=words) for key, words in (answers or {}).items())
    return PlanRequest(**{"intent": intent, "tools": TOOLS, "context": CONTEXT, "answers": given, **more})
