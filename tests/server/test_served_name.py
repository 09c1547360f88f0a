"""Tools and prompts have names that clients accept, whatever their ids are."""

import re
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.client.stdio import stdio_client

from agent_resolver.core import AdmissionCode, Refused, to_wire_name
from agent_resolver.registry import CallContext, FixedClock, Inbox, MemorySecrets, Ports
from agent_resolver.schema import Caller, Rules
from agent_resolver.storage import MemoryStore
from tests.registry.sample import MemoryTool
from tests.server.conftest import ERAS, Serve, over_http, over_stdio, write_agent
from tests.server.watched import TRACE, Watched, failure, meta, refusal

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("mode", ERAS)]

FITS = re.compile(r"[A-Za-z0-9_-]{1,64}")
LONG = "archive.export_every_ticket_of_a_customer_with_all_its_attachments_and_comments"
NOTES = """\
from typing import Annotated

from msgspec import Meta, Struct

from agent_resolver.capability import capability


class Note(Struct, frozen=True):
    "A note."
    text: Annotated[str, Meta(description="The words.", examples=["x"])]


@capability("notes.echo", examples=[{"text": "x"}])
def echo(note: Note) -> Note:
    "Give it back."
    return note


@capability("notes.keep__two", examples=[{"text": "x"}])
def keep(note: Note) -> Note:
    "Keep it."
    return note
"""


def saying(tool_id: str) -> MemoryTool:
    """A tool that says which one it is."""

    async def say(_: dict[str, Any]) -> object:
        return {"id": tool_id}

    return MemoryTool(tool_id, say)


async def test_every_tool_is_called_by_the_name_that_is_listed(serve: Serve, mode: str) -> None:
    ids = ["a.b", "a_b", "a__b", "a._b", "a b", "größe.maß", to_wire_name("a__b"), LONG, to_wire_name(LONG)]
    async with Client(serve(tools=list(map(saying, ids))).server, mode=mode) as client:
        listed = (await client.list_tools()).tools
        reached = {tool.name: (await client.call_tool(tool.name, {})).structured_content for tool in listed}

    assert all(FITS.fullmatch(tool.name) for tool in listed)
    assert len(reached) == len(ids)
    assert reached == {tool.name: {"id": tool.meta["agent-resolver/id"]} for tool in listed if tool.meta}
    assert {tool.title or tool.name for tool in listed} == set(ids)


async def test_a_name_stays_the_same_whatever_comes_and_goes(serve: Serve, mode: str) -> None:
    served = serve(tools=[saying("a.b")])
    async with Client(served.server, mode=mode) as client:
        alone = await client.list_tools()
        served.registry.add(saying("a__b"))
        served.registry.add(saying("a_b"))
        beside = await client.list_tools(cache_mode="bypass")
        reached = (await client.call_tool("a__b", {})).structured_content

    assert [tool.name for tool in alone.tools] == ["a__b"]
    assert beside.tools[0] == alone.tools[0]
    assert reached == {"id": "a.b"}


async def test_a_name_never_leads_to_the_tool_that_has_it_as_its_id(serve: Serve, mode: str) -> None:
    """Else a tool that is added later could be called in place of the one that a client means."""
    lookalikes = ["a__b", to_wire_name(LONG)]
    async with Client(serve(tools=list(map(saying, lookalikes))).server, mode=mode) as client:
        errors = [await refusal(client.call_tool(name, {}, meta=meta(trace_id=TRACE))) for name in lookalikes]

    assert [error.message for error in errors] == [f"Unknown tool: {name}" for name in lookalikes]
    assert [error.data for error in errors] == [meta(trace_id=TRACE)] * 2


async def test_an_id_with_a_dot_reaches_its_tool_as_before(serve: Serve, mode: str) -> None:
    async with Client(serve(tools=[saying("a.b"), saying(LONG)]).server, mode=mode) as client:
        reached = [(await client.call_tool(tool_id, {})).structured_content for tool_id in ("a.b", LONG)]

    assert reached == [{"id": "a.b"}, {"id": LONG}]


async def test_failures_name_the_tool_as_the_client_called_it(serve: Serve, mode: str) -> None:
    closed = {"type": "object", "additionalProperties": False}
    async with Client(serve(tools=[MemoryTool(input_schema=closed)]).server, mode=mode) as client:
        unknown = await refusal(client.call_tool("memory__nothing", {}))
        bad = [failure(await client.call_tool(name, {"x": 1})) for name in ("memory__echo", "memory.echo")]

    assert (unknown.code, unknown.message) == (types.INVALID_PARAMS, "Unknown tool: memory__nothing")
    assert [told["message"] for told in bad] == [
        "The arguments do not follow the schema of memory__echo",
        "The arguments do not follow the schema of memory.echo",
    ]


