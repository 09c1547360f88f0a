"""A catalog as programs open it: folders in, agents out."""

from pathlib import Path

import pytest

from agent_resolver import Catalog, Query, ResolverError, UnknownAgent
from tests.catalog.conftest import agent


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two agents, one of them in a folder of its own."""
    folder = tmp_path / "agents"
    (folder / "team").mkdir(parents=True)
    agent(folder / "reviewer.md", description="reviews security")
    agent(folder / "team" / "writer.md", description="writes release notes")
    return folder


def test_an_opened_catalog_has_the_agents_of_its_folders(folder: Path) -> None:
    with Catalog.open(folder) as catalog:
        assert [found.name for found in catalog.page().agents] == ["reviewer", "writer"]


def test_words_alone_are_a_query(folder: Path) -> None:
    with Catalog.open(folder) as catalog:
        assert [found.name for found in catalog.search("release notes")] == ["writer"]
        assert catalog.search("release notes") == catalog.search(Query(text="release notes"))


@pytest.mark.parametrize("name", ["writer", "agent://writer", "agent://writer?format=json"])
def test_an_agent_is_loaded_by_its_name_or_its_address(folder: Path, name: str) -> None:
    with Catalog.open(folder) as catalog:
        assert catalog.load(name).entry.description == "writes release notes"


@pytest.mark.parametrize("name", ["nobody", "agent://nobody", "team/nobody", "not text \udcff"])
def test_an_agent_that_is_not_there_is_an_error_of_its_own(folder: Path, name: str) -> None:
    with Catalog.open(folder) as catalog, pytest.raises(UnknownAgent):
        catalog.load(name)


def test_a_folder_that_is_not_there_is_an_error_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(ResolverError, match="missing` cannot be served"):
        Catalog.open(tmp_path / "missing")


def test_opening_a_catalog_writes_nothing(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    before = sorted(tmp_path.rglob("*"))

    Catalog.open(folder).close()

    assert sorted(tmp_path.rglob("*")) == before
