"""Which facts are not known, and which of them would help."""

from typing import Any

from msgspec import structs

from agent_resolver import parse_agent_file, resolve
from agent_resolver.core import coverage_of, unknown_facts, unresolved
from agent_resolver.schema import Server

BARE = Server("bare", "1.0.0", "https://bare.example", ("crm",), None)
KNOWN = structs.replace(
    BARE, id="known", scopes=("read",), residency=("eu-only",), max_sensitivity="internal", signed=True
)
AGENT = """\
---
name: a
version: 1.0.0
requires:
  mcp:
    - {category: crm, permissions: [read, write]}
constraints:
  data: {residency: eu-only, sensitivity: internal}
  trust: {requireSigned: true}
---
"""


def remedies(*servers: Server, agent: str = AGENT) -> list[tuple[str, dict[str, Any]]]:
    (found,) = unresolved(resolve(parse_agent_file(agent), servers))
    return [(remedy.server.id, remedy.facts) for remedy in found.remedies]


def test_a_server_lacks_what_it_does_not_state() -> None:
    assert [fact.name for fact in unknown_facts(BARE)] == ["scopes", "residency", "maxSensitivity", "signed"]
    assert unknown_facts(KNOWN) == []
    assert unknown_facts(structs.replace(KNOWN, scopes=(), residency=())) == []
    assert [fact.name for fact in unknown_facts(structs.replace(KNOWN, categories=()))] == ["categories"]


def test_coverage_counts_servers_facts_and_categories() -> None:
    half = structs.replace(BARE, id="half", categories=("mail", "crm"), scopes=())

    found = coverage_of([BARE, KNOWN, half])

    assert (found.total, found.usable) == (3, 1)
    assert found.lacking == {"categories": 0, "scopes": 1, "residency": 2, "maxSensitivity": 2, "signed": 2}
    shown = [
        (each.category, each.total, each.usable, [server.id for server in each.incomplete]) for each in found.categories
    ]
    assert shown == [("crm", 3, 1, ["half", "bare"]), ("mail", 1, 0, ["half"])]


def test_a_remedy_states_every_unknown_fact_that_the_agent_asks_for() -> None:
    facts = {
        "scopes": ["read", "write"],
        "data": {"residency": ["eu-only"], "maxSensitivity": "internal"},
        "trust": {"signed": True},
    }

    assert remedies(BARE) == [("bare", facts)]


def test_the_server_that_lacks_the_fewest_facts_comes_first() -> None:
    nearly = structs.replace(KNOWN, id="nearly", scopes=None)

    assert [name for name, _ in remedies(BARE, nearly)] == ["nearly", "bare"]
    assert remedies(BARE, nearly)[0][1] == {"scopes": ["read", "write"]}


def test_a_server_with_a_known_obstacle_is_no_remedy() -> None:
    abroad = structs.replace(BARE, id="abroad", residency=("us-only",))
    gone = structs.replace(BARE, id="gone", status="deleted")

    assert remedies(abroad, gone, KNOWN) == []
    assert remedies(BARE, agent=AGENT.replace("constraints:\n", "constraints:\n  actions: {forbid: [read]}\n")) == []


def test_a_server_without_categories_is_a_remedy_if_it_is_called_after_the_category() -> None:
    named = structs.replace(KNOWN, id="my-crm", categories=(), scopes=("read", "write"))
    other = structs.replace(named, id="mail")

    assert remedies(named, other) == [("my-crm", {"categories": ["crm"]})]


def test_requirements_that_resolve_need_no_remedy() -> None:
    served = structs.replace(KNOWN, scopes=("read", "write"))

    assert unresolved(resolve(parse_agent_file(AGENT), [served])) == ()
