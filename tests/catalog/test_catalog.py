"""What changed since the last look, whoever noticed first, and what a strict catalog says of it."""

import logging
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from agent_resolver.catalog import AgentUri, Catalog, Changes, Judge, UnknownAgent, Verdict, View
from tests.catalog.conftest import Make, agent, uris

STRICT = View(is_strict=True)
REQUIRES: dict[str, list[str]] = {"mcp": []}
GOOD = Judge("k", lambda raw: Verdict("resolved") if b"good" in raw else Verdict("unresolved", "nobody"))
"""Lets agents resolve that say that they are good."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("a", "b", "c"):
        agent(tmp_path / "root" / f"{name}.md", description=name)
    return tmp_path / "root"


# Whoever noticed first ------------------------------------------------------------------------------------------------


def test_each_process_is_told_what_another_one_noticed_first(root: Path, tmp_path: Path, make: Make) -> None:
    catalogs = [make(root, index=tmp_path / "index.db") for _ in range(3)]
    assert [catalog.refresh() for catalog in catalogs] == [Changes()] * 3

    for number in range(3):
        agent(root / "a.md", f"Edit {number}.\n")
        (root / "b.md").unlink(missing_ok=True)
        expected = {"agent://a"} if number else {"agent://a", "agent://b"}
        assert [catalog.refresh().uris for catalog in catalogs] == [expected] * 3
        assert [catalog.refresh() for catalog in catalogs] == [Changes()] * 3


@pytest.mark.parametrize("looks", [1, 2])
def test_a_definition_that_is_read_first_swallows_no_change(root: Path, make: Make, looks: int) -> None:
    catalog = make(root)
    for _ in range(looks - 1):
        catalog.refresh()
    agent(root / "a.md", "Edited.\n")
    (root / "b.md").unlink()
    assert catalog.definition(AgentUri("agent://a")).content == "Edited.\n"

    assert catalog.refresh().uris == {"agent://a", "agent://b"}


def test_where_nothing_was_noted_yet_anything_may_have_changed(root: Path, tmp_path: Path, make: Make) -> None:
    """Only the second look notes every address; what another process does before that can only be told as a whole."""
    one, other = (make(root, index=tmp_path / "index.db") for _ in range(2))
    agent(root / "a.md", "Edited.\n")
    other.refresh()

    assert one.refresh().uris == {"agent://a", "agent://b", "agent://c"}
    assert one.refresh() == Changes()


def test_an_index_that_is_made_anew_hides_no_change(root: Path, tmp_path: Path, make: Make) -> None:
    catalog = make(root, index=tmp_path / "index.db")
    catalog.refresh()
    with closing(sqlite3.connect(tmp_path / "index.db", isolation_level=None)) as connection:
        connection.execute("DROP TABLE agent")
    agent(root / "a.md", "Edited.\n")
    assert catalog.total == 3

    assert catalog.refresh().uris == {"agent://a"}


# What counts as a change ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("said", ["fallbacks: [b]", "use_when: in doubt", "capabilities: [python]", "model: opus"])
def test_whatever_a_role_changes_in_a_definition_is_told(root: Path, make: Make, said: str) -> None:
    roles = root / "roles.yaml"
    roles.write_text("boss: { primary: a }\n")
    catalog = make(root)
    before = catalog.definition(AgentUri("agent://a")).to_dict()

    roles.write_text(f"boss:\n  primary: a\n  {said}\n")

    assert catalog.refresh().uris == {"agent://a"}
    assert catalog.definition(AgentUri("agent://a")).to_dict() != before


def test_a_longer_address_is_told_when_it_comes_and_when_it_goes(root: Path, make: Make) -> None:
    catalog = make(root)
    second = agent(root / "team" / "a.md")
    assert catalog.refresh().uris == {"agent://root/a", "agent://team/a"}

    second.unlink()
    assert catalog.refresh().uris == {"agent://root/a", "agent://team/a"}

    agent(root / "team" / "a.md")
    catalog.refresh()
    agent(root / "a.md", "Edited.\n")
    assert catalog.refresh().uris == {"agent://a", "agent://root/a"}


# A root that goes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_file", [False, True])
def test_a_root_that_goes_takes_its_own_agents_and_no_others(
    root: Path, tmp_path: Path, make: Make, caplog: pytest.LogCaptureFixture, *, is_file: bool
) -> None:
    path = agent(tmp_path / "other" / "x.md")
    lost = path if is_file else path.parent
    catalog = make(lost, root)
    assert not catalog.findings()
    shutil.rmtree(path.parent)
    agent(root / "a.md", "Edited.\n")

    with caplog.at_level(logging.WARNING):
        assert catalog.definition(AgentUri("agent://a")).content == "Edited.\n"
        with pytest.raises(UnknownAgent):
            catalog.definition(AgentUri("agent://x"))
        assert catalog.refresh().uris == {"agent://a", "agent://x"}
        assert catalog.refresh() == Changes()
    assert uris(catalog) == ["agent://a", "agent://b", "agent://c"]
    [record] = caplog.records
    assert record.message == f"`{lost}` cannot be served: No such file or directory"
    [finding] = catalog.findings()
    assert (finding.path, finding.issue.message) == (str(lost), f"Left out: {record.message}")

    agent(path)
    assert catalog.refresh().uris == {"agent://x"}
    assert not catalog.findings()


# Strict ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def strict(root: Path, make: Make) -> Catalog:
    agent(root / "bound.md", "good", requires=REQUIRES)
    agent(root / "hidden.md", requires=REQUIRES)
    return make(root, judge=GOOD)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda root: agent(root / "hidden.md", "Edited.", requires=REQUIRES), set()),
        (lambda root: (root / "hidden.md").unlink(), set()),
        (lambda root: agent(root / "another.md", requires=REQUIRES), set()),
        (lambda root: agent(root / "hidden.md", "good", requires=REQUIRES), {"agent://hidden"}),
        (lambda root: agent(root / "bound.md", "Edited.", requires=REQUIRES), {"agent://bound"}),
        (lambda root: agent(root / "bound.md", "good, edited", requires=REQUIRES), {"agent://bound"}),
        (lambda root: (root / "bound.md").unlink(), {"agent://bound"}),
    ],
    ids=["edited", "removed", "added", "shown", "hidden", "kept", "gone"],
)
def test_a_strict_catalog_has_no_changes_of_what_it_hides(
    strict: Catalog, root: Path, change: Callable[[Path], object], expected: set[str]
) -> None:
    cursor = strict.page(limit=1, view=STRICT).next_cursor
    loose = strict.listing
    change(root)
    changes = strict.refresh()

    assert len(changes.uris) == 1
    assert changes.strict == expected
    assert strict.listing != loose
    if not expected:
        assert [found.name for found in strict.page(cursor, view=STRICT).agents] == ["b", "bound", "c"]


def test_an_agent_that_no_longer_resolves_is_not_read_even_once(strict: Catalog, root: Path) -> None:
    assert strict.definition(AgentUri("agent://bound"), view=STRICT).content == "good"
    agent(root / "bound.md", "Edited.", requires=REQUIRES)

    with pytest.raises(UnknownAgent):
        strict.definition(AgentUri("agent://bound"), view=STRICT)

    agent(root / "bound.md", "good again", requires=REQUIRES)
    assert strict.definition(AgentUri("agent://bound"), view=STRICT).content == "good again"
