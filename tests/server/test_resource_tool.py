"""The tools, asked by the SDK's own client, which checks every result against the schema that the tool declares."""

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import mcp_types as types
import pytest
from mcp import Client, MCPError

from tests.server.conftest import ERAS, INDEX, Serve, requiring, write_agent, write_index

pytestmark = pytest.mark.anyio

TWINS = ["get_agent", "list_agents", "resolve_agent", "search_agents"]


def said(result: types.CallToolResult) -> str:
    [content] = result.content
    assert isinstance(content, types.TextContent)
    return content.text


async def ask(client: Client, tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, said(result)
    return result.structured_content


@pytest.mark.parametrize("mode", ERAS)
async def test_the_tools_are_listed_by_name_with_valid_schemas_and_honest_annotations(
    serve: Serve, agents: Path, mode: str
) -> None:
    async with Client(serve(agents).server, mode=mode) as client:
        tools = (await client.list_tools()).tools

    assert [tool.name for tool in tools] == TWINS
    for tool in tools:
        assert tool.description
        for schema in filter(None, (tool.input_schema, tool.output_schema)):
            jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})
        assert tool.input_schema["type"] == "object"
        assert tool.annotations is not None
        hints = tool.annotations
        assert (hints.read_only_hint, hints.destructive_hint) == (True, False)
        assert (hints.idempotent_hint, hints.open_world_hint) == (True, False)


@pytest.mark.parametrize("mode", ERAS)
async def test_tools_are_paged_too(serve: Serve, agents: Path, mode: str) -> None:
    meta: Any = {"agent-resolver/limit": 3}
    async with Client(serve(agents).server, mode=mode) as client:
        first = await client.list_tools(meta=meta)
        second = await client.list_tools(meta=meta, cursor=first.next_cursor)

    assert [tool.name for page in (first, second) for tool in page.tools] == TWINS
    assert second.next_cursor is None


@pytest.mark.parametrize("mode", ERAS)
async def test_the_tools_change_nothing_on_the_disk(serve: Serve, agents: Path, mode: str) -> None:
    """As their annotations say."""
    served = serve(agents)
    before = {path: path.stat().st_mtime_ns for path in agents.parent.rglob("*") if "cache" not in path.parts}
    async with Client(served.server, mode=mode) as client:
        await ask(client, "list_agents")
        await ask(client, "search_agents", query="agent")
        await ask(client, "get_agent", agent="ready")
        await ask(client, "resolve_agent", agent="ready")

    after = {path: path.stat().st_mtime_ns for path in agents.parent.rglob("*") if "cache" not in path.parts}
    assert after == before


@pytest.mark.parametrize("mode", ERAS)
async def test_every_result_follows_the_schema_of_its_tool_and_is_told_as_text_too(
    serve: Serve, agents: Path, mode: str
) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("list_agents", {}),
        ("list_agents", {"limit": 100}),
        ("search_agents", {}),
        ("search_agents", {"query": "agent", "limit": 1}),
        ("search_agents", {"query": "nothing like it at all"}),
        ("search_agents", {"capability": "python", "role": "nobody", "model": "sonnet"}),
        ("get_agent", {"agent": "ready"}),
        *(("resolve_agent", {"agent": name}) for name in ("ready", "lacking", "agent-00")),
    ]
    async with Client(serve(agents).server, mode=mode) as client:
        schemas = {tool.name: tool.output_schema for tool in (await client.list_tools()).tools}
        for tool, arguments in calls:
            result = await client.call_tool(tool, arguments)
            assert not result.is_error
            assert json.loads(said(result)) == result.structured_content
            jsonschema_rs.validate(schemas[tool] or {}, result.structured_content)


@pytest.mark.parametrize("mode", ERAS)
async def test_the_size_of_an_agent_is_that_of_its_file(serve: Serve, agents: Path, mode: str) -> None:
    file = write_agent(agents, "sized", body="ä" * 1000)
    async with Client(serve(agents, page_size=100).server, mode=mode) as client:
        [found] = [agent for agent in (await client.list_resources()).resources if agent.name == "sized"]

    assert found.size == len(file.read_bytes())


@pytest.mark.parametrize("mode", ERAS)
async def test_derived_capabilities_are_marked(serve: Serve, agents: Path, mode: str) -> None:
    write_agent(agents, "stated", "capabilities: [python]")
    write_agent(agents, "python-pro")
    async with Client(serve(agents).server, mode=mode) as client:
        found = (await ask(client, "list_agents", limit=100))["agents"]

    marked = {each["name"]: each.get("capabilitiesDerived", False) for each in found if "capabilities" in each}
    assert marked == {"python-pro": True, "stated": False}


