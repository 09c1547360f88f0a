"""The catalog of a project: its folders, where its index is, and what its `requires` resolve to."""

import json
from pathlib import Path

import pytest

from agent_resolver.catalog import Catalog, Query
from agent_resolver.project import Session, judge_of, open_catalog, resolve_against
from agent_resolver.schema import InvalidIndex, parse_agent_file
from agent_resolver.storage import UnreadableFile
from tests.catalog.conftest import agent

BOUND = """\
---
name: bound
version: 1.0.0
requires:
  mcp:
    - category: crm
      permissions: [contacts.read]
constraints:
  data: { sensitivity: internal, residency: eu-only }
---
"""
SERVER = {
    "id": "crm",
    "version": "1.0.0",
    "launch": {"command": "crm", "args": [], "env": []},
    "categories": ["crm"],
    "scopes": ["contacts.read"],
    "data": {"residency": ["eu-only"], "maxSensitivity": "confidential"},
    "trust": {"signed": True, "publisher": "tests"},
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def environment(folder: Path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(folder / "cache")}


def session(path: str = "agents.md", *flags: str, **environment: str) -> Session:
    return Session(path, "mcp.index.json", environment=environment, flags=flags)


def statuses(catalog: Catalog) -> dict[str, tuple[str, str]]:
    return {found.name: (found.status, found.reason) for found in catalog.search(Query(), None)}


# Folders --------------------------------------------------------------------------------------------------------------


def test_named_folders_come_before_configured_ones_and_those_before_defaults(folder: Path) -> None:
    (folder / "agents").mkdir()
    configured = session("sub/agents.md", 'catalog.roots=["team", "/shared/agents"]')

    assert configured.catalog_roots(["x/", "./y"]) == ("x", "y")
    assert configured.catalog_roots() == ("sub/team", "/shared/agents")
    assert session().catalog_roots() == ("agents",)
    (folder / "agents.md").write_text("")
    assert session().catalog_roots() == ("agents", "agents.md")
    assert session("nowhere/agents.md").catalog_roots() == ()


def test_settings_come_from_the_project_around(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "agent.toml").write_text('[catalog]\nroots = ["team"]\npage_size = 7\n')
    (folder / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(folder / "deep" / "er")

    found = session()

    assert (found.config.catalog.roots, found.config.catalog.page_size) == (("team",), 7)
    assert found.root == str(folder)
    assert found.catalog_roots() == ("../../team",)
    assert session(AGENT_CATALOG_ROOTS="other").config.catalog.roots == ("other",)


# The index ------------------------------------------------------------------------------------------------------------


def index_path(catalog: Catalog) -> str | None:
    catalog.close()
    return catalog._index.path


def test_the_index_is_kept_in_the_users_cache(folder: Path) -> None:
    agent(folder / "agents" / "a.md")
    catalog = open_catalog(["agents"], environment(folder))
    catalog.refresh()
    path = index_path(catalog)

    assert path is not None
    assert Path(path).parent == folder / "cache" / "agent-resolver"
    assert (folder / "cache" / "agent-resolver").stat().st_mode & 0o077 == 0
    assert index_path(open_catalog([str(folder / "agents")], environment(folder))) == path
    assert index_path(open_catalog(["agents", "agents"], environment(folder))) == path
    assert index_path(open_catalog(["agents", "more"], environment(folder))) != path


def test_without_a_place_for_caches_it_is_below_the_home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder / "home"))
    for variables in ({}, {"XDG_CACHE_HOME": ""}, {"XDG_CACHE_HOME": "relative"}):
        path = index_path(open_catalog(["agents"], variables))
        assert path is not None
        assert path.startswith(str(folder / "home" / ".cache" / "agent-resolver" / "catalog-"))


def test_two_who_judge_by_different_indexes_do_not_see_each_others_answers(folder: Path) -> None:
    (folder / "agents").mkdir()
    (folder / "agents" / "bound.md").write_text(BOUND)
    (folder / "full.json").write_text(json.dumps([SERVER]))
    (folder / "empty.json").write_text("[]")
    one, other = (
        open_catalog(["agents"], environment(folder), judge_of(path), path) for path in ("full.json", "empty.json")
    )
    for catalog in (one, other, one, other):
        catalog.refresh()

    assert statuses(one) == {"bound": ("resolved", "")}
    assert statuses(other) == {"bound": ("unresolved", "no candidates for categories: crm")}
    one.close()
    other.close()


# Whether `requires` resolve -------------------------------------------------------------------------------------------


def test_statuses_change_with_the_index_of_servers(folder: Path) -> None:
    agent(folder / "agents" / "free.md")
    (folder / "agents" / "bound.md").write_text(BOUND)
    (folder / "agents" / "broken.md").write_text("---\nname: broken\nrequires: {mcp: [{category: crm}]}\n---\n")
    catalog = open_catalog(["agents"], environment(folder), judge_of("index.json"), "index.json")
    catalog.refresh()
    assert statuses(catalog) == {
        "free": ("not-required", ""),
        "bound": ("unresolved", "there is no index"),
        "broken": ("unresolved", "there is no index"),
    }

    (folder / "index.json").write_text(json.dumps([SERVER]))
    assert catalog.refresh(judge_of("index.json")).uris == {"agent://bound", "agent://broken"}
    assert statuses(catalog)["bound"] == ("resolved", "")
    status, reason = statuses(catalog)["broken"]
    assert status == "unresolved"
    assert reason.startswith("the agent file is invalid: ")

    (folder / "index.json").write_text(json.dumps([{**SERVER, "scopes": ["contacts.write"]}]))
    assert catalog.refresh(judge_of("index.json")).uris == {"agent://bound"}
    assert statuses(catalog)["bound"] == ("unresolved", "no candidates for categories: crm")

    (folder / "index.json").unlink()
    catalog.refresh(judge_of("index.json"))
    assert statuses(catalog)["bound"] == ("unresolved", "there is no index")
    catalog.close()


def test_an_index_that_cannot_be_used_is_an_error_and_not_silence(folder: Path) -> None:
    (folder / "index.json").write_text("[{}]")
    with pytest.raises(InvalidIndex):
        judge_of("index.json")
    (folder / "folder.json").mkdir()
    with pytest.raises(UnreadableFile):
        judge_of("folder.json")


def test_an_agent_resolves_against_the_index_as_it_is_now(folder: Path) -> None:
    agent_file = parse_agent_file(BOUND)
    assert resolve_against("index.json", agent_file) is None

    (folder / "index.json").write_text(json.dumps([SERVER]))
    resolution = resolve_against("index.json", agent_file)
    assert resolution is not None
    assert resolution.success
