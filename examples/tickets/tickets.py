"""Tickets in a small database beside this file: four capabilities, from a harmless one to a restricted one."""

import asyncio
import hmac
import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct
from pydantic import BaseModel, Field

from agent_resolver.capability import capability
from agent_resolver.registry import CallContext, ToolFailure
from agent_resolver.schema import FailureCode

FOLDER = Path(__file__).parent
SCHEMA = """
CREATE TABLE IF NOT EXISTS ticket (id INTEGER PRIMARY KEY, title TEXT, status TEXT DEFAULT 'open', key TEXT UNIQUE);
CREATE TABLE IF NOT EXISTS purge (ids TEXT, caller TEXT, proof TEXT);
"""
FIRST = [(1, "Login fails on Mondays", "open"), (2, "Typo on the start page", "closed"), (3, "Print is slow", "closed")]

Status = Literal["open", "closed"]
TicketId = Annotated[int, Meta(description="The number of the ticket.", examples=[2], ge=1)]
Title = Annotated[str, Meta(description="What it is about.", examples=["Login fails"], min_length=1, max_length=200)]


class Ticket(Struct, frozen=True, kw_only=True):
    """One ticket."""

    id: TicketId
    title: Title
    status: Annotated[Status, Meta(description="Whether somebody still has to do something.", examples=["open"])]


# Reading --------------------------------------------------------------------------------------------------------------


class Search(Struct, frozen=True, kw_only=True):
    """Which tickets to look for."""

    text: Annotated[str, Meta(description="Words of the title; all tickets without.", examples=["login"])] = ""
    limit: Annotated[int, Meta(description="The most to return.", examples=[10], ge=1, le=100)] = 20


class Found(Struct, frozen=True, kw_only=True):
    """The tickets that were found."""

    tickets: Annotated[tuple[Ticket, ...], Meta(description="By number.")]


@capability("tickets.search", read_only=True, idempotent=True, examples=[{"text": "login"}, {}])
def search(request: Search) -> Found:
    """Find tickets by words of their title."""
    with _database() as database:
        rows = database.execute(
            "SELECT id, title, status FROM ticket WHERE instr(lower(title), lower(?)) ORDER BY id LIMIT ?",
            (request.text, request.limit),
        )
        return Found(tickets=tuple(Ticket(id=number, title=title, status=status) for number, title, status in rows))


# Writing --------------------------------------------------------------------------------------------------------------


class Create(Struct, frozen=True, kw_only=True):
    """A ticket to be."""

    title: Title


@capability("tickets.create", scopes=["tickets:write"], examples=[{"title": "Login fails"}])
async def create(request: Create, context: CallContext) -> Ticket:
    """Open a new ticket; under one key it is opened once."""
    await context.progress(0, 2, "writing the ticket")
    ticket = await asyncio.to_thread(_opened, request.title, context.key)  # Meanwhile others are served.
    await context.progress(2, 2, "opened")
    return ticket


def _opened(title: str, key: str | None) -> Ticket:
    with _database() as database:
        new = database.execute("INSERT OR IGNORE INTO ticket (title, key) VALUES (?, ?)", (title, key))
        known = (new.lastrowid, None) if new.rowcount else (None, key)
        row = database.execute("SELECT id, title, status FROM ticket WHERE id = ? OR key = ?", known).fetchone()
    return Ticket(id=row[0], title=row[1], status=row[2])


# Deleting: restricted, so each call needs an approval and runs in a process of its own --------------------------------


class Purge(Struct, frozen=True, kw_only=True):
    """Tickets that nobody needs any longer."""

    ids: Annotated[tuple[TicketId, ...], Meta(description="Closed tickets.", examples=[[2, 3]], min_length=1)]


class Purged(Struct, frozen=True, kw_only=True):
    """What is gone, and the proof of who had it done."""

    ids: Annotated[tuple[TicketId, ...], Meta(description="The tickets that are gone.")]
    proof: Annotated[str, Meta(description="Made with the administrator's token; also kept in the database.")]


@capability(
    "tickets.purge",
    classification="RESTRICTED",
    scopes=["tickets:admin"],
    idempotent=True,
    secrets=["TICKETS_ADMIN_TOKEN"],
    examples=[{"ids": [2, 3]}],
)
def purge(request: Purge, context: CallContext) -> Purged:
    """Delete closed tickets for good."""
    with _database() as database:
        for number in request.ids:
            row = database.execute("SELECT status FROM ticket WHERE id = ?", (number,)).fetchone()
            if row and row[0] != "closed":
                raise ToolFailure(FailureCode.TOOL_ERROR, f"Ticket {number} is open", "close it first")
        proof = _proof(context, "TICKETS_ADMIN_TOKEN", json.dumps(request.ids))
        database.executemany("DELETE FROM ticket WHERE id = ?", [(number,) for number in request.ids])
        database.execute("INSERT INTO purge VALUES (?, ?, ?)", (json.dumps(request.ids), context.caller.id, proof))
    return Purged(ids=request.ids, proof=proof)


# Handing over: a connector, with types of pydantic --------------------------------------------------------------------


class Export(BaseModel):
    """What to hand over."""

    name: Annotated[str, Field(description="The name of the file.", examples=["weekly"], pattern="^[a-z0-9-]{1,40}$")]
    status: Annotated[Status, Field(description="Which tickets.", examples=["closed"])] = "closed"


class Exported(BaseModel):
    """What was handed over."""

    file: Annotated[str, Field(description="The file, below the project's folder.")]
    count: Annotated[int, Field(description="How many tickets it holds.")]
    signature: Annotated[str, Field(description="Shows the receiver that it is ours.")]


@capability(
    "tickets.export",
    classification="CONFIDENTIAL",
    scopes=["tickets:read"],
    idempotent=True,
    secrets=["TICKETS_EXPORT_KEY"],
    tags=["connector"],
    allow_outbound=True,
    examples=[{"name": "weekly"}],
)
def export(request: Export, context: CallContext) -> Exported:
    """Write tickets to a signed file in the folder that a partner collects from."""
    with _database() as database:
        rows = database.execute("SELECT id, title FROM ticket WHERE status = ? ORDER BY id", (request.status,))
        tickets = [{"id": number, "title": title} for number, title in rows]
    signature = _proof(context, "TICKETS_EXPORT_KEY", json.dumps(tickets))
    file = FOLDER / ".agent" / "outbox" / f"{request.name}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"tickets": tickets, "signature": signature}, indent=2) + "\n")
    return Exported(file=file.relative_to(FOLDER).as_posix(), count=len(tickets), signature=signature)


# What they share ------------------------------------------------------------------------------------------------------


def _proof(context: CallContext, secret: str, content: str) -> str:
    """What only somebody with the secret can make."""
    return hmac.new(context.secrets[secret].reveal().encode(), content.encode(), "sha256").hexdigest()


@contextmanager
def _database() -> Iterator[sqlite3.Connection]:
    """The tickets, made when they are first asked for; what is done with them is kept whole or not at all."""
    path = FOLDER / ".agent" / "tickets.db"
    path.parent.mkdir(exist_ok=True)
    is_new = not path.exists()
    database = sqlite3.connect(path, timeout=10)
    try:
        if is_new:
            with database:
                database.executescript(SCHEMA)
                database.executemany("INSERT OR IGNORE INTO ticket (id, title, status) VALUES (?, ?, ?)", FIRST)
        with database:
            yield database
    finally:
        database.close()
