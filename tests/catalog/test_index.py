"""The index on the disk: shared, killed, damaged, foreign, or not there at all."""

import os
import random
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from agent_resolver.catalog import AgentUri, Catalog, CatalogIndex, Query, View
from tests.catalog.conftest import Make, agent, uris
from tests.process import killed_at_line

NOBODY = 65534

REFRESHES = """
import sys
from agent_resolver.catalog import Catalog
from agent_resolver.catalog import CatalogIndex

print("ready", flush=True)
sys.stdin.readline()
index = CatalogIndex(sys.argv[2])
catalog = Catalog([sys.argv[1]], index)
catalog.refresh()
print(catalog.total, catalog.listing, index.path is not None)
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for number in range(30):
        agent(tmp_path / "root" / f"agent-{number}.md", description=f"Number {number} " + "knows python " * number)
    return tmp_path / "root"


def test_two_processes_at_once_make_one_index(tmp_path: Path) -> None:
    for number in range(500):
        agent(tmp_path / "root" / f"{number:03d}.md", description="Reviews python")
    command = [sys.executable, "-c", REFRESHES, str(tmp_path / "root"), str(tmp_path / "index.db")]
    both = [subprocess.Popen(command, stdin=-1, stdout=-1, text=True) for _ in range(2)]
    for process in both:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in both:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    printed = [process.communicate(timeout=60)[0].split() for process in both]

    assert [process.returncode for process in both] == [0, 0]
    assert printed[0] == printed[1]
    assert (printed[0][0], printed[0][2]) == ("500", "True")


@pytest.mark.parametrize("line", [50, 300, 1500, 4000, 6000])
def test_a_process_killed_in_the_middle_leaves_an_index_that_the_next_one_finishes(
    tmp_path: Path, root: Path, make: Make, line: int
) -> None:
    index = tmp_path / "index.db"
    setup = "from agent_resolver.catalog import Catalog, CatalogIndex"
    act = "Catalog([sys.argv[1]], CatalogIndex(sys.argv[2])).refresh()"
    assert killed_at_line(line, "/catalog/", root, index, setup=setup, act=act)

    catalog = make(root, index=index)

    assert catalog._index.path == str(index)
    assert len(uris(catalog)) == 30
    assert catalog.definition(AgentUri("agent://agent-7")).content == "Do it.\n"


def damaged(kind: str, path: Path) -> None:
    content = bytearray(path.read_bytes())
    pages = len(content) // 4096
    assert pages > 8
    match kind:
        case "random":
            content[:] = random.Random(1).randbytes(len(content))
        case "random after the header":
            content[100:] = random.Random(1).randbytes(len(content) - 100)
        case "truncated":
            del content[len(content) // 2 + 100 :]
        case "a byte":
            del content[1:]
        case "zeroed":
            content[:] = bytes(len(content))
        case "text":
            content[:] = b"not a database\n" * 100
        case _:
            page = int(kind) % pages
            content[page * 4096 : (page + 1) * 4096] = bytes(4096)
    path.write_bytes(content)


KINDS = ["random", "random after the header", "truncated", "a byte", "zeroed", "text", *map(str, range(24))]


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_index_is_made_anew_and_nobody_notices(tmp_path: Path, root: Path, make: Make, kind: str) -> None:
    index = tmp_path / "index.db"
    make(root, index=index).close()
    with closing(sqlite3.connect(index)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    damaged(kind, index)
    # A change makes it write, too.
    agent(root / "agent-3.md", "Changed.\n")

    catalog = make(root, index=index)

    assert [found.uri for found in catalog.search(Query(text="python"))]
    assert len(uris(catalog)) == catalog.total == 30
    assert not catalog.findings()
    for number in range(30):
        assert catalog.definition(AgentUri(f"agent://agent-{number}")).entry.name == f"agent-{number}"
    assert catalog.completions("agent-1")[1] == 11
    assert catalog._index.path == str(index)


def test_an_index_that_breaks_while_it_is_open_is_made_anew(tmp_path: Path, root: Path, make: Make) -> None:
    """Each way in has to find out by itself."""
    ways: list[Callable[[Catalog], object]] = [
        lambda catalog: catalog.total,
        lambda catalog: catalog.listing,
        lambda catalog: catalog.page(),
        lambda catalog: catalog.search(Query(text="python")),
        lambda catalog: catalog.has("agent://agent-1"),
        lambda catalog: catalog.completions("a"),
        lambda catalog: catalog.definition(AgentUri("agent://agent-1"), view=View(is_strict=True)),
        lambda catalog: catalog.findings(),
    ]
    for number, ask in enumerate(ways):
        index = tmp_path / f"{number}.db"
        catalog = make(root, index=index)
        expected = repr(ask(catalog))
        with closing(sqlite3.connect(index, isolation_level=None)) as connection:
            for table in ("agent", "file", "meta", "words", "capability", "role"):
                connection.execute(f"DROP TABLE {table}")

        assert repr(ask(catalog)) == expected
        assert catalog.total == 30
        assert catalog._index.path == str(index)


def test_a_damaged_table_of_words_is_damage_of_the_index(tmp_path: Path, root: Path, make: Make) -> None:
    """The code of such an error says more than that the file is damaged, and means the same."""
    index = tmp_path / "index.db"
    catalog = make(root, index=index)
    with closing(sqlite3.connect(index, isolation_level=None)) as connection:
        connection.execute("DELETE FROM words_data WHERE id > 10")

    assert len(catalog.search(Query(text="python"), None)) == 29
    assert catalog._index.path == str(index)


def test_rows_that_python_cannot_read_are_damage(tmp_path: Path, root: Path, make: Make) -> None:
    index = tmp_path / "index.db"
    for value in (b"{", b"\xff", b"[]"):
        catalog = make(root, index=index)
        with closing(sqlite3.connect(index, isolation_level=None)) as connection:
            connection.execute("UPDATE file SET entry = ?", [value])
        assert catalog.definition(AgentUri("agent://agent-1")).entry.name == "agent-1"
        with closing(sqlite3.connect(index, isolation_level=None)) as connection:
            connection.execute("UPDATE agent SET name = CAST(x'ff' AS TEXT), capabilities = '{'")
        assert len(catalog.page().agents) == 20


def test_an_index_of_another_version_of_ours_is_made_anew(tmp_path: Path, root: Path, make: Make) -> None:
    index = tmp_path / "index.db"
    make(root, index=index).close()
    with closing(sqlite3.connect(index)) as connection:
        connection.execute("PRAGMA user_version = 99")
        connection.execute("DROP TABLE capability")

    catalog = make(root, index=index)

    assert catalog._index.path == str(index)
    assert catalog.total == 30


@pytest.mark.parametrize("version", [0, 1, 99])
def test_a_database_of_another_program_is_left_alone(tmp_path: Path, root: Path, make: Make, version: int) -> None:
    index = tmp_path / "index.db"
    with closing(sqlite3.connect(index)) as connection:
        connection.execute("CREATE TABLE precious (thing TEXT)")
        connection.execute("INSERT INTO precious VALUES ('gold')")
        connection.execute(f"PRAGMA user_version = {version}")
        connection.commit()
    before = index.read_bytes()

    catalog = make(root, index=index)

    assert catalog._index.path is None
    assert catalog.total == 30
    assert index.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index.db", "root"]


@contextmanager
def as_nobody() -> Iterator[None]:
    """As a user who may not write everywhere; whoever runs the tests without being root is one already."""
    if os.geteuid():
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("is_there", [False, True])
def test_on_a_disk_that_cannot_be_written_the_index_is_in_memory(make: Make, *, is_there: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, root = Path(name) / "cache", Path(name) / "root"
        agent(root / "a.md")
        folder.mkdir()
        if is_there:
            make(root, index=folder / "index.db").close()
            agent(root / "b.md")
        Path(name).chmod(0o755)
        before = {path.name: path.read_bytes() for path in folder.iterdir()}
        for path in folder.iterdir():
            path.chmod(0o444)
        folder.chmod(0o555)
        try:
            with as_nobody():
                catalog = make(root, index=folder / "index.db")
                assert catalog._index.path is None
                assert len(uris(catalog)) == 1 + is_there
                assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
        finally:
            folder.chmod(0o755)


def test_a_place_that_cannot_be_is_no_reason_to_stop(tmp_path: Path, root: Path, make: Make) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.db").mkdir()
    for place in (tmp_path / "file" / "index.db", tmp_path / "folder.db", tmp_path / ("x" * 300) / "index.db"):
        catalog = make(root, index=place)
        assert catalog._index.path is None
        assert catalog.total == 30


def test_an_index_that_another_process_keeps_is_waited_for_or_done_without(tmp_path: Path, root: Path) -> None:
    """With no patience at all, so that the test need not wait."""
    index = CatalogIndex(str(tmp_path / "index.db"))
    with closing(sqlite3.connect(tmp_path / "index.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        index._connection.execute("PRAGMA busy_timeout = 0")
        with pytest.raises(sqlite3.OperationalError) as caught, index.transaction():
            raise AssertionError
        index.recover(caught.value)
        other.execute("ROLLBACK")

    assert index.path is None
    assert (tmp_path / "index.db").exists()
    index.close()


def test_a_transaction_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with closing(CatalogIndex(str(tmp_path / "deep" / "er" / "index.db"))) as index:
        with suppress(ZeroDivisionError), index.transaction() as connection:
            connection.execute("INSERT INTO meta VALUES ('a', 'b')")
            raise ZeroDivisionError
        assert index.meta("a") == ""
        with index.transaction() as connection:
            connection.execute("INSERT INTO meta VALUES ('a', 'b')")
        assert index.meta("a") == "b"


def test_text_that_is_not_unicode_is_in_no_row(root: Path, make: Make) -> None:
    catalog = make(root)

    for query in (Query(text="\ud800"), Query(capability="\ud800"), Query(role="\udcff"), Query(model="\ud800x")):
        assert catalog.search(query) == ()
    assert catalog.completions("\ud800") == ((), 0)
    assert not catalog.has("agent://\ud800")
