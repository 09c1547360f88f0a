"""The audit trail in the state file: nothing is lost, and nothing is changed unseen."""

import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from agent_resolver.schema import AuditKind, Record
from agent_resolver.storage import (
    Committer,
    Database,
    SqliteStore,
    SqlTransaction,
    Transaction,
    UnreadableFile,
    append_record,
    trail_faults,
)
from tests.process import killed_at_line
from tests.storage.conformance import do, read, write

AT = "2026-01-01T00:00:00.000Z"
KEY = b"a key that only the owner has"

# Appends records, telling of each once it is there.
APPENDS = """
import asyncio, sys
from agent_resolver.schema import AuditKind, Record
from agent_resolver.storage import SqliteStore, append_record

path, name, count = sys.argv[1:]
store = SqliteStore(path)
async def story():
    for number in range(int(count)):
        run = "shared" if number % 2 else name
        await append_record(store, Record(run, AuditKind.CALL_DONE, {"by": name, "number": number}))
        print(number, flush=True)
asyncio.run(story())
"""

OPENS_STORE = """
import asyncio
from agent_resolver.schema import AuditKind, Record
from agent_resolver.storage import SqliteStore, append_record
store = SqliteStore(sys.argv[1], quick_seconds=1000)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


def faults(path: Path, key: bytes | None = None) -> list[str]:
    store = SqliteStore(str(path))
    try:
        return read(store, lambda snapshot: trail_faults(snapshot, key)[0])
    finally:
        store.close()


def kept(path: Path, run: str | None = None, last: int | None = None) -> list[tuple[int, str, int, str]]:
    store = SqliteStore(str(path))
    records = read(store, lambda snapshot: list(snapshot.records(run, last)))
    store.close()
    return [(each.position, each.run, each.sequence, each.kind) for each in records]


def done(run: str, **body: object) -> Record:
    return Record(run, AuditKind.CALL_DONE, body)


def filled(path: Path, runs: str = "abacb", key: bytes | None = None) -> Path:
    """A state file with one record for each letter, of the run of that name."""
    store = SqliteStore(str(path), key=key, now=lambda: AT)
    records = [done(run, tool="acme.read", number=number) for number, run in enumerate(runs)]

    def append_all(transaction: Transaction) -> None:
        for record in records:
            transaction.append(record)

    write(store, append_all)
    store.close()
    return path


def pruned(path: Path, through: int, runs: str = "abacb", key: bytes | None = None) -> Path:
    """The same, with the records up to a position removed."""
    store = SqliteStore(str(filled(path, runs, key)), key=key)
    assert write(store, lambda transaction: transaction.prune_trail(through)) == through
    store.close()
    return path


def edit(path: Path, *statements: str) -> None:
    """Change the database behind our back."""
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


# Kept -----------------------------------------------------------------------------------------------------------------


def test_records_are_chained_in_their_run_and_numbered_over_all(path: Path) -> None:
    filled(path)

    assert kept(path) == [
        (1, "a", 1, "call.done"),
        (2, "b", 1, "call.done"),
        (3, "a", 2, "call.done"),
        (4, "c", 1, "call.done"),
        (5, "b", 2, "call.done"),
    ]
    assert faults(path) == []


def test_records_are_read_by_run_and_from_the_end(path: Path) -> None:
    filled(path)

    assert [position for position, *_ in kept(path, "b")] == [2, 5]
    assert [position for position, *_ in kept(path, last=2)] == [4, 5]
    assert [position for position, *_ in kept(path, "a", last=1)] == [3]
    assert kept(path, last=0) == []
    assert kept(path, "absent") == []


def test_a_trail_goes_on_where_another_process_left_it(path: Path) -> None:
    filled(path, "ab")
    filled(path, "ba")

    assert [(run, sequence) for _, run, sequence, _ in kept(path)] == [("a", 1), ("b", 1), ("b", 2), ("a", 2)]
    assert faults(path) == []


def test_bytes_that_are_no_text_are_kept_as_escapes(path: Path) -> None:
    store = SqliteStore(str(path))

    do(append_record(store, done("\udcff", tool="\udcff", list=["é", ("\ud800",)], **{"\udc80": 1})))

    (record,) = read(store, lambda snapshot: list(snapshot.records()))
    assert record.body == {"tool": "\\udcff", "list": ["é", ["\\ud800"]], "\\udc80": 1}
    assert record.run == "\\udcff"
    store.close()
    assert faults(path) == []


values = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
json_values = st.recursive(values, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=4)


def test_whatever_a_body_holds_it_verifies_and_is_read_as_written(path: Path) -> None:
    database = Database(str(path), KEY)
    database._connection.execute("PRAGMA synchronous = OFF")
    committer = Committer(database, lambda: AT, KEY, lambda _: None)
    appended: list[dict[str, object]] = []

    def look(transaction: SqlTransaction) -> tuple[list[str], list[dict[str, object]]]:
        return trail_faults(transaction, KEY)[0], [record.body for record in transaction.records()]

    @settings(deadline=None, max_examples=100)
    @given(st.dictionaries(st.text(), json_values, max_size=3))
    def append(body: dict[str, object]) -> None:
        record = Record("run", AuditKind.CALL_DONE, body)
        committer.commit_alone(lambda transaction: transaction.append(record))
        appended.append(body)
        assert committer.commit_alone(look) == ([], appended)

    append()
    database.close()


# Found ----------------------------------------------------------------------------------------------------------------

EDITS: dict[str, tuple[str, ...]] = {
    "a body": ("""UPDATE audit SET body = '{"number":2,"tool":"acme.write"}' WHERE position = 3""",),
    "a body that says the same in other bytes": (
        """UPDATE audit SET body = '{"number": 2, "tool": "acme.read"}' WHERE position = 3""",
    ),
    "a body with a key that is read over": (
        """UPDATE audit SET body = '{"number":1,"number":2,"tool":"acme.read"}' WHERE position = 3""",
    ),
    "a body in another type": ("UPDATE audit SET body = CAST(body AS BLOB) WHERE position = 3",),
    "a body that is no JSON": ("UPDATE audit SET body = 'x' WHERE position = 3",),
    "a body that is no object": ("UPDATE audit SET body = '[]' WHERE position = 3",),
    "a body that is no text": ("UPDATE audit SET body = x'7bff' WHERE position = 3",),
    "a body that is no UTF-8 inside": ("UPDATE audit SET body = x'7b2261223a22ff227d' WHERE position = 3",),
    # Of a thousand zero bytes, `hex` makes two thousand noughts.
    "a body that nests without end": (
        """UPDATE audit SET body = '{"a":' || replace(hex(zeroblob(9000)), '0', '[') || '}' WHERE position = 3""",
    ),
    "a body with an endless number": (
        """UPDATE audit SET body = '{"a":1' || hex(zeroblob(9000)) || '}' WHERE position = 3""",
    ),
    "a kind": ("UPDATE audit SET kind = 'call.failed' WHERE position = 3",),
    "a kind in another type": ("UPDATE audit SET kind = CAST(kind AS BLOB) WHERE position = 3",),
    "hashes in another type": ("UPDATE audit SET at = CAST(at AS BLOB), hash = CAST(hash AS BLOB)",),
    "a time": ("UPDATE audit SET at = '2026-01-02T00:00:00.000Z' WHERE position = 3",),
    "a run": ("UPDATE audit SET run = 'd' WHERE position = 4",),
    "a whole run renamed": ("UPDATE audit SET run = 'd' WHERE run = 'b'",),
    "a sequence": ("UPDATE audit SET sequence = 7 WHERE position = 3",),
    "a sequence that is text": ("UPDATE audit SET sequence = 'x' WHERE position = 1",),
    "a sequence that is a fraction": ("UPDATE audit SET sequence = 1.5 WHERE position = 1",),
    "a previous hash": ("UPDATE audit SET previous = '' WHERE position = 3",),
    "a hash": ("UPDATE audit SET hash = '' WHERE position = 3",),
    "the last hash": ("UPDATE audit SET hash = '' WHERE position = 5",),
    "the first removed": ("DELETE FROM audit WHERE position = 1",),
    "one in the middle removed": ("DELETE FROM audit WHERE position = 3",),
    "the last removed": ("DELETE FROM audit WHERE position = 5",),
    "the only one of a run removed": ("DELETE FROM audit WHERE run = 'c'",),
    "a run removed": ("DELETE FROM audit WHERE run = 'b'",),
    "a run removed and the rest moved up": (
        "DELETE FROM audit WHERE run = 'c'",
        "UPDATE audit SET position = 4 WHERE position = 5",
        "UPDATE audit_seal SET count = 4",
    ),
    "all removed": ("DELETE FROM audit",),
    "all removed and the count too": ("DELETE FROM audit", "UPDATE audit_seal SET count = 0"),
    "two of different runs swapped": (
        "UPDATE audit SET position = 99 WHERE position = 1",
        "UPDATE audit SET position = 1 WHERE position = 2",
        "UPDATE audit SET position = 2 WHERE position = 99",
    ),
    "two of one run swapped": (
        "UPDATE audit SET position = 99 WHERE position = 1",
        "UPDATE audit SET position = 1 WHERE position = 3",
        "UPDATE audit SET position = 3 WHERE position = 99",
    ),
    "one moved to the end": ("UPDATE audit SET position = 6 WHERE position = 3",),
    "one put in": ("INSERT INTO audit VALUES (6, 'z', 1, '', 'k', '{}', '', '', NULL)",),
    "one put in and counted": (
        "INSERT INTO audit VALUES (6, 'z', 1, '', 'k', '{}', '', '', NULL)",
        "UPDATE audit_seal SET count = 6",
    ),
    "one put in before the first": ("INSERT INTO audit VALUES (0, 'z', 1, '', 'k', '{}', '', '', NULL)",),
    "the count": ("UPDATE audit_seal SET count = 4",),
    "a count that is no number": ("UPDATE audit_seal SET count = 'x'",),
    "the root": ("UPDATE audit_seal SET root = '0'",),
    "a root in another type": ("UPDATE audit_seal SET root = CAST(root AS BLOB)",),
    "the seal removed": ("DELETE FROM audit_seal",),
    "the number of the seal": ("UPDATE audit_seal SET number = number + 1",),
    "a seal in another type": ("UPDATE audit_seal SET seal = CAST(seal AS BLOB)",),
    "no seal": ("UPDATE audit_seal SET seal = ''",),
    "the mark": ("UPDATE audit_mark SET mark = ''",),
    "the mark removed": ("DELETE FROM audit_mark",),
    "all removed and an empty seal": (
        "DELETE FROM audit",
        "UPDATE audit_seal SET count = 0, root = '', number = 0, seal = ''",
        "UPDATE audit_mark SET mark = ''",
    ),
    "an anchor where nothing was pruned": ("UPDATE audit_seal SET anchor_seal = '0'",),
    "heads where nothing was pruned": ("""UPDATE audit_seal SET anchor_heads = '{"z":{"sequence":1,"hash":"0"}}'""",),
    "heads that are no JSON": ("UPDATE audit_seal SET anchor_heads = '{'",),
    "heads in another type": ("UPDATE audit_seal SET anchor_heads = x'7b7d'",),
}


@pytest.mark.parametrize("key", [None, KEY], ids=["without a key", "with a key"])
@pytest.mark.parametrize("statements", EDITS.values(), ids=EDITS)
def test_an_edit_of_the_rows_is_found(path: Path, statements: tuple[str, ...], key: bytes | None) -> None:
    filled(path, key=key)
    assert faults(path, key) == []

    edit(path, *statements)

    assert faults(path, key)
    assert len(kept(path)) <= 6  # What is left can still be shown.


PRUNED_EDITS: dict[str, tuple[str, ...]] = {
    "the anchor": ("UPDATE audit_seal SET anchor = 1",),
    "the anchor and the count": ("UPDATE audit_seal SET anchor = 1, count = 4",),
    "the root of the anchor": ("UPDATE audit_seal SET anchor_root = '0'",),
    "the seal of the anchor": ("UPDATE audit_seal SET anchor_seal = ''",),
    "the heads": ("UPDATE audit_seal SET anchor_heads = '{}'",),
    "one more head": (
        """UPDATE audit_seal SET anchor_heads = replace(anchor_heads, '{"a"', '{"Z":{"sequence":1,"hash":""},"a"')""",
    ),
    "heads that are no object": ("UPDATE audit_seal SET anchor_heads = '[]'",),
    "no anchor at all": ("UPDATE audit_seal SET anchor = 0, anchor_root = '', anchor_heads = '{}', anchor_seal = ''",),
    "the first record after the anchor removed": ("DELETE FROM audit WHERE position = 3",),
    "the last record removed": ("DELETE FROM audit WHERE position = 5",),
    "all records removed": ("DELETE FROM audit",),
    "a record from before the anchor": ("INSERT INTO audit VALUES (2, 'b', 1, '', 'k', '{}', '', '', NULL)",),
    "a body": ("""UPDATE audit SET body = '{"number":2,"tool":"acme.write"}' WHERE position = 3""",),
}


@pytest.mark.parametrize("key", [None, KEY], ids=["without a key", "with a key"])
@pytest.mark.parametrize("statements", PRUNED_EDITS.values(), ids=PRUNED_EDITS)
def test_an_edit_of_a_pruned_trail_is_found(path: Path, statements: tuple[str, ...], key: bytes | None) -> None:
    pruned(path, 2, key=key)
    assert faults(path, key) == []
    before = sqlite_dump(path)

    edit(path, *statements)

    assert sqlite_dump(path) != before
    assert faults(path, key)


def sqlite_dump(path: Path) -> list[str]:
    connection = sqlite3.connect(path)
    dump = list(connection.iterdump())
    connection.close()
    return dump


def test_a_root_that_was_seen_earlier_cannot_be_made_an_anchor_without_the_key(path: Path) -> None:
    """Otherwise the records before it could be removed unseen."""
    seen = seal_root(filled(path, "aab", KEY))
    filled(path, "cc", KEY)
    anchor = f"UPDATE audit_seal SET anchor = 3, anchor_root = '{seen}'"  # noqa: S608 - a digest

    edit(path, "DELETE FROM audit WHERE position <= 3", anchor)

    assert faults(path, KEY)[0] == "the anchor that pruning left was changed"


def seal_root(path: Path) -> str:
    store = SqliteStore(str(path))
    seal = read(store, lambda snapshot: snapshot.seal())
    store.close()
    assert seal is not None
    return seal.root


def table(path: Path, name: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(path)
    rows = connection.execute(f"SELECT * FROM {name}").fetchall()  # noqa: S608 - a name of ours
    connection.close()
    return rows


def put_back(path: Path, name: str, rows: list[tuple[object, ...]]) -> None:
    connection = sqlite3.connect(path)
    connection.execute(f"DELETE FROM {name}")  # noqa: S608 - as above
    connection.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(rows[0]))})", rows)  # noqa: S608
    connection.commit()
    connection.close()


@pytest.mark.parametrize("key", [None, KEY], ids=["without a key", "with a key"])
@pytest.mark.parametrize("before", ["", "ab"], ids=["of a new file", "of a shorter trail"])
def test_a_tail_that_is_cut_under_an_earlier_seal_is_found(path: Path, before: str, key: bytes | None) -> None:
    filled(path, before, key)
    earlier = table(path, "audit_seal")
    filled(path, "cab", key)

    edit(path, f"DELETE FROM audit WHERE position > {len(before)}")  # noqa: S608 - a number
    put_back(path, "audit_seal", earlier)

    assert faults(path, key)


def test_without_the_key_no_empty_trail_can_be_made(path: Path, tmp_path: Path) -> None:
    """Also not with the seal of a new file that was made without the key, or with another one."""
    filled(path, "abacb", KEY)
    edit(path, "DELETE FROM audit")
    for name, key in (("none", None), ("another", b"another")):
        new = filled(tmp_path / f"{name}.db", "", key)
        for each in ("audit_seal", "audit_mark"):
            put_back(path, each, table(new, each))

        assert faults(path, KEY)


def test_a_process_goes_on_under_no_earlier_seal_than_its_own(path: Path) -> None:
    """Not even where the whole trail is one that the file once had."""
    filled(path, "ab")
    names = ("audit", "audit_seal", "audit_mark")
    earlier = {name: table(path, name) for name in names}
    store = SqliteStore(str(path))
    do(append_record(store, done("c")))
    for name in names:
        put_back(path, name, earlier[name])
    assert faults(path) == []

    with pytest.raises(UnreadableFile, match="was edited, see `agent audit verify`"):
        do(append_record(store, done("d")))
    store.close()


@pytest.mark.parametrize("key", [None, b"another"])
def test_nothing_is_appended_to_a_trail_that_another_key_sealed(path: Path, key: bytes | None) -> None:
    store = SqliteStore(str(filled(path, key=KEY)), key=key)

    with pytest.raises(UnreadableFile, match="was edited, see `agent audit verify`"):
        do(append_record(store, done("a")))
    store.close()
    assert faults(path, KEY) == []


@pytest.mark.parametrize("statements", EDITS.values(), ids=EDITS)
def test_a_trail_that_does_not_verify_is_not_pruned(path: Path, statements: tuple[str, ...]) -> None:
    """Pruning would remove the proof."""
    edit(filled(path), *statements)
    before, told = sqlite_dump(path), list[str]()
    store = SqliteStore(str(path))

    try:
        removed = write(store, lambda transaction: transaction.prune_trail(4))
    except UnreadableFile as error:
        removed = 0
        told.append(error.problem)

    store.close()
    assert removed == 0
    assert sqlite_dump(path) == before
    # Where the seal says that there are no records, there are none to remove.
    is_empty = any("count = 0" in statement for statement in statements)
    assert told == ([] if is_empty else ["has an audit trail that was edited, see `agent audit verify`"])


def test_a_trail_is_not_pruned_with_another_key(path: Path) -> None:
    store = SqliteStore(str(filled(path, key=KEY)), key=b"another")

    with pytest.raises(UnreadableFile, match="was edited, see `agent audit verify`"):
        write(store, lambda transaction: transaction.prune_trail(4))
    store.close()
    assert faults(path, KEY) == []


def test_bytes_that_are_written_in_json_as_the_text_that_stood_there_are_found(path: Path) -> None:
    """Bytes become base64 in JSON, so a word can be exchanged for the bytes that it encodes."""
    store = SqliteStore(str(path))
    do(append_record(store, done("runs")))
    store.close()

    edit(path, "UPDATE audit SET run = x'aee9ec'")  # `runs` in base64.

    assert any("was changed" in fault for fault in faults(path))


def test_a_text_that_is_no_utf8_stops_the_reading_in_our_words(path: Path) -> None:
    edit(filled(path), "UPDATE audit SET kind = CAST(x'ff' AS TEXT) WHERE position = 2")

    with pytest.raises(UnreadableFile, match="cannot be used as the state file: Could not decode to UTF-8"):
        faults(path)


def test_a_trail_in_a_table_that_is_gone_is_told_in_our_words(path: Path) -> None:
    edit(filled(path), "DROP TABLE audit")

    with pytest.raises(UnreadableFile, match="no such table"):
        faults(path)


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM audit_seal",
        "UPDATE audit_seal SET count = 'x'",
        "UPDATE audit SET sequence = 'x' WHERE position = 1",
        "UPDATE audit_seal SET count = 4",
        "UPDATE audit_seal SET anchor_heads = 'x'",
    ],
)
def test_nothing_is_appended_to_a_trail_that_nothing_can_follow(path: Path, statement: str) -> None:
    edit(filled(path), statement)
    store = SqliteStore(str(path))

    with pytest.raises(UnreadableFile, match="was edited, see `agent audit verify`"):
        do(append_record(store, done("a")))
    store.close()


def test_an_append_after_an_edit_does_not_heal_it(path: Path) -> None:
    edit(filled(path), "DELETE FROM audit WHERE position = 5")
    filled(path, "b")

    assert faults(path)


def test_a_wrong_key_and_a_missing_one_are_found(path: Path) -> None:
    filled(path, key=KEY)

    assert faults(path, b"another") == ["the sealed root is not that of the records"]
    assert faults(path) == ["the sealed root is not that of the records, or they were sealed with a key"]


# Several at once, and killed ------------------------------------------------------------------------------------------


def test_records_of_several_processes_are_all_there_and_verify(path: Path) -> None:
    commands = [[sys.executable, "-c", APPENDS, str(path), name, "50"] for name in ("p", "q", "r", "s")]
    processes = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for command in commands]

    assert [process.wait() for process in processes] == [0] * 4
    assert faults(path) == []
    assert [position for position, *_ in kept(path)] == list(range(1, 201))
    assert {run: len(kept(path, run)) for run in ("p", "q", "r", "s", "shared")} == {
        **dict.fromkeys("pqrs", 25),
        "shared": 100,
    }


@pytest.mark.parametrize("told", [1, 2, 3, 5, 8, 13, 21, 34, 55, 89])
def test_a_kill_in_the_middle_leaves_a_trail_that_verifies(path: Path, told: int) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", APPENDS, str(path), "p", "100000"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    for _ in range(told):
        process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    rest = process.stdout.read().count("\n")
    process.stdout.close()

    assert process.wait() == -signal.SIGKILL
    assert faults(path) == []
    # What was told is there; of the one in between, nobody knows.
    assert told + rest <= len(kept(path)) <= told + rest + 1
    filled(path, "p")
    assert faults(path) == []


@pytest.mark.slow
def test_a_kill_before_any_line_leaves_the_record_whole_or_not_there(path: Path) -> None:
    filled(path, "a")
    seen = set()
    for line in range(1, 600, 7):
        before = len(kept(path))
        act = 'asyncio.run(append_record(store, Record("run", AuditKind.CALL_DONE, {})))'
        is_killed = killed_at_line(line, "agent_resolver", path, setup=OPENS_STORE, act=act)
        seen.add(len(kept(path)) - before)
        assert faults(path) == []
        if not is_killed:
            break
    else:
        raise AssertionError("it never finished")
    assert seen == {0, 1}
    assert line > 20
