"""A compiled index gives the answers of the JSON that it was built from, or none."""

import random
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from agent_resolver import AgentFile, Server, explanation_json, parse_index, resolve, servers_of, to_json
from agent_resolver.core import ServerPool, examine, limits_of, resolver, unknown_scopes, why
from agent_resolver.core.server import Servers
from agent_resolver.project.compiled_index import open_compiled
from agent_resolver.schema.agent_file import Requirement
from agent_resolver.storage.errors import UnusableIndex
from agent_resolver.storage.index_file import layout
from agent_resolver.storage.index_file.layout import BLOCK, checksum, integers
from tests.core.strategies import LAW, Case, cases, solvable_cases
from tests.index_files import agent_asking, compile_bytes, compiled, index_bytes, only_file, salt_in

CATEGORY = "reporting"
SCOPE = "read:reports"


def many(count: int) -> list[Server]:
    return [
        Server(f"server-{number:05d}", "1.0.0", f"https://mcp.example/{number}", (CATEGORY,), (SCOPE,), ("any",),
               "internal", number % 3 == 0)
        for number in range(count)
    ]  # fmt: skip


def everything(agent: AgentFile, servers: Servers) -> tuple[object, ...]:
    """All that commands ask of servers, for one agent file."""
    resolution = resolve(agent, servers)
    limits = limits_of(agent)
    lock = to_json(resolution.lockfile) if resolution.lockfile else b"{}"
    words = {need.category for need in agent.requires.mcp} | {server.id for server in servers} | {"absent", "a@b"}
    return (
        lock,
        b"".join(explanation_json(resolution)),
        to_json(resolution.failures),
        [why(resolution, word) for word in sorted(words)],
        to_json(unknown_scopes(agent.requires.mcp, servers)),
        examine(lock, agent, servers).differences,
        [to_json(servers.offering(need.category).rejected(need, limits, 2)) for need in agent.requires.mcp],
        [servers.offering(need.category).closest(need, limits, 3) for need in agent.requires.mcp],
        [sorted(servers.offering(need.category).scopes) for need in agent.requires.mcp],
        [[*servers.offering(category)] for category in servers.categories],
        [*servers.categories],
        [*servers],
        [(servers.get((server.id, server.version)), servers.position(server)) for server in servers],
    )


@LAW
@given(case=cases | solvable_cases())
def test_every_answer_is_that_of_the_json(case: Case) -> None:
    raw = index_bytes(case.servers)
    with compiled(raw) as index:
        known = ServerPool(servers_of(parse_index(raw)))

        assert everything(case.agent, index.servers) == everything(case.agent, known)
        assert resolver(index.servers)(case.agent).choices == resolver(known)(case.agent).choices


def test_categories_of_several_blocks_are_listed_whole() -> None:
    servers = many(2 * BLOCK + 5)
    with compiled(index_bytes(servers)) as index:
        offering = index.servers.offering(CATEGORY)

        assert [*offering] == servers
        assert len(offering) == len(servers)


@pytest.mark.parametrize("count", [1, BLOCK + 1])
def test_the_same_sources_give_the_same_bytes(tmp_path: Path, count: int) -> None:
    for name in ("one.db", "other.db"):
        compile_bytes(index_bytes(many(count)), str(tmp_path / name))

    assert (tmp_path / "one.db").read_bytes() == (tmp_path / "other.db").read_bytes()


def test_reading_leaves_no_file_beside_the_index(tmp_path: Path) -> None:
    path = tmp_path / "mcp.index.db"
    compile_bytes(index_bytes(many(3)), str(path))
    before = path.read_bytes()
    path.chmod(0o400)

    assert len(open_compiled(str(path), None).servers) == 3

    assert only_file(tmp_path) == ["mcp.index.db"]
    assert path.read_bytes() == before


# Damage ---------------------------------------------------------------------------------------------------------------


def answers_of(path: str, needs: Sequence[Requirement]) -> list[object]:
    """A choice, a failure and a look-up, or the error that stops them."""
    servers = open_compiled(path, None).servers
    return [*everything(agent_asking(needs), servers)]


def answers_or_error(path: str) -> list[object] | None:
    """The answers; None for an error that says what to do."""
    try:
        return answers_of(path, NEEDS)
    except UnusableIndex as error:
        return None if error.hint else []


NEEDS = (
    Requirement(category=CATEGORY, permissions=(SCOPE,)),
    Requirement(category=CATEGORY, permissions=("write:reports",)),
    Requirement(category="absent", permissions=(SCOPE,)),
)


def test_a_bit_that_flips_is_an_error_or_changes_nothing(tmp_path: Path) -> None:
    """One flip in each stretch of the file, a thousand in all; the places depend on a seed alone."""
    path = tmp_path / "mcp.index.db"
    compile_bytes(index_bytes(many(40)), str(path))
    whole = path.read_bytes()
    right = answers_of(str(path), NEEDS)
    dice = random.Random(22)
    # Most of the pages is empty: what is used is damaged more often.
    used = [place for place, byte in enumerate(whole) if byte]
    places = [*dice.sample(used, 900), *dice.sample(range(len(whole)), 100)]
    damaged = tmp_path / "damaged.db"
    refused = 0
    for place in places:
        content = bytearray(whole)
        content[place] ^= 1 << dice.randrange(8)
        damaged.write_bytes(content)
        found = answers_or_error(str(damaged))
        assert found in (right, None), f"another answer with byte {place} damaged"
        refused += found is None
    assert refused > len(places) // 2


