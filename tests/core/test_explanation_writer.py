"""An explanation in pieces is the explanation."""

import pytest
from hypothesis import given, strategies as st
from msgspec import json

from agent_resolver import AgentFile, Explanation, Resolution, Server, explanation_json, resolve, to_json
from agent_resolver.schema import Requirement, Requires
from tests.core.strategies import CATEGORIES, LAW, SCOPES, Case, cases
from tests.strategies import law

characters = st.characters(exclude_categories=["Cs"])


def agent_named(name: str, *requirements: Requirement) -> AgentFile:
    return AgentFile(name=name, version=name, requires=Requires(mcp=requirements))


def in_pieces(resolution: Resolution) -> bytes:
    return b"".join(explanation_json(resolution))


@law(200)
@given(cases)
def test_an_explanation_in_pieces_is_the_explanation(case: Case) -> None:
    resolution = resolve(case.agent, case.servers)

    assert in_pieces(resolution) == to_json(resolution.explanation)
    assert json.decode(in_pieces(resolution), type=Explanation) == resolution.explanation


@LAW
@given(
    name=st.text(characters),
    category=st.text(characters, min_size=1),
    server_id=st.text(characters, min_size=1),
)
def test_no_text_breaks_the_pieces(name: str, category: str, server_id: str) -> None:
    """Not even text that an input file may not hold."""
    agent = agent_named(name, Requirement(category=category, permissions=(name,)))
    offered = [Server(server_id, name, category, (), ()), Server(server_id, name + "2", name, (category,), (name,))]
    resolution = resolve(agent, offered)

    assert in_pieces(resolution) == to_json(resolution.explanation)


@pytest.mark.parametrize("count", [0, 1, 999, 1000, 1001, 2500])
@pytest.mark.parametrize("winner", [True, False])
def test_any_number_of_rejections_comes_in_pieces_of_a_thousand(count: int, winner: bool) -> None:  # noqa: FBT001
    agent = agent_named(
        '"rejected": [',
        Requirement(category=CATEGORIES[0], permissions=SCOPES[:1]),
        Requirement(category=CATEGORIES[2], permissions=SCOPES[:2]),
    )
    offered = [Server(f"server-{number}", "1", '"rejected": []', CATEGORIES, ()) for number in range(count)]
    offered += [Server("winner", "1", "x", CATEGORIES, SCOPES)] if winner else []
    resolution = resolve(agent, offered)
    pieces = list(explanation_json(resolution))

    assert b"".join(pieces) == to_json(resolution.explanation)
    assert max(piece.count(b'"reason": {') for piece in pieces) == min(count, 1000)


def test_an_agent_without_requirements_is_explained_in_pieces_too() -> None:
    resolution = resolve(agent_named("idle"), [])

    assert in_pieces(resolution) == to_json(resolution.explanation)
    assert resolution.success


@given(cases)
def test_a_resolution_has_the_servers_that_it_was_given(case: Case) -> None:
    assert resolve(case.agent, case.servers).servers == tuple(case.servers)
