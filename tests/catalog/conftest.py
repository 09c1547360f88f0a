"""Folders of agent files, and catalogs over them."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_resolver.catalog import Catalog, CatalogIndex, Judge, Query

Make = Callable[..., Catalog]


def agent(path: Path, body: str = "Do it.\n", **keys: Any) -> Path:
    """Write an agent file; a name that is not given is that of the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    said = {"name": path.stem, **keys}
    lines = [f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in said.items() if value is not None]
    path.write_text(f"---\n{''.join(lines)}---\n{body}", encoding="utf-8")
    return path


def uris(catalog: Catalog, **query: Any) -> list[str]:
    """The addresses of the agents that fit."""
    return [found.uri for found in catalog.search(Query(**query), None)]


def codes(catalog: Catalog) -> list[str]:
    """What there is to say about the files, in a word each."""
    return [found.issue.code.value for found in catalog.findings()]


@pytest.fixture
def make() -> Iterator[Make]:
    """Opens catalogs that are up to date, in memory unless there is a place for the index, and closes them."""
    opened: list[Catalog] = []

    def open_one(*roots: Path, index: Path | None = None, judge: Judge | None = None) -> Catalog:
        catalog = Catalog([str(root) for root in roots], CatalogIndex(str(index) if index else None), judge=judge)
        opened.append(catalog)
        catalog.refresh()
        return catalog

    yield open_one
    for catalog in opened:
        catalog.close()
