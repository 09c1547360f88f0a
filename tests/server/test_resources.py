"""`resources/*` and `completion/complete`, asked by the SDK's own client in both eras."""

import base64
import json
import os
import re
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client, MCPError

from agent_resolver import __version__
from agent_resolver.catalog import encode_cursor
from agent_resolver.schema import Caller
from tests.server.conftest import ERAS, LEGACY, MODERN, Serve, requiring, write_agent, write_index

pytestmark = pytest.mark.anyio

JSON_TYPE = "application/vnd.agent-resolver.agent+json"
TEMPLATE = types.ResourceTemplateReference(type="ref/resource", uri="agent://{name}{?format,version}")


def limited(limit: object) -> Any:
    return {"agent-resolver/limit": limit}


async def pages(client: Client, limit: int | None = None) -> list[types.ListResourcesResult]:
    meta: Any = {} if limit is None else limited(limit)
    found = [await client.list_resources(meta=meta)]
    while found[-1].next_cursor is not None:
        found.append(await client.list_resources(cursor=found[-1].next_cursor, meta=meta))
    return found


async def refusal(asked: Any) -> types.ErrorData:
    with pytest.raises(MCPError) as caught:
        await asked
    return caught.value.error


def text_of(result: types.ReadResourceResult) -> str:
    [contents] = result.contents
    assert isinstance(contents, types.TextResourceContents)
    return contents.text


@pytest.mark.parametrize(("mode", "version"), [("legacy", "2025-11-25"), ("auto", "2026-07-28")])
async def test_the_server_says_who_it_is_and_what_it_can_do(
    serve: Serve, agents: Path, mode: str, version: str
) -> None:
    async with Client(serve(agents).server, mode=mode) as client:
        offered = client.server_capabilities
        info = client.server_info

        assert client.protocol_version == version
        assert info is not None
        assert (info.name, info.version) == ("agent-resolver", __version__)
        assert offered.resources is not None
        assert (offered.resources.list_changed, offered.resources.subscribe) == (True, True)
        assert offered.tools is not None
        assert offered.completions is not None
        assert offered.prompts == types.PromptsCapability(list_changed=True)
        assert "list_agents" in (client.instructions or "")


@pytest.mark.parametrize("mode", ERAS)
async def test_a_caller_reads_and_lists_only_agents_they_are_cleared_for(
    serve: Serve, tmp_path: Path, mode: str
) -> None:
    write_agent(tmp_path / "agents", "open")
    write_agent(tmp_path / "agents", "medical", "constraints: { data: { sensitivity: pii.high } }")
    caller = Caller(id="ada", is_verified=True, clearance="INTERNAL")
    async with Client(serve(tmp_path / "agents", caller_of=lambda _: caller).server, mode=mode) as client:
        listed = await client.list_resources(cache_mode="bypass")
        found = (await client.call_tool("list_agents", {})).structured_content
        refused = await client.call_tool("get_agent", {"agent": "medical"})
        with pytest.raises(MCPError, match="Resource not found"):
            await client.read_resource("agent://medical")
        caller = Caller(id="bob", is_verified=True, clearance="RESTRICTED")
        assert (await client.read_resource("agent://medical")).contents
        everything = await client.list_resources(cache_mode="bypass")

    assert [resource.name for resource in listed.resources] == ["open"]
    assert found is not None
    assert [each["name"] for each in found["agents"]] == ["open"]
    assert refused.is_error
    assert [resource.name for resource in everything.resources] == ["medical", "open"]


