"""Agents of several sources: the project's own first, then the others in the order in which they were named."""

from agent_resolver.runtime import AgentSpec, CompositeAgents, MapAgents


def agents(*ids: str, source: str) -> MapAgents:
    return MapAgents(AgentSpec(id=agent_id, registry=source) for agent_id in ids)


def origin(composite: CompositeAgents, agent_id: str) -> str | None:
    found = composite.get(agent_id)
    return found.registry if found else None


COMPOSITE = CompositeAgents(
    agents("a", "own/x", source="here"),
    [("z", agents("a", "b", "own/x", source="z")), ("own", agents("b", "c", "x", source="own"))],
)


def test_the_projects_own_agents_come_first() -> None:
    assert origin(COMPOSITE, "a") == "here"
    assert origin(COMPOSITE, "own/x") == "here"


def test_of_the_others_the_first_that_was_named_answers_to_a_bare_id() -> None:
    assert origin(COMPOSITE, "b") == "z"
    assert origin(COMPOSITE, "c") == "own"
    assert origin(CompositeAgents(agents(source="here"), list(reversed(COMPOSITE._remotes))), "b") == "own"


def test_an_agent_of_one_source_is_found_by_its_name() -> None:
    assert origin(COMPOSITE, "z/a") == "z"
    assert origin(COMPOSITE, "own/b") == "own"
    assert origin(COMPOSITE, "z/own/x") == "z"


def test_nobody_else_is_found() -> None:
    for agent_id in ("", "d", "z/c", "own/a", "y/a", "z/", "/a"):
        assert COMPOSITE.get(agent_id) is None


def test_every_id_is_listed_with_its_source() -> None:
    assert COMPOSITE.ids() == ["a", "own/x", "z/a", "z/b", "z/own/x", "own/b", "own/c", "own/x"]
    assert {agent_id for agent_id in COMPOSITE.ids() if COMPOSITE.get(agent_id) is None} == set()


def test_agents_are_listed_in_order_and_a_change_leaves_the_others_as_they_were() -> None:
    before = agents("b", "a", "c", source="here")
    added = before.changed("aa", AgentSpec(id="aa"))
    removed = added.changed("b", None)

    assert before.ids() == ["a", "b", "c"]
    assert added.ids() == ["a", "aa", "b", "c"]
    assert removed.ids() == ["a", "aa", "c"]
    assert before.get("aa") is None
