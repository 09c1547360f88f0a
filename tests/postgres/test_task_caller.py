"""MCP tasks of callers with tokens, at two machines over one Postgres: a task is its caller's, at every machine."""

import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpx2
import pytest
from joserfc import jwt
from joserfc.jwk import ECKey
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from tests.loopback import loopback_server
from tests.postgres.test_serving import KEY, machine
from tests.server.conftest import Address, over_http
from tests.server.task_client import ask, reach, start, task_client

pytestmark = pytest.mark.anyio
AUDIENCE = "https://agents.example.com/mcp"
YES = {"action": "accept", "content": {"answer": "yes"}}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Issuer:
    """Signs tokens."""

    def __init__(self) -> None:
        self._key = ECKey.generate_key("P-256", {"kid": "test", "use": "sig"})
        self.keys = {"keys": [self._key.as_dict(private=False)]}
        self.url = ""

    def token(self, name: str, **claims: Any) -> str:
        now = int(time.time())
        usual = {"iss": self.url, "aud": AUDIENCE, "sub": name, "iat": now, "exp": now + 600}
        rights = {"scope": "shop:write", "clearance_level": "RESTRICTED"}
        return jwt.encode({"alg": "ES256", "typ": "at+jwt", "kid": "test"}, {**usual, **rights, **claims}, self._key)


@contextmanager
def issuing() -> Iterator[Issuer]:
    """An issuer that answers on loopback for its key."""
    issuer = Issuer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = {"issuer": issuer.url, "jwks_uri": f"{issuer.url}/keys"}
            body = json.dumps(issuer.keys if self.path == "/keys" else known).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with loopback_server(Handler) as issuer.url:
        yield issuer


@asynccontextmanager
async def client_of(address: Address, token: str) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(timeout=30, headers=headers) as http,
        task_client(streamable_http_client(address.url, http_client=http), can_ask=True) as client,
    ):
        yield client


async def refusal(client: Client, method: str, task: str, **params: Any) -> tuple[int, str, Any]:
    with pytest.raises(MCPError) as refused:
        await ask(client, method, task, **params)
    error = refused.value.error
    return error.code, error.message, error.data


async def test_a_task_is_its_callers_at_every_machine_and_nothing_to_others(tmp_path: Path, url: str) -> None:
    one, two = machine(tmp_path / "one", url), machine(tmp_path / "two", url)
    options = ("--trust", "--shared", "--inbox")
    with issuing() as issuer:
        settings = {**KEY, "AGENT_IDENTITY_ISSUER": issuer.url, "AGENT_IDENTITY_AUDIENCE": AUDIENCE}
        ada, eve = issuer.token("ada"), issuer.token("eve", roles=["approver", "auditor"])
        with over_http(one.folder, *options, **settings) as here, over_http(two.folder, *options, **settings) as there:
            async with client_of(here, ada) as client:
                task = await start(client, "shop__ask", {"item": "lamp"})
                waiting = await reach(client, task, "input_required")
            [question] = waiting["inputRequests"]
            async with client_of(there, eve) as client:
                unknown = await refusal(client, "tasks/get", "0" * 32)
                answer = {question: YES}
                foreign = [
                    await refusal(client, "tasks/get", task),
                    await refusal(client, "tasks/cancel", task),
                    await refusal(client, "tasks/update", task, inputResponses=answer),
                ]
            # Another connection of the same caller, with another token, at another machine.
            async with client_of(there, issuer.token("ada", jti="other")) as client:
                still = await ask(client, "tasks/get", task)
                await ask(client, "tasks/update", task, inputResponses=answer)
                done = await reach(client, task, "completed")
            # Rights that the caller no longer has open nothing, also of a task that has ended.
            async with client_of(here, issuer.token("ada", clearance_level="PUBLIC")) as client:
                lessened = await refusal(client, "tasks/get", task)

    assert foreign == [unknown] * 3
    assert lessened == unknown
    assert still["status"] == "input_required"
    assert done["result"]["structuredContent"] == {"answer": "yes", "sent": "lamp-1"}
    assert sorted([*one.notes, *two.notes]) == ["reserve lamp", "send lamp-1"]