@pytest.mark.parametrize("mode", ERAS)
async def test_a_page_has_twenty_agents_sorted_by_name(serve: Serve, agents: Path, mode: str) -> None:
    async with Client(serve(agents).server, mode=mode) as client:
        page = await client.list_resources()

        assert [agent.name for agent in page.resources] == [f"agent-{number:02}" for number in range(20)]
        assert page.resources[0].uri == "agent://agent-00"
        assert page.resources[0].mime_type == JSON_TYPE
        assert page.meta is not None
        assert page.meta["agent-resolver/total"] == 45
        assert page.meta["agent-resolver/count"] == 20


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("limit", [None, 1, 7, 45, 100])
async def test_the_pages_together_are_the_catalog(serve: Serve, agents: Path, mode: str, limit: int | None) -> None:
    served = serve(agents)
    async with Client(served.server, mode=mode) as client:
        found = await pages(client, limit)

    listed = [agent.uri for page in found for agent in page.resources]
    assert listed == [agent.uri for agent in served.catalog.page(None, 100).agents]
    assert {len(page.resources) for page in found[:-1]} <= {limit or 20}
    assert found[-1].next_cursor is None


@pytest.mark.parametrize("mode", ERAS)
async def test_the_page_size_of_the_server_holds_where_a_request_names_none(
    serve: Serve, agents: Path, mode: str
) -> None:
    async with Client(serve(agents, page_size=33).server, mode=mode) as client:
        assert len((await client.list_resources()).resources) == 33
        assert len((await client.list_resources(meta=limited(2))).resources) == 2


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("limit", [0, 101, -1, True, False, "5", 1.5, 5.0, [5], {"limit": 5}, 2**70])
async def test_any_other_limit_is_refused(serve: Serve, agents: Path, mode: str, limit: Any) -> None:
    async with Client(serve(agents).server, mode=mode) as client:
        for asked in (client.list_resources(meta=limited(limit)), client.list_tools(meta=limited(limit))):
            error = await refusal(asked)
            assert error.code == types.INVALID_PARAMS
            assert "from 1 to 100" in error.message


BAD_CURSORS = [
    "x",
    "0",
    "20",
    "=",
    "====",
    "\u00e9",
    "a" * 100_000,
    base64.urlsafe_b64encode(b"\xff" * 40).decode(),
    base64.urlsafe_b64encode(os.urandom(16) + b"agent://agent-05").decode(),
    encode_cursor("another listing", "agent://agent-05"),
    " ",
    "\n",
    "' OR 1=1 --",
]


@pytest.mark.parametrize("mode", ERAS)
async def test_a_cursor_that_the_listing_did_not_give_is_refused(serve: Serve, agents: Path, mode: str) -> None:
    async with Client(serve(agents).server, mode=mode) as client:
        given = (await client.list_resources()).next_cursor
        assert given is not None
        for cursor in [*BAD_CURSORS, f"{given}=", f"{given}A", given[:-1], given.swapcase(), f" {given}"]:
            for asked in (client.list_resources(cursor=cursor), client.list_tools(cursor=cursor)):
                error = await refusal(asked)
                assert error.code == types.INVALID_PARAMS, cursor
                assert error.message.startswith("Bad cursor: ")


@pytest.mark.parametrize("mode", ERAS)
async def test_a_cursor_of_tools_or_of_a_strict_listing_is_none_of_agents(
    serve: Serve, agents: Path, mode: str
) -> None:
    async with Client(serve(agents).server, mode=mode) as client, Client(serve(agents, strict=True).server) as strict:
        of_tools = await client.list_tools(meta=limited(2))
        of_strict = await strict.list_resources()

        for cursor in (of_tools.next_cursor, of_strict.next_cursor):
            assert cursor
            assert (await refusal(client.list_resources(cursor=cursor))).code == types.INVALID_PARAMS


@pytest.mark.parametrize("mode", ERAS)
async def test_the_empty_cursor_is_the_start_since_no_page_ever_gives_it(serve: Serve, agents: Path, mode: str) -> None:
    async with Client(serve(agents).server, mode=mode) as client:
        first, again = await client.list_resources(), await client.list_resources(cursor="")

        assert [agent.uri for agent in again.resources] == [agent.uri for agent in first.resources]


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("change", ["added", "changed", "removed", "status"])
async def test_a_cursor_is_stale_once_the_listing_has_changed(
    serve: Serve, agents: Path, tmp_path: Path, mode: str, change: str
) -> None:
    served = serve(agents)
    async with Client(served.server, mode=mode) as client:
        cursor = (await client.list_resources()).next_cursor
        match change:
            case "added":
                write_agent(agents, "zebra")
            case "changed":
                write_agent(agents, "agent-40", body="Other words.")
            case "removed":
                (agents / "agent-40.md").unlink()
            case _:
                write_agent(agents, "lacking", requiring("data"))
        served.catalog.refresh()

        error = await refusal(client.list_resources(cursor=cursor))
        assert (error.code, "the listing has changed" in error.message) == (types.INVALID_PARAMS, True)


