"""The servers and tools that agent files of clients name."""

from typing import Any

import pytest

from agent_resolver.exchange import KnownNames, inline_servers, server_mentions

KNOWN = KnownNames([("github", "github"), ("my server", "my-server"), ("a__b", "a__b")])


@pytest.mark.parametrize(
    ("tool", "found"),
    [
        ("mcp__github__create_issue", ("github", "create_issue", "stated", True)),
        ("mcp__github", ("github", "", "stated", True)),
        ("mcp__github__*", ("github", "", "stated", True)),
        ("mcp__my_server__do", ("my-server", "do", "stated", True)),
        ("mcp__a__b__c__d", ("a__b", "c__d", "stated", True)),
        ("mcp__other__x", ("other", "x", "stated", False)),
        ("github/create_issue", ("github", "create_issue", "stated", True)),
        ("github/*", ("github", "", "stated", True)),
        ("search/codebase", ("search", "codebase", "guessed", False)),
        ("github", ("github", "", "derived", True)),
    ],
)
def test_a_tool_names_a_server_with_a_certainty(tool: str, found: tuple[Any, ...]) -> None:
    (mention,) = server_mentions([tool], {}, "", KNOWN)

    assert (mention.name, mention.tool, mention.certainty, mention.is_known) == found


@pytest.mark.parametrize("tool", ["Read", "Bash(git:*)", "", "a b", "../x/y"])
def test_a_tool_of_the_client_names_no_server(tool: str) -> None:
    assert server_mentions([tool], {}, "", KNOWN) == []


def test_tools_in_prose_are_derived_and_listed_ones_come_first() -> None:
    body = "Call mcp__github__search, then `mcp__github__create_issue`; not xmcp__github__no."

    mentions = server_mentions(["mcp__github__search", "github"], {}, body, KNOWN)

    assert [(mention.tool, mention.certainty) for mention in mentions] == [
        ("search", "stated"),
        ("create_issue", "derived"),
    ]


@pytest.mark.parametrize("key", ["mcp-servers", "mcpServers", "mcp_servers"])
def test_servers_of_the_front_matter_are_found_in_every_form(key: str) -> None:
    config = {"command": "x"}

    assert inline_servers({key: {"a": config, "b": 3}}) == {"a": config}
    assert inline_servers({key: ["c", {"a": config}, 4]}) == {"a": config}
    named = server_mentions([], {key: ["github", {"a": config}]}, "", KNOWN)
    assert {mention.name for mention in named} == {"github", "a"}
