"""Definitions of a project's agents that a prompt mentions."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_resolver.catalog import Catalog, CatalogIndex
from agent_resolver.project import CatalogDefinitions
from agent_resolver.schema import ANONYMOUS, Caller, local_caller
from tests.catalog.conftest import agent

LIN = local_caller("lin")


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    agent(tmp_path / "reviewer.md", "Review it.\n", description="Reviews code", tools=["notes.write"])
    agent(tmp_path / "plain.md", "Do it.\n", version="1.0.0")
    agent(tmp_path / "secret.md", "The code is 1234.\n", constraints={"data": {"sensitivity": "confidential"}})
    made = Catalog([str(tmp_path)], CatalogIndex(None))
    made.refresh()
    yield made
    made.close()


def definition(catalog: Catalog, uri: str, caller: Caller = LIN) -> str | None:
    return asyncio.run(CatalogDefinitions(catalog).definition(uri, caller))


def test_a_definition_is_text_alone(catalog: Catalog) -> None:
    assert definition(catalog, "agent://reviewer") == "Reviews code\n\nReview it."
    assert definition(catalog, "agent://plain?version=1.0.0") == "Do it."


@pytest.mark.parametrize(
    "uri", ["agent://nobody", "agent://plain?version=2.0.0", "agent://../etc/passwd", "agent://\ud800"]
)
def test_what_is_not_there_is_none(catalog: Catalog, uri: str) -> None:
    assert definition(catalog, uri) is None


def test_an_agent_above_the_clearance_of_the_caller_is_none(catalog: Catalog) -> None:
    assert definition(catalog, "agent://secret") == "The code is 1234."
    assert definition(catalog, "agent://secret", ANONYMOUS) is None


def test_a_changed_file_counts_at_once(catalog: Catalog, tmp_path: Path) -> None:
    assert definition(catalog, "agent://plain") == "Do it."
    agent(tmp_path / "plain.md", "Do it better.\n")

    assert definition(catalog, "agent://plain") == "Do it better."
