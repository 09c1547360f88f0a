"""Mentions of agents in workflows."""

import pytest

from agent_resolver.catalog import Dangling, dangling_mentions

KNOWN = {"agent://architect", "agent://team/architect", "agent://code%20reviewer", "agent://odd_", "agent://v1.2"}


def dangling(text: str) -> list[Dangling]:
    return list(dangling_mentions(text, lambda uri: uri.name in KNOWN and uri.version in {None, "1.0.0"}))


@pytest.mark.parametrize(
    "text",
    [
        "@orchestr8:agent://architect",
        "ask @orchestr8:agent://architect, then go on.",
        "(@o:agent://architect)",
        "[@o:agent://architect](x)",
        "`@o:agent://architect`",
        "**@o:agent://architect**",
        "_@o:agent://architect_.",
        "~~@o:agent://architect~~",
        "@o:agent://odd_",
        "@o:agent://v1.2.",
        "@my-server.v2:agent://team/architect?format=markdown",
        "@o:agent://architect?version=1.0.0",
        "@o:agent://code%20reviewer!",
        "<agent>@o:agent://architect</agent>",
        "an address alone, agent://nobody, is no mention",
        "mail@example.org: agent://nobody",
        "",
    ],
)
def test_a_mention_of_an_agent_that_exists_is_fine(text: str) -> None:
    assert dangling(text) == []


def test_every_dangling_mention_is_named_with_its_place() -> None:
    text = "# Plan\r\n\r\n1. @o:agent://nobody and **@o:agent://no-one**\r\n2. @o:agent://architect/../x\n"

    assert [(found.uri, found.line, found.column) for found in dangling(text)] == [
        ("agent://nobody", 3, 4),
        ("agent://no-one", 3, 28),
        ("agent://architect/../x", 4, 4),
    ]
    assert [found.message.split(":")[0] for found in dangling(text)] == [
        "No agent `agent",
        "No agent `agent",
        "Malformed agent URI",
    ]


def test_a_mention_of_another_version_leads_nowhere() -> None:
    [found] = dangling("@o:agent://architect?version=9.9.9.")

    assert (found.uri, found.message) == (
        "agent://architect?version=9.9.9",
        "No agent `agent://architect?version=9.9.9`",
    )


def test_a_megabyte_of_almost_mentions_takes_no_time() -> None:
    for piece in ("@a", "@a:", "@a:agent:", "@a:agent://", "@" * 7, "-._"):
        dangling(piece * 100_000)
