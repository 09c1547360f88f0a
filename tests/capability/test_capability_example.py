"""The example of tickets, with its effects."""

import asyncio
import hmac
import importlib
import json
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from msgspec import structs

from agent_resolver.capability import capabilities_of
from agent_resolver.registry import MemorySecrets, Ports, Secret, ToolFailure, ToolRegistry
from agent_resolver.schema import Caller, Done, Failed, FailureCode, Pending
from tests.capability.declared import CONTEXT

EXAMPLE = Path(__file__).parents[2] / "examples" / "tickets"
SECRETS = {"TICKETS_ADMIN_TOKEN": "admin-token-1", "TICKETS_EXPORT_KEY": "export-key-1"}
GIVEN = structs.replace(CONTEXT, secrets={name: Secret(name, value) for name, value in SECRETS.items()})


@pytest.fixture
def tickets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module, from a copy of the example."""
    folder = tmp_path / "project"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns(".agent", "__pycache__"))
    monkeypatch.syspath_prepend(str(folder))
    yield importlib.import_module("tickets")
    del sys.modules["tickets"]


def invoke(tool: Any, context: Any = GIVEN, **arguments: Any) -> Any:
    return asyncio.run(tool.invoke(arguments, context))


def numbers(tickets: ModuleType) -> list[int]:
    return [ticket["id"] for ticket in invoke(tickets.search)["tickets"]]


def test_there_is_one_of_every_kind(tickets: ModuleType) -> None:
    found = {each.descriptor.id: each.descriptor for each in capabilities_of(tickets)}

    assert list(found) == ["tickets.create", "tickets.export", "tickets.purge", "tickets.search"]
    assert {each.source for each in found.values()} == {"module tickets"}
    assert [each.rules.classification for each in found.values()] == [
        "INTERNAL",
        "CONFIDENTIAL",
        "RESTRICTED",
        "INTERNAL",
    ]
    assert [name for name, each in found.items() if "connector" in each.labels.tags] == ["tickets.export"]
    assert [name for name, each in found.items() if each.rules.needs_approval] == ["tickets.purge"]


def test_tickets_are_found_by_words(tickets: ModuleType) -> None:
    assert numbers(tickets) == [1, 2, 3]
    assert invoke(tickets.search, text="LOGIN") == {
        "tickets": [{"id": 1, "title": "Login fails on Mondays", "status": "open"}]
    }
    assert len(invoke(tickets.search, limit=2)["tickets"]) == 2


def test_a_ticket_is_opened_once_under_one_key(tickets: ModuleType) -> None:
    told: list[str | None] = []

    async def progress(done: float, total: float | None = None, message: str | None = None) -> None:
        told.append(message)

    context = structs.replace(GIVEN, key="monday", progress=progress)
    first, again = invoke(tickets.create, context, title="New"), invoke(tickets.create, context, title="New")
    other, another = invoke(tickets.create, title="Other"), invoke(tickets.create, title="Other")

    assert first == again == {"id": 4, "title": "New", "status": "open"}
    assert (other["id"], another["id"]) == (5, 6)
    assert told == ["writing the ticket", "opened"] * 2


def test_closed_tickets_are_purged_in_another_process_with_a_proof(tickets: ModuleType) -> None:
    result = invoke(tickets.purge, ids=[2, 3])
    proof = hmac.new(b"admin-token-1", b"[2, 3]", "sha256").hexdigest()

    assert result == {"ids": [2, 3], "proof": proof}
    assert numbers(tickets) == [1]
    with sqlite3.connect(tickets.FOLDER / ".agent" / "tickets.db") as database:
        assert database.execute("SELECT * FROM purge").fetchall() == [("[2, 3]", "local:ada", proof)]
    database.close()


def test_an_open_ticket_is_not_purged_nor_any_with_it(tickets: ModuleType) -> None:
    with pytest.raises(ToolFailure, match="Ticket 1 is open") as caught:
        invoke(tickets.purge, ids=[2, 1])

    assert (caught.value.code, caught.value.remedy) == (FailureCode.TOOL_ERROR, "close it first")
    assert numbers(tickets) == [1, 2, 3]


def test_what_is_exported_is_signed(tickets: ModuleType) -> None:
    result = invoke(tickets.export, name="weekly")
    written = json.loads((tickets.FOLDER / result["file"]).read_text())

    assert (result["file"], result["count"]) == (".agent/outbox/weekly.json", 2)
    assert written["signature"] == result["signature"]
    assert (
        result["signature"] == hmac.new(b"export-key-1", json.dumps(written["tickets"]).encode(), "sha256").hexdigest()
    )


def test_the_registry_holds_callers_to_what_was_declared(tickets: ModuleType) -> None:
    registry = ToolRegistry(Ports(secrets=MemorySecrets(SECRETS)))
    for each in capabilities_of(tickets):
        registry.add(each)
    poor = structs.replace(CONTEXT, caller=Caller(id="somebody", clearance="INTERNAL"))

    async def outcomes() -> list[Any]:
        return [
            await registry.call("tickets.search", {}, poor),
            await registry.call("tickets.create", {"title": "x"}, poor),
            await registry.call("tickets.export", {"name": "../up"}, CONTEXT),
            await registry.call("tickets.export", {"name": "up"}, CONTEXT),
            await registry.call("tickets.purge", {"ids": [2]}, CONTEXT),
        ]

    search, create, escape, export, purge = asyncio.run(outcomes())

    assert isinstance(search, Done)
    assert isinstance(create, Failed)
    assert create.code is FailureCode.MISSING_SCOPE
    assert isinstance(escape, Failed)
    assert escape.code is FailureCode.INPUT_VALIDATION_FAILED
    assert isinstance(export, Done)
    assert isinstance(purge, Pending)
    assert purge.code == "APPROVAL_REQUIRED"
    assert numbers(tickets) == [1, 2, 3]
