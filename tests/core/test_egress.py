"""Egress: which hosts a tool reaches, and which of them the project lists."""

import pytest
from msgspec import UNSET, UnsetType, structs

from agent_resolver.core import egress_hosts, hosts_of_servers, is_host, unlisted_hosts
from agent_resolver.schema import Descriptor, Labels, Launch, LockedServer
from tests.blueprints import tool

TOOL = tool("t.a", {})
SERVERS = {"server acme@3.0.0": "mcp.acme.example"}


def labelled(labels: Labels, source: str = "module tickets") -> Descriptor:
    return structs.replace(TOOL, labels=labels, source=source)


@pytest.mark.parametrize(
    ("descriptor", "hosts"),
    [
        (labelled(Labels(kind="CAPABILITY")), ()),
        (labelled(Labels(kind="BLUEPRINT")), ()),
        (labelled(Labels(kind="CAPABILITY", allow_outbound=True)), None),
        (
            labelled(Labels(kind="CAPABILITY", allow_outbound=True, hosts=("b.example", "a.example"))),
            ("a.example", "b.example"),
        ),
        (labelled(Labels(kind="TOOL"), "server acme@3.0.0"), ("mcp.acme.example",)),
        (labelled(Labels(kind="TOOL"), "server other@1.0.0"), None),
        (labelled(Labels(), "delegate helper"), None),
    ],
)
def test_a_tool_reaches_what_it_declares_or_where_its_server_is(
    descriptor: Descriptor, hosts: tuple[str, ...] | None
) -> None:
    assert egress_hosts(descriptor, SERVERS) == hosts


def locked(server: str, endpoint: str, launch: Launch | UnsetType = UNSET) -> LockedServer:
    return LockedServer(
        category="c", server_id=server, version="1.0.0", endpoint=endpoint, scopes=(), hash="sha256-0", launch=launch
    )


def test_a_server_that_is_reached_over_the_network_is_at_the_host_of_its_endpoint() -> None:
    servers = [
        locked("acme", "https://user@MCP.Acme.example:8443/mcp?x=1"),
        locked("six", "http://[::1]:80/mcp"),
        locked("process", "https://mcp.acme.example", launch=Launch(command="npx")),
        locked("command", "npx server"),
        locked("file", "file://host/path"),
        locked("empty", "https:///mcp"),
        locked("broken", "https://[::1/mcp"),
    ]

    assert hosts_of_servers(servers) == {"server acme@1.0.0": "mcp.acme.example", "server six@1.0.0": "::1"}


@pytest.mark.parametrize(
    ("patterns", "unlisted"),
    [
        ((), ("Api.example.com", "other.example")),
        (("*",), ()),
        (("api.example.com",), ("other.example",)),
        (("*.EXAMPLE.com",), ("other.example",)),
        (("example.com", "*.other.example"), ("Api.example.com", "other.example")),
        (("*.example.com", "other.*"), ()),
    ],
)
def test_a_host_is_listed_if_a_pattern_fits_all_of_it(patterns: tuple[str, ...], unlisted: tuple[str, ...]) -> None:
    assert unlisted_hosts(["other.example", "Api.example.com"], patterns) == unlisted


@pytest.mark.parametrize(
    "text", ["localhost", "api.example.com", "API.Example", "10.0.0.1", "::1", "a-b.c_d", "x" * 63, "xn--mnchen-3ya.de"]
)
def test_names_and_addresses_are_hosts(text: str) -> None:
    assert is_host(text)


@pytest.mark.parametrize(
    "text",
    ["", ".", "a..b", "a.", "-a", "a-", "*.example.com", "https://a", "a:80", "[::1]", "a b", "münchen.de", "a\n"],
)
def test_nothing_else_is_a_host(text: str) -> None:
    assert not is_host(text)


@pytest.mark.parametrize("text", ["x" * 64, ".".join(["x" * 50] * 6)])
def test_a_host_is_not_longer_than_a_name_may_be(text: str) -> None:
    assert not is_host(text)
