"""Mentions of agents that moved into a served catalog."""

import pytest

from agent_resolver.catalog import dangling_mentions, moved_agents, rewrite_mentions

MOVED = moved_agents("agent-resolver", ["code", "code-reviewer", "grün"])


@pytest.mark.parametrize(
    ("text", "rewritten"),
    [
        ("Ask @code-reviewer.", "Ask @agent-resolver:agent://code-reviewer."),
        ("(@code)", "(@agent-resolver:agent://code)"),
        ("**@agent-code-reviewer**", "**@agent-resolver:agent://code-reviewer**"),
        ("@grün, then", "@agent-resolver:agent://gr%C3%BCn, then"),
    ],
)
def test_an_exact_mention_becomes_the_served_address(text: str, rewritten: str) -> None:
    found = rewrite_mentions(text, "CLAUDE.md", MOVED)

    assert (found.text, found.count, found.left) == (rewritten, 1, ())
    assert list(dangling_mentions(found.text, lambda _uri: True)) == []


@pytest.mark.parametrize(
    "text",
    [
        "mail me@code today",
        "@code/package",
        "@code-reviewers",
        "@code.example",
        "x/@code-base",
        "@server:agent://code",
        "@@code",
        "@codex",
    ],
)
def test_what_only_looks_like_a_mention_stays(text: str) -> None:
    found = rewrite_mentions(text, "CLAUDE.md", MOVED)

    assert (found.text, found.count) == (text, 0)


@pytest.mark.parametrize("text", ["`@code`", "```python\n@code\ndef f(): ...\n```\n", "~~~\n@code\n"])
def test_a_mention_in_code_stays_and_is_reported(text: str) -> None:
    found = rewrite_mentions(text, "CLAUDE.md", MOVED)

    assert (found.text, [left.why for left in found.left]) == (text, ["it is in code"])


def test_prose_stays_and_is_reported_with_its_place() -> None:
    found = rewrite_mentions("First.\nUse the code-reviewer agent for it.\n", "CLAUDE.md", MOVED)

    assert found.count == 0
    assert [(left.line, left.column, left.text) for left in found.left] == [(2, 5, "the code-reviewer agent")]


def test_a_name_with_two_meanings_stays() -> None:
    doubled = moved_agents("s", ["x", "agent-x", "y", "y", "docs"], ["docs"])

    for text in ("@x", "@agent-x", "@y", "@docs"):
        found = rewrite_mentions(text, "CLAUDE.md", doubled)
        assert (found.text, [left.why for left in found.left]) == (text, ["the name may mean something else"])


def test_a_name_is_a_text_and_not_a_pattern() -> None:
    found = rewrite_mentions("@anything @.*", "CLAUDE.md", moved_agents("s", [".*"]))

    assert found.text == "@anything @s:agent://.%2A"