@pytest.mark.parametrize("tool_id", ["memory.no", LONG])
async def test_a_refused_tool_says_why_under_its_served_name(serve: Serve, mode: str, tool_id: str) -> None:
    served = serve(tools=[])
    served.registry.refuse(tool_id, "memory", Refused(AdmissionCode.FORBIDDEN_ACTION, "Forbidden", "ask"))
    async with Client(served.server, mode=mode) as client:
        told = failure(await client.call_tool(to_wire_name(tool_id), {}))

    assert told["code"] == "FORBIDDEN_ACTION"


async def test_an_approval_holds_for_the_call_however_the_tool_is_named(serve: Serve, mode: str) -> None:
    store = MemoryStore()
    inbox = Inbox(store, MemorySecrets(), FixedClock())
    approver = Caller(id="grace", is_verified=True, roles=frozenset({"approver"}))
    tool = Watched(rules=Rules(classification="RESTRICTED", needs_approval=True))
    async with Client(serve(tools=[tool], ports=Ports(store=store)).server, mode=mode) as client:
        waiting = failure(await client.call_tool("memory.echo", {"x": 1}))
        context = CallContext(run="r", trace_id=TRACE, caller=approver)
        kept = await inbox.show(waiting["id"], context)
        await inbox.decide(waiting["id"], "approved", context)
        done = await client.call_tool("memory__echo", {"x": 1})

    assert done.structured_content == {"x": 1}
    assert kept.subject == "memory.echo"


async def test_every_prompt_is_got_by_the_name_that_is_listed(serve: Serve, tmp_path: Path, mode: str) -> None:
    names = ["plain", "with.dot", "with__two", "with space", "größe", "x" * 80]
    for name in names:
        write_agent(tmp_path / "agents", name)
    write_agent(tmp_path / "agents" / "team", "plain", body="You are plain of the team.")
    async with Client(serve(tmp_path / "agents").server, mode=mode) as client:
        listed = (await client.list_prompts()).prompts
        got = [(await client.get_prompt(prompt.name)).messages[0].content for prompt in listed]
        by_path = [(await client.get_prompt(path)).description for path in ("team/plain", "with.dot", "with%20space")]

    assert all(FITS.fullmatch(prompt.name) for prompt in listed)
    assert {"plain", "team____plain", "with__dot"} < {prompt.name for prompt in listed}
    said = [content.text for content in got if isinstance(content, types.TextContent)]
    assert sorted(said) == sorted([*(f"You are {name}." for name in names), "You are plain of the team."])
    assert by_path == ["The agent plain", "The agent with.dot", "The agent with space"]


async def test_a_prompt_that_a_caller_may_not_see_is_not_found_by_its_name(
    serve: Serve, tmp_path: Path, mode: str
) -> None:
    write_agent(tmp_path / "agents", "with space", "constraints: { data: { sensitivity: pii.high } }")
    caller = Caller(id="ada", is_verified=True, clearance="INTERNAL")
    async with Client(serve(tmp_path / "agents", caller_of=lambda _: caller).server, mode=mode) as client:
        error = await refusal(client.get_prompt(to_wire_name("with%20space")))

    assert error.message == "Prompt not found"


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_served_project_lists_and_answers_by_these_names(tmp_path: Path, mode: str, transport: str) -> None:
    (tmp_path / "agent.toml").write_text('[tools]\nmodules = ["notes"]\n')
    (tmp_path / "notes.py").write_text(NOTES)
    options = ("--trust",)

    async def use(server: Any) -> None:
        async with Client(server, mode=mode) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            called = ["notes__echo", "notes.echo", to_wire_name("notes.keep__two")]
            said = [(await client.call_tool(name, {"text": "hello"})).structured_content for name in called]
        assert all(FITS.fullmatch(name) for name in names)
        assert {"list_agents", "notes__echo", to_wire_name("notes.keep__two")} < set(names)
        assert said == [{"text": "hello"}] * 3

    if transport == "stdio":
        await use(stdio_client(over_stdio(tmp_path, *options)))
    else:
        with over_http(tmp_path, *options) as address:
            await use(address.url)
