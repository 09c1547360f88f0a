"""A compiled index that was made to mislead, or is changed while it is read, gives the right answer or an error."""

import os
import random
import sqlite3
import sys
import tracemalloc
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest

from agent_resolver import Server, explanation_json, parse_index, resolve, servers_of
from agent_resolver.core import ServerPool
from agent_resolver.core.server import Servers
from agent_resolver.project.compiled_index import open_compiled
from agent_resolver.schema.agent_file import Requirement
from agent_resolver.storage.errors import UnusableIndex
from agent_resolver.storage.index_file.layout import MOST_SCOPES, NO_SALT, PAGE_BYTES, checksum, entry_checksum
from agent_resolver.storage.index_file.reader import IndexTables
from agent_resolver.storage.index_file.servers import Body, CompiledServers, StoredBodies
from tests.index_files import agent_asking, compile_bytes, compiled, index_bytes, salt_in
from tests.storage.test_index_file import NEEDS, SCOPE, answers_of, answers_or_error, everything, many


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A compiled index of a few servers."""
    found = tmp_path / "mcp.index.db"
    compile_bytes(index_bytes(many(5)), str(found))
    return found


def change(path: Path, statement: str, *values: object) -> None:
    """Run SQL on a compiled index, as any tool could."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(statement, values)
    connection.close()


def change_about(path: Path, **fields: object) -> None:
    """Let the row about the file say something else, with the right check."""
    connection = sqlite3.connect(path, isolation_level=None)
    about = msgspec.json.decode(connection.execute("SELECT content FROM about").fetchone()[0])
    content = msgspec.json.encode({**about, **fields})
    seal = checksum("about", 0, content, salt=NO_SALT)
    connection.execute("UPDATE about SET content = ?, checksum = ?", (content.decode(), seal))
    connection.close()


# Another file in place of the one that is read ------------------------------------------------------------------------


def shuffled(seed: int) -> list[Server]:
    """Servers whose index has the same size for every seed, and another choice for most requirements."""
    dice = random.Random(seed)
    return [
        Server(f"server-{number:04d}", "1", f"https://{seed}.example", ("c", f"k{number % 90}"),
               ("s", f"s{dice.randrange(20)}"), signed=dice.random() < 0.5)
        for number in range(1200)
    ]  # fmt: skip


def choices(servers: Servers, number: int) -> list[str]:
    """The servers that are chosen for one of many agent files."""
    needs = (
        Requirement(category="c", permissions=(f"s{number % 20}",)),
        Requirement(category=f"k{number % 90}", permissions=("s",)),
    )
    return [str((choice.server, choice.is_only)) for choice in resolve(agent_asking(needs), servers).choices]


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_a_file_that_is_copied_over_the_one_that_is_read_never_mixes_with_it(tmp_path: Path, share: float) -> None:
    """`cp` writes into the file that is open: pages that were read are of one build, and the others of another."""
    one, other, read = (tmp_path / name for name in ("one.db", "other.db", "read.db"))
    compile_bytes(index_bytes(shuffled(1)), str(one))
    compile_bytes(index_bytes(shuffled(2)), str(other))
    right = [choices(open_compiled(str(one), None).servers, number) for number in range(30)]
    content = other.read_bytes()
    refused = 0
    for already_read in range(6):
        read.write_bytes(one.read_bytes())
        servers = open_compiled(str(read), None).servers
        for number in range(already_read):
            choices(servers, number)
        with read.open("r+b") as file:
            file.write(content[: int(len(content) * share)])
        for number in range(30):
            try:
                assert choices(servers, number) == right[number]
            except UnusableIndex:
                refused += 1
    assert refused


def test_a_file_that_is_replaced_is_read_to_its_end(tmp_path: Path) -> None:
    """`agent index build` puts a new file under the name: a command that reads goes on with the old one."""
    path = tmp_path / "mcp.index.db"
    compile_bytes(index_bytes(shuffled(1)), str(path))
    right = [choices(open_compiled(str(path), None).servers, number) for number in range(20)]
    servers = open_compiled(str(path), None).servers
    compile_bytes(index_bytes(shuffled(2)), str(path))

    assert [choices(servers, number) for number in range(20)] == right
    assert [choices(open_compiled(str(path), None).servers, number) for number in range(20)] != right


@pytest.mark.parametrize("share", [0.0, 0.2, 0.6, 0.95])
def test_a_file_that_is_cut_while_it_is_read_is_an_error(path: Path, share: float) -> None:
    """Where a file is mapped into memory, reading behind its end ends the program."""
    compile_bytes(index_bytes(many(3000)), str(path))
    index = open_compiled(str(path), None)
    assert index.servers.offering(NEEDS[0].category)
    os.truncate(path, int(path.stat().st_size * share))

    with pytest.raises(UnusableIndex, match="damaged"):
        list(index.servers)


