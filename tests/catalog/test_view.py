"""A client sees the agents that it is cleared for, and nothing of the others."""

from pathlib import Path
from typing import Any

import pytest

from agent_resolver.catalog import AgentUri, BadCursor, Catalog, Query, UnknownAgent, View, read_entry
from agent_resolver.schema import CLASSIFICATION_RANK, Classification
from tests.catalog.conftest import Make, agent

SENSITIVITIES = {
    "open": None,
    "public": "public",
    "internal": "internal",
    "paid": "confidential",
    "named": "pii.low",
    "tracked": "pii.moderate",
    "medical": "pii.high",
    "misspelt": "pii.hihg",
}
SEEN: dict[Classification, set[str]] = {
    "PUBLIC": {"open", "public"},
    "INTERNAL": {"open", "public", "internal"},
    "CONFIDENTIAL": {"open", "public", "internal", "paid", "named"},
    "RESTRICTED": set(SENSITIVITIES),
}


def write(root: Path, name: str, sensitivity: object, body: str = "Do it.") -> None:
    constraints = {} if sensitivity is None else {"constraints": {"data": {"sensitivity": sensitivity}}}
    agent(root / f"{name}.md", body, description="Helps with things", **constraints)


@pytest.fixture
def catalog(make: Make, tmp_path: Path) -> Catalog:
    """An agent for each sensitivity."""
    for name, sensitivity in SENSITIVITIES.items():
        write(tmp_path, name, sensitivity)
    return make(tmp_path)


@pytest.mark.parametrize("clearance", CLASSIFICATION_RANK)
def test_every_way_to_an_agent_takes_the_clearance_for_its_data(catalog: Catalog, clearance: Classification) -> None:
    view, seen = View(clearance=clearance), SEEN[clearance]

    page = catalog.page(view=view)
    assert ({found.name for found in page.agents}, page.total) == (seen, len(seen))
    assert {found.name for found in catalog.search(Query(text="things"), view=view)} == seen
    assert {found.name for found in catalog.search(Query(), view=view)} == seen
    assert set(catalog.completions("", view=view)[0]) == seen
    assert set(catalog.completions("", is_path=True, view=view)[0]) == seen
    for name in SENSITIVITIES:
        if name in seen:
            assert catalog.definition(AgentUri(f"agent://{name}"), view=view).entry.name == name
        else:
            with pytest.raises(UnknownAgent):
                catalog.definition(AgentUri(f"agent://{name}"), view=view)


def test_a_cursor_of_one_clearance_leads_nowhere_under_another(catalog: Catalog) -> None:
    cursor = catalog.page(limit=1).next_cursor

    with pytest.raises(BadCursor):
        catalog.page(cursor, view=View(clearance="PUBLIC"))


def test_an_agent_that_became_sensitive_is_not_read_even_once(catalog: Catalog, tmp_path: Path) -> None:
    view = View(clearance="PUBLIC")
    assert catalog.definition(AgentUri("agent://public"), view=view).entry.name == "public"
    write(tmp_path, "public", "pii.high", "Now it deals with patients.")

    with pytest.raises(UnknownAgent):
        catalog.definition(AgentUri("agent://public"), view=view)


def test_a_change_names_the_clearance_that_it_takes_to_see_it(catalog: Catalog, tmp_path: Path) -> None:
    catalog.refresh()
    write(tmp_path, "medical", "pii.high", "Edited.")
    write(tmp_path, "public", "confidential", "Raised.")
    write(tmp_path, "new", "internal")

    changes = catalog.refresh()

    assert changes.uris == {"agent://medical", "agent://public", "agent://new"}
    assert changes.ranks == {"agent://medical": 3, "agent://new": 1}, "what was PUBLIC before is told to all"


@pytest.mark.parametrize("constraints", [None, [], "x", {"data": None}, {"data": "x"}, {"data": {"sensitivity": None}}])
def test_constraints_of_an_odd_shape_say_nothing_of_data(constraints: Any) -> None:
    entry = read_entry(f"---\nname: a\nconstraints: {constraints!r}\n---\n".replace("None", "null").encode(), "a")

    assert entry is not None
    assert entry.classification == "PUBLIC"  # type: ignore[union-attr]  # the file can be served


@pytest.mark.parametrize("sensitivity", [5, True, ["public"], {"a": 1}, ""])
def test_a_sensitivity_that_is_not_known_counts_as_the_highest(make: Make, tmp_path: Path, sensitivity: object) -> None:
    write(tmp_path, "odd", sensitivity)

    assert make(tmp_path).page(view=View(clearance="CONFIDENTIAL")).total == 0