@pytest.mark.parametrize("mode", ERAS)
async def test_list_agents_pages_as_the_resources_do(serve: Serve, agents: Path, mode: str) -> None:
    async with Client(serve(agents).server, mode=mode) as client:
        page = await ask(client, "list_agents", limit=20)
        found = [agent["uri"] for agent in page["agents"]]
        while "nextCursor" in page:
            page = await ask(client, "list_agents", limit=20, cursor=page["nextCursor"])
            found += [agent["uri"] for agent in page["agents"]]
        first = await client.list_resources()
        crossed = await ask(client, "list_agents", cursor=first.next_cursor)

    assert page["total"] == len(found) == len(set(found)) == 45
    assert found[20:40] == [agent["uri"] for agent in crossed["agents"]]


@pytest.mark.parametrize("mode", ERAS)
async def test_get_agent_takes_a_name_or_an_address_and_a_format(serve: Serve, agents: Path, mode: str) -> None:
    raw = (agents / "ready.md").read_text()
    async with Client(serve(agents).server, mode=mode) as client:
        by_name = await ask(client, "get_agent", agent="ready")
        by_address = await ask(client, "get_agent", agent="agent://ready", version="1.0.0")
        as_markdown = await client.call_tool("get_agent", {"agent": "ready", "format": "markdown"})
        as_address_says = await client.call_tool("get_agent", {"agent": "agent://ready?format=markdown"})

    assert by_name == by_address
    assert by_name["content"].strip() == "You are ready."
    assert said(as_markdown) == said(as_address_says) == raw


@pytest.mark.parametrize("mode", ERAS)
async def test_resolve_agent_gives_the_lock_and_the_reasons(serve: Serve, agents: Path, mode: str) -> None:
    async with Client(serve(agents).server, mode=mode) as client:
        ready = await ask(client, "resolve_agent", agent="ready")
        lacking = await ask(client, "resolve_agent", agent="agent://lacking")
        free = await ask(client, "resolve_agent", agent="agent-00")

    assert ready["status"] == "resolved"
    assert [server["serverId"] for server in ready["lock"]["servers"]] == ["warehouse"]
    assert ready["requirements"][0]["selected"]
    assert (lacking["status"], lacking["lock"]) == ("unresolved", None)
    assert lacking["failed"]
    assert lacking["requirements"][0]["otherServers"] == 1
    assert free == {"agent": "agent://agent-00", "status": "not-required", "lock": None, "requirements": []}


@pytest.mark.parametrize("mode", ERAS)
async def test_resolve_agent_looks_at_the_index_as_it_is_now(
    serve: Serve, agents: Path, tmp_path: Path, mode: str
) -> None:
    index = tmp_path / "mcp.index.json"
    async with Client(serve(agents).server, mode=mode) as client:
        index.unlink()
        without = await ask(client, "resolve_agent", agent="ready")
        write_index(index, [{**INDEX[0], "scopes": ["write"]}])
        without_scope = await ask(client, "resolve_agent", agent="ready")
        index.write_text("[{")
        broken = await client.call_tool("resolve_agent", {"agent": "ready"})

    assert (without["status"], without["reason"]) == ("unresolved", "there is no index of servers")
    [rejected] = without_scope["requirements"][0]["rejected"]
    assert rejected["reason"]["code"] == "MISSING_SCOPE"
    assert broken.is_error
    assert json.loads(said(broken))["message"] == "The index of servers is invalid"


@pytest.mark.parametrize("mode", ERAS)
async def test_an_agent_file_that_the_resolver_refuses_is_named_as_such(serve: Serve, agents: Path, mode: str) -> None:
    write_agent(agents, "odd", "requires: { mcp: [{ category: 1 }] }")
    async with Client(serve(agents).server, mode=mode) as client:
        result = await client.call_tool("resolve_agent", {"agent": "odd"})

    assert result.is_error
    assert json.loads(said(result))["message"].startswith("The agent file is invalid: ")


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("tool", ["", "LIST_AGENTS", "list_agents ", "../list_agents", "agents/list", "x" * 5000])
async def test_an_unknown_tool_is_an_error_of_the_protocol(serve: Serve, agents: Path, mode: str, tool: str) -> None:
    async with Client(serve(agents).server, mode=mode) as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool(tool, {})

    assert caught.value.error.code == types.INVALID_PARAMS