def test_threads_that_share_an_index_do_not_mix_their_answers(path: Path) -> None:
    """A server answers several clients at once, of one index."""
    compile_bytes(index_bytes(shuffled(1)), str(path))
    right = [choices(open_compiled(str(path), None).servers, number) for number in range(60)]
    shared = open_compiled(str(path), None).servers

    def ask(first: int) -> list[list[str]]:
        return [choices(shared, (first + number) % 60) for number in range(60)]

    switching = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(6) as pool:
            for first, found in enumerate(pool.map(ask, range(6))):
                assert found == right[first:] + right[:first]
    finally:
        sys.setswitchinterval(switching)


# Damage of more than a bit --------------------------------------------------------------------------------------------


def damage_swap(content: bytearray, dice: random.Random) -> None:
    """Exchange two pages."""
    one, other = (dice.randrange(len(content) // PAGE_BYTES) * PAGE_BYTES for _ in range(2))
    first, second = content[one : one + PAGE_BYTES], content[other : other + PAGE_BYTES]
    content[one : one + PAGE_BYTES], content[other : other + PAGE_BYTES] = second, first


def damage_noise(content: bytearray, dice: random.Random) -> None:
    """Write noise over some bytes that are used."""
    start = dice.choice([place for place, byte in enumerate(content) if byte])
    content[start : start + 40] = dice.randbytes(40)


def damage_cut(content: bytearray, dice: random.Random) -> None:
    """Cut the file anywhere behind its mark."""
    del content[dice.randrange(16, len(content)) :]


def damage_shift(content: bytearray, dice: random.Random) -> None:
    """Take some bytes out."""
    start = dice.randrange(16, len(content))
    del content[start : start + dice.randrange(1, 9)]


@pytest.mark.parametrize("damage", [damage_swap, damage_noise, damage_cut, damage_shift])
def test_damage_of_any_kind_is_an_error_or_changes_nothing(
    path: Path, damage: Callable[[bytearray, random.Random], None]
) -> None:
    whole, right, dice = path.read_bytes(), answers_of(str(path), NEEDS), random.Random(22)
    refused = 0
    for _ in range(80):
        content = bytearray(whole)
        damage(content, dice)
        path.write_bytes(content)
        found = answers_or_error(str(path))
        assert found in (right, None)
        refused += found is None
    assert refused > 20


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER t AFTER INSERT ON about BEGIN SELECT 1; END",
        "CREATE VIEW v AS SELECT 1",
        "CREATE VIRTUAL TABLE v USING fts5(a)",
        "CREATE INDEX i ON entry(body)",
        "CREATE TABLE t(a)",
        "ALTER TABLE entry ADD COLUMN more",
        "ANALYZE",
    ],
)
def test_anything_more_in_the_file_is_refused(path: Path, statement: str) -> None:
    change(path, statement)

    with pytest.raises(UnusableIndex, match="damaged"):
        open_compiled(str(path), None)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entry SET body = x'fffe'",
        "UPDATE entry SET body = CAST(x'fffe' AS TEXT)",
        "UPDATE entry SET body = 5",
        "UPDATE entry SET source = -1",
        "UPDATE entry SET source = 1 << 62",
        "UPDATE entry SET position = 1.5",
        "UPDATE entry SET line = 'x'",
        "UPDATE category SET name = CAST(x'ff' AS TEXT)",
        "UPDATE category SET total = -1",
        "UPDATE category SET scopes = '['",
        "UPDATE candidates SET facts = x''",
        "UPDATE offer SET candidates = zeroblob(100000000)",
        "UPDATE offer SET scope = 'write:reports'",
        "DELETE FROM entry WHERE number = 4",
        "UPDATE entry SET number = 9 WHERE number = 4",
        "DELETE FROM offer",
        "DELETE FROM about",
        "UPDATE about SET content = '{}'",
    ],
)
def test_a_row_with_other_content_is_an_error(path: Path, statement: str) -> None:
    change(path, statement)

    with pytest.raises(UnusableIndex, match="damaged"):
        answers_of(str(path), NEEDS)


@pytest.mark.parametrize("count", [-1, 2**33, 2**63, 2**64, 1.5, "5", None])
def test_a_count_that_cannot_be_one_is_an_error(path: Path, count: object) -> None:
    change_about(path, servers=count)

    with pytest.raises(UnusableIndex, match="damaged"):
        open_compiled(str(path), None)


