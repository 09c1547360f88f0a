"""What an agent file is proposed to require."""

from agent_resolver.exchange import (
    ProposedRequirement,
    Wish,
    agent_file_text,
    propose_requirements,
    with_own_categories,
)
from agent_resolver.schema import IndexEntry, Server, parse_agent_file


def server(server_id: str, *categories: str, **more: object) -> Server:
    """A server with two scopes."""
    values = {"scopes": ("read:x", "write:x"), "tool_scopes": {"get": ("read:x",), "put": ("write:x",)}, **more}
    return Server(server_id, "1", "https://x.example", categories, **values)  # type: ignore[arg-type]


def entry(server_id: str, *categories: str) -> IndexEntry:
    """An entry that states nothing else."""
    return IndexEntry(id=server_id, endpoint="https://x.example", categories=categories)


def test_a_server_without_a_category_of_its_own_gets_its_id() -> None:
    entries = [entry("a", "code"), entry("b", "code"), entry("c", "chat")]

    found = with_own_categories(entries, ["a", "c"])

    assert [item.categories for item in found] == [("code", "a"), ("code",), ("chat",)]


def test_an_id_that_is_a_category_of_another_server_is_told_apart() -> None:
    entries = [entry("a", "a"), entry("b", "a")]

    found = with_own_categories(entries, ["a"])

    assert [item.categories for item in found] == [("a", "server-a"), ("a",)]


def test_a_category_that_others_have_too_is_guessed() -> None:
    (found,) = propose_requirements([server("a", "code"), server("b", "code")], [Wish("a", "x")])

    assert (found.category, found.certainty) == ("code", "guessed")
    assert found.why.endswith("other servers have the category too")


def test_the_category_that_is_the_id_comes_before_others() -> None:
    servers = [server("Git_Hub", "code", "git-hub"), server("b", "b", "chat")]

    found = propose_requirements(servers, [Wish("Git_Hub", "x"), Wish("b", "x")])

    assert [item.category for item in found] == ["git-hub", "b"]


def test_only_the_scopes_of_named_tools_are_asked_for() -> None:
    (named,) = propose_requirements([server("a", "a")], [Wish("a", "x.md", ("get",))])
    (whole,) = propose_requirements([server("a", "a")], [Wish("a", "x.md", ("get",)), Wish("a", "y.md")])

    assert (named.permissions, named.certainty) == (("read:x",), "stated")
    assert whole.permissions == ("read:x", "write:x")
    assert whole.why.startswith("x.md, y.md names it")


def test_drafted_scopes_are_derived_and_unknown_ones_are_not_guessed() -> None:
    (drafted,) = propose_requirements([server("a", "a", drafted=("get",))], [Wish("a", "x")])
    (unknown,) = propose_requirements([server("a", "a", scopes=None)], [Wish("a", "x")])
    (tool,) = propose_requirements([server("a", "a")], [Wish("a", "x", ("other",))])

    assert drafted.certainty == "derived"
    assert (unknown.permissions, tool.permissions) == ((), ())
    assert "which scopes open `other` is not known" in tool.why


def test_scopes_that_are_not_allowed_are_not_asked_for() -> None:
    (some,) = propose_requirements([server("a", "a")], [Wish("a", "x")], ["read:*"])
    (none,) = propose_requirements([server("a", "a")], [Wish("a", "x")], ["delete:*"])

    assert some.permissions == ("read:x",)
    assert (none.permissions, none.why) == ((), "none of its scopes is allowed: read:x, write:x")


def test_a_line_break_in_a_name_adds_no_line_to_the_agent_file() -> None:
    attack = 'x"\n    - category: stolen\n      permissions: [all]\n#'
    requirement = ProposedRequirement(
        server="a", category=attack, permissions=(attack,), certainty="derived", why=f"{attack} names it"
    )

    agent = parse_agent_file(agent_file_text("n", "agent init", [requirement]).replace("\\n", " ").encode())

    assert len(agent.requires.mcp) == 1
    assert agent.requires.mcp[0].category.startswith('x"')