async def test_a_reason_that_changes_is_shown_although_the_status_stays(
    serve: Serve, agents: Path, tmp_path: Path
) -> None:
    """A page is kept while its listing holds; why an agent does not resolve is part of it."""
    from agent_resolver.project import judge_of

    index = tmp_path / "mcp.index.json"
    index.unlink()
    served = serve(agents, page_size=100)
    async with Client(served.server, mode=MODERN) as client:
        before = {agent.name: agent.meta for agent in (await client.list_resources()).resources}
        served.catalog.refresh(judge_of(str(write_index(index))))
        after = {agent.name: agent.meta for agent in (await client.list_resources(cache_mode="bypass")).resources}

    assert before["lacking"]["agent-resolver/reason"] == "there is no index"  # type: ignore[index]
    assert after["lacking"]["agent-resolver/reason"] == "no candidates for categories: weather"  # type: ignore[index]


@pytest.mark.parametrize("mode", ERAS)
async def test_a_listing_says_what_a_definition_costs_and_whether_its_requires_resolve(
    serve: Serve, agents: Path, mode: str
) -> None:
    async with Client(serve(agents, page_size=100).server, mode=mode) as client:
        listed = {agent.name: agent for agent in (await client.list_resources()).resources}

    for agent in listed.values():
        assert agent.meta is not None
        raw = (agents / f"{agent.name}.md").read_bytes()
        assert agent.size == len(raw)
        assert agent.meta["agent-resolver/tokens"] == pytest.approx(len(raw) / 4, abs=1)
        assert agent.meta["agent-resolver/digest"]
    metas = {name: agent.meta or {} for name, agent in listed.items()}
    assert metas["agent-00"]["agent-resolver/status"] == "not-required"
    assert metas["ready"]["agent-resolver/status"] == "resolved"
    assert metas["lacking"]["agent-resolver/status"] == "unresolved"
    assert metas["lacking"]["agent-resolver/reason"] == "no candidates for categories: weather"
    assert "agent-resolver/reason" not in metas["ready"]


@pytest.mark.parametrize("mode", ERAS)
async def test_an_agent_is_read_as_json_or_as_the_file_itself(serve: Serve, agents: Path, mode: str) -> None:
    raw = write_agent(agents, "whole", "tags: [a, b]\nx-own: { kept: 1 }", "Body.").read_text()
    async with Client(serve(agents).server, mode=mode) as client:
        as_json = await client.read_resource("agent://whole")
        as_markdown = await client.read_resource("agent://whole?format=markdown")

    definition = json.loads(text_of(as_json))
    assert definition["name"] == "whole"
    assert definition["content"].strip() == "Body."
    assert definition["frontMatter"]["x-own"] == {"kept": 1}
    assert text_of(as_markdown) == raw
    assert as_json.contents[0].mime_type == JSON_TYPE
    assert as_markdown.contents[0].mime_type == "text/markdown"
    for result in (as_json, as_markdown):
        meta = result.contents[0].meta or {}
        assert meta["agent-resolver/digest"] == definition["digest"]
        assert meta["agent-resolver/size"] == len(raw.encode())
        assert meta["agent-resolver/tokens"] > 0


@pytest.mark.parametrize(("mode", "code"), [(LEGACY, -32002), (MODERN, -32602)])
async def test_an_agent_that_is_not_there_has_the_code_of_its_era(
    serve: Serve, agents: Path, mode: str, code: int
) -> None:
    async with Client(serve(agents).server, mode=mode) as client:
        assert json.loads(text_of(await client.read_resource("agent://ready?version=1.0.0")))["version"] == "1.0.0"
        for uri in ("agent://nobody", "agent://ready?version=2.0.0", "agent://agents/nobody", "agent://READY"):
            error = await refusal(client.read_resource(uri))
            assert (error.code, error.message, error.data) == (code, "Resource not found", {"uri": uri})