BAD_ARGUMENTS: list[tuple[str, dict[str, Any], int]] = [
    ("list_agents", {"limit": 0, "cursor": 7, "more": 1}, 3),
    ("list_agents", {"limit": True}, 1),
    ("list_agents", {"limit": "5"}, 1),
    ("search_agents", {"query": "", "capability": None, "limit": 1.5}, 3),
    ("search_agents", {"query": "x" * 2049}, 1),
    ("get_agent", {}, 1),
    ("get_agent", {"agent": "", "format": "xml", "version": ""}, 3),
    ("resolve_agent", {"agent": ["ready"], "lock": "/etc/passwd"}, 2),
]


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("bad", BAD_ARGUMENTS)
async def test_bad_arguments_are_told_to_the_model_all_at_once(
    serve: Serve, agents: Path, mode: str, bad: tuple[str, dict[str, Any], int]
) -> None:
    tool, arguments, faults = bad
    async with Client(serve(agents).server, mode=mode) as client:
        result = await client.call_tool(tool, arguments)

    failure = json.loads(said(result))
    assert result.is_error
    assert failure["code"] == "INPUT_VALIDATION_FAILED"
    assert len(failure["details"]) == faults
    assert "tools/list" in failure["remedy"]


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("agent", ["nobody", "agent://nobody", "..", "../secret", "%2e%2e", "agent://../secret", "/x"])
async def test_an_agent_that_is_not_there_is_told_to_the_model(
    serve: Serve, agents: Path, tmp_path: Path, mode: str, agent: str
) -> None:
    write_agent(tmp_path, "secret", body="CANARY")
    async with Client(serve(agents).server, mode=mode) as client:
        for tool in ("get_agent", "resolve_agent"):
            result = await client.call_tool(tool, {"agent": agent})
            assert result.is_error
            assert str(tmp_path) not in said(result)
            assert "CANARY" not in said(result)
            assert json.loads(said(result))["code"] == "TOOL_ERROR"


@pytest.mark.parametrize("mode", ERAS)
async def test_a_bad_cursor_is_told_to_the_model(serve: Serve, agents: Path, mode: str) -> None:
    async with Client(serve(agents).server, mode=mode) as client:
        result = await client.call_tool("list_agents", {"cursor": "x"})

    assert result.is_error
    assert "list from the start again" in json.loads(said(result))["message"]


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize(
    "query", ['"', "'", "*", "a AND", "NEAR(", "name:x", "^", "-x", "(", "a" * 2048, "\u0000", "words MATCH 'x'", "%"]
)
async def test_whatever_is_searched_for_is_only_words(serve: Serve, agents: Path, mode: str, query: str) -> None:
    async with Client(serve(agents).server, mode=mode) as client:
        for key in ("query", "capability", "role", "model"):
            assert isinstance((await ask(client, "search_agents", **{key: query}))["agents"], list)


@pytest.mark.parametrize("mode", ERAS)
async def test_strict_hides_what_does_not_resolve_wherever_one_looks(serve: Serve, agents: Path, mode: str) -> None:
    """Whoever asks cannot tell it from an agent that does not exist."""
    write_agent(agents, "lacking-too", requiring("weather"))
    reference = types.ResourceTemplateReference(type="ref/resource", uri="agent://{name}{?format,version}")
    async with Client(serve(agents, strict=True, page_size=100).server, mode=mode) as client:
        listed = await client.list_resources()
        by_tool = await ask(client, "list_agents", limit=100)
        found = await ask(client, "search_agents", query="lacking")
        completed = (await client.complete(reference, {"name": "name", "value": "lack"})).completion
        errors = []
        for name in ("lacking", "nobody"):
            with pytest.raises(MCPError) as caught:
                await client.read_resource(f"agent://{name}")
            errors.append((caught.value.error.code, caught.value.error.message))
            for tool in ("get_agent", "resolve_agent"):
                failure = json.loads(said(await client.call_tool(tool, {"agent": name})))
                errors.append((failure["code"], failure["message"].replace(name, "...")))

    assert len(listed.resources) == by_tool["total"] == len(by_tool["agents"]) == 44
    assert listed.meta is not None
    assert listed.meta["agent-resolver/total"] == 44
    assert "lacking" not in listed.model_dump_json() + json.dumps(by_tool)
    assert found["agents"] == []
    assert (completed.values, completed.total) == ([], 0)
    assert errors[:3] == errors[3:]
