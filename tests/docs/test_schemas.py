"""The page of schemas, which is generated, has every key that the JSON Schemas have, and every key of a definition."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from agent_resolver.catalog import Catalog, CatalogIndex
from agent_resolver.schema.format_schema import json_schema
from tests.docs.page import ROOT

PAGE = ROOT / "docs" / "schemas.md"
FORMATS = {"agents": "Agent file", "index": "Index", "overlay": "Overlay", "lock": "Lock", "resolution": "Explanation"}
AGENT = """---
name: reviewer
description: Reviews changes
version: 1.0.0
tools: [Read]
tags: [code]
useWhen: a change is ready
fallbacks: [writer]
---
"""
ROLES = "first: {primary: reviewer}\nsecond: {primary: reviewer}\n"


@cache
def sections() -> dict[str, str]:
    parts = re.split(r"^## (.+)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def keys(title: str) -> dict[str, str]:
    """The keys of a section by their default."""
    rows = (re.split(r" \| ", line.strip("| ")) for line in sections()[title].splitlines() if line.startswith("| `"))
    return {row[0].strip("`"): row[-2] for row in rows}


def described(name: str) -> Iterator[tuple[str, bool]]:
    """Each key of each object of a JSON Schema, and whether the object must have it."""
    for title, definition in json_schema(name)["$defs"].items():
        if title != "IndexFile":
            required = definition.get("required", [])
            for key, value in definition.get("properties", {}).items():
                # A key that is refused at this place is described there as well.
                if "not" not in value:
                    yield key, key in required


@pytest.mark.parametrize("name", FORMATS)
def test_every_key_of_a_json_schema_has_its_row(name: str) -> None:
    shown = keys(FORMATS[name])
    paths = {part for path in shown for part in path.replace("[]", "").split(".")}

    assert {key for key, _ in described(name)} - paths == set()


@pytest.mark.parametrize("name", FORMATS)
def test_a_key_is_called_required_if_the_json_schema_requires_it(name: str) -> None:
    shown = keys(FORMATS[name])
    needs: dict[str, set[bool]] = {}
    for key, is_required in described(name):
        needs.setdefault(key, set()).add(is_required)

    for path, default in shown.items():
        assert (default == "required") in needs[path.rpartition(".")[2]]


def test_every_key_of_a_definition_has_its_row(tmp_path: Path) -> None:
    (tmp_path / "reviewer.md").write_text(AGENT, encoding="utf-8")
    (tmp_path / "roles.yaml").write_text(ROLES, encoding="utf-8")
    catalog = Catalog([str(tmp_path)], CatalogIndex(None))
    catalog.refresh()
    found = catalog.load("reviewer").to_dict()
    catalog.close()

    assert list(keys("Definition")) == list(found)
