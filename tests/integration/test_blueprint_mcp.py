"""Blueprints over MCP, with the client of the Python SDK: like any other tool, also for a client that vanishes."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import MCPError

from tests.cli.blueprint_project import MODULE, PACK, BlueprintProject, write_shop
from tests.integration.test_capability import agent, connected
from tests.process import comes_true
from tests.server.conftest import ERAS, over_http, over_stdio

TRANSPORTS = ("stdio", "http")
DELIVER = """\
blueprint_metadata: { id: shop.deliver, version: 1.0.0, description: Reserve an item and send it., tags: [shop] }
hitl_requirements: [{ step: send, reason: It cannot be called back }]
dag:
  input_schema: { type: object, properties: { item: { type: string } }, required: [item], additionalProperties: false }
  output_schema: { type: object, properties: { sent: { type: string } }, required: [sent] }
  steps:
    - id: reserve
      capability: shop.reserve
      input_mapping: { item: "${input.item}" }
      compensation: { capability: shop.release, input_mapping: { id: "${result.id}" } }
    - id: send
      capability: shop.send
      input_mapping: { id: "${steps.reserve.id}" }
  output_mapping: { sent: "${steps.send.id}" }
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def shop(tmp_path: Path) -> BlueprintProject:
    folder = tmp_path / "shop"
    folder.mkdir()
    made = write_shop(folder)
    made.write("deliver.yaml", DELIVER)
    made.write("pack.yaml", PACK)
    (folder / "agent.toml").write_text(f'[tools]\nmodules = ["{MODULE}"]\nblueprints = ["blueprints"]\n')
    return made


class Serving:
    """A way to reach the tools of the shop."""

    def __init__(self, shop: BlueprintProject, server: Any, mode: str) -> None:
        self.shop, self._server, self._mode = shop, server, mode

    def client(self) -> Any:
        return connected(self._server, self._mode)


@pytest.fixture(params=[(transport, mode) for transport in TRANSPORTS for mode in ERAS], ids=" ".join)
def serving(shop: BlueprintProject, request: pytest.FixtureRequest) -> Iterator[Serving]:
    transport, mode = request.param
    with ExitStack() as stack:
        if transport == "http":
            server: Any = stack.enter_context(over_http(shop.folder, "--trust")).url
        else:
            server = over_stdio(shop.folder, "--trust")
        yield Serving(shop, server, mode)


def approve(folder: Path) -> None:
    [action] = json.loads(agent(folder, "inbox", "list", "--json").stdout)
    approved = agent(folder, "inbox", "approve", action["id"], "--trust")
    assert approved.returncode == 0, approved.stderr


@pytest.mark.anyio
async def test_a_blueprint_is_listed_with_its_schemas(serving: Serving) -> None:
    async with serving.client() as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}

    found = tools["shop__deliver"]
    assert (found.title, found.description) == ("shop.deliver", "Reserve an item and send it.")
    assert found.input_schema["required"] == ["item"]
    assert found.output_schema is not None
    assert found.output_schema["anyOf"][0]["required"] == ["sent"]


@pytest.mark.anyio
async def test_a_client_hears_how_far_a_run_is(serving: Serving) -> None:
    heard: list[tuple[float, float | None, str | None]] = []

    async def note(done: float, total: float | None, message: str | None) -> None:
        heard.append((done, total, message))
        if message == "pack":
            (serving.shop.folder / "packed").touch()

    async with serving.client() as client:
        result = await client.call_tool("shop__pack_and_send", {}, progress_callback=note)

    assert result.structured_content == {"sent": "lamp-1"}
    assert (0, 2, "pack") in heard
    assert [done for done, *_ in heard] == sorted(done for done, *_ in heard)


@pytest.mark.anyio
async def test_a_run_that_takes_an_approval_is_pending_and_then_goes_on(serving: Serving) -> None:
    folder = serving.shop.folder
    async with serving.client() as client:
        first = await client.call_tool("shop__deliver", {"item": "lamp"})
        again = await client.call_tool("shop__deliver", {"item": "lamp"})
        await anyio.to_thread.run_sync(approve, folder)
        done = await client.call_tool("shop__deliver", {"item": "lamp"})
        refused = await client.call_tool("shop__deliver", {"itme": "lamp"})

    waits = first.structured_content
    assert (first.is_error, waits["status"], waits["code"]) == (True, "pending", "APPROVAL_REQUIRED")
    assert again.structured_content["id"] == waits["id"]
    assert (done.is_error, done.structured_content) == (False, {"sent": "lamp-1"})
    assert refused.structured_content["code"] == "INPUT_VALIDATION_FAILED"
    assert serving.shop.notes == ["reserve lamp", "send lamp-1"]


@pytest.mark.anyio
async def test_a_client_that_vanishes_loses_no_run(serving: Serving) -> None:
    """Over stdio its server ends with it, and a worker goes on; over HTTP the server does."""
    shop, under_key = serving.shop, {"agent-resolver/key": "order-1"}
    async with serving.client() as client, anyio.create_task_group() as group:
        group.start_soon(partial(client.call_tool, "shop__pack_and_send", {}, meta=under_key))
        await comes_true(lambda: shop.notes == ["pack lamp-1"])
        group.cancel_scope.cancel()
    (shop.folder / "packed").touch()
    await anyio.to_thread.run_sync(agent, shop.folder, "worker", "--until-idle", "--trust")
    async with serving.client() as client:
        result = await client.call_tool("shop__pack_and_send", {}, meta=under_key)

    assert result.structured_content == {"sent": "lamp-1"}
    # Packing is idempotent, so that it is done again where the server ended in the middle of it.
    assert shop.notes.count("send lamp-1") == 1
    [run] = json.loads(agent(shop.folder, "blueprint", "list", "--json").stdout)
    assert run["status"] == "done"


@pytest.mark.anyio
async def test_a_cancelled_request_lets_the_run_go_on(serving: Serving) -> None:
    shop = serving.shop
    async with serving.client() as client:
        with pytest.raises(MCPError, match=r"(?i)timed out"):
            await client.call_tool("shop__pack_and_send", {}, read_timeout_seconds=5)
        (shop.folder / "packed").touch()
        await comes_true(lambda: shop.notes[-1:] == ["send lamp-1"])

    assert shop.notes == ["pack lamp-1", "send lamp-1"]