@pytest.mark.parametrize("share", [0.0001, 0.1, 0.5, 0.9, 0.999])
def test_a_file_that_is_cut_is_an_error(tmp_path: Path, share: float) -> None:
    path = tmp_path / "mcp.index.db"
    compile_bytes(index_bytes(many(40)), str(path))
    path.write_bytes(path.read_bytes()[: max(20, int(path.stat().st_size * share))])

    with pytest.raises(UnusableIndex, match="damaged") as refused:
        answers_of(str(path), NEEDS)

    assert "agent index build" in refused.value.hint


def test_a_file_of_another_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE about (number INTEGER PRIMARY KEY)")
    connection.commit()
    connection.close()

    with pytest.raises(UnusableIndex, match="did not write"):
        open_compiled(str(path), None)


def test_a_newer_file_is_refused_with_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "mcp.index.db"
    compile_bytes(index_bytes(many(1)), str(path))
    _execute(path, f"PRAGMA user_version = {layout.FORMAT + 1}")

    with pytest.raises(UnusableIndex, match="newer version") as refused:
        open_compiled(str(path), None)

    assert "update `agent`" in refused.value.hint


def test_a_view_in_place_of_a_table_is_never_asked(tmp_path: Path) -> None:
    """It could run for ever."""
    path = tmp_path / "mcp.index.db"
    compile_bytes(index_bytes(many(1)), str(path))
    _execute(path, "DROP TABLE scope")
    _execute(
        path,
        "CREATE VIEW scope AS WITH RECURSIVE n(number) AS (SELECT 0 UNION ALL SELECT number FROM n)"
        " SELECT number, '' AS name, '' AS categories, 0 AS checksum FROM n",
    )

    with pytest.raises(UnusableIndex, match="damaged"):
        open_compiled(str(path), None)


def _execute(path: Path, sql: str, *values: object) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(sql, values)
    connection.close()


def test_facts_that_lie_never_let_a_server_be_chosen_that_breaks_a_rule(tmp_path: Path) -> None:
    """The tables filter, and the entry decides: a file made with right checks and wrong facts is refused."""
    path = tmp_path / "mcp.index.db"
    servers = [Server("unsigned", "1", "https://mcp.example", (CATEGORY,), (SCOPE,), signed=False)]
    compile_bytes(index_bytes(servers), str(path))
    _lie_about(path, "candidates", facts=bytes([0]))

    from agent_resolver.schema.agent_file import Constraints, Requires, TrustConstraints

    agent = AgentFile(
        name="a",
        version="1",
        requires=Requires(mcp=NEEDS[:1]),
        constraints=Constraints(trust=TrustConstraints(require_signed=True)),
    )
    with pytest.raises(UnusableIndex):
        resolve(agent, open_compiled(str(path), None).servers)
    with pytest.raises(UnusableIndex):
        open_compiled(str(path), None).check()


@pytest.mark.parametrize(
    "table", ["order", "offer"], ids=["the order of candidates lies", "a candidate is hidden from a scope"]
)
def test_a_full_check_finds_tables_that_do_not_say_what_the_entries_say(tmp_path: Path, table: str) -> None:
    path = tmp_path / "mcp.index.db"
    compile_bytes(index_bytes(many(2)), str(path))
    open_compiled(str(path), None).check()
    if table == "order":
        entries = (1).to_bytes(4, "little") + (0).to_bytes(4, "little")
        _lie_about(path, "candidates", entries=entries)
    else:
        candidates = bytes([0b10])
        seal = checksum("offer", 0, SCOPE.encode(), integers(0), candidates, salt=salt_in(path))
        _execute(path, "UPDATE offer SET candidates = ?, checksum = ?", candidates, seal)

    with pytest.raises(UnusableIndex):
        open_compiled(str(path), None).check()


def _lie_about(path: Path, table: str, *, facts: bytes | None = None, entries: bytes | None = None) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    old_facts, old_entries = connection.execute("SELECT facts, entries FROM candidates").fetchone()
    facts, entries = facts or old_facts, entries or old_entries
    assert facts is not None
    assert entries is not None
    seal = checksum(table, 0, facts, entries, salt=salt_in(path))
    connection.execute("UPDATE candidates SET facts = ?, entries = ?, checksum = ?", (facts, entries, seal))
    connection.close()


@given(name=st.sampled_from(["with space", "per%cent", "que?stion", "ha#sh", "é", "日本"]))
def test_any_name_of_a_file_can_be_opened(name: str) -> None:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        path = f"{folder}/{name}.db"
        compile_bytes(index_bytes(many(1)), path)

        assert len(open_compiled(path, None).servers) == 1
