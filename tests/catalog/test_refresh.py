"""Keeping up with the disk: what changed is read, and nothing else is."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent_resolver.catalog import AgentUri, Catalog, CatalogIndex, Changes, UnknownAgent, UnusableRoot
from agent_resolver.schema import IssueCode
from agent_resolver.storage import Identity
from tests.catalog.conftest import Make, agent, codes, uris
from tests.catalog.test_index import as_nobody

_opened: list[str] | None = None


def _note(event: str, arguments: tuple[object, ...]) -> None:
    if _opened is not None and event == "open":
        _opened.append(str(arguments[0]))


sys.addaudithook(_note)


@contextmanager
def reads() -> Iterator[set[str]]:
    """The names of the agent files that are opened meanwhile."""
    global _opened  # noqa: PLW0603 - a hook cannot be taken away, only silenced
    found: set[str] = set()
    _opened = []
    try:
        yield found
    finally:
        found.update(Path(path).name for path in _opened if path.endswith((".md", ".yaml")))
        _opened = None


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("a", "b", "c"):
        agent(tmp_path / "root" / f"{name}.md", description=name)
    return tmp_path / "root"


@pytest.fixture
def catalog(root: Path, make: Make) -> Catalog:
    return make(root)


def test_nothing_is_read_where_nothing_changed(root: Path, tmp_path: Path, make: Make) -> None:
    make(root, index=tmp_path / "index.db").close()

    with reads() as found:
        catalog = make(root, index=tmp_path / "index.db")
        assert catalog.refresh() == Changes()
        catalog.page()
        uris(catalog, text="a")
    assert found == set()


def test_a_listing_reads_no_definition_and_a_definition_reads_one_file(catalog: Catalog) -> None:
    with reads() as found:
        uris(catalog, text="a")
        catalog.findings()
    assert found == set()

    with reads() as found:
        catalog.definition(AgentUri("agent://b"))
    assert found == {"b.md"}


@pytest.mark.parametrize("change", ["add", "edit", "touch", "replace", "rename", "remove", "same size", "own file"])
def test_only_what_changed_is_read(root: Path, catalog: Catalog, change: str) -> None:
    path = root / "b.md"
    expected = {"b.md"}
    changed = {"agent://b"}
    match change:
        case "add":
            agent(root / "new" / "d.md")
            expected, changed = {"d.md"}, {"agent://d"}
        case "edit":
            agent(path, "Longer than it was, within the same second.\n")
        case "touch":
            os.utime(path, ns=(1, 1))
            changed = set()
        case "replace":
            agent(root / "b.tmp", name="b", description="other").replace(path)
        case "rename":
            path.rename(root / "z.md")
            expected = {"z.md"}
        case "remove":
            path.unlink()
            expected = set()
        case "same size":
            path.write_text(path.read_text().replace("Do it", "Do iT"))
            os.utime(path, ns=(5, 5))
        case "own file":
            agent(path, name="bb")
            changed = {"agent://b", "agent://bb"}

    with reads() as found:
        changes = catalog.refresh()

    assert found == expected
    assert changes.uris == changed
    assert catalog.refresh() == Changes()


def test_files_that_are_no_agents_are_not_read_again(root: Path, tmp_path: Path, make: Make) -> None:
    (root / "README.md").write_text("# Readme\n")
    (root / "broken.md").write_bytes(b"---\n\xff\n---\n")
    (root / "notes.txt").write_text("---\nname: no\n---\n")
    catalog = make(root)
    assert uris(catalog) == ["agent://a", "agent://b", "agent://c"]
    assert codes(catalog) == [IssueCode.LEFT_OUT, IssueCode.ENCODING]

    agent(root / "d.md")
    with reads() as found:
        catalog.refresh()
    assert found == {"d.md"}


def test_another_process_that_was_faster_saves_the_work(root: Path, tmp_path: Path, make: Make) -> None:
    one, other = (make(root, index=tmp_path / "index.db") for _ in range(2))
    listing = other.listing
    assert other.refresh() == Changes()
    agent(root / "d.md")
    assert one.refresh().uris == {"agent://d"}

    assert other.listing == one.listing != listing
    assert other.total == 4
    with reads() as found:
        assert other.refresh().uris == {"agent://d"}
    assert found == set()


def test_another_version_of_the_reader_reads_everything_again(
    root: Path, tmp_path: Path, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(root, index=tmp_path / "index.db").close()
    monkeypatch.setattr("agent_resolver.catalog.catalog.__version__", "99.0.0")

    with reads() as found:
        make(root, index=tmp_path / "index.db")
    assert found == {"a.md", "b.md", "c.md"}


# Definitions are as fresh as the disk ---------------------------------------------------------------------------------


def test_a_definition_is_read_once_and_then_comes_from_the_cache(catalog: Catalog) -> None:
    first = catalog.definition(AgentUri("agent://a"))
    with reads() as found:
        assert catalog.definition(AgentUri("agent://a")) is first
    assert found == set()
    assert (catalog.counters.hits, catalog.counters.misses, catalog.counters.count) == (1, 1, 1)
    assert catalog.counters.bytes == len(first.raw)


def test_the_cache_holds_twenty_definitions(tmp_path: Path, make: Make) -> None:
    for number in range(25):
        agent(tmp_path / f"{number}.md")
    catalog = make(tmp_path)
    for number in range(25):
        catalog.definition(AgentUri(f"agent://{number}"))

    assert (catalog.counters.count, catalog.counters.evictions, catalog.counters.misses) == (20, 5, 25)


def test_an_edit_is_served_at_once_without_a_refresh(root: Path, catalog: Catalog) -> None:
    assert catalog.definition(AgentUri("agent://a")).content == "Do it.\n"
    agent(root / "a.md", "Do it better.\n", model="opus")

    found = catalog.definition(AgentUri("agent://a"))

    assert (found.content, found.entry.model) == ("Do it better.\n", "opus")
    assert catalog.counters.hits == 0


def test_a_file_that_was_renamed_is_found_where_it_is_now(root: Path, catalog: Catalog) -> None:
    catalog.definition(AgentUri("agent://a"))
    (root / "a.md").rename(root / "z.md")

    assert catalog.definition(AgentUri("agent://a")).path == "z.md"


def test_a_file_that_went_is_unknown_at_once(root: Path, catalog: Catalog) -> None:
    catalog.definition(AgentUri("agent://a"))
    (root / "a.md").unlink()

    with pytest.raises(UnknownAgent):
        catalog.definition(AgentUri("agent://a"))
    assert uris(catalog) == ["agent://b", "agent://c"]


def test_an_address_that_is_another_files_now_is_not_served_from_the_cache(tmp_path: Path, make: Make) -> None:
    agent(tmp_path / "2" / "x.md", "second")
    (tmp_path / "1").mkdir()
    catalog = make(tmp_path / "1", tmp_path / "2")
    assert catalog.definition(AgentUri("agent://x")).content == "second"

    agent(tmp_path / "1" / "x.md", "first")
    catalog.refresh()

    assert catalog.definition(AgentUri("agent://x")).content == "first"


def test_the_same_when_another_process_noticed(tmp_path: Path, make: Make) -> None:
    agent(tmp_path / "2" / "x.md", "second")
    (tmp_path / "1").mkdir()
    roots = (tmp_path / "1", tmp_path / "2")
    one, other = (make(*roots, index=tmp_path / "index.db") for _ in range(2))
    assert one.definition(AgentUri("agent://x")).content == "second"

    agent(tmp_path / "1" / "x.md", "first")
    other.refresh()

    assert one.definition(AgentUri("agent://x")).content == "first"


def test_a_version_must_match(tmp_path: Path, make: Make) -> None:
    agent(tmp_path / "a.md", version="1.10")
    agent(tmp_path / "b.md")
    catalog = make(tmp_path)

    assert catalog.definition(AgentUri("agent://a", version="1.10")).entry.name == "a"
    for uri in (AgentUri("agent://a", version="1.1"), AgentUri("agent://b", version="1.0")):
        with pytest.raises(UnknownAgent):
            catalog.definition(uri)


# Links, and what cannot be read ---------------------------------------------------------------------------------------


def test_links_are_left_alone(tmp_path: Path, make: Make) -> None:
    agent(tmp_path / "outside" / "secret.md")
    agent(tmp_path / "root" / "a.md")
    (tmp_path / "root" / "file.md").symlink_to("../outside/secret.md")
    (tmp_path / "root" / "inside.md").symlink_to("a.md")
    (tmp_path / "root" / "folder").symlink_to("../outside")
    (tmp_path / "root" / "loop").symlink_to(".")
    (tmp_path / "root" / "dead.md").symlink_to("nowhere")
    os.mkfifo(tmp_path / "root" / "pipe.md")

    assert uris(make(tmp_path / "root")) == ["agent://a"]


@pytest.mark.parametrize("is_cached", [False, True])
@pytest.mark.parametrize("target", ["moved", "other"])
def test_a_folder_that_became_a_link_out_of_the_root_is_not_served(
    tmp_path: Path, make: Make, target: str, *, is_cached: bool
) -> None:
    agent(tmp_path / "root" / "team" / "x.md", "inside")
    agent(tmp_path / "other" / "x.md", "outside")
    catalog = make(tmp_path / "root")
    if is_cached:
        catalog.definition(AgentUri("agent://x"))
    (tmp_path / "root" / "team").rename(tmp_path / "moved")
    (tmp_path / "root" / "team").symlink_to(tmp_path / target)
    if is_cached:
        catalog.refresh()

    with pytest.raises(UnknownAgent):
        catalog.definition(AgentUri("agent://x"))
    assert uris(catalog) == []


def test_a_file_that_became_a_link_is_not_served(tmp_path: Path, make: Make) -> None:
    path = agent(tmp_path / "root" / "x.md", "inside")
    catalog = make(tmp_path / "root")
    path.rename(tmp_path / "x.md")
    path.symlink_to(tmp_path / "x.md")

    with pytest.raises(UnknownAgent):
        catalog.definition(AgentUri("agent://x"))


def test_a_root_may_itself_be_a_link(tmp_path: Path, make: Make) -> None:
    agent(tmp_path / "root" / "a.md")
    (tmp_path / "link").symlink_to("root")
    catalog = make(tmp_path / "link")

    assert catalog.definition(AgentUri("agent://a")).content == "Do it.\n"


def test_a_folder_that_cannot_be_read_is_reported_and_the_rest_is_served(make: Make) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        root.chmod(0o755)
        agent(root / "a.md")
        agent(root / "closed" / "b.md")
        (root / "closed").chmod(0)
        try:
            with as_nobody():
                catalog = make(root)
                assert uris(catalog) == ["agent://a"]
                [finding] = catalog.findings()
                assert (finding.path, finding.issue.message) == (str(root / "closed"), "Left out: Permission denied")
        finally:
            (root / "closed").chmod(0o755)


def test_a_root_that_is_not_there_is_named(tmp_path: Path) -> None:
    catalog = Catalog([str(tmp_path / "nowhere")], CatalogIndex(None))

    with pytest.raises(UnusableRoot, match="nowhere"):
        catalog.refresh()
    catalog.close()


def test_a_path_that_is_not_utf8_is_reported_and_the_rest_is_served(tmp_path: Path, make: Make) -> None:
    agent(tmp_path / "a.md")
    try:
        agent(tmp_path / "\udcff.md", name="b")
    except OSError:
        pytest.skip("this disk takes no such names")
    catalog = make(tmp_path)

    assert uris(catalog) == ["agent://a"]
    [finding] = catalog.findings()
    assert finding.issue.message == "Left out: its path is not UTF-8"

    (tmp_path / "\udcfe").mkdir()
    with pytest.raises(UnusableRoot, match="not UTF-8"):
        make(tmp_path / "\udcfe")


def test_a_file_that_is_too_large_is_reported(tmp_path: Path, make: Make) -> None:
    agent(tmp_path / "a.md", "x" * 5_000_000)
    catalog = make(tmp_path)

    assert uris(catalog) == []
    assert codes(catalog) == [IssueCode.LIMIT]


def test_a_file_that_grows_too_large_is_unknown(tmp_path: Path, make: Make) -> None:
    catalog = make(agent(tmp_path / "a.md"))
    agent(tmp_path / "a.md", "x" * 5_000_000)

    with pytest.raises(UnknownAgent):
        catalog.definition(AgentUri("agent://a"))


def test_what_is_watched_are_the_folders_and_the_files(tmp_path: Path, make: Make) -> None:
    file = agent(tmp_path / "a.md")
    agent(tmp_path / "root" / "b.md")

    assert make(tmp_path / "root", file).watched == ([str(tmp_path / "root")], [str(file)])


def test_a_folder_that_becomes_a_link_between_the_look_and_the_reading_is_not_read(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    for folder in (root / "team", outside):
        folder.mkdir(parents=True)
        (folder / "one.md").write_text(f"---\nname: one\ndescription: from {folder.name}\n---\n")
    swapped: list[bool] = []

    class Swapping(Catalog):
        """Has the folder swapped right after it was looked at."""

        def _scan(self) -> list[dict[str, Identity]]:
            found = super()._scan()
            if not swapped:
                (root / "team").rename(tmp_path / "away")
                (root / "team").symlink_to(outside)
                swapped.append(True)
            return found

    catalog = Swapping([str(root)], CatalogIndex(None))
    catalog.refresh()

    assert swapped
    assert catalog.page().agents == ()
