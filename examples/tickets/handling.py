"""What it takes to handle a ticket: three capabilities, which the blueprints beside this file put together."""

import asyncio
from typing import Annotated

from msgspec import Meta, Struct
from tickets import Ticket, TicketId, _database

from agent_resolver.capability import capability
from agent_resolver.registry import ToolFailure
from agent_resolver.schema import FailureCode

TEAMS = ("accounts", "devices")
ASSIGNMENT = "CREATE TABLE IF NOT EXISTS assignment (ticket INTEGER PRIMARY KEY, team TEXT)"

Team = Annotated[str, Meta(description="The name of the team.", examples=["accounts"], min_length=1, max_length=40)]


class TicketNumber(Struct, frozen=True, kw_only=True):
    """Which ticket."""

    id: TicketId


@capability("tickets.close", scopes=["tickets:write"], idempotent=True, examples=[{"id": 1}])
def close(request: TicketNumber) -> Ticket:
    """Close a ticket; one that is closed stays closed."""
    with _database() as tickets:
        tickets.execute("UPDATE ticket SET status = 'closed' WHERE id = ?", (request.id,))
        row = tickets.execute("SELECT id, title, status FROM ticket WHERE id = ?", (request.id,)).fetchone()
    if row is None:
        raise ToolFailure(FailureCode.TOOL_ERROR, f"There is no ticket {request.id}", "look for it with tickets.search")
    return Ticket(id=row[0], title=row[1], status=row[2])


class Assign(Struct, frozen=True, kw_only=True):
    """A ticket, and the team that shall take it."""

    id: TicketId
    team: Team


@capability("tickets.assign", scopes=["tickets:write"], idempotent=True, examples=[{"id": 1, "team": "accounts"}])
def assign(request: Assign) -> Assign:
    """Give a ticket to a team."""
    if request.team not in TEAMS:
        message = f"There is no team {request.team}"
        raise ToolFailure(FailureCode.TOOL_ERROR, message, f"the teams are {' and '.join(TEAMS)}")
    with _database() as tickets:
        tickets.execute(ASSIGNMENT)
        tickets.execute("INSERT OR REPLACE INTO assignment VALUES (?, ?)", (request.id, request.team))
    return request


class Research(Struct, frozen=True, kw_only=True):
    """A ticket, and how thoroughly to look."""

    id: TicketId
    seconds: Annotated[float, Meta(description="The time to spend on it.", examples=[0.1], ge=0, le=60)] = 0.0


class Findings(Struct, frozen=True, kw_only=True):
    """Earlier tickets that share a word with it."""

    similar: Annotated[tuple[TicketId, ...], Meta(description="Their numbers, in order.")]


@capability("tickets.research", read_only=True, idempotent=True, examples=[{"id": 1}])
async def research(request: Research) -> Findings:
    """Look for earlier tickets that share a word with this one."""
    await asyncio.sleep(request.seconds)
    with _database() as tickets:
        titles = dict(tickets.execute("SELECT id, title FROM ticket ORDER BY id").fetchall())
    words = set(titles.get(request.id, "").lower().split())
    earlier = {number: title for number, title in titles.items() if number < request.id}
    return Findings(similar=tuple(number for number, title in earlier.items() if words & set(title.lower().split())))
