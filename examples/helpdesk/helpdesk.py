"""A help desk in a small database beside this file: what a request in plain words can be turned into."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from agent_resolver.capability import capability
from agent_resolver.registry import CallContext, ToolFailure
from agent_resolver.schema import FailureCode

FOLDER = Path(__file__).parent
TEAMS = ("accounts", "devices", "network")
SCHEMA = """
CREATE TABLE IF NOT EXISTS ticket (
    id INTEGER PRIMARY KEY, title TEXT NOT NULL, status TEXT NOT NULL DEFAULT 'open', team TEXT, key TEXT UNIQUE
);
CREATE TABLE IF NOT EXISTS unlocked (user TEXT PRIMARY KEY, caller TEXT NOT NULL);
"""

TicketId = Annotated[int, Meta(description="The number of the ticket.", examples=[1], ge=1)]
Title = Annotated[str, Meta(description="What it is about.", examples=["Login fails"], min_length=1, max_length=200)]
Team = Annotated[str, Meta(description="The name of the team.", examples=["devices"], min_length=1, max_length=40)]
User = Annotated[str, Meta(description="The name of the user.", examples=["ada"], min_length=1, max_length=40)]


class Ticket(Struct, frozen=True, kw_only=True):
    """One ticket."""

    ticket_id: TicketId
    title: Title


# Tickets --------------------------------------------------------------------------------------------------------------


class OpenTicket(Struct, frozen=True, kw_only=True):
    """A ticket to be."""

    title: Title


@capability("tickets.open", examples=[{"title": "Login fails"}])
def open_ticket(request: OpenTicket, context: CallContext) -> Ticket:
    """Open a new ticket."""
    with _database() as database:
        database.execute("INSERT OR IGNORE INTO ticket (title, key) VALUES (?, ?)", (request.title, context.key))
        condition = "key = ?" if context.key else "id = last_insert_rowid() OR key = ?"
        row = database.execute(f"SELECT id, title FROM ticket WHERE {condition}", (context.key,)).fetchone()  # noqa: S608
    return Ticket(ticket_id=row[0], title=row[1])


class ChosenTicket(Struct, frozen=True, kw_only=True):
    """Which ticket."""

    ticket_id: TicketId


@capability("tickets.close", idempotent=True, examples=[{"ticket_id": 1}])
def close_ticket(request: ChosenTicket) -> ChosenTicket:
    """Close a ticket; one that is closed stays closed."""
    with _database() as database:
        database.execute("UPDATE ticket SET status = 'closed' WHERE id = ?", (request.ticket_id,))
    return request


class Assignment(Struct, frozen=True, kw_only=True):
    """A ticket, and the team that takes it."""

    ticket_id: TicketId
    team: Team


@capability("tickets.assign", idempotent=True, examples=[{"ticket_id": 1, "team": "devices"}])
def assign_ticket(request: Assignment) -> Assignment:
    """Assign a ticket to a team."""
    if request.team not in TEAMS:
        message = f"There is no team {request.team}"
        raise ToolFailure(FailureCode.TOOL_ERROR, message, f"the teams are {', '.join(TEAMS)}")
    with _database() as database:
        database.execute("UPDATE ticket SET team = ? WHERE id = ?", (request.team, request.ticket_id))
    return request


class Search(Struct, frozen=True, kw_only=True):
    """Which tickets to look for."""

    text: Annotated[str, Meta(description="Words of the title.", examples=["login"], max_length=200)] = ""


class Found(Struct, frozen=True, kw_only=True):
    """The tickets that were found."""

    tickets: Annotated[tuple[Ticket, ...], Meta(description="By number.")]


@capability("tickets.search", read_only=True, idempotent=True, examples=[{"text": "login"}])
def search_tickets(request: Search) -> Found:
    """Find open tickets by words of their title."""
    with _database() as database:
        rows = database.execute(
            "SELECT id, title FROM ticket WHERE status = 'open' AND instr(lower(title), lower(?)) ORDER BY id LIMIT 99",
            (request.text,),
        )
        return Found(tickets=tuple(Ticket(ticket_id=number, title=title) for number, title in rows))


# The pager: reaches another machine -----------------------------------------------------------------------------------


class Page(Struct, frozen=True, kw_only=True):
    """Whom to wake."""

    team: Team


class Paged(Struct, frozen=True, kw_only=True):
    """Who was woken."""

    paged_team: Team


@capability("pager.page", hosts=["pager.example.com"], idempotent=True, examples=[{"team": "devices"}])
def page(request: Page) -> Paged:
    """Page the people of a team who are on call."""
    # An example pages no real person: what would be sent is written down.
    file = FOLDER / ".agent" / "pages.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps({"team": request.team}) + "\n")
    return Paged(paged_team=request.team)


# Accounts: restricted, so that each call takes the approval of a second person ---------------------------------------


class Account(Struct, frozen=True, kw_only=True):
    """Whose account."""

    user: User


@capability("accounts.unlock", classification="RESTRICTED", idempotent=True, examples=[{"user": "ada"}])
def unlock(request: Account, context: CallContext) -> Account:
    """Unlock the account of a user."""
    with _database() as database:
        database.execute("INSERT OR IGNORE INTO unlocked VALUES (?, ?)", (request.user, context.caller.id))
    return request


# What they share ------------------------------------------------------------------------------------------------------


@contextmanager
def _database() -> Iterator[sqlite3.Connection]:
    """The help desk, made when it is first asked for; what is done with it is kept whole or not at all."""
    path = FOLDER / ".agent" / "helpdesk.db"
    path.parent.mkdir(exist_ok=True)
    database = sqlite3.connect(path, timeout=10)
    try:
        database.executescript(SCHEMA)
        with database:
            yield database
    finally:
        database.close()