def test_an_entry_that_is_nested_too_deeply_is_an_error(path: Path) -> None:
    """A reader that runs out of stack says so in another way than one that finds a fault."""
    body = b'{"id":"server-00000","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    salt = salt_in(path)
    connection = sqlite3.connect(path, isolation_level=None)
    place = connection.execute("SELECT source, position, line, column FROM entry WHERE number = 0").fetchone()
    seal = entry_checksum(0, body, place, salt=salt)
    connection.execute("UPDATE entry SET body = ?, checksum = ? WHERE number = 0", (body.decode(), seal))
    connection.close()

    with pytest.raises(UnusableIndex):
        answers_of(str(path), NEEDS)
    with pytest.raises(UnusableIndex):
        open_compiled(str(path), None).check()


@pytest.mark.parametrize("body", [b"null", b"{", b'{"id": 5}', b'{"id": "server-00000"}'])
def test_an_entry_that_is_none_is_an_error_wherever_entries_are_listed(path: Path, body: bytes) -> None:
    salt = salt_in(path)
    connection = sqlite3.connect(path, isolation_level=None)
    place = connection.execute("SELECT source, position, line, column FROM entry WHERE number = 0").fetchone()
    seal = entry_checksum(0, body, place, salt=salt)
    connection.execute("UPDATE entry SET body = ?, checksum = ? WHERE number = 0", (body.decode(), seal))
    connection.close()
    index = open_compiled(str(path), None)

    for listed in (index.each, index.servers.__iter__):
        with pytest.raises(UnusableIndex):
            list(listed())
    with pytest.raises(UnusableIndex):
        index.check()


def test_an_entry_of_a_source_that_is_not_listed_is_an_error(path: Path) -> None:
    salt = salt_in(path)
    connection = sqlite3.connect(path, isolation_level=None)
    body, *place = connection.execute("SELECT body, position, line, column FROM entry WHERE number = 0").fetchone()
    seal = entry_checksum(0, body.encode(), (7, place[0], place[1], place[2]), salt=salt)
    connection.execute("UPDATE entry SET source = 7, checksum = ? WHERE number = 0", (seal,))
    connection.close()
    index = open_compiled(str(path), None)

    with pytest.raises(UnusableIndex):
        index.servers.server(0)


@pytest.mark.parametrize("suffix", ["-wal", "-journal", "-shm"])
def test_files_of_sqlite_beside_the_index_are_not_read(path: Path, suffix: str) -> None:
    right = answers_of(str(path), NEEDS)
    path.with_name(path.name + suffix).write_bytes(random.Random(1).randbytes(5000))

    assert answers_of(str(path), NEEDS) == right


def test_a_change_in_a_write_ahead_log_changes_no_answer(path: Path) -> None:
    right = answers_of(str(path), NEEDS)
    writing = sqlite3.connect(path, isolation_level=None)
    writing.execute("PRAGMA journal_mode = WAL")
    writing.execute("UPDATE entry SET body = 'x'")

    assert answers_or_error(str(path)) in (right, None)
    writing.close()
    assert answers_or_error(str(path)) is None


# Sources that name other things ---------------------------------------------------------------------------------------


def source(path: str, size: int = 0) -> list[dict[str, object]]:
    return [{"path": path, "size": size, "sha256": sha256(b"").hexdigest()[::-1]}]


def test_a_named_pipe_or_a_device_as_a_source_is_never_waited_for(path: Path) -> None:
    """The file names its sources: to open one of these and read it would never end."""
    os.mkfifo(path.parent / "pipe")
    for name in ("pipe", "/dev/zero"):
        change_about(path, sources=source(name))

        assert [issue.code for issue in open_compiled(str(path), None).issues] == ["source-changed"]


def test_a_folder_as_a_source_is_a_changed_source(path: Path) -> None:
    change_about(path, sources=source(".", path.parent.stat().st_size))

    assert [issue.code for issue in open_compiled(str(path), None).issues] == ["source-changed"]


def test_a_source_whose_name_cannot_be_one_is_not_there(path: Path) -> None:
    change_about(path, sources=source("a\0b"))

    assert open_compiled(str(path), None).issues == ()


# A full check ---------------------------------------------------------------------------------------------------------


def test_a_full_check_finds_scopes_that_lie_about_their_categories(path: Path) -> None:
    listed = b'["elsewhere"]'
    seal = checksum("scope", 0, SCOPE.encode(), listed, salt=salt_in(path))
    change(path, "UPDATE scope SET categories = ?, checksum = ?", listed.decode(), seal)
    index = open_compiled(str(path), None)

    assert index.servers.categories_of([SCOPE], 1) == {SCOPE: ("elsewhere",)}
    with pytest.raises(UnusableIndex):
        index.check()


