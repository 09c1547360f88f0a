"""How the tools of a registry are listed over MCP."""

import random
from typing import Any

import mcp_types as types
import pytest
from mcp import Client

from agent_resolver.schema import Caller, Labels, Rules
from tests.registry.sample import MemoryTool
from tests.server.conftest import ERAS, Serve
from tests.server.watched import meta, refusal

CLOSED: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "count": {"type": "integer", "minimum": 1}},
    "required": ["name"],
    "additionalProperties": False,
}


IDS = [f"memory.tool-{number:03}" for number in range(250)]
NAMES = [f"memory__tool-{number:03}" for number in range(250)]


def many(*, seed: int = 0) -> list[MemoryTool]:
    """Tools in any order; every fifth is a connector."""
    tools = [
        MemoryTool(tool_id, labels=Labels(tags=("memory", "connector") if place % 5 == 0 else ("memory",)))
        for place, tool_id in enumerate(IDS)
    ]
    random.Random(seed).shuffle(tools)
    return tools


async def pages(client: Client, **keys: Any) -> list[types.ListToolsResult]:
    found = [await client.list_tools(meta=meta(**keys), cache_mode="bypass")]
    while found[-1].next_cursor is not None:
        cursor = found[-1].next_cursor
        found.append(await client.list_tools(meta=meta(**keys), cursor=cursor, cache_mode="bypass"))
    return found


def names(found: list[types.ListToolsResult]) -> list[str]:
    return [tool.name for page in found for tool in page.tools]


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.anyio
async def test_a_caller_is_listed_only_the_tools_that_they_may_use(serve: Serve, mode: str) -> None:
    tools = [
        MemoryTool("memory.open", rules=Rules(classification="PUBLIC")),
        MemoryTool("memory.scoped", rules=Rules(classification="PUBLIC", required_scopes=("write",))),
        MemoryTool("memory.secret", rules=Rules(classification="RESTRICTED")),
    ]
    caller = Caller(id="ada", is_verified=True)
    async with Client(serve(tools=tools, caller_of=lambda _: caller).server, mode=mode) as client:
        seen = [names(await pages(client))]
        caller = Caller(id="bob", is_verified=True, scopes=frozenset({"write"}), clearance="RESTRICTED")
        seen.append(names(await pages(client)))

    assert seen == [["memory__open"], ["memory__open", "memory__scoped", "memory__secret"]]


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("limit", [1, 7, 99, 100, None])
@pytest.mark.anyio
async def test_any_number_of_tools_is_listed_by_id_each_once_a_page_at_a_time(
    serve: Serve, mode: str, limit: int | None
) -> None:
    asked = {} if limit is None else {"limit": limit}
    listings = []
    for seed in (1, 2):
        async with Client(serve(tools=many(seed=seed)).server, mode=mode) as client:
            listings += [await pages(client, **asked), await pages(client, **asked)]

    assert [names(found) for found in listings] == [NAMES] * 4
    # The same cursors too: whoever goes on elsewhere, or later, goes on at the same place.
    assert len({tuple(page.next_cursor for page in found) for found in listings}) == 1
    assert {page.meta["agent-resolver/total"] for page in listings[0] if page.meta} == {250}
    assert [page.meta["agent-resolver/count"] for page in listings[0] if page.meta] == [
        len(page.tools) for page in listings[0]
    ]
    assert max(len(page.tools) for page in listings[0]) == (limit or 100)


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.anyio
async def test_a_cursor_ends_with_the_listing_that_it_is_of(serve: Serve, mode: str) -> None:
    served = serve(tools=many())
    async with Client(served.server, mode=mode) as client:
        first = await client.list_tools()
        tagged = await client.list_tools(meta=meta(tag="connector", limit=5))
        other = await refusal(client.list_tools(cursor=tagged.next_cursor))
        served.registry.add(MemoryTool("memory.new"))
        changed = await refusal(client.list_tools(cursor=first.next_cursor))

    assert (other.code, changed.code) == (types.INVALID_PARAMS, types.INVALID_PARAMS)
    assert "list from the start again" in changed.message


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.anyio
async def test_tools_are_found_by_their_tag(serve: Serve, mode: str) -> None:
    async with Client(serve(tools=many()).server, mode=mode) as client:
        found = await pages(client, tag="connector", limit=20)
        none = await client.list_tools(meta=meta(tag="Connector"))

    assert names(found) == NAMES[::5]
    assert [page.meta["agent-resolver/total"] for page in found if page.meta] == [50, 50, 50]
    assert found[0].tools[0].meta is not None
    assert found[0].tools[0].meta["agent-resolver/tags"] == ["memory", "connector"]
    assert (none.tools, none.next_cursor) == ([], None)


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.anyio
async def test_a_client_that_keeps_listings_does_not_take_a_part_for_the_whole(serve: Serve, mode: str) -> None:
    async with Client(serve(tools=many()).server, mode=mode) as client:
        await client.list_tools(meta=meta(tag="connector"))
        whole = await client.list_tools()

    assert names([whole]) == NAMES[:100]


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.anyio
async def test_the_manifest_is_named_with_every_page(serve: Serve, mode: str) -> None:
    manifest = {"version": "1", "digest": "sha256-00"}
    async with Client(serve(tools=many(), manifest=manifest).server, mode=mode) as client:
        found = await pages(client)
    async with Client(serve(tools=many()).server, mode=mode) as client:
        without = await client.list_tools()

    assert [page.meta["agent-resolver/manifest"] for page in found if page.meta] == [manifest] * 3
    assert without.meta is not None
    assert "agent-resolver/manifest" not in without.meta


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.anyio
async def test_a_tool_is_listed_with_what_a_person_wants_to_know_of_it(serve: Serve, mode: str) -> None:
    hints = {"readOnlyHint": True, "idempotentHint": True}
    tool = MemoryTool(input_schema=CLOSED, hints=hints, rules=Rules(classification="RESTRICTED"), source="module x")
    async with Client(serve(tools=[tool, MemoryTool("memory.plain")]).server, mode=mode) as client:
        first, second = (await client.list_tools()).tools

    assert (first.name, first.description, first.input_schema) == ("memory__echo", "For a test.", CLOSED)
    assert first.annotations is not None
    assert (first.annotations.read_only_hint, first.annotations.destructive_hint) == (True, None)
    assert first.title == "memory.echo"
    assert first.meta == {
        "agent-resolver/id": "memory.echo",
        "agent-resolver/source": "module x",
        "agent-resolver/classification": "RESTRICTED",
    }
    assert (second.annotations, second.output_schema) == (None, None)
