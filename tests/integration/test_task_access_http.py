"""Tasks of others over HTTP: a real issuer says who asks, and each caller learns of nothing but their own."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from tests.conftest import Run
from tests.integration.conftest import processes
from tests.integration.task_project import OPEN_TICKET, USERS, TaskProject, task_project
from tests.integration.test_identity import SECRET, Issuer, running
from tests.integration.test_task_identity import only_action
from tests.process import eventually
from tests.server.conftest import Address, over_http

UNKNOWN = "0123456789ab"


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Issuer]:
    with running(tmp_path_factory.mktemp("issuer"), users=USERS) as found:
        yield found


@pytest.fixture
def desk(tmp_path: Path, issuer: Issuer, run: Run, monkeypatch: pytest.MonkeyPatch) -> Iterator[TaskProject]:
    yield task_project(tmp_path / "project", issuer, run, monkeypatch)
    sys.modules.pop("helpdesk", None)
    assert eventually(lambda: not processes(tmp_path)), "a process outlived its test"


@pytest.fixture
def served(desk: TaskProject) -> Iterator[Address]:
    with over_http(desk.folder, "--trust", "--inbox", WORKER_SECRET=SECRET) as address:
        yield address


def ask(address: Address, token: str, tool: str, **arguments: Any) -> Any:
    """What a tool answers to the caller of a token, over the official client."""

    async def call() -> Any:
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            httpx2.AsyncClient(timeout=30, headers=headers) as http_client,
            Client(streamable_http_client(address.url, http_client=http_client)) as client,
        ):
            return (await client.call_tool(tool, arguments)).structured_content

    return asyncio.run(call())


def without_trace(document: dict[str, Any]) -> str:
    return str({key: value for key, value in document.items() if key != "traceId"})


def status(address: Address, token: str) -> int:
    """The HTTP status of a request with a token; an empty one is none."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "inbox_list", "arguments": {}}}
    return httpx2.post(address.url, json=body, headers=headers, timeout=30).status_code


def test_over_http_a_task_is_seen_by_those_it_concerns_alone(desk: TaskProject, served: Address) -> None:
    ada = desk.token("ada")
    action = only_action(desk.start(ada, OPEN_TICKET, "--environment", "prd"))["id"]
    tokens = {"ada": ada, **{name: desk.token(name) for name in ("ben", "eve", "olga")}}

    listed = {name: ask(served, token, "inbox_list", all=True) for name, token in tokens.items()}

    seen = {name: [each["id"] for each in found["actions"]] for name, found in listed.items()}
    assert seen == {"ada": [action], "ben": [action], "eve": [], "olga": [action]}
    # A foreign action and one that does not exist look the same.
    foreign = ask(served, tokens["eve"], "inbox_show", id=action)
    unknown = ask(served, tokens["eve"], "inbox_show", id=UNKNOWN)
    assert without_trace(foreign).replace(action, UNKNOWN) == without_trace(unknown)
    # An auditor reads, and decides nothing.
    assert "MISSING_ROLE" in str(ask(served, tokens["olga"], "inbox_approve", id=action))


def test_over_http_only_a_valid_token_of_this_audience_reads_anything(desk: TaskProject, served: Address) -> None:
    valid = desk.token("ada")
    header, payload, signature = valid.split(".")
    flipped = "A" if signature[0] != "A" else "B"

    assert status(served, "") == 401
    assert status(served, "not-a-token") == 401
    assert status(served, f"{header}.{payload}.{flipped}{signature[1:]}") == 401
    elsewhere = desk.issuer.of_person(username="ada", scope="use", resource="https://other.example.com")
    assert status(served, elsewhere["access_token"]) == 401
    assert status(served, valid) != 401