MALFORMED = [
    "",
    "agent",
    "agent:",
    "agent:/",
    "agent://",
    "agent:///",
    "agent:///etc/passwd",
    "agent:////etc/passwd",
    "agent://ready/",
    "agent://ready//x",
    "agent://.",
    "agent://..",
    "agent://../secret",
    "agent://agents/../secret",
    "agent://agents/../../secret",
    "agent://%2e%2e",
    "agent://%2e%2e/secret",
    "agent://%2E%2E%2Fsecret",
    "agent://..%2fsecret",
    "agent://..%5csecret",
    "agent://..\\secret",
    "agent://%2e%2e%5c%2e%2e%5csecret",
    "agent://%c0%ae%c0%ae%c0%afsecret",
    "agent://%252e%252e%252fsecret%",
    "agent://%2fetc%2fpasswd",
    "agent://secret%00",
    "agent://secret%00.md",
    "agent://secret\x00",
    "agent://C:%5csecret",
    "agent://ready#fragment",
    "agent://user@ready",
    "agent://ready:80",
    "agent://ready?format=xml",
    "agent://ready?format=",
    "agent://ready?format=json&format=json",
    "agent://ready?version",
    "agent://ready?path=/etc/passwd",
    "agent://ready?version=../../secret",
    "agent://ready?version=%2e%2e%2fsecret",
    "file:///etc/passwd",
    "FILE:///etc/passwd",
    "http://127.0.0.1/",
    "agent://" + "a" * 5000,
    "agent://%",
    "agent://%zz",
    "agent://%ff",
    "agent://%0a",
    "agent://\u2025/secret",
    "agent://\uff0e\uff0e/secret",
    "agent://%e2%80%ae",
]


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("uri", MALFORMED)
async def test_an_address_that_no_agent_can_have_is_refused_and_nothing_is_read(
    serve: Serve, agents: Path, tmp_path: Path, mode: str, uri: str
) -> None:
    write_agent(tmp_path, "secret", body="CANARY")
    async with Client(serve(agents).server, mode=mode) as client:
        error = await refusal(client.read_resource(uri))

    # Double encoding is a name like any other, which is not there.
    assert error.code in {types.INVALID_PARAMS, -32002}
    assert error.data == {"uri": uri}
    assert str(tmp_path) not in error.message
    assert "CANARY" not in error.message