def test_a_full_check_finds_an_overlay_that_was_never_in_the_source(path: Path) -> None:
    overlay = b'servers: {"*": {trust: {signed: true}}}'
    seal = checksum("source", 0, overlay, salt=salt_in(path))
    change(path, "UPDATE source SET overlay = ?, checksum = ?", overlay.decode(), seal)

    with pytest.raises(UnusableIndex):
        open_compiled(str(path), None).check()


# Names and facts that are unusual -------------------------------------------------------------------------------------

NAMES = (
    "crm",
    "CRM",
    "Crm",
    "crm ",
    "caf\u00e9",
    "cafe\u0301",
    "\u212b",
    "\u00c5",
    "\u1e9e",
    "\U0001f600",
    "a'b",
    'a"b',
    "a\\b",
    "%",
    "--",
)


def unusual() -> list[Server]:
    """Servers with names that are easily taken for others, and with every combination of unknown facts."""
    found = [
        Server(f"{name}-{number}", version, "https://mcp.example", (name, "all"), (f"read:{name}",), None, None, signed)
        for number, (version, signed) in enumerate([("1", None), ("2", True), ("10", False)])
        for name in NAMES
    ]
    wide = tuple(f"scope-{number:04d}" for number in range(MOST_SCOPES + 88))
    found.append(Server("wide", "1", "https://mcp.example", ("wide", "all"), wide))
    found.append(Server("unknown", "1", "https://mcp.example", ("wide", "all"), None))
    found.append(Server("none", "1", "https://mcp.example", ("wide", "all"), ()))
    random.Random(22).shuffle(found)
    return found


def test_unusual_names_and_many_scopes_have_the_answers_of_the_json() -> None:
    """Exact sets, no hashes: scopes are looked up by name, and no two of hundreds collide."""
    raw = index_bytes(unusual())
    needs = [Requirement(category=name, permissions=(f"read:{name}",)) for name in NAMES]
    needs += [Requirement(category=name.upper() + "x", permissions=(f"read:{name}",)) for name in NAMES]
    needs += [Requirement(category="all", permissions=(f"read:{name}",)) for name in NAMES]
    needs += [Requirement(category="wide", permissions=(f"scope-{number:04d}",)) for number in (0, 64, 65, 599, 600)]
    agent = agent_asking(needs)
    with compiled(raw) as index:
        assert everything(agent, index.servers) == everything(agent, ServerPool(servers_of(parse_index(raw))))


# How much is read -----------------------------------------------------------------------------------------------------


class CountedBodies(StoredBodies):
    """The entries of a compiled index, and how many of them were read."""

    def __init__(self, tables: IndexTables) -> None:
        super().__init__(tables)
        self.count = 0

    def read(self, number: int) -> bytes:
        self.count += 1
        return super().read(number)

    def places(self, numbers: Collection[int]) -> Iterable[tuple[int, Body]]:
        self.count += len(numbers)
        return super().places(numbers)

    def each(self) -> Iterator[tuple[bytes, int]]:
        for found in super().each():
            self.count += 1
            yield found


def reads(path: Path, servers: int, needs: list[Requirement]) -> int:
    """The number of entries that are read to resolve, failures included."""
    compile_bytes(index_bytes(many(servers)), str(path))
    tables = IndexTables(str(path))
    bodies = CountedBodies(tables)
    resolution = resolve(agent_asking(needs), CompiledServers(tables, bodies))
    assert len(resolution.choices) == len(needs)
    assert len(resolution.failures) == len(resolution.failed)
    return bodies.count


def test_a_choice_reads_the_first_entry_that_passes_and_no_other(path: Path) -> None:
    for servers in (100, 3000):
        assert reads(path, servers, [NEEDS[0]]) == 1


def test_failing_requirements_take_linear_time(path: Path) -> None:
    def failing(count: int) -> list[Requirement]:
        return [Requirement(category=NEEDS[0].category, permissions=(f"write:{number}",)) for number in range(count)]

    few, many_servers = reads(path, 100, failing(20)), reads(path, 3000, failing(20))
    twice = reads(path, 100, failing(40))

    assert few == many_servers
    assert twice <= 2 * few


def test_an_explanation_of_many_servers_needs_no_more_memory_than_one_of_few(path: Path) -> None:
    def peak(servers: int) -> tuple[int, int]:
        compile_bytes(index_bytes(many(servers)), str(path))
        resolution = resolve(agent_asking(NEEDS), open_compiled(str(path), None).servers)
        tracemalloc.start()
        size = sum(map(len, explanation_json(resolution)))
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size, found

    peak(100)  # What is loaded once is not counted.
    (small, of_few), (large, of_many) = peak(2500), peak(10_000)

    assert large > 3 * small
    assert of_many < 1.1 * of_few
    assert of_many < large / 2