@pytest.mark.parametrize("mode", ERAS)
async def test_links_out_of_the_root_are_not_followed(serve: Serve, agents: Path, tmp_path: Path, mode: str) -> None:
    outside = tmp_path / "outside"
    write_agent(outside, "secret", body="CANARY")
    (agents / "link.md").symlink_to(outside / "secret.md")
    (agents / "folder").symlink_to(outside)
    (agents / "loop").symlink_to(agents)
    (agents / "broken.md").symlink_to(agents / "nothing.md")
    (agents / "passwd.md").symlink_to("/etc/passwd")
    async with Client(serve(agents, page_size=100).server, mode=mode) as client:
        names = [agent.name for agent in (await client.list_resources()).resources]
        for name in ("secret", "link", "folder/secret", "loop/ready", "broken", "passwd"):
            error = await refusal(client.read_resource(f"agent://{name}"))
            assert error.message == "Resource not found"

    assert len(names) == 45


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("what", ["file", "folder"])
async def test_what_became_a_link_after_it_was_listed_is_not_followed_either(
    serve: Serve, agents: Path, tmp_path: Path, mode: str, what: str
) -> None:
    outside = tmp_path / "outside"
    inside = write_agent(agents / "team", "changing", body="Harmless.")
    secret = write_agent(outside, "changing", body="CANARY ..")
    served = serve(agents)
    async with Client(served.server, mode=mode, cache=None) as client:
        assert "Harmless" in text_of(await client.read_resource("agent://changing"))
        stamp = inside.stat()
        os.utime(secret, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
        if what == "folder":
            (agents / "team").rename(tmp_path / "moved")
            (agents / "team").symlink_to(outside)
        else:
            inside.unlink()
            inside.symlink_to(secret)

        error = await refusal(client.read_resource("agent://changing"))
        assert error.message == "Resource not found"


@pytest.mark.parametrize("mode", ERAS)
async def test_no_answer_holds_a_path_of_the_machine(serve: Serve, agents: Path, tmp_path: Path, mode: str) -> None:
    """Neither a listing, nor a definition, nor the error when the whole folder is gone."""
    served = serve(agents, page_size=100)
    said: list[str] = []
    async with Client(served.server, mode=mode, cache=None) as client:
        said.append((await client.list_resources()).model_dump_json())
        said.append((await client.list_tools()).model_dump_json())
        for name in ("ready", "lacking", "agent-00"):
            said.append((await client.read_resource(f"agent://{name}")).model_dump_json())
            said.append((await client.call_tool("get_agent", {"agent": name})).model_dump_json())
            said.append((await client.call_tool("resolve_agent", {"agent": name})).model_dump_json())
        (tmp_path / "mcp.index.json").write_text("[{")
        said.append((await client.call_tool("resolve_agent", {"agent": "ready"})).model_dump_json())
        os.rename(agents, tmp_path / "gone")  # noqa: PTH104 - it takes no time
        for uri in ("agent://ready", "agent://agent-30"):
            said.append((await refusal(client.read_resource(uri))).model_dump_json())
            said.append((await client.call_tool("get_agent", {"agent": uri})).model_dump_json())

    assert [text for text in said if str(tmp_path) in text or "Traceback" in text] == []
    assert all(re.search(r'"code":(-32603|-32602|-32002)', text) for text in said[-4::2])


@pytest.mark.parametrize("mode", ERAS)
async def test_the_templates_name_the_addresses(serve: Serve, agents: Path, mode: str) -> None:
    async with Client(serve(agents).server, mode=mode) as client:
        templates = (await client.list_resource_templates()).resource_templates

    assert [template.uri_template for template in templates] == [
        "agent://{name}{?format,version}",
        "agent://{+path}{?format,version}",
    ]
    assert {template.mime_type for template in templates} == {JSON_TYPE}


async def test_a_cached_page_is_not_sent_for_a_request_of_another_size(serve: Serve, agents: Path) -> None:
    async with Client(serve(agents).server, mode=LEGACY) as client:
        sizes = [len((await client.list_resources(meta=limited(limit))).resources) for limit in (5, 10, 5, 45, 10)]

    assert sizes == [5, 10, 5, 45, 10]


@pytest.mark.parametrize("mode", ERAS)
async def test_paths_and_versions_are_completed(serve: Serve, tmp_path: Path, mode: str) -> None:
    for folder in ("east", "west"):
        write_agent(tmp_path / "agents" / folder, "clerk")
    write_agent(tmp_path / "agents", "foo: 1")
    template = types.ResourceTemplateReference(type="ref/resource", uri="agent://{+path}{?format,version}")

    async def completed(client: Client, argument: str, value: str, **given: str) -> list[str]:
        return (await client.complete(template, {"name": argument, "value": value}, given or None)).completion.values

    async with Client(serve(tmp_path / "agents").server, mode=mode) as client:
        paths = await completed(client, "path", "")
        west, east = await completed(client, "path", "WEST/"), await completed(client, "path", "east/c")
        versions = [
            await completed(client, "version", "", path="west/clerk"),
            await completed(client, "version", "1.", name="clerk"),
            await completed(client, "version", "2", name="clerk"),
            await completed(client, "version", "", name="nobody"),
            await completed(client, "version", ""),
        ]
        for path in paths:
            assert (await client.read_resource(f"agent://{path}")).contents

    assert paths == ["clerk", "east/clerk", "foo%3A%201", "west/clerk"]
    assert (west, east) == (["west/clerk"], ["east/clerk"])
    assert versions == [["1.0.0"], ["1.0.0"], [], [], []]


async def test_no_more_definitions_are_kept_than_the_catalog_keeps_and_it_says_how_it_did(
    serve: Serve, agents: Path
) -> None:
    served = serve(agents)
    async with Client(served.server, mode=LEGACY) as client:  # A newer client keeps answers itself.
        for number in (*range(43), 0, 42, 42):
            await client.read_resource(f"agent://agent-{number:02}")
        meta = (await client.list_resource_templates()).meta or {}

    counted = meta["agent-resolver/cache"]
    assert counted == {"hits": 2, "misses": 44, "evictions": 24, "count": 20, "bytes": counted["bytes"]}


@pytest.mark.parametrize("mode", ERAS)
async def test_names_and_formats_are_completed(serve: Serve, agents: Path, mode: str) -> None:
    for number in range(120):
        write_agent(agents, f"zone-{number:03}")
    async with Client(serve(agents).server, mode=mode) as client:
        few = (await client.complete(TEMPLATE, {"name": "name", "value": "agent-1"})).completion
        many = (await client.complete(TEMPLATE, {"name": "name", "value": "zone-"})).completion
        none = (await client.complete(TEMPLATE, {"name": "name", "value": "%"})).completion
        formats = (await client.complete(TEMPLATE, {"name": "format", "value": "m"})).completion
        odd = (await client.complete(TEMPLATE, {"name": "other", "value": ""})).completion
        error = await refusal(
            client.complete(
                types.ResourceTemplateReference(type="ref/resource", uri="file:///{p}"), {"name": "p", "value": ""}
            )
        )

    assert few.values == [f"agent-{number}" for number in range(10, 20)]
    assert (few.total, few.has_more) == (10, False)
    assert many.values == [f"zone-{number:03}" for number in range(100)]
    assert (many.total, many.has_more) == (120, True)
    assert (none.values, none.total, odd.values) == ([], 0, [])
    assert formats.values == ["markdown"]
    assert error.code == types.INVALID_PARAMS


async def test_every_answer_that_may_be_cached_says_how_long_and_for_whom(serve: Serve, agents: Path) -> None:
    async with Client(serve(agents).server, mode="auto") as client:
        first = await client.list_resources()
        answers: list[Any] = [
            await client.session.discover(),
            first,
            await client.list_resources(cursor=first.next_cursor),
            await client.list_resource_templates(),
            await client.list_tools(),
            await client.list_tools(meta=limited(1)),
            await client.read_resource("agent://ready"),
            await client.read_resource("agent://ready?format=markdown"),
        ]

    assert {(answer.ttl_ms, answer.cache_scope) for answer in answers} == {(1000, "private")}


@pytest.mark.parametrize("mode", ERAS)
async def test_a_definition_is_the_file_as_it_is_now(serve: Serve, agents: Path, mode: str) -> None:
    """Also before anybody has looked for changes."""
    async with Client(serve(agents).server, mode=mode, cache=None) as client:
        assert "You are agent-00" in text_of(await client.read_resource("agent://agent-00"))
        write_agent(agents, "agent-00", body="You are changed.")
        assert "You are changed" in text_of(await client.read_resource("agent://agent-00"))
        (agents / "agent-00.md").unlink()
        assert (await refusal(client.read_resource("agent://agent-00"))).message == "Resource not found"


@pytest.mark.parametrize("mode", ERAS)
async def test_two_agents_of_one_name_are_both_served(serve: Serve, tmp_path: Path, mode: str) -> None:
    for folder in ("one", "two"):
        write_agent(tmp_path / "roots" / folder, "same", body=f"From {folder}.")
    served = serve(tmp_path / "roots" / "one", tmp_path / "roots" / "two")
    async with Client(served.server, mode=mode) as client:
        listed = [agent.uri for agent in (await client.list_resources()).resources]
        texts = {uri: text_of(await client.read_resource(uri)) for uri in [*listed, "agent://one/same"]}

    assert listed == ["agent://same", "agent://two/same"]
    assert [json.loads(text)["content"].strip() for text in texts.values()] == ["From one.", "From two.", "From one."]
